"""Partial key grouping (PKG) and Greedy-d: its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class PartialKeyGrouping(Grouping):
    """Partial key grouping (PKG) and Greedy-d: the least loaded of a key's first ``choices`` candidates.

    Guarantees: at most ``choices`` workers per key. With two choices the imbalance stays bounded, with high
    probability, while no key has more than 1/(5n) of the messages. Above 2/n the two workers of the hottest
    key are overloaded.

    Args:
        workers: Number of workers, 1 to 65,536.
        seed: Seed of the candidates, 0 to 2**64 - 1.
        choices: Candidates per key, 1 to 65,536; 2 is PKG, 1 is key grouping.
        distinct: Whether a key's candidates must be different workers, as in Apache Storm. The analyses let
            candidates coincide.

    Source: Nasir et al., The Power of Both Choices (ICDE 2015); Greedy-d in When Two Choices Are Not Enough
    (ICDE 2016), section III-B.

    Deviations: none; on equal loads the first candidate wins.

    Example:
        >>> import keysplit as ks
        >>> ks.PartialKeyGrouping(workers=10).router().route(["a"] * 4).tolist()
        [7, 8, 7, 8]
    """

    name = "partial_key"
    sends_to = "the less loaded of the key's two candidates"
    paper = "Nasir et al. 2015"
    adapts_to = ("skew",)
    workers_per_key = "choices"
    choices: int = 2
    distinct: bool = False
