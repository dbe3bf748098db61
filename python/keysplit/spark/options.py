"""The arguments that all operations share, checked before any Spark job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NumericType

import keysplit as ks
from keysplit.planning import PLANS, speeds_of
from keysplit.spark.keys import key_kinds, refuse_unhashable
from keysplit.spark.plans import Plan
from keysplit.spark.query import Query, trusted_names
from keysplit.spark.rows import identity_columns
from keysplit.spark.session import is_connect, session_of, versions
from keysplit.spark.weights import row_bytes


class Options(TypedDict, total=False):
    """How rows are routed: the keyword arguments of `keysplit.spark.route`, which says what each means."""

    workers: int | None
    grouping: Any
    plan: Plan | None
    mode: str
    worker_column: str | None
    row_id: str | Sequence[str] | None
    weight: str | Column | None
    seed: int | None
    capacities: Sequence[float] | None
    engine: str | None
    allow_inexact: bool
    trust: Sequence[Any]


_DEFAULTS = Options(
    workers=None,
    grouping="d_choices",
    plan=None,
    mode="planned",
    worker_column=None,
    row_id=None,
    weight=None,
    seed=None,
    capacities=None,
    engine=None,
    allow_inexact=False,
    trust=(),
)


@dataclass(frozen=True)
class Request:
    """What a caller asked for: which rows, by which key, how."""

    df: DataFrame
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

    @property
    def workers(self) -> int:
        """The number of workers."""
        return int(self.params.workers)


def check(df: DataFrame, key: str | Sequence[str], options: Mapping[str, Any]) -> Request:
    """Check the arguments and say in one line what is wrong with the first bad one.

    Args:
        df: as `keysplit.spark.route`.
        key: as `keysplit.spark.route`.
        options: the other arguments of `keysplit.spark.route`; `worker_column=None` or none at all picks a
            name that no column of `df` has.

    Returns:
        The request.

    Raises:
        TypeError: if an argument has the wrong type, or is unknown.
        ValueError: if an argument has a wrong value.
    """
    unknown = sorted(set(options) - set(_DEFAULTS))
    if unknown:
        raise TypeError(f"{unknown[0]} is no argument of this function; there are {sorted(_DEFAULTS)}")
    given: dict[str, Any] = {**_DEFAULTS, **options}
    if not is_data_frame(df):
        raise TypeError(f"df must be a Spark DataFrame, got {type(df).__name__}")
    mode, engine, plan = given["mode"], given["engine"], given["plan"]
    if mode not in ("planned", "online"):
        raise ValueError(f"mode must be 'planned' or 'online', got {mode!r}")
    if engine not in (None, "columns", "rust"):
        raise ValueError(f"engine must be 'columns' or 'rust', got {engine!r}")
    if plan is not None and not isinstance(plan, Plan):
        raise TypeError(f"plan must be a Plan that kss.plan made, got {type(plan).__name__}")
    if mode == "online":
        if is_connect(df):
            raise TypeError("df must be a classic Spark DataFrame in online mode, got one of Spark Connect")
        for name in ("plan", "row_id", "capacities"):
            if given[name] is not None:
                raise ValueError(f"{name} belongs to mode 'planned': leave {name} out")
    params = _planned_params(plan, given) if plan is not None else _params(given)
    keys = key_names(key)
    key_types = [column_type(df, "key", name) for name in keys]
    refuse_unhashable(keys, key_types)
    kinds = tuple(key_kinds(key_types))
    if plan is not None and kinds != plan.key_types:
        raise ValueError(f"key must have the types that the plan is for, {plan.key_types}, got {kinds}")
    if mode == "online":
        refuse_stream(df, remedy=": online mode has no streams")
    if df.isStreaming and plan is None:
        raise ValueError(
            "plan must be given for a streaming DataFrame: kss.plan makes one from a batch of its rows"
        )
    return Request(
        df=df,
        keys=keys,
        key_types=key_types,
        params=params,
        plan=plan,
        mode=mode,
        worker_column=_worker_column(df, given["worker_column"]),
        row_id=identity_columns(df, given["row_id"], column_type),
        weight=_weight(df, given["weight"]),
        capacities=_capacities(plan, given["capacities"], params.workers),
        engine=engine,
        allow_inexact=bool(given["allow_inexact"]),
        query=Query(df, trusted_names(given["trust"])),
    )


def is_data_frame(value: Any) -> bool:
    """Say whether it is a DataFrame, classic or of Spark Connect."""
    return isinstance(value, DataFrame) or versions.is_data_frame_of_connect(value)


def refuse_stream(df: Any, argument: str = "df", remedy: str = "") -> None:
    """Raise ValueError if it is a streaming DataFrame."""
    if is_data_frame(df) and df.isStreaming:
        raise ValueError(f"{argument} must be a batch DataFrame, got a streaming one{remedy}")


def quoted(name: str) -> str:
    """Return a column name so that Spark reads dots and backticks in it as they are."""
    return "`" + name.replace("`", "``") + "`" if "." in name or "`" in name else name


def key_names(key: Any, argument: str = "key") -> list[str]:
    """Return the names of the key columns as a list."""
    keys = [key] if isinstance(key, str) else key
    if not isinstance(keys, Sequence) or not all(isinstance(name, str) for name in keys):
        raise TypeError(f"{argument} must be a column name or a list of column names, got {key!r}")
    if not keys:
        raise ValueError(f"{argument} must name at least one column, got an empty list")
    return list(keys)


def column_type(df: DataFrame, argument: str, name: Any) -> DataType:
    """Return the type of the one column that a name stands for."""
    if not isinstance(name, str):
        raise TypeError(f"{argument} must be a column name, got {type(name).__name__}")
    fields = []
    # Spark writes to its log when it does not know a name: one that no column begins is not shown to it.
    if any(
        name.replace("`", "").lower().startswith(column.replace("`", "").lower()) for column in df.columns
    ):
        try:
            fields = df.select(name).schema.fields
        except AnalysisException:
            fields = []
    if len(fields) != 1:
        raise ValueError(
            f"{argument} must name one column of the DataFrame, got {name!r}; it has {df.columns}"
        )
    return fields[0].dataType


def free_name(df: DataFrame, name: str) -> str:
    """Return the name, with underscores behind it as long as a column of the DataFrame has it."""
    taken = _taken(df)
    while fold(df)(name) in taken:
        name += "_"
    return name


def _planned_params(plan: Plan, given: Mapping[str, Any]) -> Any:
    for name in ("weight", "capacities"):
        if given[name] is not None:
            raise ValueError(f"{name} must be left out with a plan, which has been made with its own")
    for name, value in (("workers", plan.workers), ("seed", plan.grouping.seed)):
        if given[name] is not None and given[name] != value:
            raise ValueError(
                f"{name} must be left out or equal that of the plan, {value!r}, got {given[name]!r}"
            )
    grouping = given["grouping"]
    if grouping not in (_DEFAULTS["grouping"], plan.grouping.name, plan.grouping):
        raise ValueError(
            f"grouping must be left out or equal that of the plan, {plan.grouping!r}, got {grouping!r}"
        )
    return plan.grouping


def _params(given: Mapping[str, Any]) -> Any:
    grouping, workers, seed = given["grouping"], given["workers"], given["seed"]
    known: Mapping[str, Any] = PLANS if given["mode"] == "planned" else ks.GROUPINGS
    if isinstance(grouping, str):
        if grouping not in known:
            raise ValueError(_unknown_grouping(given["mode"], grouping))
        if workers is None:
            raise ValueError(f"workers must be given with grouping={grouping!r}: a number in 1..=65536")
        return known[grouping](workers=workers, seed=0 if seed is None else seed)
    names = {type_: name for name, type_ in [*ks.GROUPINGS.items(), *PLANS.items()]}
    if type(grouping) not in names:
        raise TypeError(f"grouping must be a registered name or a grouping, got {type(grouping).__name__}")
    if names[type(grouping)] not in known:
        raise ValueError(_unknown_grouping(given["mode"], names[type(grouping)]))
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


def _weight(df: DataFrame, weight: Any) -> Column | None:
    if weight is None:
        return None
    if isinstance(weight, str) and weight == "bytes" and fold(df)(weight) not in _taken(df):
        return row_bytes(df)
    if versions.is_column(weight):
        described, columns = "an expression", df.select(weight).schema.fields
        weight_type, column = columns[0].dataType, weight
    else:
        weight_type = column_type(df, "weight", weight)
        described, column = repr(weight), F.col(weight)
    if not isinstance(weight_type, NumericType):
        raise TypeError(
            f"weight must name a numeric column, got {described} of type {weight_type.simpleString()}"
        )
    return column.cast("double")


def _capacities(plan: Plan | None, capacities: Any, workers: int) -> tuple[float, ...] | None:
    if plan is not None or capacities is None:
        return None if plan is None else plan.capacities
    return tuple(speeds_of(capacities, workers).tolist())


def _worker_column(df: DataFrame, name: Any) -> str:
    if name is None:
        return free_name(df, "worker")
    if not isinstance(name, str):
        raise TypeError(f"worker_column must be a column name, got {type(name).__name__}")
    if not name or fold(df)(name) in _taken(df):
        raise ValueError(
            f"worker_column must be a name that no column has yet, got {name!r}; there are {df.columns}"
        )
    return name


def _taken(df: DataFrame) -> set[str]:
    return {fold(df)(column) for column in df.columns}


def fold(df: DataFrame) -> Any:
    """Return the function that makes column names equal which the session takes for one."""
    # without an answer it is Spark's default: a serverless service may let nobody read its settings
    sensitive = (session_of(df).setting("spark.sql.caseSensitive") or "").lower() == "true"
    return str if sensitive else str.lower
