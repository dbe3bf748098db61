"""The arguments that all operations share, checked once, before any Spark job."""

import math
import os
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NumericType

import keysplit as ks
from keysplit import paths
from keysplit.groupings.base import Grouping
from keysplit.plan import PLANS, CutToFit, Plan, speeds_of
from keysplit.spark.adapt.parameters import Adapt
from keysplit.spark.checks import (
    check_flag,
    check_sample,
    check_whole,
    key_names,
    refuse_other_frames,
    refuse_stream,
    type_name,
    ways_to_a_plan,
)
from keysplit.spark.frame import Columns, analysed
from keysplit.spark.kept import Kept
from keysplit.spark.keys import key_kinds, refuse_unhashable
from keysplit.spark.known import known_rows
from keysplit.spark.query import Query, trusted_names
from keysplit.spark.rows import identity_columns
from keysplit.spark.session import is_connect, versions
from keysplit.spark.weights import row_bytes

Mode = Literal["planned", "online"]
Engine = Literal["columns", "rust"]
Side = Literal["left", "right"]
GroupingOrName = str | Grouping | CutToFit
PlanOrPath = Plan | str | os.PathLike[str]
Refresh = Literal["auto", "never", "always"]
Sample = float | Literal["auto"]
AdaptOrAuto = Adapt | Literal["auto"]
Trusted = str | Callable[..., Any] | Sequence[str | Callable[..., Any]]

_DEFAULT_GROUPING = "d_choices"


@dataclass(frozen=True, kw_only=True)
class Options:
    """How rows are routed, as the caller gave it; `keysplit.spark.route` says what each argument means."""

    workers: int | None = None
    grouping: GroupingOrName = _DEFAULT_GROUPING
    plan: PlanOrPath | None = None
    refresh: str = "auto"
    sample: float | str = "auto"
    force: bool = False
    mode: str = "planned"
    worker_column: str | None = None
    row_id: str | Sequence[str] | None = None
    weight: str | Column | None = None
    group_weight: float = 0.0
    seed: int | None = None
    capacities: Sequence[float] | None = None
    engine: str | None = None
    trust: Trusted = ()
    allow_inexact: bool = False
    adapt: AdaptOrAuto | None = None
    state: str | os.PathLike[str] | None = None
    rows_per_file: int | None = None
    observed: bool = False


@dataclass(frozen=True)
class Request:
    """What a caller asked for, checked: which rows, by which key, how."""

    df: DataFrame
    columns: Columns
    keys: list[str]
    key_types: list[DataType]
    params: Any
    plan: Plan | None
    mode: str
    worker_column: str
    row_id: list[str] | None
    weight: Column | None
    capacities: tuple[float, ...] | None
    engine: str | None
    allow_inexact: bool
    query: Query
    sample: float | str = "auto"
    force: bool = False
    group_weight: float = 0.0
    kept: Kept | None = None
    """Where the plan is kept; it is there, or is saved there once it is made."""
    unseen: Plan | None = None
    """The plan that was passed, if it may be for other rows and no run by it has shown that yet."""
    adapt: Adapt | None = None
    """How the plan changes while a stream runs; None if it is frozen."""
    state: str | None = None
    """Where routers of a stream leave their state for the next micro-batch: for executors, too."""
    rows_per_file: int | None = None
    """The rows that make a task of a write worth its file; None for the default."""
    observed: bool = False
    """Whether Spark's reports of a stream are to have the rows of each worker."""

    @property
    def is_counted(self) -> bool:
        """Whether the first run looks at the rows before it moves them."""
        return self.kept is not None or self.unseen is not None

    @property
    def workers(self) -> int:
        """The number of workers."""
        return int(self.params.workers)


def check(
    df: DataFrame,
    key: str | Sequence[str],
    options: Options,
    default_grouping: str = _DEFAULT_GROUPING,
    refuse: Callable[[Columns], None] = lambda columns: None,
    query: Query | None = None,
) -> Request:
    """Check the arguments and say in one line what is wrong with the first bad one.

    Args:
        df: as `keysplit.spark.route`.
        key: as `keysplit.spark.route`.
        options: the other arguments of `keysplit.spark.route`; `worker_column=None` picks a name that no
            column of `df` has.
        default_grouping: the grouping that the operation has if the caller leaves it out.
        refuse: raises an error if the operation cannot have the key, given the columns of `df`.
        query: what the query of `df` says, if the caller has begun to read it.

    Returns:
        The request.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if an argument has a wrong value.
        FileNotFoundError: if there is no plan for a stream at its path, or no folder for one.
    """
    refuse_other_frames(df)
    _check_words(options)
    mode, engine = options.mode, options.engine
    streaming = df.isStreaming
    adapt = _adapt(options, streaming)
    plan, kept = _plan_and_its_place(options, streaming)
    former = None if kept is None else kept.former
    model = plan or former
    query = query or Query(df, trusted_names(options.trust))
    if mode == "online":
        if is_connect(df):
            raise TypeError("df must be a classic Spark DataFrame in online mode, got one of Spark Connect")
        for name in ("plan", "row_id", "capacities", "rows_per_file"):
            if getattr(options, name) is not None:
                raise ValueError(f"{name} belongs to mode 'planned': leave {name} out")
    if model is None:
        params = _params(options)
    else:
        params = _planned_params(model, options, kept, default_grouping)
    columns = Columns(df, query.fold)
    refuse(columns)
    named = key_names(key)
    key_types = [field.dataType for field in columns.fields_of("key", named)]
    keys = list(map(columns.path, named))
    refuse_unhashable(keys, key_types)
    kinds = tuple(key_kinds(key_types))
    if model is not None and kinds != model.key_types:
        raise ValueError(
            f"key must have the types that {_named(kept)} is for, {model.key_types}, got {kinds}"
        )
    _check_state(options, df)
    if mode == "planned":
        query.warn_of_keys_by_chance(keys)
    if mode == "planned" and plan is None and adapt is None and streaming:
        raise ValueError(f"plan must be given for a streaming DataFrame: {ways_to_a_plan(df)}")
    return Request(
        df=df,
        columns=columns,
        keys=keys,
        key_types=key_types,
        params=params,
        plan=plan,
        mode=mode,
        worker_column=_worker_column(columns, options.worker_column),
        row_id=_row_id(columns, query, options.row_id, former),
        weight=_weight(columns, options.weight),
        capacities=_capacities(model, options.capacities, params.workers),
        engine=engine,
        allow_inexact=bool(options.allow_inexact),
        query=query,
        sample=options.sample,
        group_weight=_group_weight(model, options.group_weight),
        force=bool(options.force),
        kept=None if adapt is not None else kept,
        unseen=None if kept is not None or streaming else _unseen(plan, df),
        adapt=adapt,
        state=None if options.state is None else paths.absolute(options.state),
        rows_per_file=options.rows_per_file,
        observed=bool(options.observed),
    )


def check_without_plan(df: DataFrame, key: str | Sequence[str], options: Options) -> list[str]:
    """Check the arguments of a query that is plain Spark's and has no plan; errors as `check`.

    Args:
        df: as `check`.
        key: as `check`.
        options: as `check`, without a plan. Workers may be left out.

    Returns:
        The names of the key columns.
    """
    refuse_other_frames(df)
    _check_words(options)
    trusted_names(options.trust)
    columns, named = Columns(df), key_names(key)
    columns.fields_of("key", named)
    workers, speeds = options.workers, options.capacities
    if workers is None and isinstance(options.grouping, str):  # as many as speeds, so that these are checked
        workers = max(len(speeds), 1) if isinstance(speeds, Sized) else 1
    _capacities(None, speeds, _params(replace(options, workers=workers, adapt="auto")).workers)
    _worker_column(columns, options.worker_column)
    identity_columns(options.row_id, columns.type_of)
    _weight(columns, options.weight)
    return list(map(columns.path, named))


def _check_words(options: Options) -> None:
    if options.mode not in ("planned", "online"):
        raise ValueError(f"mode must be 'planned' or 'online', got {options.mode!r}")
    if options.engine not in (None, "columns", "rust"):
        raise ValueError(f"engine must be 'columns' or 'rust', got {options.engine!r}")
    if options.refresh not in ("auto", "never", "always"):
        raise ValueError(f"refresh must be 'auto', 'never' or 'always', got {options.refresh!r}")
    check_flag("force", options.force)
    check_flag("allow_inexact", options.allow_inexact)
    check_flag("observed", options.observed)
    check_sample(options.sample)
    if options.rows_per_file is not None:
        check_whole("rows_per_file", options.rows_per_file, 1)


def _plan_and_its_place(options: Options, streaming: bool) -> tuple[Plan | None, Kept | None]:
    """Return the plan that was given, or is kept at the path that was given, and that place."""
    plan = options.plan
    if isinstance(plan, str | os.PathLike):
        if options.mode != "planned":
            return None, Kept(plan)
        # A stream goes by what is there: no rows are at hand to make a plan of.
        kept = Kept.at(plan, "never" if streaming else options.refresh)
        if streaming and kept.plan is None:
            raise FileNotFoundError(
                f"plan must be the path of a plan that is there for a streaming DataFrame, got "
                f"{os.fspath(plan)!r}: kss.plan makes one from a batch of its rows, plan.save writes it"
            )
        return kept.plan, kept
    if plan is not None and not isinstance(plan, Plan):
        raise TypeError(f"plan must be a Plan that kss.plan made, or a path or URL, got {type_name(plan)}")
    return plan, None


def _unseen(plan: Plan | None, df: DataFrame) -> Plan | None:
    """Return a plan whose frequent keys are to be looked for among rows, None if they are not."""
    # a key of much weight may have few rows
    if plan is None or not plan.head or plan.weighted or plan.group_weight:
        return None
    return plan if known_rows(plan).may_be_others(df) else None


def _adapt(options: Options, streaming: bool) -> Adapt | None:
    adapt = options.adapt
    if adapt is None:
        return None
    if adapt != "auto" and not isinstance(adapt, Adapt):
        raise TypeError(f"adapt must be 'auto', an Adapt or None, got {adapt!r}")
    if not streaming:
        raise ValueError(f"adapt must be None for a batch, whose plan is made of its rows, got {adapt!r}")
    if options.mode != "planned":
        raise ValueError(f"adapt must be None in mode {options.mode!r}, got {adapt!r}")
    if options.engine == "rust":
        raise ValueError("engine must be 'columns' or None with adapt, got 'rust'")
    adapt = Adapt() if adapt == "auto" else adapt
    # it is opened later, wherever the process is then
    return adapt if adapt.log is None else replace(adapt, log=paths.absolute(adapt.log))


def _check_state(options: Options, df: DataFrame) -> None:
    """Raise an error unless routers of a stream, and no others, have a place for their state."""
    state, online = options.state, options.mode == "online"
    if state is None and online:
        refuse_stream(df, remedy=": in mode 'online' kss.streaming.route takes streams, with state=...")
    if state is None:
        return
    if not isinstance(state, str | os.PathLike):
        raise TypeError(f"state must be a path or URL of a folder, got {state!r}")
    if state == "":
        raise ValueError("state must be a folder, got ''")
    if not (online and df.isStreaming):
        raise ValueError(f"state belongs to streams in mode 'online', got {os.fspath(state)!r}")


def _named(kept: Kept | None) -> str:
    return "the plan" if kept is None else f"the plan at {os.fspath(kept.path)!r}"


def _planned_params(plan: Plan, options: Options, kept: Kept | None, default_grouping: str) -> Any:
    named = _named(kept)
    if options.adapt is not None and plan.weighted != (options.weight is not None):
        unit = "the weight that it was made by" if plan.weighted else "None, as it balances rows"
        raise ValueError(f"weight must be with adapt that of {named}, {unit}, got {options.weight!r}")
    if kept is None:
        # plans that replace the first one are made of loads in its unit, which only the weight gives
        for name in ("weight", "capacities") if options.adapt is None else ("capacities",):
            if getattr(options, name) is not None:
                raise ValueError(f"{name} must be left out with a plan, which has been made with its own")
    elif options.capacities is not None:  # the call that made it and those that read it are the same
        speeds = speeds_of(options.capacities, plan.workers)
        if not np.allclose(speeds / speeds.sum(), plan.speeds / plan.speeds.sum(), rtol=1e-9, atol=0):
            raise ValueError(
                f"capacities must be left out or in proportion to those of {named}, {plan.capacities!r}, "
                f"got {tuple(speeds.tolist())!r}"
            )
    for name, value in (("workers", plan.workers), ("seed", plan.grouping.seed)):
        given = getattr(options, name)
        if isinstance(given, bool | float):
            raise TypeError(f"{name} must be a whole number, got {given!r}")
        if given is not None and given != value:
            raise ValueError(f"{name} must be left out or equal that of {named}, {value!r}, got {given!r}")
    grouping = options.grouping
    if grouping not in (default_grouping, plan.grouping.name, plan.grouping):
        raise ValueError(
            f"grouping must be left out or equal that of {named}, {plan.grouping!r}, got {grouping!r}"
        )
    return plan.grouping


def _params(options: Options) -> Any:
    grouping, workers, seed = options.grouping, options.workers, options.seed
    known: Mapping[str, Any] = PLANS if options.mode == "planned" else ks.GROUPINGS
    if options.adapt is not None:
        known = {**ks.GROUPINGS, **PLANS}
    if isinstance(grouping, str):
        if grouping not in known:
            raise ValueError(_unknown_grouping(options.mode, grouping))
        if workers is None:
            raise ValueError(f"workers must be given with grouping={grouping!r}: a number in 1..=65536")
        return known[grouping](workers=workers, seed=0 if seed is None else seed)
    names = {type_: name for name, type_ in [*ks.GROUPINGS.items(), *PLANS.items()]}
    if type(grouping) not in names:
        raise TypeError(f"grouping must be a registered name or a grouping, got {type_name(grouping)}")
    if names[type(grouping)] not in known:
        raise ValueError(_unknown_grouping(options.mode, names[type(grouping)]))
    for name, value in (("workers", workers), ("seed", seed)):
        if value is not None and value != getattr(grouping, name):
            raise ValueError(
                f"{name} must be left out or equal that of the grouping, {grouping!r}, got {value!r}"
            )
    return grouping


def _unknown_grouping(mode: str, name: str) -> str:
    known: Mapping[str, Any] = PLANS if mode == "planned" else ks.GROUPINGS
    other: Mapping[str, Any] = ks.GROUPINGS if mode == "planned" else PLANS
    remedy = f": pass mode={'online' if mode == 'planned' else 'planned'!r}" if name in other else ""
    return f"grouping must be one of {', '.join(sorted(known))} in mode {mode!r}, got {name!r}{remedy}"


def _row_id(columns: Columns, query: Query, row_id: Any, former: Plan | None) -> list[str] | None:
    """Return the columns that tell rows apart: without others, those of the plan that is to be made anew."""
    known = None if former is None else former.row_id
    if row_id is None and known is not None and query.are_steady(known):
        return list(known)
    names = identity_columns(row_id, columns.type_of)
    return None if names is None else list(map(columns.path, names))


def _weight(columns: Columns, weight: Any) -> Column | None:
    if weight is None:
        return None
    if isinstance(weight, str) and weight == "bytes" and weight not in columns:
        return row_bytes(columns.df)
    if versions.is_column(weight):
        try:
            described, fields = "an expression", columns.df.select(weight).schema.fields
        except AnalysisException as error:
            raise ValueError(
                f"weight must be made of columns of df, got {weight}; df has {columns.names}"
            ) from error
        weight_type, column = fields[0].dataType, weight
        try:
            analysed(columns.df.select("*", weight.cast("double")))
        except AnalysisException as error:  # alone they are queries
            raise ValueError(
                f"weight must be a number for each row, got {weight}, an aggregate or a generator"
            ) from error
    else:
        weight_type = columns.type_of("weight", weight)
        described, column = repr(weight), F.col(columns.path(weight))
    if not isinstance(weight_type, NumericType):
        raise TypeError(
            f"weight must name a numeric column, got {described} of type {weight_type.simpleString()}"
        )
    return column.cast("double")


def _group_weight(plan: Plan | None, weight: Any) -> float:
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise TypeError(f"group_weight must be a number of at least 0, got {weight!r}")
    if not 0 <= weight < math.inf:
        raise ValueError(f"group_weight must be finite and at least 0, got {weight!r}")
    if plan is None:
        return float(weight)
    if weight not in (0, plan.group_weight):
        raise ValueError(
            f"group_weight must be left out or equal that of the plan, {plan.group_weight!r}, got {weight!r}"
        )
    return plan.group_weight


def _capacities(plan: Plan | None, capacities: Any, workers: int) -> tuple[float, ...] | None:
    if plan is not None or capacities is None:
        return None if plan is None else plan.capacities
    return tuple(speeds_of(capacities, workers).tolist())


def _worker_column(columns: Columns, name: Any) -> str:
    if name is None:
        return columns.free("worker")
    if not isinstance(name, str):
        raise TypeError(f"worker_column must be a column name, got {type_name(name)}")
    if not name or name in columns:
        raise ValueError(
            f"worker_column must be a name that no column has yet, got {name!r}; there are {columns.names}"
        )
    return name
