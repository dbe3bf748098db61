"""Cut sorted partitions into groups, and call the user's functions on one group after another.

`applyInPandas` opens a stream for each group and converts it separately. Here the rows of many groups arrive
in one batch, are converted together if this gives the same values, and are cut at the group boundaries. This
code runs on the executors and is pickled by value, so executors need no keysplit.
"""

from keysplit.spark.executors import travel_by_value
from keysplit.spark.slices.calling import Call
from keysplit.spark.slices.cutting import Places
from keysplit.spark.slices.partitions import finished, in_parts, merged, parts, types_of, whole

__all__ = ["Call", "Places", "finished", "in_parts", "merged", "parts", "types_of", "whole"]

travel_by_value(__name__)
