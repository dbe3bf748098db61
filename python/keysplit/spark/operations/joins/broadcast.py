"""A join whose hot keys are joined by a broadcast, and all others as Spark does it.

A key is hot or not, on both sides by one function of the key: so a join of any kind is the union of a join of
the hot rows and one of all others. Nothing else decides, and what a row's identity is does not matter.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keysplit.plans.frequent import FrequentKey
from keysplit.spark.names import in_sql
from keysplit.spark.operations.joins.sides import Sides


def by_broadcast(sides: Sides, keys: Sequence[FrequentKey]) -> DataFrame:
    """Join the rows of some keys by a broadcast of the other side's, and all others by Spark's own join."""
    hashes = [each.hash for each in keys if None not in each.key]
    # Rows with a null key match nothing: each side may have them in either part.
    nulls = sides.null_key if len(hashes) < len(keys) else None
    hot, cold = _cut(sides, sides.request.df, sides.hash, hashes, nulls)
    few, many = _cut(sides, sides.others, sides.others_hash, hashes)
    rest = sides.join(cold, many, sides.kind)
    if not sides.keeps_others:
        return sides.result(sides.join(hot, F.broadcast(few), sides.kind).union(rest))
    # Spark broadcasts no side that is kept whole. The rows of it that match something come out of a join that
    # does not keep them, the others are those whose key the split side does not have.
    matched = sides.join(hot, F.broadcast(few), sides.hot if sides.kind == "full" else "inner")
    there, _ = _cut(sides, sides.joining.again(sides.request.df), sides.hash, hashes)
    met, same = sides.renamed_keys
    # By a condition, as a join on names moves the keys to the front.
    alone = few.join(F.broadcast(there.select(*met).distinct()), same, "left_anti")
    unmatched = sides.join(sides.request.df.filter("false"), alone, sides.kind)
    return sides.result(matched.union(unmatched).union(rest))


def _cut(
    sides: Sides, rows: DataFrame, hash_: Column, hashes: Sequence[int], nulls: str | None = None
) -> tuple[DataFrame, DataFrame]:
    """Cut rows in two: those of the keys with these hashes, or without a key, and all others."""
    own = sides.own[0]
    terms = [f"{in_sql(own)} IN ({', '.join(f'{each}L' for each in hashes)})"] if hashes else []
    # None of the terms is null.
    chosen = " OR ".join([*terms, *([nulls] if nulls else [])]) or "false"
    hashed = rows.select("*", hash_.alias(own))
    return hashed.filter(chosen).drop(own), hashed.filter(f"NOT ({chosen})").drop(own)
