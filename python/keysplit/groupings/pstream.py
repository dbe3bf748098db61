"""PStream: its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class PStream(Grouping):
    """PStream: coin tosses find the hot keys, which go to all workers in turn; all others go by hash.

    Guarantees: a key that the filter never reports as hot is on one worker. The messages of hot keys are
    spread over all workers, at most 1 apart for each source. The fewer counters the filter has, the more rare
    keys it mistakes for hot keys.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the keys' hashes, of the coins and of the first turn, 0 to 2**64 - 1.
        coins: Heads in a row after which a message enters the synopsis, 0 to 32: one in 2**coins messages
            does.
        most_coins: Maximum number of tosses, ``coins`` to 60; a key's bitmap has most_coins + 1 bits.
        decay: All bitmaps age by one bit after floor(1/decay) entries, 1e-6 to 1.
        filter_counters: Counters of the counting Bloom filter of hot keys, 1 to 2**28.

    Source: Chen, Zhang, Jin, PStream: A Popularity-Aware Differentiated Distributed Stream Processing System
    (IEEE Transactions on Computers, 2021), as described in Liu et al., Adaptive Key Partitioning in
    Distributed Stream Processing (2024), section 2.2.

    Deviations: a bit's number counts all heads, as in the authors' program; the description counts only heads
    after ``coins``. The coins are the bits of one draw per message, so they are repeatable. Counters do not
    saturate. The filter has 16,384 counters. The authors use 16, with which nearly every key is mistaken for
    hot.

    Example:
        >>> import keysplit as ks
        >>> workers = ks.PStream(workers=4).router().route(["a"] * 10_000)
        >>> sorted(set(workers.tolist()))
        [0, 1, 2, 3]
    """

    name = "pstream"
    sends_to = "hot key, found by coins: the next in turn; others: by hash"
    paper = "Chen et al. 2021"
    adapts_to = ("skew", "drift")
    workers_per_key = "n"
    coins: int = 6
    most_coins: int = 16
    decay: float = 0.01
    filter_counters: int = 16_384
