"""What the runs by a plan have shown, a line of JSON each beside the plan, and whether it still fits."""

import base64
import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile

import numpy as np

from keysplit import paths
from keysplit.plan import Plan
from keysplit.spark.counting.by_worker import together

MOST_RUNS = 30
"""Runs that are kept of a plan. After as many that sent no rows to workers it is made anew."""

_FORMAT, _VERSION = "keysplit run", 1
# A plan no longer fits where the busiest worker has more than so many times what it expects, and more than
# chance explains: rows of split keys are assigned by their hashes.
_WORTH_A_NEW_PLAN = 1.1
_DEVIATIONS = 4.0
# An action that may have stopped early counts as whole from this part of the rows on that there should be.
_WHOLE = 0.5


@dataclass(frozen=True, eq=False)
class Run:
    """The rows that the workers got in one run.

    Attributes:
        plan: which plan it went by, as `Kept.digest` names it.
        at: when it was seen to have ended, as ISO 8601.
        fresh: whether the plan had been made from the same rows, in the same call.
        weighted: whether the plan balances something else than rows.
        rows: the rows of each counter, int64; None if no rows were sent to workers.
        may_stop: whether the action may have stopped before the last row, as `show` does.
    """

    plan: str
    at: str
    fresh: bool
    weighted: bool
    rows: np.ndarray | None
    may_stop: bool = False

    def to_json(self) -> str:
        """Return the run as one line."""
        packed = None
        if self.rows is not None:
            packed = base64.b64encode(zlib.compress(self.rows.astype("<i8").tobytes())).decode()
        return json.dumps(
            {
                "format": _FORMAT,
                "version": _VERSION,
                "plan": self.plan,
                "at": self.at,
                "fresh": self.fresh,
                "weighted": self.weighted,
                "total": None if self.rows is None else int(self.rows.sum()),
                "rows": packed,
                "may_stop": self.may_stop,
            }
        )

    @classmethod
    def from_json(cls, line: str) -> "Run":
        """Read a run that `to_json` wrote.

        Raises:
            ValueError: if it is none.
        """
        try:
            data = json.loads(line)
            if (data["format"], data["version"]) != (_FORMAT, _VERSION):
                raise ValueError(f"version {data['version']!r}")
            rows = data["rows"]
            if rows is not None:
                rows = np.frombuffer(zlib.decompress(base64.b64decode(rows, validate=True)), "<i8")
            stops = data.get("may_stop", False)
            return cls(str(data["plan"]), str(data["at"]), data["fresh"], data["weighted"], rows, stops)
        except (AttributeError, KeyError, TypeError, ValueError, zlib.error) as error:
            raise ValueError(f"no run: {type(error).__name__}: {error}") from error


def now() -> str:
    """Return the time as the runs name it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def path_of(path: str | os.PathLike[str]) -> str:
    """Return where the runs by the plan at a path are."""
    return paths.extended(path, ".runs.jsonl")


def read(path: str | os.PathLike[str]) -> list[Run]:
    """Return the runs by the plan at a path, the oldest first.

    Raises:
        OSError: if the file is there and cannot be read.
        ValueError: if it holds something else.
    """
    try:
        text = paths.read(path_of(path))
    except FileNotFoundError:
        return []
    try:
        return [Run.from_json(line) for line in text.splitlines()]
    except ValueError as error:
        raise ValueError(f"the runs by the plan at {os.fspath(path)!r} are damaged: {error}") from error


def append(path: str | os.PathLike[str], run: Run) -> None:
    """Write one more run, and drop the oldest but those that the rule needs.

    The file is replaced whole. Of two runs that end at the same time one may be missing.

    Raises:
        OSError: if the file cannot be read or written.
        ValueError: if it holds something else.
    """
    runs = [each for each in read(path) if each.plan == run.plan]
    runs.append(run)
    # The first run by a plan says what the plan can do.
    kept = runs if len(runs) <= MOST_RUNS else [runs[0], *runs[1 - MOST_RUNS :]]
    paths.write(path_of(path), "".join(f"{each.to_json()}\n" for each in kept))


def rows_of(plan: Plan, weighted: bool) -> float | None:
    """Return of about how many rows a plan was made, None if it has no more than their weight."""
    if plan.sample is not None:
        return plan.sample.rows / plan.sample.fraction if plan.sample.fraction else None
    return None if weighted or plan.weighted or plan.group_weight else plan.total


def whole(plan: Plan, runs: Sequence[Run]) -> list[Run]:
    """Return the runs without those that stopped early, as far as the rows of the others and the plan say.

    Args:
        plan: the plan.
        runs: runs by it, the oldest first.
    """
    known = rows_of(plan, any(run.weighted for run in runs))
    most = max([known or 0, *(run.rows.sum() for run in runs if run.rows is not None)])
    return [run for run in runs if run.rows is None or not run.may_stop or run.rows.sum() >= _WHOLE * most]


def busiest(plan: Plan, run: Run, first: Run | None = None) -> float:
    """Return the load of the busiest worker in a run, in multiples of its fair share.

    Args:
        plan: the plan it went by.
        run: the run.
        first: a run by the same plan on the rows that it was made from: if the plan balances something else
            than rows, that is known of these rows alone.
    """
    assert run.rows is not None
    loads, speeds = run.rows.astype(np.float64), together(plan.speeds, plan.workers)
    if first is not None and first.weighted and first.rows is not None:
        known = first.rows > 0
        loads[known] *= together(plan.loads, plan.workers)[known] / first.rows[known]
    return float((loads / speeds).max() * speeds.sum() / loads.sum()) if loads.any() else 1.0


def misfit(plan: Plan, runs: Sequence[Run]) -> str | None:
    """Return why a plan no longer fits, by what its runs have shown, None if it does.

    The last run decides. It is compared with what the plan expects (of a sample: at most), or, once that is
    known, with what it gave on the very rows that it was made from, if that was worse: rows that look alike
    stay together under any plan.

    Args:
        plan: the plan.
        runs: runs by it that are `whole`, the oldest first.
    """
    if not runs:
        return None
    last = runs[-1]
    if last.rows is None:
        plain = len(list(takewhile(lambda run: run.rows is None, reversed(runs))))
        if plain < MOST_RUNS - 1:
            return None
        return f"its last {plain} runs sent no rows to workers, so that nothing was counted"
    first = next((run for run in runs if run.fresh and run.rows is not None), None)
    if not last.rows.any() or last is first:
        return None
    expected, noise = plan.busiest_bounds[1], 1 / last.rows.max()
    if first is not None and first.rows is not None and first.rows.any():
        expected = max(plan.busiest, busiest(plan, first, first))
        noise += 1 / first.rows.max() if first.weighted else 0.0
    found = busiest(plan, last, first)
    if found <= _WORTH_A_NEW_PLAN * expected * (1 + _DEVIATIONS * noise**0.5):
        return None
    return (
        f"in its last run ({last.at}, {last.rows.sum():,} rows) the busiest worker had {found:.2f} times "
        f"its fair share, {expected:.2f} is what it can do"
    )
