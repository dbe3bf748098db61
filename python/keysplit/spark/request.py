"""The arguments of an operation, checked once, before any Spark job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DataType

from keysplit.plan import PLANS, OrderColumn, Plan
from keysplit.spark.checks import key_names, refuse_other_frames, type_name
from keysplit.spark.frame import Columns
from keysplit.spark.identity import Query
from keysplit.spark.keys import key_kinds, refuse_unhashable

GROUPING = "d_choices"
"""The default grouping of a plan."""


@dataclass(frozen=True)
class Request:
    """The rows of an operation, their key, and the plan that places the rows.

    Attributes:
        df: the rows.
        columns: the columns of `df`.
        keys: the key columns, as names for `F.col`.
        key_types: the types of the key columns.
        query: the query of `df`; it tells which columns are deterministic.
        params: the grouping with its parameters.
        plan: the plan; None if it must be made.
        worker_column: the name of the column for a row's worker; `df` has no column with this name.
        way: the way that the caller requests; if None, keysplit chooses.
        row_id: the caller's columns that distinguish rows; if None, those of the plan or the query.
        weight: the load of a row; None if every row weighs 1.
        capacities: the relative speed of each worker; None if equal.
        sample: the part of the rows that a plan is made from, or "auto".
        group_weight: the fixed cost of a group, in units of the weight of rows.
        order: the order in which rows of split keys are divided into ranges; None if there is none.
    """

    df: DataFrame
    columns: Columns
    keys: list[str]
    key_types: list[DataType]
    query: Query
    params: Any
    plan: Plan | None
    worker_column: str
    way: str | None = None
    row_id: list[str] | None = None
    weight: Column | None = None
    capacities: tuple[float, ...] | None = None
    sample: float | str = "auto"
    group_weight: float = 0.0
    order: tuple[OrderColumn, ...] | None = None

    @property
    def workers(self) -> int:
        """The number of workers."""
        return int(self.params.workers)


def check(
    df: DataFrame,
    key: str | Sequence[str],
    plan: Any,
    workers: Any = None,
    *,
    worker_column: Any = None,
    way: str | None = None,
    grouping: str = GROUPING,
    refuse: Callable[[Columns], None] = lambda columns: None,
    query: Query | None = None,
) -> Request:
    """Check the arguments that operations share; raise an error for the first bad argument.

    Args:
        df: the rows.
        key: a column, or a list of columns.
        plan: a `Plan`; if None, a plan for `workers` is made.
        workers: the number of workers; None with a plan.
        worker_column: the name of the column for workers; None for an unused name.
        way: the way that the caller requests, already checked by the operation.
        grouping: the grouping of a plan that is made here.
        refuse: raises an error if the operation cannot use the key, given the columns of `df`.
        query: the query of `df`, if the caller already has it.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if an argument has a wrong value.
    """
    refuse_other_frames(df)
    if way == "plain" and plan is None and workers is None:
        workers = 1  # no plan is made
    params = params_of(plan, workers, grouping, df)
    return request_of(
        df,
        key,
        params,
        query or Query(df, trusted_by(plan)),
        plan=plan,
        worker_column=worker_column,
        way=way,
        refuse=refuse,
    )


def request_of(
    df: DataFrame,
    key: str | Sequence[str],
    params: Any,
    query: Query,
    *,
    plan: Plan | None = None,
    worker_column: Any = None,
    way: str | None = None,
    refuse: Callable[[Columns], None] = lambda columns: None,
) -> Request:
    """Check the key and the worker column; `params` is the grouping, all else as in `check`."""
    columns = Columns(df, query.fold)
    refuse(columns)
    named = key_names(key)
    types = [field.dataType for field in columns.fields_of("key", named)]
    keys = list(map(columns.path, named))
    refuse_unhashable(keys, types)
    if plan is not None and (kinds := tuple(key_kinds(types))) != plan.key_types:
        raise ValueError(f"key must have the types of the plan, {plan.key_types}, got {kinds}")
    query.warn_of_keys_by_chance(keys)
    return Request(
        df=df,
        columns=columns,
        keys=keys,
        key_types=types,
        query=query,
        params=params,
        plan=plan,
        worker_column=worker_column_of(columns, worker_column),
        way=way,
        capacities=None if plan is None else plan.capacities,
    )


def trusted_by(plan: Any) -> frozenset[str]:
    """Return the names of the columns and functions that a plan guarantees to be deterministic."""
    return frozenset(plan.trust) if isinstance(plan, Plan) else frozenset()


def params_of(plan: Any, workers: Any, grouping: str, df: DataFrame) -> Any:
    """Return the grouping of a plan, or the grouping for a new plan; errors as in `check`."""
    if plan is None:
        if df.isStreaming:
            raise ValueError("plan must be given for a streaming DataFrame: kss.plan makes one from a batch")
        if workers is None:
            raise ValueError("workers must be given without a plan: a number in 1..=65536, got None")
        return PLANS[grouping](workers=workers)
    if not isinstance(plan, Plan):
        remedy = ": Plan.load(path) reads one" if isinstance(plan, str) else ""
        remedy = ": kss.streaming takes it" if type(plan).__name__ == "Adapt" else remedy
        raise TypeError(f"plan must be a Plan that kss.plan made, got {type_name(plan)}{remedy}")
    if workers is not None and (isinstance(workers, bool | float) or workers != plan.workers):
        raise ValueError(f"workers must be omitted with a plan (it has {plan.workers}), got {workers!r}")
    return plan.grouping


def check_way(way: Any, ways: Sequence[str]) -> None:
    """Raise ValueError unless `way` is None or one of the operation's ways."""
    if way is not None and way not in ways:
        raise ValueError(f"way must be {', '.join(map(repr, ways))} or None, got {way!r}")


def worker_column_of(columns: Columns, name: Any) -> str:
    """Return the name of the worker column, an unused name for None; errors as in `check`."""
    if name is None:
        return columns.free("worker")
    if not isinstance(name, str):
        raise TypeError(f"worker_column must be a column name, got {type_name(name)}")
    if not name or name in columns:
        raise ValueError(f"worker_column must be an unused column name, got {name!r}; df has {columns.names}")
    return name
