"""`streaming.route`: add the worker of each row of a stream."""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from keysplit.plan import Plan
from keysplit.spark.checks import by_name
from keysplit.spark.streaming.adapt import Adapt
from keysplit.spark.streaming.placing import built, check, routed


@by_name
def route(
    df: DataFrame,
    key: str | Sequence[str],
    *,
    plan: Plan | Adapt,
    worker_column: str = "worker",
) -> DataFrame:
    """Add a column with the worker of each row of a stream.

    With a `Plan` the worker of a row never changes. With an `Adapt` the plan changes while the stream runs:
    after each micro-batch the driver learns from the batch's counts, and publishes a new plan if it pays off.
    `kss.online.route` routes the rows of a stream one by one, as the papers do.

    Args:
        df: a streaming DataFrame; an `Adapt` needs one from a classic session.
        key: a column name, or a list of names, as in `kss.plan`; null is a key.
        plan: a plan that `kss.plan` made from a batch of such rows, or an `Adapt`, whose plan changes.
        worker_column: the name of the new column.

    Returns:
        The rows of `df` with one more column, INT, from 0 to workers - 1.

    Raises:
        TypeError: if an argument has a wrong type.
        ValueError: if an argument has a wrong value; if rows that would be split have no deterministic
            columns.

    Source:
        As in `Adapt`.

    Deviations:
        As in `Adapt`.

    Example:
        >>> routed = kss.streaming.route(events, "word", plan=kss.streaming.Adapt(8))  # doctest: +SKIP
    """
    return built(check(df, key, plan, worker_column=worker_column), routed)
