"""Skew-aware stream partitioning: split hot keys over several workers, and leave the other keys in place.

A *grouping* (``ks.DChoices(workers=50)``) is a set of parameters; its ``router()`` is the state of one source
and chooses a worker for every key of a column:

>>> import keysplit as ks
>>> router = ks.PartialKeyGrouping(workers=4).router()
>>> router.route([1, 1, 1, 1]).tolist()
[1, 2, 1, 2]
>>> router.loads.tolist()
[0.0, 2.0, 2.0, 0.0]

The Spark side is ``from keysplit import spark``.
"""

from keysplit import metrics, streams
from keysplit._core import Router, SpaceSaving, __version__, hash_keys
from keysplit.comparison import compare, to_frame
from keysplit.diagnosis import Diagnosis, diagnose
from keysplit.groupings import (
    GROUPINGS,
    BoundedRingGrouping,
    ConsistentGrouping,
    Dalton,
    DChoices,
    DistributionAwareKeyGrouping,
    DynamicKeyGrouping,
    Fish,
    FlexD,
    Grouping,
    KeyGrouping,
    PartialKeyGrouping,
    PowerOfRandomChoices,
    PowerOfTwoChoices,
    PStream,
    RingGrouping,
    RoundRobinHead,
    ShuffleGrouping,
    WChoices,
    grouping,
)
from keysplit.profiling import Profile, profile
from keysplit.results import SimulationResult, pareto
from keysplit.simulation import AddWorker, RemoveWorker, SetCapacity, simulate

__all__ = [
    "GROUPINGS",
    "AddWorker",
    "BoundedRingGrouping",
    "ConsistentGrouping",
    "DChoices",
    "Dalton",
    "Diagnosis",
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
    "Profile",
    "RemoveWorker",
    "RingGrouping",
    "RoundRobinHead",
    "Router",
    "SetCapacity",
    "ShuffleGrouping",
    "SimulationResult",
    "SpaceSaving",
    "WChoices",
    "__version__",
    "compare",
    "diagnose",
    "grouping",
    "hash_keys",
    "metrics",
    "pareto",
    "profile",
    "simulate",
    "streams",
    "to_frame",
]
