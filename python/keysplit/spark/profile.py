"""`profile`: how skewed the keys are, what that costs, and what would mend it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from pyspark.sql import Column, DataFrame

from keysplit import metrics
from keysplit.advice import LEVEL, Outcome, recommend, shown
from keysplit.planning import PLANS, expected_loads, place
from keysplit.spark.options import (
    Engine,
    Options,
    Request,
    by_name,
    check,
    refuse_stream,
)
from keysplit.spark.summary import summarise

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_SHOWN_KEYS = 10
_WIDTH = 80

_COMBINES = (
    "no action needed: sum and count combine on the map side, and so do min, max and avg: a worker gets one "
    "row a key from each task"
)


class _Remedy(NamedTuple):
    """What an operation is, which function splits its keys, and what each extra copy of a key is."""

    work: str
    function: str
    copies: str


# The operations that gain from splitting; "sum" and "window" are the two that do not.
_REMEDIES = {
    "collect": _Remedy("lists, percentiles and distinct counts", "kss.aggregate", "partial results to merge"),
    "apply": _Remedy("whole-group Python", "kss.apply", "partial results to merge"),
    "join": _Remedy("a join", "kss.join", "workers that get the other side's rows of a key"),
    "write": _Remedy("a partitioned write", "kss.write", "files"),
    "stream": _Remedy("a stream", "kss.streaming.aggregate", "partial results to merge in each window"),
}
_ANY = _Remedy(
    "lists, percentiles, distinct counts, whole-group Python, joins and writes",
    "kss.aggregate, kss.apply, kss.join or kss.write",
    "partial results, copies of the other side's rows or files",
)
Operation = Literal["sum", "collect", "apply", "join", "write", "stream", "window"]
OPERATIONS = get_args(Operation)


class TopKey(NamedTuple):
    """A frequent key.

    Attributes:
        key: its value; a tuple of values if there are several key columns.
        count: the weight of its rows, an upper bound.
        error: by how much `count` may be too large.
        share: `count` as a part of the weight of all rows.
    """

    key: Any
    count: float  # type: ignore[assignment]
    error: float
    share: float


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a grouping would do.

    Attributes:
        loads: the weight that each worker is expected to get, float64.
        imbalance: (largest - mean) / sum of them, each relative to the capacity of its worker.
        relative_imbalance: (largest - mean) / mean of the same.
        extra_partials: copies of keys beyond one each: so many more partial results are to be merged.
    """

    loads: np.ndarray = field(repr=False)
    imbalance: float
    relative_imbalance: float
    extra_partials: int

    @property
    def busiest(self) -> float:
        """The load of the busiest worker, in multiples of the mean."""
        return 1 + self.relative_imbalance


@dataclass(frozen=True, eq=False)
class Profile:
    """How skewed the keys of a DataFrame are, and what that means for an operation by key.

    Attributes:
        key: the names of the key columns.
        workers: the number of workers.
        total: the weight of all rows; their number, if there is no weight.
        unit: what is counted, "rows" or "weight".
        top: the keys that have at least 1/(20 workers) of the weight, the most frequent first.
        predicted: what each grouping that can be planned would do, by its name.
        recommended: the grouping to take, None where there is nothing to gain.
        verdict: what to do, in words.
    """

    key: tuple[str, ...]
    workers: int
    total: float
    unit: str
    top: list[TopKey] = field(repr=False)
    predicted: dict[str, Prediction] = field(repr=False)
    recommended: str | None
    verdict: str

    @property
    def loads(self) -> np.ndarray:
        """The weight that each worker is expected to get by hash grouping, float64."""
        return self.predicted["key"].loads

    @property
    def imbalance(self) -> float:
        """The imbalance of hash grouping: (largest - mean) / sum of the loads."""
        return self.predicted["key"].imbalance

    @property
    def relative_imbalance(self) -> float:
        """The relative imbalance of hash grouping: (largest - mean) / mean of the loads."""
        return self.predicted["key"].relative_imbalance

    def __str__(self) -> str:
        console = self._printed(color_system=None)
        return "\n".join(line.rstrip() for line in console.export_text().splitlines())

    def _repr_html_(self) -> str:
        return self._printed().export_html(inline_styles=True, code_format="<pre>{code}</pre>")

    def _printed(self, **options: Any) -> Console:
        from rich.console import Console

        console = Console(width=_WIDTH, file=io.StringIO(), record=True, **options)
        self._print(console)
        return console

    def _print(self, console: Console) -> None:
        from rich.text import Text

        names, total = ", ".join(self.key), f"{self.total:,.0f} {self.unit}"
        console.print(Text(f"Profile of {names} for {self.workers} workers: {total}\n", style="bold"))
        if self.top:
            table = _table(("key", self.unit, "at most too many", "share"))
            for each in self.top[:_SHOWN_KEYS]:
                table.add_row(
                    Text(shown(each.key)), f"{each.count:,.0f}", f"{each.error:,.0f}", f"{each.share:.2%}"
                )
            console.print(table)
            if len(self.top) > _SHOWN_KEYS:
                console.print(f"... and {len(self.top) - _SHOWN_KEYS} more", highlight=False)
            console.print()
        table = _table(("grouping", "busiest / mean", "imbalance", "extra copies of keys"))
        for name, prediction in self.predicted.items():
            table.add_row(
                Text(name, style="bold" if name == self.recommended else ""),
                f"{prediction.busiest:.2f}",
                f"{prediction.imbalance:.1e}",
                f"{prediction.extra_partials:,}",
            )
        console.print(table)
        console.print()
        console.print(Text(self.verdict))


@by_name
def profile(
    df: DataFrame,
    key: str | Sequence[str],
    workers: int,
    *,
    operation: Operation | None = None,
    weight: str | Column | None = None,
    seed: int | None = None,
    capacities: Sequence[float] | None = None,
    engine: Engine | None = None,
) -> Profile:
    """Say in one pass over the keys how skewed they are, and whether splitting them would help.

    All keys with at least 1/(20 workers) of the weight are found, with bounds. The loads of every grouping
    are those of a plan made from the same pass.

    Args:
        df: a batch DataFrame, or a sample of one.
        key: as `route`.
        workers: as `route`.
        operation: what is done by key, for the verdict: "sum" (sums, counts, minima, maxima, averages),
            "collect" (lists, percentiles, distinct counts), "apply" (whole-group Python), "join", "write",
            "stream" or "window"; if left out, the verdict speaks of all.
        weight: the load of a row: a numeric column, an expression, or "bytes" (see `row_bytes`); 1 per row if
            left out.
        seed: the seed of the hashes, 0 if left out.
        capacities: the relative speed of each worker, above 0; equal if left out.
        engine: "rust", the default, counts with SpaceSaving in each task, "columns" exactly by `groupBy`,
            without Python on the executors.

    Returns:
        The profile; print it, or show it in a notebook.

    Raises:
        TypeError: as `route`.
        ValueError: as `route`, or if `operation` has no such value.

    Source:
        The metrics are those of `keysplit.metrics`; the groupings are in docs/plans.md.

    Deviations:
        As `plan`.

    Example:
        >>> verdict = kss.profile(df, "word", workers=64).verdict  # doctest: +SKIP
    """
    if operation is not None and operation not in OPERATIONS:
        raise ValueError(f"operation must be one of {', '.join(OPERATIONS)}, got {operation!r}")
    refuse_stream(df, remedy=": profile a batch of its rows")
    options = Options(
        workers=workers,
        grouping="cut_to_fit",
        weight=weight,
        seed=seed,
        capacities=capacities,
        engine=engine,
    )
    request = check(df, key, options)
    counted = summarise(request)
    found = counted.summary
    top = []
    for hash_, count, error in zip(
        found.hashes.tolist(), found.counts.tolist(), found.errors.tolist(), strict=True
    ):
        values = counted.keys[hash_]
        value = values[0] if len(request.keys) == 1 else tuple(values)
        top.append(TopKey(value, count, error, count / found.total))
    predicted = {name: _predict(request, found, kind) for name, kind in PLANS.items()}
    recommended = _recommended(predicted, operation) if found.total else None
    unit = "rows" if request.weight is None else "weight"
    return Profile(
        key=tuple(request.keys),
        workers=request.workers,
        total=found.total,
        unit=unit,
        top=top,
        predicted=predicted,
        recommended=recommended,
        verdict=_verdict(found.total, unit, top, predicted, recommended, operation),
    )


def _predict(request: Request, found: Any, kind: Any) -> Prediction:
    grouping = kind(workers=request.workers, seed=request.params.seed)
    placement = place(found, grouping, request.capacities)
    loads = expected_loads(
        found,
        found.hashes[placement.head],
        placement.workers,
        placement.shares,
        placement.tail,
        request.workers,
    )
    relative = loads / (np.ones(len(loads)) if request.capacities is None else np.array(request.capacities))
    return Prediction(
        loads=loads,
        imbalance=metrics.imbalance(relative),
        relative_imbalance=metrics.relative_imbalance(relative),
        extra_partials=sum(len(workers) - 1 for workers in placement.workers),
    )


def _recommended(predicted: dict[str, Prediction], operation: str | None) -> str | None:
    if operation == "sum":
        return None
    outcomes = {name: Outcome(of.busiest, of.extra_partials) for name, of in predicted.items()}
    if operation == "window":
        outcomes = {name: of for name, of in outcomes.items() if not of.copies}
    return recommend(predicted["key"].busiest, outcomes)


def _verdict(
    total: float,
    unit: str,
    top: list[TopKey],
    predicted: dict[str, Prediction],
    recommended: str | None,
    operation: str | None,
) -> str:
    if not total:
        return "no action needed: there are no rows"
    now = f"hash grouping's busiest worker has {predicted['key'].busiest:.2f} times the mean"
    if predicted["key"].busiest <= LEVEL:
        return f"no action needed: {now}"
    first = (
        f"The most frequent key, {shown(top[0].key)}, has {top[0].share:.1%} of the {unit}; " if top else ""
    )
    now = f"{first}{now}" if first else now[0].upper() + now[1:]
    if operation == "sum":
        return f"{_COMBINES}. {now}, which is harmless"
    better = predicted[recommended].busiest if recommended else None
    if operation == "window":
        verdict = f"no splitting is possible for a window: it needs all rows of a key in one place. {now}"
        if recommended:
            verdict += (
                f", that of {recommended} {better:.2f} times with every key whole: take kss.repartition with "
                f"grouping={recommended!r}, and a window by the worker and the key"
            )
        return verdict
    if recommended is None:
        return f"no action helps: {now}, and no grouping is better"
    remedy = _REMEDIES[operation] if operation else _ANY
    extra = predicted[recommended].extra_partials
    verb = "split the frequent keys" if extra else "place the keys evenly"
    price = f"for {extra:,} more {remedy.copies}" if extra else "and no key is split"
    verdict = (
        f"{verb} for {remedy.work}: {remedy.function} with grouping={recommended!r}. "
        f"{now}, that of {recommended} {better:.2f} times, {price}"
    )
    return verdict if operation else f"{_COMBINES}. {verdict[0].upper()}{verdict[1:]}"


def _table(columns: tuple[str, ...]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(columns[0], no_wrap=True, overflow="ellipsis")
    for column in columns[1:]:
        table.add_column(column, justify="right", no_wrap=True)
    return table
