"""Naive models of everything the Rust core does: the executable form of docs/routing.md.

They share no code with the core and are so simple that they are unlikely to be wrong.
"""

from .d_choices import DChoices
from .key import KeyGrouping
from .model import Model
from .partial_key import PartialKeyGrouping
from .power_of_two import PowerOfTwoChoices
from .round_robin import RoundRobinHead
from .shuffle import ShuffleGrouping
from .w_choices import WChoices

MODELS: dict[str, type[Model]] = {
    "d_choices": DChoices,
    "key": KeyGrouping,
    "partial_key": PartialKeyGrouping,
    "power_of_two": PowerOfTwoChoices,
    "round_robin": RoundRobinHead,
    "shuffle": ShuffleGrouping,
    "w_choices": WChoices,
}
