"""FlexD: its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class FlexD(Grouping):
    """FlexD: each segment is routed by its own statistics; a hot key gains workers, each at a higher bar.

    Guarantees: a key below the threshold in a segment goes to one worker, chosen by hash. A hot key gains its
    next worker only when its frequency reaches a bar that grows by ``growth`` with each worker, so the number
    of its workers grows with the logarithm of its frequency. Cutting the stream at ends of segments changes
    nothing. Other cuts may, because a segment ends with its batch.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the keys' hashes, 0 to 2**64 - 1.
        segment_messages: Messages of a segment, 1 to 2**32.
        threshold: Share of a segment at which a key is hot, above 0 and at most 1; 1/(20n) if None.
        growth: Factor by which a key's bar is multiplied for each worker that joins, above 1 and at most 1e6.
        sketch_capacity: Counters of a segment's SpaceSaving sketch, 1 to 2**28; the larger of 1000 and
            10/threshold if None.
        table_keys: Number of keys kept when the table of hot keys is cleaned, 1 to 2**28.
        clean_interval_s: Seconds between two cleanings, 1e-6 to 1e12.
        messages_per_s: Messages per second, 1e-6 to 1e12, at which time advances when the caller passes no
            ``now``.

    Source: Liu, Wang, Zhou, Mao, Adaptive Key Partitioning in Distributed Stream Processing (2024), section
    4, Algorithm 1.

    Deviations: a key's bar starts at the threshold, not at its frequency: with the statistics of a whole
    segment, a key of constant frequency would never rise above it. Each router has its own scheduler, and a
    call assigns all its messages and holds nothing back. The grouping's page lists the other deviations.

    Example:
        >>> import keysplit as ks
        >>> keys = ks.streams.zipf(1.4, keys=10_000, messages=100_000, seed=1)
        >>> workers = ks.FlexD(workers=50).router().route(keys)
        >>> len(set(workers[keys == 0].tolist())) > 2  # workers of the hottest key
        True
    """

    name = "flexd"
    sends_to = "hot key: the least loaded of its list, which grows with its frequency; others: by hash"
    paper = "Liu et al. 2024"
    adapts_to = ("skew", "drift")
    workers_per_key = "n"
    feedback = ("loads",)
    segment_messages: int = 10_000
    threshold: float | None = None
    growth: float = 1.5
    sketch_capacity: int | None = None
    table_keys: int = 50_000
    clean_interval_s: float = 600.0
    messages_per_s: float = 1000.0

    @classmethod
    def _meant(cls, parameters: dict[str, Any], version: int) -> dict[str, Any]:
        """Before version 3 the default threshold was 1/(5n)."""
        if version < 3 and parameters.get("threshold") is None:
            return {**parameters, "threshold": 1 / (5 * parameters["workers"])}
        return parameters
