"""`streaming.publish`: another plan for a stream that is running, or will run again."""

import os
from typing import Any

from keysplit import paths
from keysplit.plan import PLANS, Plan
from keysplit.spark.checks import is_query, type_name
from keysplit.spark.streaming.adapting import adapting_in
from keysplit.spark.streaming.log import Log
from keysplit.spark.warn import warn


def publish(plan: Plan, to: Any) -> int:
    """Give a stream whose plan is an `Adapt` another one, from its next micro-batch on.

    So workers come and go while a query runs, with `plan.with_workers(n)`, or get other capacities. Nothing
    moves: partial results of the batches before stay where they are, and are merged by key. The query goes on
    adapting from this plan, for its workers and by its grouping. So one that follows an online grouping, such
    as FISH, ends that, which a warning says.

    Args:
        plan: a plan for keys of the same types, with the seed of the query's, for at most as many workers as
            the query began with. A query passes over one for more that it finds in its log, with a warning.
        to: the query, a `StreamingQuery` of this session that has one plan; or the folder of its plan log, or
            the URL of one.

    Returns:
        The version of the plan in the log.

    Raises:
        TypeError: if `plan` is no plan, or `to` neither a query nor a path.
        ValueError: if the query is not running, or has no plan that changes, or several; if the plan is for
            more workers, other keys or another seed.
        OSError: if the plan cannot be written.

    Example:
        >>> kss.streaming.publish(plan.with_workers(6), query)  # doctest: +SKIP
        3
    """
    if not isinstance(plan, Plan):
        raise TypeError(f"plan must be a Plan that kss.plan made, got {type_name(plan)}")
    if isinstance(to, str | os.PathLike):
        if not any(name.startswith("plan-") for name in paths.names(to)):  # before a folder is made
            raise ValueError(f"to must be a query or the folder of its plan log, got {to!r} with no plan")
        log = Log(to)
        assert log.last is not None
        last = log.plan(log.last)
        last.refuse_other_keys(plan, "the plan log")
        version = log.publish(plan)
        _warn_of_an_end(last, plan)
        return version
    if not is_query(to):
        raise TypeError(f"to must be a streaming query, or the folder of a plan log, got {type_name(to)}")
    if not to.isActive:
        raise ValueError(
            "to must be a query that runs, got one that has stopped: pass the folder of its plan log"
        )
    found = adapting_in(str(to.runId))
    if not found:
        raise ValueError(
            "to must be a query with a plan that changes, got one without, or whose first batch has not "
            "begun: pass the query an Adapt as its plan"
        )
    if len(found) > 1:
        raise ValueError(
            f"to must be a query with one plan that changes, got one with {len(found)}: pass the folder of "
            "the plan log of one of them"
        )
    run = str(to.runId)
    last = found[0].newest_in(run)
    version = found[0].publish(run, plan)
    _warn_of_an_end(last, plan)
    return version


def _warn_of_an_end(now: Plan, then: Plan) -> None:
    """Warn if a stream follows an online grouping until it gets a plan of another kind."""
    if now.grouping.name not in PLANS and then.grouping.name in PLANS:
        warn(
            f"the stream no longer follows {now.grouping.name}: it goes on by plans of {then.grouping.name}, "
            "as the one that was published"
        )
