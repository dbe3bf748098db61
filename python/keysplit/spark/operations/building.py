"""The query of an operation: by a plan that is there or is made, or Spark's own where that is as good."""

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import DataFrame

from keysplit.spark import gain
from keysplit.spark.counting.counted import Met
from keysplit.spark.frame import analysed
from keysplit.spark.options import Request
from keysplit.spark.planner import make, stand_in, warn_of_rows
from keysplit.spark.session import session_of
from keysplit.spark.ways import Way, keys_are, took
from keysplit.text import format_count

# Ways that send no rows to workers, which are what a kept plan counts.
_UNCOUNTED = ("plain", "broadcast", "grid")
# The ways in which the identity of a row says where it goes.
_BY_IDENTITY = ("place", "grid", "slices")
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
    """Build the query of an operation, and remember the way it takes.

    What Spark refuses in the query it refuses before a plan takes its jobs.

    Args:
        request: a checked request; without a plan, one is made of its rows, or of a sample of them.
        build: makes the query of a request that has a plan, or needs none; with the way, if it has several.
        plain: makes the query for the same result that splits no keys. It is returned where splitting them
            would bring nothing, unless the request says `force`.
        tried: whether Spark has analysed a query of the same rows and arguments already, or the query has
            nothing that it might refuse beside the hash of the key, which a plan takes too.
        fit: takes a request that has a plan, or needs none, and returns the one to build the query of, with
            another plan perhaps, and what to add to the reason for the way.

    Returns:
        The result; `keysplit.spark.ways.explain` says how it came about.
    """
    made = request.mode == "planned" and request.plan is None and request.adapt is None
    met: Met | None = None
    if request.mode == "planned" and request.adapt is None:
        if made:
            unplanned = _reason_for_no_plan(request)
            if plain is not None and unplanned is not None:
                return took(plain(), Way("plain", unplanned))
            if request.row_id is not None:
                request.query.refuse_unsteady_id(request.row_id)
            if not tried:
                analysed(_query(replace(request, plan=stand_in(request), kept=None), build)[0])
            request, met = _with_plan(request)
        assert request.plan is not None
        if plain is not None and not request.force:
            reason = gain.reason_for_plain(request.plan, session_of(request.df).slots)
            if reason is not None:
                return _taken(request, plain(), Way("plain", reason))
    fitted, added = fit(request)
    result, way = _query(fitted, build)
    if made and way.name in _BY_IDENTITY and _is_noticed(request, fitted):
        # a plan that is kept is for other days, too
        checked = fitted if request.kept is None else request
        assert checked.plan is not None
        warn_of_rows(checked, checked.plan, met)
    return _taken(request, result, replace(way, why=way.why + added))


def _is_noticed(request: Request, fitted: Request) -> bool:
    """Say whether a key that stays together is noticed: not in a write of few rows where no plan can pay."""
    return fitted is request or _reason_for_no_plan(request) is None


def _reason_for_no_plan(request: Request) -> str | None:
    """Return why a request needs no plan; one that is to be kept is made all the same, for other days."""
    if request.force or request.kept is not None or request.capacities is not None:
        return None
    return gain.reason_for_no_plan(request.workers, session_of(request.df).slots)


def _taken(request: Request, result: DataFrame, way: Way) -> DataFrame:
    if request.kept is not None and way.name in _UNCOUNTED:
        request.kept.passed_over()
    return took(result, way)


def _with_plan(request: Request) -> tuple[Request, Met | None]:
    plan, met = make(request)
    if request.kept is None:
        return replace(request, plan=plan), met
    kept = request.kept.saved(plan)
    return replace(request, plan=plan if kept is None else kept.plan, kept=kept), met


def _query(request: Request, build: Build) -> tuple[DataFrame, Way]:
    result = build(request)
    if isinstance(result, tuple):
        return result
    plan = request.plan
    if request.adapt is not None:
        workers = format_count(request.workers, "worker")
        return result, Way("place", f"the plan for {workers} changes while the stream runs, as adapt says")
    if plan is None:
        return result, Way("online", "each task routes its rows in their order, as mode='online' asks for")
    keys = keys_are(len(plan.split_keys))
    workers = format_count(plan.workers, "worker")
    return result, Way("place", f"{keys} split over {workers} by {plan.grouping.name}")
