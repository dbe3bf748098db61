"""How uneven a stage's task times are, what that costs, and when the stage is a finding."""

from __future__ import annotations

import math

import numpy as np

from keysplit.diagnosis.events import RecordedStage
from keysplit.diagnosis.model import Bounds

LEAST_TASK_S = 1.0
"""The minimum time of the slowest task in a finding."""
LEAST_RATIO = 2.0
"""The minimum ratio of the slowest task's time to the median in a finding."""
LEAST_SHARE = 0.05
"""A balanced stage would save at least this share of the query's time."""


_FEWEST = 2  # tasks that began on a warm worker: fewer do not tell how long such tasks take
_AS_MUCH = 0.5  # part of the largest waiting: a longer task that causes this much is the one to blame


def is_of_interest(stage: RecordedStage) -> bool:
    """Return whether to keep a stage's tasks: it is unfinished, cores wait, or its only task is long."""
    return not stage.over or waited_for(stage) is not None or is_single(stage)


def is_single(stage: RecordedStage) -> bool:
    """Return whether a stage is one long task."""
    return max(stage.tasks, len(stage.array("index"))) == 1 and bool(
        (durations_s(stage) >= LEAST_TASK_S).any()
    )


def waited_for(stage: RecordedStage) -> int | None:
    """Return the index of the task that cores wait for at the end of a stage; None if no task is long.

    A long task that ends before the last tasks start makes no core wait: the first tasks of a worker may be
    long because of loading. Among the tasks that make cores wait, the longest is chosen, unless another task
    makes cores wait more than twice as long.
    """
    needed = 0 if stage.over and not stage.was_cancelled else stage.tasks  # others were not launched yet
    if len(stage.array("index")) < max(2, needed):
        return None
    seconds, waiting = durations_s(stage), _waiting_for_each(stage)
    long = (seconds >= LEAST_TASK_S) & (seconds >= LEAST_RATIO * usual_s(stage)) & (waiting > 0)
    if not long.any():
        return None
    to_blame = long & (waiting >= _AS_MUCH * waiting[long].max())
    return int(np.argmax(np.where(to_blame, seconds, -1.0)))


def usual_s(stage: RecordedStage) -> np.ndarray:
    """Return for each task its usual time: the median of comparable tasks.

    The first tasks on each core may load what later tasks reuse. So a task that reads more than others
    without taking longer is compared with later tasks, unless it is itself a first task and takes about as
    long as other first tasks.
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
    """Return which tasks are not the first on their core, as far as the order of launches shows."""
    later = np.zeros(len(stage.array("index")), bool)
    later[np.argsort(stage.array("launch_ms"), kind="stable")[slots_of(stage) :]] = True
    return later


def _waiting_for_each(stage: RecordedStage) -> np.ndarray:
    """Return for each task its share of the free slots' time, after the last launch."""
    start = _all_launched_ms(stage)
    finish = stage.array("finish_ms").clip(start)
    order = np.argsort(finish, kind="stable")
    running = len(finish) - np.arange(len(finish))
    free = (slots_of(stage) - running).clip(0) / running
    waiting = np.empty(len(finish))
    waiting[order] = np.cumsum(np.diff(finish[order], prepend=start) * free) / 1000
    return waiting


def _all_launched_ms(stage: RecordedStage) -> int:
    """Return when every task had been launched at least once."""
    return min(stage.pending_ms, int(stage.array("launch_ms").max()))


def durations_s(stage: RecordedStage) -> np.ndarray:
    """Return how long each task took, from its launch to its end."""
    seconds: np.ndarray = (stage.array("finish_ms") - stage.array("launch_ms")) / 1000
    return seconds


def span_s(stage: RecordedStage) -> float:
    """Return how long the stage took, from its first launch to its last end."""
    return float(stage.array("finish_ms").max() - stage.array("launch_ms").min()) / 1000


def lower_median(values: np.ndarray) -> float:
    """Return the median; of two middle values, the lower."""
    return float(np.sort(values)[(len(values) - 1) // 2])


def slots_of(stage: RecordedStage) -> int:
    """Return how many tasks of a stage may run at once: the cores, at most its number of tasks.

    If the log does not have the cores of all executors, the result is how many tasks did run at once. A task
    may start before Spark notes the end of the previous task, so slightly higher numbers are normal.
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

    The lower bound spreads the stage's work perfectly evenly over the slots. The upper bound keeps the number
    of tasks, each with the mean time, in as many rounds as they need; it never exceeds the actual time.
    """
    seconds = durations_s(stage)
    slots = slots_of(stage)
    rounds = math.ceil(len(seconds) / slots)
    took = span_s(stage)
    low = min(float(seconds.sum()) / slots, took)
    return Bounds(low, min(max(low, rounds * float(seconds.mean())), took))


def waiting_core_s(stage: RecordedStage, others: np.ndarray) -> tuple[float, float]:
    """Return how long cores waited for a stage's last tasks, and how long other stages used these cores.

    After the launch of the last task, a slot without a task of the stage waits, unless another stage uses it:
    the work of other stages in that time is subtracted.

    Args:
        stage: the stage.
        others: one row per other stage: start, end and work, in milliseconds.

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
