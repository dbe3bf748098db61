"""A join by a plan's workers: rows of the other side go to all workers of their key."""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keysplit.spark import versions
from keysplit.spark.expr.columns import of_split_keys, with_workers
from keysplit.spark.join.sides import Sides
from keysplit.spark.names import in_sql, quoted
from keysplit.spark.place import placed
from keysplit.spark.request import Request
from keysplit.spark.route import routed

Copied = Callable[[DataFrame, str], DataFrame]
"""Replaces a key's hash, in the column with this name, with all workers of the key."""


def by_worker(
    sides: Sides, placing: Callable[[Request], tuple[DataFrame, Copied]] | None = None
) -> DataFrame:
    """Join two sides on the key and the worker.

    Args:
        sides: the join.
        placing: routes the rows of the split side, and copies the other side's rows; uses the request's plan
            if omitted.
    """
    request, kind = sides.request, sides.kind
    worker, names = request.worker_column, request.keys
    there, found = sides.own[:2]
    copies = sides.others
    its_workers = in_sql(worker)
    once = sides.keeps_others and sides.plan.splits
    # Any row of a key will do, unless a condition chooses among them.
    by_keys = kind in ("semi", "anti") and sides.joining.where is None
    if once:
        request.query.refuse_unrepeatable(names, f"because a {kind} join needs its keys first")
        # A row of the other side without a match must be returned once. A row without any match is not
        # copied. If it has one, its copies on workers without a match are dropped after the join.
        copies = sides.met(copies, _split_rows(sides), "left", found)
        its_workers = f"IF({in_sql(found)}, {its_workers}, slice({its_workers}, 1, 1))"
    elif by_keys:
        copies = copies.select(*names).distinct().withColumn(found, F.lit(True))
    if not sides.keeps_others:
        # Null keys match nothing.
        copies = copies.filter(f"NOT ({sides.null_key})")
    copies = copies.select("*", sides.others_hash.alias(worker))
    if placing is None:
        rows, copies = routed(request), with_workers(copies, sides.plan, worker)
    else:
        rows, copied = placing(request)
        copies = copied(copies, worker)
    # No list is empty. For `explode` Spark would check that, and look up each key again.
    copies = copies.withColumn(worker, F.expr(f"explode_outer({its_workers})"))
    if once:
        rows = rows.select("*", F.lit(True).alias(there))

    # Spark would push a semi or anti join below the placing. With distinct keys these joins are the same.
    as_ = {"semi": "inner", "anti": "left"}[kind] if by_keys else kind
    at_workers = _placed(rows, request)
    if as_ in ("semi", "anti"):  # a condition depends on the row; Spark pushes no join below this
        at_workers = at_workers.filter("monotonically_increasing_id() >= 0")
    joined = sides.join(at_workers, _placed(copies, request), as_, also=worker)
    if once:
        joined = joined.filter(F.col(quoted(there)).isNotNull() | F.col(quoted(found)).isNull())
    if by_keys and kind == "anti":
        joined = joined.filter(F.col(quoted(found)).isNull())
    return sides.result(joined)


def _split_rows(sides: Sides) -> DataFrame:
    # At most a few per worker: only a key that the plan places individually may have several workers.
    own = sides.request.worker_column
    rows = sides.joining.again(sides.request.df).select(*sides.request.keys, sides.hash.alias(own))
    return of_split_keys(rows, sides.plan, own)


def _placed(df: DataFrame, request: Request) -> DataFrame:
    # Before 4.1 Spark does not know the placing: the join would shuffle by key and worker in any case.
    if not versions.has_repartition_by_id(df):
        return df
    return placed(df, request.worker_column, request.workers)
