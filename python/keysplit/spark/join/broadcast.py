"""A join whose hot keys are joined by a broadcast, and all others as Spark does it.

A key is hot or not, on both sides by one function of the key: so a join of any kind is the union of a join of
the hot rows and one of all others. Nothing else decides, and what a row's identity is does not matter.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keysplit.plan import FrequentKey
from keysplit.spark.join.sides import Sides


def by_broadcast(sides: Sides, keys: Sequence[FrequentKey]) -> DataFrame:
    """Join the rows of some keys by a broadcast of the other side's, and all others by Spark's own join."""
    rows, others = sides.of(keys, sides.request.df), sides.others_of(keys)
    hot, few = rows.first, others.first
    if not sides.keeps_others:
        # The hot rows of the other side match none of the rest: to filter them out would cost more.
        rest = sides.join(rows.second, sides.others, sides.kind)
        return sides.result(sides.join(hot, F.broadcast(few), sides.kind).union(rest))
    rest = sides.join(rows.second, others.second, sides.kind)
    # Spark broadcasts no side that is kept whole. The rows of it that match something come out of a join that
    # does not keep them, the others are those whose key the split side does not have.
    matched = sides.join(hot, F.broadcast(few), sides.hot if sides.kind == "full" else "inner")
    if sides.kind == "right":
        matched = sides.joining.with_keys_of_right(matched, sides.types)
    there = sides.of(keys, sides.joining.again(sides.request.df)).first
    alone = sides.met(few, there, "left_anti", sides.own[1])
    unmatched = sides.join(sides.request.df.filter("false"), alone, sides.kind)
    return sides.result(matched.union(unmatched).union(rest))
