"""The rule for balanced loads, the choice of a grouping, and the text of every verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Literal, NamedTuple, SupportsIndex, get_args

import numpy as np

from keysplit.plan import BALANCED, PLANS
from keysplit.profiling.model import Outcome, Prediction, TopKey
from keysplit.text import format_count, format_key, format_ratio, format_seconds, format_share

if TYPE_CHECKING:
    from keysplit.plan import Sample
    from keysplit.results import SimulationResult

LEAST_DRIFT = 0.1
"""The frequent keys count as changing if the overlap of windows is lower by at least this much."""

_COMBINES = "no action needed: sum, count, min, max and avg combine on the map side"
_COLLECTS = "no action helps: for lists, percentiles and distinct counts Spark merges by key"
_NOT_SPLIT = (
    "Leave the first rows per key, row_number() <= k, to Spark: it drops all others before the shuffle. "
    "kss.explain says which functions cannot be split"
)


class Verdict(NamedTuple):
    """What to do.

    Attributes:
        text: three lines: what to do, the cost before and after, and how certain this is; or only the first
            line, if there is nothing to gain.
        details: further sentences, without the last full stop.
        line: a line of code to paste; empty if there is nothing to gain.
    """

    text: str
    details: str = ""
    line: str = ""


class _Remedy(NamedTuple):
    """An operation, the line of code that splits its keys, and what an extra copy of a key costs."""

    work: str
    line: str
    copies: str


# The operations that gain from split keys; "sum" and "collect" do not.
_REMEDIES = {
    "apply": _Remedy(
        "whole-group Python",
        "kss.apply(df, {key}, partial, schema, merge=merge, plan=kss.plan(df, {key}, {workers}, "
        "grouping={grouping!r}))",
        "partial results to merge",
    ),
    "join": _Remedy(
        "a join",
        "kss.join(left, right, {key}, plan=kss.plan(left, {key}, {workers}, grouping={grouping!r}))",
        "workers that get the other side's rows of a key",
    ),
    "write": _Remedy(
        "a partitioned write",
        "kss.write(df, {key}, plan=kss.plan(df, {key}, {workers}, grouping={grouping!r}))",
        "files",
    ),
    "stream": _Remedy(
        "streams with state",
        "kss.streaming.join(left, right, {key}, plan=kss.plan(history, {key}, {workers}, "
        "grouping={grouping!r}))",
        "copies of the other side's rows, or partial results to merge in each window",
    ),
    "window": _Remedy(
        "a window",
        "kss.window(df, *columns, plan=kss.plan(df, {key}, {workers}, grouping={grouping!r}))",
        "ranges of the order",
    ),
}
_ANY = _Remedy(
    "joins, whole-group Python and writes",
    _REMEDIES["join"].line,
    "partial results, copies of the other side's rows or files",
)
Operation = Literal["sum", "collect", "apply", "join", "write", "stream", "window"]
OPERATIONS = get_args(Operation)


@dataclass(frozen=True)
class Cost:
    """The cost of rows, for expected times, which are computed from the loads and not measured.

    Attributes:
        seconds_per_row: the time per row, above 0; None if unknown.
        cores: how many tasks run at once, at least 1; None for one per worker.
    """

    seconds_per_row: float | None = None
    cores: int | None = None

    def __post_init__(self) -> None:
        seconds = self.seconds_per_row
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float)):
            raise TypeError(f"seconds_per_row must be a number above 0, got {self.seconds_per_row!r}")
        if seconds is not None and not 0 < seconds < math.inf:
            raise ValueError(f"seconds_per_row must be above 0 and finite, got {self.seconds_per_row!r}")
        if self.cores is None:
            return
        if isinstance(self.cores, bool) or not isinstance(self.cores, SupportsIndex):
            raise TypeError(f"cores must be a whole number of at least 1, got {self.cores!r}")
        if index(self.cores) < 1:
            raise ValueError(f"cores must be at least 1, got {self.cores!r}")

    def expect_s(self, total: float, workers: int, of: Prediction) -> float:
        """Return the stage's time: until the busiest worker has finished, and all cores have."""
        cores = workers if self.cores is None else index(self.cores)
        return (self.seconds_per_row or 0.0) * total * max(of.busiest / workers, 1 / cores)

    def slowdown(self, of: Prediction) -> float:
        """Return the stage's time as a multiple of the shortest time possible on these workers and cores."""
        workers = len(of.loads)
        cores = workers if self.cores is None else index(self.cores)
        return max(of.busiest / workers, 1 / cores) / max(1 / workers, 1 / cores)

    def describe(self, total: float, unit: str, workers: int, now: Prediction, better: Prediction) -> str:
        """Describe in words how two placements of the same rows compare: a ratio, or expected times."""
        if self.seconds_per_row is None:
            before, after = (format_ratio(self.slowdown(of)) for of in (now, better))
            return f"today {before} times as long as balanced, then {after} times, by the loads alone"
        cores = workers if self.cores is None else index(self.cores)
        each = {"rows": "row", "messages": "message"}.get(unit, "unit of weight")
        before, after = (format_seconds(self.expect_s(total, workers, of)) for of in (now, better))
        return (
            f"today {before}, then {after}, with {format_seconds(self.seconds_per_row)} per {each} on "
            f"{format_count(cores, 'core')}"
        )


DEFAULT_COST = Cost()


def recommend(now: float, outcomes: Mapping[str, Outcome]) -> str | None:
    """Choose the balanced grouping with the fewest copies of keys; if none is balanced, the best balanced.

    Args:
        now: the busiest worker's load with hash partitioning, as a multiple of the mean.
        outcomes: the effect of each grouping, by name; the first wins among equals.

    Returns:
        A name; None if hash partitioning is balanced, or if its busiest worker has at most 1.1 times the load
        of the best grouping's.

    Example:
        >>> recommend(7.3, {"partial_key": Outcome(3.7, 900), "d_choices": Outcome(1.01, 1200)})
        'd_choices'
    """
    if now <= BALANCED or not outcomes:
        return None

    def rank(name: str) -> tuple[float, ...]:
        of = outcomes[name]
        return (0, of.copies, of.busiest) if of.busiest <= BALANCED else (1, of.busiest, of.copies)

    best = min(outcomes, key=rank)
    return best if outcomes[best].busiest * BALANCED < now else None


def recommend_for(
    predicted: Mapping[str, Prediction],
    operation: str | None,
    cost: Cost = DEFAULT_COST,
    unit: str = "messages",
) -> str | None:
    """Choose a plan for an operation: aggregates need none; `kss.window` uses only those that split keys.

    With fewer cores than workers, what counts is when the last worker finishes: a busy worker delays the
    stage only while other cores are idle. `unit` is the unit of the loads.
    """
    loads = predicted["key"].loads
    if _are_few(loads.sum(), unit, len(loads)):
        return None
    outcomes = {name: Outcome(cost.slowdown(of), of.extra_partials) for name, of in predicted.items()}
    if operation in ("sum", "collect"):
        return None
    if operation == "window":
        outcomes = {name: of for name, of in outcomes.items() if of.copies}
    return recommend(cost.slowdown(predicted["key"]), outcomes)


def _are_few(total: float, unit: str, workers: int) -> bool:
    """Return whether there are fewer rows than workers."""
    return unit != "weight" and total < workers


def recommend_simulated(results: Sequence[SimulationResult], *, without: Sequence[str] = ()) -> str | None:
    """Choose among simulations on one number of workers; None if key grouping is not among them.

    Args:
        results: the simulations.
        without: names to exclude.
    """
    found = {result.params.name: Prediction.of(result) for result in results}
    if "key" not in found:
        return None
    by_copies = sorted(found, key=lambda name: found[name].extra_partials)
    outcomes = {name: found[name].outcome for name in by_copies if name not in without}
    return recommend(found["key"].busiest, outcomes)


def advise_simulated(
    results: Sequence[SimulationResult],
    *,
    planned: Mapping[str, Prediction] | None = None,
    top: TopKey | None = None,
    key: Sequence[str] = (),
    without: Sequence[str] = (),
    cost: Cost = DEFAULT_COST,
) -> Verdict:
    """Return the verdict on simulations for one number of workers: what to plan on Spark, and why.

    Args:
        results: the simulations.
        planned: the effect of plans on the same keys, by name. If unknown, the effects of the simulated
            groupings that Spark can plan are used.
        top: the most frequent key, if that key is certain to be frequent.
        key: the key columns, for the line to paste.
        without: names to exclude for stream engines.
        cost: the cost of a message.

    Returns:
        The verdict.
    """
    named = {result.params.name: result for result in results}
    if "key" not in named:
        best = min(results, key=lambda result: (result.imbalance, result.memory))
        return Verdict(
            f"take {best.params.name}, the most balanced of those tried\n"
            f"{_load(Prediction.of(best)).lower()}, for {best.memory:,} partial results to merge\n"
            "sure: simulated with all messages"
        )
    planned = plans_of(results) if planned is None else planned
    messages = float(named["key"].messages)
    verdict = advise(
        messages,
        "messages",
        [] if top is None else [top],
        planned,
        recommend_for(planned, None, cost),
        None,
        key=key,
        workers=named["key"].params.workers,
        cost=cost,
    )
    if planned["key"].busiest <= BALANCED or _are_few(messages, "messages", named["key"].params.workers):
        return verdict
    online = recommend_simulated(results, without=without)
    if online is None:
        engines = "For stream engines no grouping tried is better"
    else:
        better = named[online]
        engines = (
            f"For stream engines, in the order of arrival: {online}, max/mean load "
            f"{format_ratio(Prediction.of(better).busiest)}, for {better.memory:,} partial results instead "
            f"of {named['key'].memory:,}"
        )
    return verdict._replace(details=". ".join(filter(None, [verdict.details, engines])))


def plans_of(results: Sequence[SimulationResult]) -> dict[str, Prediction]:
    """Return the predicted effects of the groupings that Spark can plan, the fewest copies first."""
    found = {result.params.name: Prediction.of(result) for result in results if result.params.name in PLANS}
    return dict(sorted(found.items(), key=lambda each: each[1].extra_partials))


def advise(
    total: float,
    unit: str,
    top: Sequence[TopKey],
    planned: Mapping[str, Prediction],
    recommended: str | None,
    operation: str | None,
    *,
    key: Sequence[str] = (),
    workers: int,
    cost: Cost = DEFAULT_COST,
    sample: Sample | None = None,
    heaviest_row: float = 0.0,
) -> Verdict:
    """Return the verdict on an operation by key on Spark: what to do, the gain, and how certain it is.

    Args:
        total: the weight of all rows.
        unit: the unit of the counts: "rows", "weight" or "messages".
        top: the frequent keys.
        planned: the effect of each plan, by name.
        recommended: the result of `recommend_for`.
        operation: one of `OPERATIONS`; None for all.
        key: the key columns, for the line to paste.
        workers: the number of workers.
        cost: the cost of a row.
        sample: the rows that were counted; None if all were counted.
        heaviest_row: the weight of the heaviest row as a multiple of a worker's fair share; 0 if unknown.

    Returns:
        The verdict.
    """
    if not total:
        return Verdict("no action needed: there are no rows")
    if _are_few(total, unit, workers):
        rows = format_count(round(total), unit.removesuffix("s"))
        return Verdict(f"no action needed: {rows} for {format_count(workers, 'worker')}")
    now = planned["key"]
    if now.busiest <= BALANCED:
        return Verdict(
            f"no action needed: max/mean load is {format_ratio(now.busiest)} (up to {BALANCED} counts as "
            "balanced)"
        )
    sure, load = _how_sure(top, unit, sample), f"{_load(now)} with hash partitioning"
    today = f"today {load[0].lower()}{load[1:]}"
    heavy = ""
    if heaviest_row > BALANCED:
        heavy = (
            f"one row weighs {format_ratio(heaviest_row)} times a worker's fair share, and no plan cuts a row"
        )
    if operation == "sum":
        why = "A worker gets one row per key and task"
        return Verdict(f"{_COMBINES}\n{today}, which is harmless\n{sure}", why)
    if operation == "collect":
        why = (
            "Spark combines them in each map task, and one worker merges the parts of a key however its rows "
            "are split"
        )
        return Verdict(f"{_COLLECTS}\n{today}\n{sure}", why)
    if cost.slowdown(now) <= BALANCED:
        served = (
            f"{format_count(workers, 'worker')} share {format_count(index(cost.cores or workers), 'core')}"
        )
        why = f"No plan ends more than 10 % sooner. {load}"
        slow = f"today {format_ratio(cost.slowdown(now))} times as long as balanced on these cores"
        return Verdict(f"no action needed: {served}\n{slow}\n{sure}", why)
    if recommended is None:
        return Verdict(f"no action helps: {heavy or 'no plan is better'}\n{today}\n{sure}")
    better, remedy = planned[recommended], _REMEDIES[operation] if operation else _ANY
    verb = "split the frequent keys" if better.extra_partials else "place the keys"
    text = [f"{verb} for {remedy.work}", cost.describe(total, unit, workers, now, better), sure]
    details = [
        f"{load} and {format_ratio(better.busiest)} with {recommended}, {_price(better, remedy)}",
    ]
    if heavy:
        details.append(heavy.capitalize())
    if operation is None:
        others = (_REMEDIES[each] for each in ("apply", "write"))
        details += [f"For {of.work}: {_filled(of.line, recommended, workers, key)}" for of in others]
        details.append("No action needed for sum, count, min, max and avg: they combine on the map side")
    if operation == "window":
        details.append(_NOT_SPLIT)
    return Verdict("\n".join(text), ". ".join(details), _filled(remedy.line, recommended, workers, key))


def _filled(line: str, grouping: str, workers: int, key: Sequence[str]) -> str:
    names = [repr(name) for name in key] or ["key"]
    shown = names[0] if len(names) == 1 else f"[{', '.join(names)}]"
    return line.format(key=shown, workers=workers, grouping=grouping)


def _load(of: Prediction) -> str:
    return f"Max/mean load is {format_ratio(of.busiest)}"


def _price(of: Prediction, remedy: _Remedy) -> str:
    if not of.extra_partials:
        return "and no key is split"
    return f"for {of.extra_partials:,} more {remedy.copies}"


def describe_drift(
    *,
    windows: int,
    hot: Sequence[TopKey],
    overlap: float,
    overlap_of_any: float,
    steady_overlap: float,
    drifts: bool,
) -> str:
    """Describe how a stream's frequent keys change; the arguments are fields of a profile."""
    if windows < 2:
        return "too short to see a change of the frequent keys: all messages are in one window"
    if steady_overlap <= LEAST_DRIFT:
        return (
            "a change of the frequent keys cannot be seen, as most of them are about equally frequent: "
            f"in random order, windows would have {100 * steady_overlap:.0f} % of them in common"
        )
    compared = (
        f"of {windows} windows, neighbours have {100 * overlap:.0f} % of their most frequent "
        f"keys in common and any two {100 * overlap_of_any:.0f} %, {100 * steady_overlap:.0f} % if messages "
        "came in random order"
    )
    change = "the frequent keys change" if drifts else "the frequent keys stay"
    if not hot:
        return f"{change}: {compared}. No key is hot in any window"
    half = float(np.median([each.age_share for each in hot]))
    ages = (
        "most of them all the time"
        if half == 1
        else f"half of them for at most {100 * half:.0f} % of the stream"
    )
    return f"{change}: {compared}. {format_count(len(hot), 'hot key')} in some window, {ages}"


def _how_sure(top: Sequence[TopKey], unit: str, sample: Sample | None) -> str:
    """Return the last line of a verdict: what was counted, and the figure behind the verdict."""
    if not top:
        how = "sure: all are counted" if sample is None else "estimated from a sample"
        return f"{how}, and no key is certain to be frequent"
    first = top[0]
    if sample is None:
        how = "sure, all are counted"
    else:
        error = format_share(sample.error_of(first.share))
        how = f"{100 * sample.confidence:.0f} % sure within {error}"
    return f"{how}. {_share_of(first, unit)}"


def _share_of(top: TopKey, unit: str) -> str:
    return f"The most frequent key, {format_key(top.key)}, has {format_share(top.share)} of the {unit}"
