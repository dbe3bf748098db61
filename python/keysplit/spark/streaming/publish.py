"""`streaming.publish`: a new plan for a stream that is running or will be restarted."""

import os
from typing import Any

from keysplit import paths
from keysplit.plan import PLANS, Plan
from keysplit.spark.checks import is_query, type_name
from keysplit.spark.streaming.adapting import adapting_in
from keysplit.spark.streaming.log import Log
from keysplit.spark.warn import warn


def publish(plan: Plan, to: Any) -> int:
    """Give a stream with an `Adapt` a new plan, beginning with its next micro-batch.

    So workers can be added or removed with `plan.with_workers(n)` while a query runs, or get new capacities.
    No state moves: partial results of earlier batches stay in place, and are merged by key. The query
    continues to adapt from this plan, with the plan's workers and grouping. A query with an online grouping,
    such as FISH, stops using that grouping, with a warning.

    Args:
        plan: a plan for keys of the same types, with the same seed, for at most as many workers as the query
            began with. A query skips plans for more workers in its log, with a warning.
        to: the query, a `StreamingQuery` of this session with one plan; or the folder or URL of its plan log.

    Returns:
        The version of the plan in the log.

    Raises:
        TypeError: if `plan` is not a plan, or `to` is neither a query nor a path.
        ValueError: if the query is not running, or does not have exactly one changing plan; if the plan is
            for more workers, different keys or a different seed.
        OSError: if the plan cannot be written.

    Example:
        >>> kss.streaming.publish(plan.with_workers(6), query)  # doctest: +SKIP
        3
    """
    if not isinstance(plan, Plan):
        raise TypeError(f"plan must be a Plan that kss.plan made, got {type_name(plan)}")
    if isinstance(to, str | os.PathLike):
        if not any(name.startswith("plan-") for name in paths.names(to)):  # before a folder is created
            raise ValueError(f"to must be a query or the folder of its plan log, got {to!r} without plans")
        log = Log(to)
        assert log.last is not None
        last = log.plan(log.last)
        last.refuse_other_keys(plan, "the plan log")
        version = log.publish(plan)
        _warn_of_an_end(last, plan)
        return version
    if not is_query(to):
        raise TypeError(f"to must be a streaming query or the folder of a plan log, got {type_name(to)}")
    if not to.isActive:
        raise ValueError("to must be a running query, got a stopped query: pass the folder of its plan log")
    found = adapting_in(str(to.runId))
    if not found:
        raise ValueError(
            "to must be a query with a changing plan; this one has none, or has not run its first batch "
            "yet: pass plan=Adapt(...) to its operation"
        )
    if len(found) > 1:
        raise ValueError(
            f"to must be a query with one changing plan, got a query with {len(found)}: pass the folder "
            "of one plan's log"
        )
    run = str(to.runId)
    last = found[0].newest_in(run)
    version = found[0].publish(run, plan)
    _warn_of_an_end(last, plan)
    return version


def _warn_of_an_end(now: Plan, then: Plan) -> None:
    """Warn if a stream uses an online grouping and gets a plan without that grouping."""
    if now.grouping.name not in PLANS and then.grouping.name in PLANS:
        warn(
            f"the stream no longer follows {now.grouping.name}: it continues with plans of "
            f"{then.grouping.name}, like the published plan"
        )
