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


def waits(stage: RecordedStage) -> bool:
    """Say whether a stage that is over may be a finding, by its own tasks."""
    seconds = durations_s(stage)
    return len(seconds) > 1 and float(seconds.max()) >= max(LEAST_TASK_S, LEAST_RATIO * lower_median(seconds))


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
    start, end = int(launch.max()), int(finish.max())
    free_ms = max(float(slots_of(stage) * (end - start) - (finish.clip(start) - start).sum()), 0.0)
    others = others[(others[:, 0] < end) & (others[:, 1] > start) & (others[:, 1] > others[:, 0])]
    begins, ends = others[:, 0].clip(start), others[:, 1].clip(max=end)
    used_ms = float((others[:, 2] * ((ends - begins) / (others[:, 1] - others[:, 0]))).sum())
    covered, until = 0, start
    for one, other in sorted(zip(begins.tolist(), ends.tolist(), strict=True)):
        covered += max(other - max(one, until), 0)
        until = max(until, other)
    return max(free_ms - used_ms, 0.0) / 1000, covered / 1000
