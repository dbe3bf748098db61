"""Place the rows of hot keys on workers by ranges of an order, and sort them for files."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keysplit.spark.expr.columns import with_worker
from keysplit.spark.expr.hashes import plan_hash
from keysplit.spark.names import in_sql
from keysplit.spark.ordered.cuts import looked_up, ranges_of, sort_of, with_part
from keysplit.spark.ordered.order import order_in
from keysplit.spark.ordered.split import prefix_of
from keysplit.spark.place import placed
from keysplit.spark.request import Request
from keysplit.spark.strategy import Way, keys_are
from keysplit.text import format_count


def in_ranges(request: Request, names: Sequence[str]) -> tuple[DataFrame, Way]:
    """Place the rows of split keys by ranges of the request's order, and sort them; other keys stay whole.

    Args:
        request: the rows, which have a plan.
        names: the columns of the key, by which rows are sorted first.
    """
    plan, worker, prefix = request.plan, request.worker_column, prefix_of(request)
    assert plan is not None
    order, types = order_in(request)
    hash_, part = f"{prefix}_hash", f"{prefix}_part"
    rows = request.df.select("*", plan_hash(request).alias(hash_))
    ranges = ranges_of(rows, hash_, order, types, plan.split_keys, near=False, plan=plan)
    rows = with_part(rows, hash_, order, types, ranges, part)
    rows = with_worker(rows, plan, F.expr(f"CASE WHEN {part} < 0 THEN {hash_} END"), None, worker)
    if ranges:
        # without cuts for rows that frames see, each part is a range
        workers = looked_up([at for each in ranges for at in each.workers], part)
        rows = rows.withColumn(worker, F.expr(f"IF({part} < 0, {in_sql(worker)}, {workers})"))
    rows = sorted_(placed(rows.drop(hash_, part), worker, plan.workers, keep=False), request, names)
    keys, by = keys_are(len(plan.split_keys)), ", ".join(each.name for each in order)
    return rows, Way("place", f"{keys} split over {format_count(plan.workers, 'worker')} by ranges of {by}")


def sorted_(rows: DataFrame, request: Request, names: Sequence[str]) -> DataFrame:
    """Sort the rows of each task by the key columns, as Spark's write does, then by the order."""
    order, _ = order_in(request)
    return rows.sortWithinPartitions(*(F.expr(in_sql(name)) for name in names), *map(sort_of, order))
