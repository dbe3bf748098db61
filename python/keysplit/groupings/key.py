"""Key grouping (KG): its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class KeyGrouping(Grouping):
    """Key grouping (KG): all messages of a key go to one worker, chosen by hash.

    Guarantees: one worker per key, always the same, at every source. The worker of the most frequent key gets
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
    sends_to = "the worker given by the key's hash"
    paper = "Nasir et al. 2016"
    workers_per_key = "1"
