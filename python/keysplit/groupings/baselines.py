"""Groupings that know no frequencies: shuffle, key, partial key, power of two choices."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class ShuffleGrouping(Grouping):
    """Shuffle grouping (SG): messages go to the workers in turn, whatever their key.

    Guarantees: the numbers of messages of any two workers differ by at most 1 for each source. Every key
    may be on every worker. Weights do not matter for the choice.

    Source: the baseline of all the papers, e.g. Nasir et al., When Two Choices Are Not Enough (ICDE 2016),
    section II-B.

    Deviations: the first turn depends on seed and source, so that several sources do not march in step.

    Example:
        >>> import keysplit as ks
        >>> ks.ShuffleGrouping(workers=3).router().route(["a", "a", "a", "a"]).tolist()
        [0, 1, 2, 0]
    """

    name = "shuffle"
    paper = "Nasir et al. 2016"
    adapts_to = ("skew", "drift")
    workers_per_key = "n"


@dataclass(frozen=True, kw_only=True)
class KeyGrouping(Grouping):
    """Key grouping (KG): all messages of a key go to one worker, chosen by hash.

    Guarantees: one worker a key, for ever, the same at every source. The worker of the most frequent key gets
    at least that key's share of all messages.

    Source: the baseline of all the papers, e.g. Nasir et al., When Two Choices Are Not Enough (ICDE 2016),
    section II-B.

    Deviations: none.

    Example:
        >>> import keysplit as ks
        >>> ks.KeyGrouping(workers=10).router().route(["a", "b", "a"]).tolist()
        [7, 6, 7]
    """

    name = "key"
    paper = "Nasir et al. 2016"
    workers_per_key = "1"


@dataclass(frozen=True, kw_only=True)
class PartialKeyGrouping(Grouping):
    """Partial key grouping (PKG) and Greedy-d: the least loaded of a key's first ``choices`` candidates.

    Guarantees: at most ``choices`` workers a key. With two choices the imbalance stays bounded, with high
    probability, while no key has more than 1/(5n) of the messages; above 2/n the two workers of the hottest
    key drown.

    Args:
        workers: Number of workers, 1 to 65,536.
        seed: Seed of the candidates, 0 to 2**64 - 1.
        choices: Candidates a key, 1 to 65,536; 2 is PKG, 1 is key grouping.
        distinct: Whether a key's candidates must be different workers, as in Apache Storm. The analyses let
            two coincide.

    Source: Nasir et al., The Power of Both Choices (ICDE 2015); Greedy-d in When Two Choices Are Not Enough
    (ICDE 2016), section III-B.

    Deviations: none; equal loads are decided by the order of the candidates.

    Example:
        >>> import keysplit as ks
        >>> ks.PartialKeyGrouping(workers=10).router().route(["a"] * 4).tolist()
        [7, 8, 7, 8]
    """

    name = "partial_key"
    paper = "Nasir et al. 2015"
    adapts_to = ("skew",)
    workers_per_key = "choices"
    choices: int = 2
    distinct: bool = False


@dataclass(frozen=True, kw_only=True)
class PowerOfTwoChoices(Grouping):
    """Power of two choices (PoTC): the less loaded of two workers drawn at random for every message.

    Guarantees: largest load within O(log log n) messages of the mean with high probability, whatever the
    keys. Every key may be on every worker.

    Source: Nasir et al., Load Balancing for Skewed Streams on Heterogeneous Cluster (arXiv 1705.09073),
    sections 4.3 and 6.1.1.

    Deviations: the draws come from a counter (seed, source, position of the message), so they are repeatable.

    Example:
        >>> import keysplit as ks
        >>> router = ks.PowerOfTwoChoices(workers=10).router()
        >>> len(set(router.route(["a"] * 100).tolist()))
        10
    """

    name = "power_of_two"
    paper = "Nasir et al. 2017"
    adapts_to = ("skew", "drift")
    workers_per_key = "n"
