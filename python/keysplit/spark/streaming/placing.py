"""Place the rows of a stream by a frozen or a changing plan."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from keysplit.plan import Plan
from keysplit.spark import strategy
from keysplit.spark.checks import refuse_other_frames, type_name
from keysplit.spark.frame import Columns
from keysplit.spark.identity import Query, identity_columns, trusted_names
from keysplit.spark.jvm import is_connect
from keysplit.spark.place import placed
from keysplit.spark.plan import stand_in
from keysplit.spark.repartition import routed_and_placed as placed_by_plan
from keysplit.spark.request import Request, request_of, trusted_by
from keysplit.spark.route import routed as routed_by_plan
from keysplit.spark.strategy import Way, took
from keysplit.spark.streaming import current
from keysplit.spark.streaming.adapt import Adapt
from keysplit.spark.streaming.adapting import Adapting
from keysplit.spark.streaming.engine import Ask, asking
from keysplit.spark.weights import weight_of
from keysplit.text import format_count


@dataclass(frozen=True)
class StreamRequest(Request):
    """A request for a stream.

    Attributes:
        adapt: how the plan changes while the stream runs; None if the plan is frozen. If given, `plan` is the
            first plan, or None.
    """

    adapt: Adapt | None = None


def check(
    df: DataFrame,
    key: str | Sequence[str],
    plan: Any,
    *,
    worker_column: Any = None,
    refuse: Callable[[Columns], None] = lambda columns: None,
) -> StreamRequest:
    """Check the arguments that the operations on streams share.

    Args:
        df: the rows; a batch is allowed, for trying out a plan.
        key: a column, or a list of columns.
        plan: a `Plan` or an `Adapt`.
        worker_column: as in `keysplit.spark.request.check`.
        refuse: as in `keysplit.spark.request.check`.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if an argument has a wrong value.
    """
    refuse_other_frames(df)
    if plan is None:
        raise ValueError(f"plan must be given for a streaming DataFrame: {ways_to_a_plan(df)}")
    others = {"worker_column": worker_column, "refuse": refuse}
    if isinstance(plan, Plan):
        query = Query(df, trusted_by(plan))
        return StreamRequest(**vars(request_of(df, key, plan.grouping, query, plan=plan, **others)))
    if not isinstance(plan, Adapt):
        raise TypeError(f"plan must be a Plan or a kss.streaming.Adapt, got {type_name(plan)}")
    if not df.isStreaming:
        raise ValueError(
            "plan must be a Plan for a batch DataFrame, got an Adapt, which learns from a stream"
        )
    if is_connect(df):
        raise ValueError(
            "plan must be a Plan on Spark Connect, got an Adapt, which needs a classic session: a Connect "
            "server cannot ask its client for the next plan"
        )
    query = Query(df, plan.trusted, checked=trusted_names(plan.trust))
    request = request_of(df, key, plan.params, query, plan=plan.start, **others)
    columns = request.columns
    names = identity_columns(plan.row_id, columns.type_of)
    return replace(
        StreamRequest(**vars(request), adapt=plan.rule),
        row_id=None if names is None else list(map(columns.path, names)),
        weight=weight_of(columns, plan.weight),
        capacities=plan.speeds,
    )


def ways_to_a_plan(df: DataFrame) -> str:
    """Return how a stream can get a plan, for the error if the plan is missing."""
    made = "kss.plan makes a plan from a batch of its rows"
    return made if is_connect(df) else f"{made}, kss.streaming.Adapt(workers) is a plan that changes"


def built(request: StreamRequest, build: Callable[[Any], DataFrame]) -> DataFrame:
    """Build the query of an operation on a stream, and record which way it took."""
    if request.adapt is None:
        return strategy.built(request, build)
    workers = format_count(request.workers, "worker")
    return took(build(request), Way("place", f"the plan for {workers} changes while the stream runs"))


def routed(request: StreamRequest) -> DataFrame:
    """Add the worker of each row of a stream by its plan."""
    return routed_by_plan(request) if request.adapt is None else adapting(request)[0]


def routed_and_placed(request: StreamRequest, keep: bool = True) -> DataFrame:
    """Route and place the rows of a stream; `keep` says whether to keep the worker column."""
    if request.adapt is None:
        return placed_by_plan(request, keep)
    return placed(routed(request), request.worker_column, request.workers, keep)


def adapting(request: StreamRequest) -> tuple[DataFrame, Ask]:
    """Add each row's worker by the plan of its micro-batch, and learn from the rows.

    Returns:
        The rows with their workers, and the function that turns questions into queries.
    """
    assert request.adapt is not None
    first = replace(request.plan or stand_in(request), trust=request.query.kept_trust)
    if request.row_id is not None:  # as in the plans of the log, which others may use
        first = replace(first, row_id=tuple(request.row_id))
    weighted = request.weight is not None
    changes = Adapting(request.df, first, request.adapt, request.key_types, weighted, _name_of(request))
    ask = asking(changes.spark, changes.answer)
    return current.routed(request, changes.tally, changes.bounds, ask), ask


def place_of_log(request: StreamRequest) -> str:
    """Return where a request's plan log is: its full path or URL, or its name in a checkpoint."""
    assert request.adapt is not None
    log = request.adapt.log
    return _name_of(request) if log is None else os.fspath(log).rstrip("/")


def _name_of(request: Request) -> str:
    """Return the name of the plan log's folder in a checkpoint."""
    return "-".join([request.worker_column, *request.keys])
