"""Decide whether splitting pays off and which way an operation takes, and say why."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from keysplit.plan import BALANCED, Plan
from keysplit.spark import jvm
from keysplit.spark.frame import analysed
from keysplit.spark.plan import make, stand_in, warn_of_rows
from keysplit.spark.request import Request
from keysplit.text import format_count

# If tasks wait for each other, splitting must speed the job up by this factor, as its total work is larger.
_WORTH = 2.0
# Up to this many bytes of a side, by Spark's estimate, a shuffle costs less than a plan and a longer query:
# about half a second on the driver.
_SMALL = 24 << 20
# The ways in which the identity of a row determines its worker.
_BY_IDENTITY = ("place", "slices")

Name = Literal["plain", "broadcast", "place", "slices", "online"]


@dataclass(frozen=True)
class Way:
    """The way that an operation took.

    Attributes:
        name: "plain" is Spark's own query, "place" sends rows to their workers, "broadcast" joins hot keys by
            broadcast, "slices" cuts sorted partitions into groups, "online" routes rows in their order.
        why: the reason, a single line.
    """

    name: Name
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def keys_are(count: int) -> str:
    """Return "no key is", "1 key is" or "n keys are"."""
    return f"{count or 'no'} key is" if count < 2 else f"{count} keys are"


_taken: "WeakKeyDictionary[Any, Way]" = WeakKeyDictionary()
_Result = TypeVar("_Result")


def took(result: _Result, way: Way) -> _Result:
    """Remember a result's way for as long as the result lives, and return the result."""
    _taken[result] = way
    return result


def way_of(result: Any) -> Way:
    """Return the way of a result.

    Raises:
        TypeError: if no operation of keysplit returned it.
    """
    try:
        return _taken[result]
    except (KeyError, TypeError):
        raise TypeError(
            "result must be the DataFrame that an operation of keysplit.spark returned, not a query on top "
            f"of it, got {type(result).__name__}"
        ) from None


def explain(result: Any) -> str:
    """Return in one line which way an operation took, and why.

    Args:
        result: the result of an operation of `keysplit.spark` or `keysplit.spark.streaming`.

    Returns:
        The way ("plain", "broadcast", "place", "slices" or "online"), a colon, and the reason.

    Raises:
        TypeError: if no operation of keysplit returned the result.

    Example:
        >>> way = kss.explain(kss.join(orders, customers, "customer", workers=8))  # doctest: +SKIP
    """
    return str(way_of(result))


Build = Callable[[Request], DataFrame | tuple[DataFrame, Way]]
Fit = Callable[[Request], tuple[Request, str]]


def built(
    request: Request,
    build: Build,
    plain: Callable[[], DataFrame] | None = None,
    *,
    tried: bool = False,
    fit: Fit = lambda request: (request, ""),
) -> DataFrame:
    """Build the query of an operation, and remember its way.

    Spark's errors about the query are raised before planning runs any job.

    Args:
        request: a checked request; without a plan, one is made from its rows or a sample.
        build: makes the query for a request that has a plan; also returns the way, if there are several.
        plain: makes the query for the same result without split keys, which is returned if splitting would
            not help, unless the request names a way.
        tried: whether Spark has already analysed a query of the same rows and arguments, or could reject
            nothing but the key's hash, which planning uses too.
        fit: takes a request that has a plan, and returns the request to build, possibly with another plan,
            and an addition to the reason for the way.

    Returns:
        The result; `explain` tells its way.
    """
    made, met = request.plan is None, None
    if made:
        unplanned = _reason_for_no_plan(request)
        if plain is not None and unplanned is not None:
            return took(plain(), Way("plain", unplanned))
        if not tried:
            analysed(_query(replace(request, plan=stand_in(request)), build)[0])
        plan, met = make(request)
        request = replace(request, plan=plan)
    assert request.plan is not None
    if plain is not None and request.way is None:
        reason = reason_for_plain(request.plan, jvm.slots(request.df))
        if reason is not None:
            return took(plain(), Way("plain", reason))
    fitted, added = fit(request)
    result, way = _query(fitted, build)
    # in a write of few rows no plan can pay off, and a key that stays together does not matter
    noticed = request.order is None and (fitted is request or _reason_for_no_plan(request) is None)
    if made and way.name in _BY_IDENTITY and noticed:
        assert fitted.plan is not None
        warn_of_rows(fitted, fitted.plan, met)
    return took(result, replace(way, why=way.why + added))


def _reason_for_no_plan(request: Request) -> str | None:
    if request.way is not None:
        return None
    return reason_for_no_plan(request.workers, jvm.slots(request.df))


def _query(request: Request, build: Build) -> tuple[DataFrame, Way]:
    result = build(request)
    if isinstance(result, tuple):
        return result
    plan = request.plan
    assert plan is not None
    keys, workers = keys_are(len(plan.split_keys)), format_count(plan.workers, "worker")
    return result, Way("place", f"{keys} split over {workers} by {plan.grouping.name}")


def reason_for_no_plan(workers: int, slots: int | None) -> str | None:
    """Return why no plan can pay off for any keys; None if a plan may pay off.

    On so few slots `reason_for_plain` prefers plain hashing even if the busiest worker has all rows.

    Args:
        workers: the number of workers, all equally fast.
        slots: how many tasks run at once; None if unknown.
    """
    if slots is None or slots > _WORTH or slots >= workers:
        return None
    return f"splitting would gain too little for any keys: {slots} tasks run at once"


def reason_for_no_plan_of_a_join(slots: int | None, size: int | None) -> str | None:
    """Return why no plan for a join can pay off; None if a plan may pay off.

    On few slots a plan can save only the shuffle of the hot rows, which pays off only if there are many.

    Args:
        slots: how many tasks run at once; None if unknown.
        size: the size of the side that is split, in bytes; None if Spark does not know it.
    """
    if slots is None or slots > _WORTH or size is None or size > _SMALL:
        return None
    return (
        f"planning would cost more than it saves: {slots} tasks run at once, and Spark estimates the side "
        f"with the hot keys at {size / 1e6:.1f} MB (up to {_SMALL / 1e6:.0f} MB, Spark's own join is cheaper)"
    )


def reason_for_plain(plan: Plan, slots: int | None) -> str | None:
    """Return why plain hashing is as good as the plan; None if splitting the hot keys pays off.

    Args:
        plan: the plan.
        slots: how many tasks run at once; None if unknown, which counts as one per worker.
    """
    if not plan.total:
        return "there are no rows"
    plain = plan.hash_busiest
    if plain <= BALANCED:
        workers = format_count(plan.workers, "worker")
        return (
            f"hashing is balanced: the busiest of {workers} gets {plain:.2f} times the mean "
            f"(up to {BALANCED} counts as balanced)"
        )
    if slots is None or slots >= plan.workers:
        return None
    waves = plan.workers / slots
    if max(plain, waves) <= _WORTH * max(plan.busiest, waves):
        share = plain / plan.workers
        return (
            f"splitting would gain too little: {slots} tasks run at once, and the busiest of "
            f"{plan.workers} workers gets {share:.0%} of the load by hashing"
        )
    return None
