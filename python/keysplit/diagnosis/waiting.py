"""How unevenly a stage's tasks take, what that costs, and from where on it is a finding."""

from __future__ import annotations

import math

import numpy as np

from keysplit.diagnosis.events import RecordedStage
from keysplit.diagnosis.model import Bounds

LEAST_TASK_S = 1.0
"""The slowest task of a finding takes at least so long."""
LEAST_RATIO = 2.0
"""The slowest task of a finding takes at least so many times the median."""
LEAST_SHARE = 0.05
"""A balanced stage would save at least this share of the query's time."""


_FEWEST = 2  # tasks that began on a warm worker: from fewer nothing is said of how long such take
_AS_MUCH = 0.5  # of the waiting that any task causes: a longer one that causes so much is the one to blame


def is_of_interest(stage: RecordedStage) -> bool:
    """Say whether to keep a stage's tasks: it is not over, cores wait for one, or it is a single long one."""
    return not stage.over or waited_for(stage) is not None or is_single(stage)


def is_single(stage: RecordedStage) -> bool:
    """Say whether a stage is one long task."""
    return max(stage.tasks, len(stage.array("index"))) == 1 and bool(
        (durations_s(stage) >= LEAST_TASK_S).any()
    )


def waited_for(stage: RecordedStage) -> int | None:
    """Return for which task cores wait at the end of a stage, by its place; None if for no long one.

    A task that is long and ends before the last ones start makes no core wait: the first tasks of a worker
    may be long for what they load. Of those that make cores wait it is the longest, unless another one makes
    them wait for more than twice as long.
    """
    needed = 0 if stage.over and not stage.was_cancelled else stage.tasks  # others were still to be launched
    if len(stage.array("index")) < max(2, needed):
        return None
    seconds, waiting = durations_s(stage), _waiting_for_each(stage)
    long = (seconds >= LEAST_TASK_S) & (seconds >= LEAST_RATIO * usual_s(stage)) & (waiting > 0)
    if not long.any():
        return None
    to_blame = long & (waiting >= _AS_MUCH * waiting[long].max())
    return int(np.argmax(np.where(to_blame, seconds, -1.0)))


def usual_s(stage: RecordedStage) -> np.ndarray:
    """Return for each task how long it would take if it were as the others are: their median.

    The first tasks on each core may load what later ones find. So a task that reads more than others do, and
    takes no longer, is compared with later ones, unless it is a first one that takes about as long as those.
    """
    seconds = durations_s(stage)
    usual = np.full(len(seconds), lower_median(seconds))
    later = is_later(stage)
    if later.sum() >= _FEWEST:
        more = np.zeros(len(seconds), bool)
        for name in ("records", "bytes"):
            read = stage.array(name)
            more |= read >= LEAST_RATIO * max(lower_median(read), 1.0)
        pace = min(usual[0], lower_median(seconds[later]))
        loaded = np.where(later, 0.0, lower_median(seconds[~later]))
        usual[more & (seconds < LEAST_RATIO * usual) & (seconds - loaded >= pace)] = pace
    return usual


def is_later(stage: RecordedStage) -> np.ndarray:
    """Return which tasks are not the first on their core, as far as the order of their launches says it."""
    later = np.zeros(len(stage.array("index")), bool)
    later[np.argsort(stage.array("launch_ms"), kind="stable")[slots_of(stage) :]] = True
    return later


def _waiting_for_each(stage: RecordedStage) -> np.ndarray:
    """Return for each task its share of the free slots' time, from when no task is left to launch."""
    start = _all_launched_ms(stage)
    finish = stage.array("finish_ms").clip(start)
    order = np.argsort(finish, kind="stable")
    running = len(finish) - np.arange(len(finish))
    free = (slots_of(stage) - running).clip(0) / running
    waiting = np.empty(len(finish))
    waiting[order] = np.cumsum(np.diff(finish[order], prepend=start) * free) / 1000
    return waiting


def _all_launched_ms(stage: RecordedStage) -> int:
    """Return when the last task was launched that had not run before."""
    return min(stage.pending_ms, int(stage.array("launch_ms").max()))


def durations_s(stage: RecordedStage) -> np.ndarray:
    """Return how long each task took, from its launch to its end."""
    seconds: np.ndarray = (stage.array("finish_ms") - stage.array("launch_ms")) / 1000
    return seconds


def span_s(stage: RecordedStage) -> float:
    """Return how long the stage took, from its first launch to its last end."""
    return float(stage.array("finish_ms").max() - stage.array("launch_ms").min()) / 1000


def lower_median(values: np.ndarray) -> float:
    """Return the median; of an even number the lower of the two in the middle."""
    return float(np.sort(values)[(len(values) - 1) // 2])


def slots_of(stage: RecordedStage) -> int:
    """Return how many tasks of a stage may run at once: the cores, but no more than it has tasks.

    Where the log does not say how many cores there are, or not of all executors, it is how many tasks ran at
    once. A task may start before Spark notes the end of the one before, so a few more are no contradiction.
    """
    launch, finish = stage.array("launch_ms"), stage.array("finish_ms")
    times = np.concatenate([launch, finish])
    steps = np.concatenate([np.ones(len(launch), int), -np.ones(len(finish), int)])
    at_once = int(
        np.cumsum(steps[np.lexsort((steps, times))]).max(initial=1)
    )  # one ends, then the next starts
    return min(stage.cores, len(launch)) if at_once <= 2 * stage.cores else at_once


def balanced_s(stage: RecordedStage) -> Bounds:
    """Return how long a stage would take if balanced.

    The lower bound spreads its work over the slots as evenly as time can be. The upper one keeps the number
    of tasks, each of which takes their mean, in as many rounds as they need; it is never above what it took.
    """
    seconds = durations_s(stage)
    slots = slots_of(stage)
    rounds = math.ceil(len(seconds) / slots)
    took = span_s(stage)
    low = min(float(seconds.sum()) / slots, took)
    return Bounds(low, min(max(low, rounds * float(seconds.mean())), took))


def waiting_core_s(stage: RecordedStage, others: np.ndarray) -> tuple[float, float]:
    """Return how long cores waited for the last tasks of a stage, and how long others used them meanwhile.

    From the launch of the last task on, a slot without a task of the stage waits, unless another stage runs
    then: of each, the part of its work that falls into that time is subtracted.

    Args:
        stage: the stage.
        others: a row for each other stage: its start, its end and its work, in milliseconds.

    Returns:
        Core-seconds of waiting, and seconds in which another stage ran.
    """
    launch, finish = stage.array("launch_ms"), stage.array("finish_ms")
    start, end = _all_launched_ms(stage), int(finish.max())
    free_ms = max(
        float(slots_of(stage) * (end - start) - (finish.clip(start) - launch.clip(start)).sum()), 0.0
    )
    others = others[(others[:, 0] < end) & (others[:, 1] > start) & (others[:, 1] > others[:, 0])]
    begins, ends = others[:, 0].clip(start), others[:, 1].clip(max=end)
    used_ms = float((others[:, 2] * ((ends - begins) / (others[:, 1] - others[:, 0]))).sum())
    covered, until = 0, start
    for one, other in sorted(zip(begins.tolist(), ends.tolist(), strict=True)):
        covered += max(other - max(one, until), 0)
        until = max(until, other)
    return max(free_ms - used_ms, 0.0) / 1000, covered / 1000
