"""Sorted partitions, cut into groups: the user's functions are called on each group, one after another.

`applyInPandas` opens a stream for each group and converts each by itself. Here the rows of many groups arrive
in one batch, are converted together where that gives the same, and are cut at the borders of the groups. All
of this runs on the executors and travels there by value: they need no keysplit.
"""

from keysplit.spark.executors import travel_by_value
from keysplit.spark.slices.calling import Call
from keysplit.spark.slices.cutting import Places
from keysplit.spark.slices.partitions import finished, in_parts, merged, parts, types_of, whole

__all__ = ["Call", "Places", "finished", "in_parts", "merged", "parts", "types_of", "whole"]

travel_by_value(__name__)
