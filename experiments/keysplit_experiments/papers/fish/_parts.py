"""FISH's recent counts with the hot keys' treatment of D-Choices or W-Choices: no parameter expresses it.

Plain Python, for one source; FISH itself routes about 20 times as many messages in the same time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import keysplit as ks

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPOCH_MESSAGES = 1_000
DECAY = 0.2
DEVIATIONS = 3.0
GRAIN = 1 / 16
"""Decayed counts are rounded down to multiples of it, as FISH does."""

TOLERANCE = 1e-4
"""Of D-Choices."""


class RecentCounts:
    """Exact counts of keys 0 ... keys - 1 that decay after every epoch: section 4.1.1, a counter a key.

    Args:
        keys: Number of keys.
        workers: A key is hot above a part of 1/(4 workers), by more than chance explains.
    """

    def __init__(self, keys: int, workers: int) -> None:
        self.workers = workers
        self.counts = np.zeros(keys)
        self.total = 0.0

    def hot(self, epoch: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Count an epoch's messages, and say of each whether its key was hot then; counts decay after it."""
        totals = self.total + np.arange(1, len(epoch) + 1)
        hot = self.above(self.counts[epoch] + occurrence(epoch), totals)
        counted = self.counts + np.bincount(epoch, minlength=len(self.counts))
        self.counts = np.floor(counted * DECAY / GRAIN) * GRAIN
        self.total = (self.total + len(epoch)) * DECAY
        return hot

    def above(self, counts: NDArray[Any], totals: NDArray[Any] | float) -> NDArray[np.bool_]:
        """Say which counts are those of hot keys."""
        mean = totals / (4 * self.workers)
        hot: NDArray[np.bool_] = counts > mean + DEVIATIONS * np.sqrt(mean)
        return hot

    def head(self) -> list[float]:
        """List the shares of the hot keys, largest first."""
        hot = self.counts[self.above(self.counts, self.total)]
        return (np.sort(hot)[::-1] / self.total).tolist() if len(hot) else []


def occurrence(epoch: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the occurrence number of each message within its key, from 1."""
    order = np.argsort(epoch, kind="stable")
    ordered = epoch[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(epoch) else np.empty(0, np.int64)
    lengths = np.diff(np.r_[starts, len(epoch)])
    found = np.empty(len(epoch), dtype=np.int64)
    found[order] = np.arange(len(epoch)) - np.repeat(starts, lengths) + 1
    return found


def fewest_choices(head: Sequence[float], workers: int) -> int:
    """Find the d that D-Choices gives a head (its paper, section IV-A): at least 2, at most all workers.

    Args:
        head: Shares of the head's keys, largest first.
        workers: Number of workers.
    """
    if not head:
        return min(2, workers)
    shares = np.asarray(head)
    before = np.cumsum(shares)
    behind = before[-1] - before
    ranks = np.arange(1, len(shares) + 1)
    for d in range(max(2, math.ceil(shares[0] * workers)), workers):
        bins = workers - workers * ((workers - 1) / workers) ** (ranks * d)
        part = bins / workers
        load = before + part**d * behind + part**2 * max(0.0, 1 - before[-1])
        if np.all(load <= bins * (1 / workers + TOLERANCE)):
            return d
    return workers


def route(keys: NDArray[np.int64], workers: int, seed: int, part: str) -> NDArray[np.uint32]:
    """Route a stream from one source: rare keys as FISH, hot ones as W-Choices or D-Choices.

    Args:
        keys: Small whole numbers.
        workers: Number of workers, all of one speed.
        seed: Of the groupings.
        part: ``w_choices``: a hot key may go to any worker; ``d_choices``: to d, solved after every epoch.

    Returns:
        The worker of every message: the one of its key's that was sent the least.
    """
    recent = RecentCounts(int(keys.max(initial=0)) + 1, workers)
    # With a threshold of 1 no key is hot: these are its two places on the ring.
    ring = ks.Fish(workers=workers, seed=seed, threshold=1.0).router()
    hashes = ks.PartialKeyGrouping(workers=workers, seed=seed, choices=workers).router()
    pairs: dict[int, tuple[int, int]] = {}
    many: dict[int, list[int]] = {}
    loads = [0] * workers
    sent = np.empty(len(keys), dtype=np.uint32)
    choices = 2
    for start in range(0, len(keys), EPOCH_MESSAGES):
        epoch = keys[start : start + EPOCH_MESSAGES]
        for place, (key, hot) in enumerate(
            zip(epoch.tolist(), recent.hot(epoch).tolist(), strict=True), start
        ):
            if not hot:
                if key not in pairs:
                    near = ring.candidates(key).tolist()
                    pairs[key] = (near[0], near[-1])
                first, second = pairs[key]
                worker = second if loads[second] < loads[first] else first
            elif part == "w_choices" or choices == workers:
                worker = loads.index(min(loads))
            else:
                if key not in many:
                    many[key] = hashes.candidates(key).tolist()
                worker = min(many[key][:choices], key=loads.__getitem__)
            loads[worker] += 1
            sent[place] = worker
        if part == "d_choices":
            choices = fewest_choices(recent.head(), workers)
    return sent


def time_in_windows(sent: NDArray[np.uint32], workers: int, window: int) -> float:
    """Return the execution time over the ideal if every window of messages waited for the one before.

    Args:
        sent: The worker of every message.
        workers: Their number.
        window: Messages of a window.
    """
    most = sum(
        int(np.bincount(sent[start : start + window], minlength=workers).max())
        for start in range(0, len(sent), window)
    )
    return most * workers / len(sent)
