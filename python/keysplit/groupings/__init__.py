"""The groupings' parameters: one frozen dataclass each, and the registry of their names.

Parameters define a grouping; the state of one source is a router, created by
[`Grouping.router`][keysplit.groupings.Grouping.router]. Parameters compare by value, print as the code that
makes them, pickle, and are checked at construction.
"""

from keysplit.groupings.base import GROUPINGS, Grouping, grouping
from keysplit.groupings.bounded_ring import BoundedRingGrouping
from keysplit.groupings.consistent import ConsistentGrouping
from keysplit.groupings.d_choices import DChoices
from keysplit.groupings.dalton import Dalton
from keysplit.groupings.distribution_aware import DistributionAwareKeyGrouping
from keysplit.groupings.dynamic_key import DynamicKeyGrouping
from keysplit.groupings.fish import Fish
from keysplit.groupings.flexd import FlexD
from keysplit.groupings.key import KeyGrouping
from keysplit.groupings.partial_key import PartialKeyGrouping
from keysplit.groupings.power_of_random import PowerOfRandomChoices
from keysplit.groupings.power_of_two import PowerOfTwoChoices
from keysplit.groupings.pstream import PStream
from keysplit.groupings.ring import RingGrouping
from keysplit.groupings.round_robin import RoundRobinHead
from keysplit.groupings.shuffle import ShuffleGrouping
from keysplit.groupings.w_choices import WChoices

__all__ = [
    "GROUPINGS",
    "BoundedRingGrouping",
    "ConsistentGrouping",
    "DChoices",
    "Dalton",
    "DistributionAwareKeyGrouping",
    "DynamicKeyGrouping",
    "Fish",
    "FlexD",
    "Grouping",
    "KeyGrouping",
    "PStream",
    "PartialKeyGrouping",
    "PowerOfRandomChoices",
    "PowerOfTwoChoices",
    "RingGrouping",
    "RoundRobinHead",
    "ShuffleGrouping",
    "WChoices",
    "grouping",
]
