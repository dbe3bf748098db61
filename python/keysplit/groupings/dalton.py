"""Dalton: its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class Dalton(Grouping):
    """Dalton: a bandit that learns the best workers of each hot key; all other keys go by hash.

    Guarantees: a key that was never hot is on one worker, a hot key on at most ``max_split`` at a time. The
    reward of a choice is higher if the worker is less loaded, and if the key has fewer workers.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the keys' hashes and of the draws, 0 to 2**64 - 1.
        interval_messages: Messages after which counts restart, and length of the window of loads, 1 to 2**28.
        learning_rate: Weight of a new reward in the value, above 0 and at most 1.
        exploration: Probability with which a hot key tries a random worker, 0 to 1.
        max_split: Maximum number of workers of a hot key, 1 to 65,536; the limit starts at 2 and rises as the
            hot keys reach it.

    Source: Zapridou, Mytilinis, Ailamaki, Dalton: Learned Partitioning for Distributed Data Streams (PVLDB
    16(3), 2022).

    Deviations: the interval is counted in messages, not in time; a source learns alone; draws come from a
    counter, so they are repeatable.

    Example:
        >>> import keysplit as ks
        >>> workers = ks.Dalton(workers=10).router().route(["a"] * 100_000)
        >>> 1 < len(set(workers.tolist())) <= 6
        True
    """

    name = "dalton"
    sends_to = "hot key: the worker with the best reward so far; others: by hash"
    paper = "Zapridou et al. 2022"
    adapts_to = ("skew", "drift")
    workers_per_key = "n"
    interval_messages: int = 10_000
    learning_rate: float = 0.1
    exploration: float = 0.1
    max_split: int = 6
