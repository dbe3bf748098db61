"""Plans: the worker for each row of each key, decided once from a summary of one pass over the keys.

A plan places the frequent keys one by one, splitting a key's rows by shares over its workers. All other keys
are placed by hash bucket, each bucket whole. So a row's worker is a pure function of the hash of its key, a
hash of the row, and the plan. This package imports no Spark, because producers use plans, too.
"""

from keysplit.plan.drift import Drift
from keysplit.plan.order import Cut, KeyCuts, OrderColumn, OrderCuts
from keysplit.plan.parameters import BALANCED, MOST_COUNTERS, PLANS, CutToFit, head_threshold, sketch_capacity
from keysplit.plan.placement import Placement, expected_loads, place, speeds_of
from keysplit.plan.plan import Plan
from keysplit.plan.summary import Sample, Summary, bucket_bits, bucket_of
from keysplit.plan.tables import FrequentKey, Tables, alias_cells

__all__ = [
    "BALANCED",
    "MOST_COUNTERS",
    "PLANS",
    "Cut",
    "CutToFit",
    "Drift",
    "FrequentKey",
    "KeyCuts",
    "OrderColumn",
    "OrderCuts",
    "Placement",
    "Plan",
    "Sample",
    "Summary",
    "Tables",
    "alias_cells",
    "bucket_bits",
    "bucket_of",
    "expected_loads",
    "head_threshold",
    "place",
    "sketch_capacity",
    "speeds_of",
]
