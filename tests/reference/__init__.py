"""Naive models of everything the Rust core does: the executable form of docs/routing.md.

They share no code with the core and are so simple that they are unlikely to be wrong.
"""

from .bounded_ring import BoundedRingGrouping
from .consistent import ConsistentGrouping
from .d_choices import DChoices
from .dalton import Dalton
from .distribution_aware import DistributionAwareKeyGrouping
from .dynamic_key import DynamicKeyGrouping
from .fish import Fish
from .flexd import FlexD
from .key import KeyGrouping
from .model import Model
from .partial_key import PartialKeyGrouping
from .power_of_random import PowerOfRandomChoices
from .power_of_two import PowerOfTwoChoices
from .pstream import PStream
from .ring import RingGrouping
from .round_robin import RoundRobinHead
from .shuffle import ShuffleGrouping
from .w_choices import WChoices

MODELS: dict[str, type[Model]] = {
    "bounded_ring": BoundedRingGrouping,
    "consistent": ConsistentGrouping,
    "d_choices": DChoices,
    "dalton": Dalton,
    "distribution_aware": DistributionAwareKeyGrouping,
    "dynamic_key": DynamicKeyGrouping,
    "fish": Fish,
    "flexd": FlexD,
    "key": KeyGrouping,
    "partial_key": PartialKeyGrouping,
    "power_of_random": PowerOfRandomChoices,
    "power_of_two": PowerOfTwoChoices,
    "pstream": PStream,
    "ring": RingGrouping,
    "round_robin": RoundRobinHead,
    "shuffle": ShuffleGrouping,
    "w_choices": WChoices,
}
