"""Consistent grouping finds the capacities of its workers from their signals alone.

Nasir et al., arXiv 1705.09073, sections 6.1.2 and 7.2: 10 workers of which 3 are 5 times as strong, 10
virtual workers each, epsilon 0.01, busy above 0.85 and idle below 0.75 of the capacity of the queue, one
signal a time slot. The ideal is c_w n alpha virtual workers for worker w: 22.7 for a strong one, 4.5 for a
weak one.

What the paper leaves open: messages come at a fixed rate and are 0.98 of what all workers together can do.
With less, a worker stops being busy while it still has more than its ideal share; with more, the queues of
the beginning drain too slowly. A queue holds what its worker does in a twentieth of a slot. A few of the
100 virtual workers keep moving, because a queue tells late that they are too many; so the number of a
worker's virtual workers is a mean over many slots.
"""

import numpy as np
import pytest

import keysplit as ks

WORKERS = 10
VIRTUAL_WORKERS = 10
MESSAGES = 500  # of a slot, which is a second
LOAD = 0.98
QUEUE_S = 0.05
SLOTS = 400
STRONG_FIRST = np.array([5] * 3 + [1] * 7)
STRONG_NEXT = np.array([1] * 3 + [5] * 3 + [1] * 4)


class Workers:
    """A FIFO queue a worker, whose service time is fixed and goes with the worker's capacity."""

    def __init__(self, capacities: np.ndarray) -> None:
        self.free_at = np.zeros(WORKERS)
        self.service_time_s = self.service_times(capacities)

    @staticmethod
    def service_times(capacities: np.ndarray) -> np.ndarray:
        return LOAD * capacities.sum() / (MESSAGES * capacities)

    def change(self, capacities: np.ndarray, now: float) -> None:
        """The messages in the queues take longer or shorter from now on."""
        queues = self.queues(now)
        self.service_time_s = self.service_times(capacities)
        self.free_at = now + queues * self.service_time_s

    def receive(self, workers: np.ndarray, now: float) -> None:
        free_at, service_time_s = self.free_at.tolist(), self.service_time_s.tolist()
        for i, worker in enumerate(workers.tolist()):
            free_at[worker] = max(free_at[worker], now + i / MESSAGES) + service_time_s[worker]
        self.free_at = np.array(free_at)

    def queues(self, now: float) -> np.ndarray:
        """Messages that wait, with the part of the one that is being served."""
        return np.maximum(0, self.free_at - now) / self.service_time_s

    def utilisation(self, now: float) -> np.ndarray:
        return self.queues(now) / (QUEUE_S / self.service_time_s)


def run(seed: int, signals: bool) -> np.ndarray:
    """The share of each slot's messages that each worker got; other workers are strong in the second half."""
    params = ks.ConsistentGrouping(workers=WORKERS, seed=seed, virtual_workers=VIRTUAL_WORKERS, slot_s=1.0)
    router = params.router()
    workers = Workers(STRONG_FIRST)
    keys = ks.streams.zipf(1.0, keys=1000, messages=2 * SLOTS * MESSAGES, seed=seed)
    shares = []
    for slot, part in enumerate(np.split(keys, 2 * SLOTS)):
        if slot == SLOTS:
            workers.change(STRONG_NEXT, now=slot)
        answer = router.route(part, now=slot)
        workers.receive(answer, now=slot)
        shares.append(np.bincount(answer, minlength=WORKERS) / MESSAGES)
        utilisation = workers.utilisation(now=slot + 1)
        if signals:
            router.observe(
                now=slot + 1,
                busy=np.flatnonzero(utilisation > 0.85),
                idle=np.flatnonzero(utilisation < 0.75),
            )
    return np.array(shares)


def virtual_workers(shares: np.ndarray) -> np.ndarray:
    """How many virtual workers a worker had on average over the last half of these slots."""
    return shares[len(shares) // 2 :].mean(axis=0) * WORKERS * VIRTUAL_WORKERS


def ideal(capacities: np.ndarray) -> np.ndarray:
    return capacities / capacities.sum() * WORKERS * VIRTUAL_WORKERS


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_virtual_workers_converge_to_the_capacities(seed: int) -> None:
    """Within one virtual worker, and again after other workers have become the strong ones."""
    shares = run(seed, signals=True)
    assert np.abs(virtual_workers(shares[:SLOTS]) - ideal(STRONG_FIRST)).max() <= 1
    assert np.abs(virtual_workers(shares[SLOTS:]) - ideal(STRONG_NEXT)).max() <= 1


def test_virtual_workers_stay_even_without_signals() -> None:
    assert np.abs(virtual_workers(run(1, signals=False)) - VIRTUAL_WORKERS).max() <= 0.5
