"""A broadcast join for hot keys, and Spark's own join for all other keys.

Whether a key is hot depends only on the key, on both sides. So a join of any kind is the union of a join of
the rows with hot keys and a join of all other rows. The identity of rows does not matter.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keysplit.plan import FrequentKey
from keysplit.spark.join.sides import Sides


def by_broadcast(sides: Sides, keys: Sequence[FrequentKey]) -> DataFrame:
    """Join some keys by broadcasting the other side's rows, and all other keys by Spark's own join."""
    rows, others = sides.of(keys, sides.request.df), sides.others_of(keys)
    hot, few = rows.first, others.first
    if not sides.keeps_others:
        # The other side's hot rows match none of the rest, and filtering them out would cost more.
        rest = sides.join(rows.second, sides.others, sides.kind)
        return sides.result(sides.join(hot, F.broadcast(few), sides.kind).union(rest))
    rest = sides.join(rows.second, others.second, sides.kind)
    # Spark cannot broadcast a side whose rows are all kept. An inner join returns its rows with a match, and
    # an anti join the rows whose key the split side does not have.
    matched = sides.join(hot, F.broadcast(few), sides.hot if sides.kind == "full" else "inner")
    if sides.kind == "right":
        matched = sides.joining.with_keys_of_right(matched, sides.types)
    there = sides.of(keys, sides.joining.again(sides.request.df)).first
    alone = sides.met(few, there, "left_anti", sides.own[1])
    unmatched = sides.join(sides.request.df.filter("false"), alone, sides.kind)
    return sides.result(matched.union(unmatched).union(rest))
