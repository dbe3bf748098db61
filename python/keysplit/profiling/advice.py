"""When loads are balanced, which grouping to take, and every verdict in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from keysplit.planning import PLANS
from keysplit.profiling.model import Outcome, Prediction, TopKey
from keysplit.profiling.text import format_imbalance, format_key, format_ratio, format_seconds

if TYPE_CHECKING:
    from keysplit.simulation import SimulationResult

__all__ = [
    "BALANCED",
    "OPERATIONS",
    "Operation",
    "Outcome",
    "advise_operation",
    "advise_simulated",
    "describe_drift",
    "describe_simulation",
    "recommend",
    "recommend_for",
    "recommend_simulated",
]

# Loads are balanced if the busiest worker has at most this multiple of the mean. Its stage then ends at most
# 10 % later than it could, less than task start-up and machine noise.
BALANCED = 1.1

LEAST_DRIFT = 0.1
"""The frequent keys change if the overlap of windows is lower by at least this."""

_COMBINES = (
    "no action needed: sum, count, min, max and avg combine on the map side, so a worker gets one row per "
    "key and task"
)


class _Remedy(NamedTuple):
    """An operation, the function that splits its keys, and what each extra copy of a key is."""

    work: str
    function: str
    copies: str


_COLLECTS = (
    "no action helps: for lists, percentiles and distinct counts Spark combines in each map task, and one "
    "worker merges the parts of a key however its rows are split"
)
# The operations that gain from splitting; "sum", "collect" and "window" do not.
_REMEDIES = {
    "apply": _Remedy("whole-group Python", "kss.apply", "partial results to merge"),
    "join": _Remedy("a join", "kss.join", "workers that get the other side's rows of a key"),
    "write": _Remedy("a partitioned write", "kss.write", "files"),
    "stream": _Remedy(
        "streams with state",
        "kss.streaming.join or kss.streaming.aggregate(split_state=True)",
        "copies of the other side's rows, or partial results to merge in each window",
    ),
}
_ANY = _Remedy(
    "whole-group Python, joins and writes",
    "kss.apply, kss.join or kss.write",
    "partial results, copies of the other side's rows or files",
)
Operation = Literal["sum", "collect", "apply", "join", "write", "stream", "window"]
OPERATIONS = get_args(Operation)


def recommend(now: float, outcomes: Mapping[str, Outcome]) -> str | None:
    """Choose the balanced grouping with the fewest copies of keys, or the most balanced one if none is.

    Args:
        now: the load of the busiest worker with hash partitioning, in multiples of the mean.
        outcomes: the effect of each grouping, by its name; the first wins among equals.

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


def recommend_for(predicted: Mapping[str, Prediction], operation: str | None) -> str | None:
    """Choose the plan for an operation: none for aggregates, for windows one that keeps every key whole."""
    outcomes = {name: of.outcome for name, of in predicted.items()}
    if operation in ("sum", "collect"):
        return None
    if operation == "window":
        outcomes = {name: of for name, of in outcomes.items() if not of.copies}
    return recommend(predicted["key"].busiest, outcomes)


def recommend_simulated(
    results: Sequence[SimulationResult], *, without: Sequence[str] = (), plannable: bool = False
) -> str | None:
    """Choose among simulations on one number of workers; None if key grouping is not among them.

    Args:
        results: the simulations.
        without: names to exclude.
        plannable: whether to consider only groupings that Spark can plan.
    """
    found = {result.params.name: Prediction.of(result) for result in results}
    if "key" not in found:
        return None
    by_copies = sorted(found, key=lambda name: found[name].extra_partials)
    names = [name for name in by_copies if name not in without and (name in PLANS or not plannable)]
    return recommend(found["key"].busiest, {name: found[name].outcome for name in names})


def advise_simulated(
    results: Sequence[SimulationResult], *, top: TopKey | None = None, without: Sequence[str] = ()
) -> str:
    """Return the verdict on simulations: which grouping to take for one number of workers, and why.

    Args:
        results: the simulations.
        top: the most frequent key, if it is certain to be frequent.
        without: names to exclude.

    Returns:
        One line, which begins with the action.
    """
    named = {result.params.name: result for result in results}
    if "key" not in named:
        best = min(results, key=lambda result: (result.imbalance, result.memory))
        return (
            f"take {best.params.name}, the most balanced of those tried. Max/mean load is {_busiest(best)}. "
            f"{_cost(best)}. {_on_spark(best.params.name, None, named)}"
        )
    hashed = named["key"]
    now = Prediction.of(hashed).busiest
    if now <= BALANCED:
        return f"no action needed: {_balanced(now)}"
    first = f"{_share_of(top, 'messages')}. " if top else ""
    load = f"{first}Max/mean load is {_busiest(hashed)} with hash partitioning"
    recommended = recommend_simulated(results, without=without)
    if recommended is None:
        return f"no action helps: no grouping tried is better. {load}"
    better = named[recommended]
    best_only = Prediction.of(better).busiest > BALANCED
    note = " (not balanced, but the best of those tried)" if best_only else ""
    imbalances = f"{format_imbalance(hashed.imbalance)} and {format_imbalance(better.imbalance)}"
    planned = recommend_simulated(results, without=without, plannable=True)
    return (
        f"split the frequent keys: take {recommended}. {load} and {_busiest(better)} with "
        f"{recommended}{note}; imbalance is {imbalances}. {_cost(better)} instead of {hashed.memory:,} "
        f"(replication {better.replication:.2f}). {_on_spark(recommended, planned, named)}"
    )


def advise_operation(
    total: float,
    unit: str,
    top: Sequence[TopKey],
    predicted: Mapping[str, Prediction],
    recommended: str | None,
    operation: str | None,
) -> str:
    """Return the verdict on an operation by key on Spark: what to do, and why.

    Args:
        total: the weight of all rows.
        unit: what is counted, "rows" or "weight".
        top: the frequent keys.
        predicted: the effect of each plan, by its name.
        recommended: the result of `recommend_for`.
        operation: one of `OPERATIONS`, None for all.

    Returns:
        One line, which begins with the action.
    """
    if not total:
        return "no action needed: there are no rows"
    now = predicted["key"].busiest
    if now <= BALANCED:
        return f"no action needed: {_balanced(now)}"
    first = f"{_share_of(top[0], unit)}. " if top else ""
    load = f"{first}Max/mean load is {format_ratio(now)} with hash partitioning"
    if operation == "sum":
        return f"{_COMBINES}. {load}, which is harmless"
    if operation == "collect":
        return f"{_COLLECTS}. {load}"
    if recommended is None:
        why = "a window needs all rows of a key in one place" if operation == "window" else ""
        return f"no action helps: {why or 'no grouping is better'}. {load}"
    better = f"{format_ratio(predicted[recommended].busiest)} with {recommended}"
    if operation == "window":
        return (
            f"place the keys for a window: kss.repartition with grouping={recommended!r}, then a window by "
            "the worker and the key. A window needs all rows of a key in one place, so no key can be split. "
            f"{load} and {better}"
        )
    remedy = _REMEDIES[operation] if operation else _ANY
    extra = predicted[recommended].extra_partials
    verb = "split the frequent keys" if extra else "place the keys"
    price = f", for {extra:,} more {remedy.copies}" if extra else "; no key is split"
    action = f"{verb} for {remedy.work}: {remedy.function} with grouping={recommended!r}"
    verdict = f"{action}. {load} and {better}{price}"
    return verdict if operation else f"{_COMBINES}. {verdict[0].upper()}{verdict[1:]}"


def describe_simulation(result: SimulationResult) -> str:
    """Describe the result of a single simulation in one line."""
    workers, name = f"{result.params.workers:,}", result.params.name
    if result.latency_s is not None:
        latency = format_seconds(result.latency_s["p99"])
        return f"with {name}, {workers} workers serve 99 per cent of the messages within {latency}"
    return f"with {name}, max/mean load of {workers} workers is {_busiest(result)}"


def describe_drift(
    *,
    windows: int,
    hot: Sequence[TopKey],
    overlap: float,
    overlap_of_any: float,
    steady_overlap: float,
    drifts: bool,
) -> str:
    """Describe how the frequent keys of a stream change; the arguments are fields of a profile."""
    if windows < 2:
        return "too short to see a change of the frequent keys: all messages are in one window"
    if steady_overlap <= LEAST_DRIFT:
        return (
            "too balanced to see a change of the frequent keys: if messages came in random order, "
            f"windows would have {steady_overlap:.0%} of them in common"
        )
    compared = (
        f"of {windows} windows, neighbours have {overlap:.0%} of their most frequent "
        f"keys in common and any two {overlap_of_any:.0%}, {steady_overlap:.0%} if messages "
        "came in random order"
    )
    change = "the frequent keys change" if drifts else "the frequent keys stay"
    if not hot:
        return f"{change}: {compared}. No key is hot in any window"
    half = float(np.median([each.age_share for each in hot]))
    ages = "most of them all the time" if half == 1 else f"half of them for at most {half:.0%} of the stream"
    return f"{change}: {compared}. {len(hot):,} keys are hot in some window, {ages}"


def _balanced(ratio: float) -> str:
    return f"max/mean load is {format_ratio(ratio)} (up to {BALANCED} counts as balanced)"


def _share_of(top: TopKey, unit: str) -> str:
    return f"The most frequent key, {format_key(top.key)}, has {top.share:.1%} of the {unit}"


def _busiest(result: SimulationResult) -> str:
    return format_ratio(1 + result.relative_imbalance)


def _cost(result: SimulationResult) -> str:
    return f"The cost: {result.memory:,} partial results to keep in memory and to merge"


def _on_spark(name: str, planned: str | None, results: Mapping[str, SimulationResult]) -> str:
    """Return how to use a grouping on Spark: itself, or the best one that can be planned."""
    workers = results[name].params.workers
    if name in PLANS:
        return f"On Spark: {_plan_line(name, workers)}"
    if planned is None:
        return f"On Spark, {name} cannot be planned, and no other grouping tried helps"
    load = f"max/mean load {_busiest(results[planned])}"
    return f"On Spark, {name} cannot be planned. Take {planned}, {load}: {_plan_line(planned, workers)}"


def _plan_line(name: str, workers: int) -> str:
    return f"kss.plan(df, key, workers={workers}, grouping={name!r})"
