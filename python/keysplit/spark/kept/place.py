"""A plan at a path: read, made once, made anew when its runs show that it no longer fits."""

import hashlib
import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keysplit import paths
from keysplit.plan import Plan
from keysplit.spark.counting import by_worker
from keysplit.spark.kept import pending, runs
from keysplit.spark.session import session_of
from keysplit.spark.warn import warn

_log = logging.getLogger("keysplit")


@dataclass(frozen=True)
class Kept:
    """A plan that stays at a path.

    Attributes:
        path: a file, or a URL as `Plan.save` takes it.
        plan: the plan to go by; None if it is to be made.
        former: the plan that no longer fits; the new one is made for the same.
        replaces: whether a plan that is made replaces what is at the path.
        fresh: whether the plan was made in this call.
        digest: names the plan in the records of its runs.
        rows: the rows of its last run; None if none has sent rows to workers yet.
    """

    path: str | os.PathLike[str]
    plan: Plan | None = None
    former: Plan | None = None
    replaces: bool = False
    fresh: bool = False
    digest: str = ""
    rows: int | None = None

    @classmethod
    def at(cls, path: str | os.PathLike[str], refresh: str) -> "Kept":
        """Read the plan at a path, and what its runs have shown; warn if it no longer fits.

        Args:
            path: the path.
            refresh: "auto", "never" or "always".

        Raises:
            OSError: if there can be no plan.
            ValueError: if there is something else, or pyarrow knows no file system for the URL.
        """
        pending.settle()
        paths.check(path, "plan")
        path = paths.absolute(path)  # runs are written down later, wherever the process is then
        try:
            text = paths.read(path)
        except FileNotFoundError:
            paths.check_new(path, "plan")
            return cls(path)
        plan = _plan_of(text, path)
        if refresh == "always":
            paths.check_new(path, "plan")
            return cls(path, replaces=True)
        digest = _digest_of(text)
        found = runs.whole(plan, _runs_of(path, digest))
        counted = [run.rows for run in found if run.rows is not None]
        rows = int(counted[-1].sum()) if counted else None
        kept = cls(path, plan, digest=digest, rows=rows)
        reason = runs.misfit(plan, found) if plan.total else "it was made of no rows"
        if reason is None:
            return kept
        remedy = {"auto": "it is made anew now", "never": "refresh='auto' makes it anew"}[refresh]
        warn(f"the plan at {os.fspath(path)!r} no longer fits: {reason}; {remedy}")
        return cls(path, former=plan, replaces=True) if refresh == "auto" else kept

    def saved(self, plan: Plan) -> "Kept | None":
        """Save a plan that was made, and return the one that is at the path then.

        Of several jobs that make the first plan at the same time all go by that of the first one. Where a
        plan that no longer fits cannot be replaced, or the plan was made of no rows, the job goes on by the
        new one, which is not kept: None.

        Raises:
            OSError: if it cannot be written.
            ValueError: if another job has made a plan for something else.
        """
        if not plan.total:  # it says nothing of other days
            return None
        text = plan.to_json()
        if self.former is not None:
            try:
                self._replace(text)
            except OSError as error:
                place = os.fspath(self.path)
                warn(f"the plan at {place!r} cannot be replaced, so this run's plan is not kept: {error}")
                return None
        elif self.replaces:
            self._replace(text)
        elif not paths.create(self.path, text):
            text = paths.read(self.path)
            other = _plan_of(text, self.path)
            if _kind(other) != _kind(plan):
                raise ValueError(
                    f"plan at {os.fspath(self.path)!r} has just been made for {other.grouping!r} and keys of "
                    f"{other.key_types} by another job: give each a path of its own"
                )
            return Kept(self.path, other, digest=_digest_of(text))
        return Kept(self.path, plan, fresh=True, digest=_digest_of(text))

    def _replace(self, text: str) -> None:
        """Write another plan, whose runs begin anew: one of the same rows may be the same plan."""
        paths.write(self.path, text)
        paths.delete(runs.path_of(self.path))

    def observed(self, rows: DataFrame, worker_column: str, weighted: bool, may_stop: bool) -> DataFrame:
        """Count the rows of each worker while the rows pass in the first action, and write that down.

        Args:
            rows: routed rows of a batch.
            worker_column: the column with their workers.
            weighted: whether the plan balances something else than rows.
            may_stop: whether an action may stop before the last row, as there is no shuffle downstream.
        """
        if self.plan is None:
            return rows
        fresh, workers = self.fresh, self.plan.workers
        aggregate = F.expr(by_worker.counting(worker_column, workers)).alias("rows")
        df, observed = session_of(rows).observed(rows, aggregate)

        def done(sketch: bytes) -> None:
            found = by_worker.counted(bytes(sketch), workers)
            self._record(runs.Run(self.digest, runs.now(), fresh, weighted, found, may_stop))

        pending.wait_for(observed, done)
        return df

    def passed_over(self) -> None:
        """Write down that a query sends no rows to workers: after so many the plan is made anew."""
        try:
            self._record(runs.Run(self.digest, runs.now(), False, False, None))
        except (OSError, ValueError) as error:
            _log.warning("a run by a kept plan was not recorded: %s", error)

    def _record(self, run: runs.Run) -> None:
        """Write a run down, unless its plan has been replaced meanwhile."""
        with suppress(FileNotFoundError):
            if _digest_of(paths.read(self.path)) == run.plan:
                runs.append(self.path, run)


def _runs_of(path: str | os.PathLike[str], digest: str) -> list[runs.Run]:
    try:
        found = runs.read(path)
    except (OSError, ValueError) as error:
        warn(f"{error}; it is not known whether the plan still fits, and no run is recorded")
        return []
    return [run for run in found if run.plan == digest]


def _plan_of(text: str, path: str | os.PathLike[str]) -> Plan:
    try:
        return Plan.from_json(text)
    except ValueError as error:
        raise ValueError(f"plan at {os.fspath(path)!r} cannot be used: {error}") from error


def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _kind(plan: Plan) -> tuple[Any, ...]:
    return plan.grouping, plan.key_types, plan.capacities
