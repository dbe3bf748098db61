"""Groupings that learn where keys go, which others are compared with: distribution-aware, PStream, Dalton."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class DistributionAwareKeyGrouping(Grouping):
    """Distribution-aware key grouping: learns the frequencies once, then gives each key one worker for ever.

    Guarantees: for each source one worker a key after the learning messages, and one, perhaps another,
    before. The heaviest keys and buckets of the others are placed one after the other on the emptiest worker.
    No key is split, so the worker of the hottest key gets at least that key's share of the messages.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the keys' hashes, 0 to 2**64 - 1.
        learning_messages: Messages from which the frequencies are learned, 1 to 2**53.
        threshold: Share of the learning messages from which a key is placed by itself, 2**-27 to 1; 1/(5n) if
            None.
        buckets: Buckets that the other keys are hashed into, 1 to 2**26; 2n if None.

    Source: Rivetti, Querzoni, Anceaume, Busnel, Sericola, Efficient Key Grouping for Near-Optimal Load
    Balancing in Stream Processing Systems (DEBS 2015).

    Deviations: learning messages are routed by key grouping, where the authors' program drops them; a mixed
    hash takes the place of the 2-universal one. The sketch is SpaceSaving with an error of half the
    threshold, as in the paper.

    Example:
        >>> import keysplit as ks
        >>> keys = ks.streams.zipf(1.0, keys=10_000, messages=100_000, seed=1)
        >>> router = ks.DistributionAwareKeyGrouping(workers=10).router()
        >>> workers = router.route(keys)
        >>> ks.metrics.replication(keys[10_000:], workers[10_000:])
        1.0
    """

    name = "distribution_aware"
    paper = "Rivetti et al. 2015"
    workers_per_key = "2"
    learning_messages: int = 10_000
    threshold: float | None = None
    buckets: int | None = None


@dataclass(frozen=True, kw_only=True)
class PStream(Grouping):
    """PStream: tossed coins find the hot keys, which go to all workers in turn; the others go by hash.

    Guarantees: a key that no filter takes for hot is on one worker. The messages of hot keys are spread over
    all workers, at most 1 apart for each source. The fewer counters the filter has, the more rare keys pass
    for hot.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the keys' hashes, of the coins and of the first turn, 0 to 2**64 - 1.
        coins: Heads in a row after which a message enters the synopsis, 0 to 32: one in 2**coins messages
            does.
        most_coins: Tosses at most, ``coins`` to 60; a key's bitmap has most_coins + 1 bits.
        decay: All bitmaps age by one bit after floor(1/decay) entries, 1e-6 to 1.
        filter_counters: Counters of the counting Bloom filter of hot keys, 1 to 2**28.

    Source: Chen, Zhang, Jin, PStream: A Popularity-Aware Differentiated Distributed Stream Processing System
    (IEEE Transactions on Computers, 2021), as described in Liu et al., Adaptive Key Partitioning in
    Distributed Stream Processing (2024), section 2.2.

    Deviations: a bit's number counts all heads, as in the authors' program; the description counts those
    after ``coins``. The coins are the bits of one draw a message, so they are repeatable. Counters do not
    saturate. The filter has 16,384 counters, the authors' 16: with those nearly every key passes for hot.

    Example:
        >>> import keysplit as ks
        >>> workers = ks.PStream(workers=4).router().route(["a"] * 10_000)
        >>> sorted(set(workers.tolist()))
        [0, 1, 2, 3]
    """

    name = "pstream"
    paper = "Chen et al. 2021"
    adapts_to = ("skew", "drift")
    workers_per_key = "n"
    coins: int = 6
    most_coins: int = 16
    decay: float = 0.01
    filter_counters: int = 16_384


@dataclass(frozen=True, kw_only=True)
class Dalton(Grouping):
    """Dalton: a bandit that learns for each hot key which workers pay; the others go by hash.

    Guarantees: a key that was never hot is on one worker, a hot one on at most ``max_split`` at a time. A
    choice pays the more, the less loaded the worker is and the fewer workers the key has.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the keys' hashes and of the draws, 0 to 2**64 - 1.
        interval_messages: Messages after which counts start anew, and of the window of loads, 1 to 2**28.
        learning_rate: Weight of a new reward in a value, above 0 and at most 1.
        exploration: Probability with which a hot key tries a random worker, 0 to 1.
        max_split: Workers of a hot key at most, 1 to 65,536; the limit starts at 2 and rises as the hot keys
            reach it.

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
    paper = "Zapridou et al. 2022"
    adapts_to = ("skew", "drift")
    workers_per_key = "n"
    interval_messages: int = 10_000
    learning_rate: float = 0.1
    exploration: float = 0.1
    max_split: int = 6
