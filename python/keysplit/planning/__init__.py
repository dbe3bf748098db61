"""Plans: where every key goes, decided once from a summary of one pass over the keys.

A plan places the frequent keys one by one, splitting a key's rows by shares over its workers. All other keys
are placed by hash bucket, each bucket whole. A row's worker is then a pure function of the hash of its key, a
hash of the row and the plan. This package works on numbers and arrays only.
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
from keysplit.planning.sample import Sample

__all__ = [
    "MOST_COUNTERS",
    "PLANS",
    "CutToFit",
    "Placement",
    "Sample",
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
