"""Plans: where every key goes, decided once from what one pass over the keys has found out.

A plan places the frequent keys one by one, a key's rows split by shares over its workers, and all other keys
by buckets of their hashes, each bucket whole. A row's worker is then a pure function of the hash of its key,
a hash of the row and the plan. This package decides; it knows numbers and arrays only.
"""

from keysplit.planning.alias import alias_cells
from keysplit.planning.parameters import MOST_COUNTERS, PLANS, CutToFit, head_threshold, sketch_capacity
from keysplit.planning.placement import (
    Placement,
    Summary,
    bucket_bits,
    bucket_of,
    expected_loads,
    place,
    speeds_of,
)

__all__ = [
    "MOST_COUNTERS",
    "PLANS",
    "CutToFit",
    "Placement",
    "Summary",
    "alias_cells",
    "bucket_bits",
    "bucket_of",
    "expected_loads",
    "head_threshold",
    "place",
    "sketch_capacity",
    "speeds_of",
]
