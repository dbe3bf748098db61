"""The parameters that plans are made for, and which keys they treat as frequent."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar, TypeAlias

from keysplit.groupings import (
    DChoices,
    DistributionAwareKeyGrouping,
    FlexD,
    Grouping,
    KeyGrouping,
    PartialKeyGrouping,
    RoundRobinHead,
    WChoices,
)

MOST_COUNTERS = 2**20  # per sketch and task
# Loads are balanced if the busiest worker has at most this multiple of the mean. Its stage then ends at most
# 10 % later than possible, less than task start-up and machine noise.
BALANCED = 1.1


@dataclass(frozen=True, kw_only=True)
class CutToFit:
    """Cut to fit: frequent keys fill workers to capacity and are cut only there; rare keys fill the gaps.

    It needs the frequencies before the first row is routed, so it is a plan and not an online grouping. The
    capacity c_w is the weight that worker w should get: its share of the total, the same for equal workers.

    1. Frequent keys, heaviest first. If a key fits whole into the free capacity of some workers, it goes to
       the worker among these with the least free capacity. Otherwise it fills the worker with the most free
       capacity, is cut there, and the rest is placed in the same way. To avoid slivers, a key also fits if it
       exceeds c_w by a slack of at most 1e-4 of the smallest capacity. The last worker with free capacity
       cuts nothing.
    2. Buckets of rare keys, heaviest first, each whole to the worker with the most free capacity.

    Guarantees: (a) Every rare key is on one worker, and the frequent keys have in total at most n - 1 copies
    beyond one per key. (b) No worker gets more than c_w + max(b, slack), where b is the weight of the
    heaviest bucket of rare keys: for equal workers (largest - mean) / total is at most the larger of b /
    total and 1e-4 / n. Both guarantees refer to the weights that the plan is made from.

    Proof: (a) Only cuts make copies. A cut fills its worker completely, and the last worker with free
    capacity gets no cut: at most n - 1 cuts. (b) The total free capacity is never less than the weight still
    to be placed: both start as the total, and placing a weight takes at most that weight from the free
    capacity. So on the last worker with free capacity all the rest fits, and no load exceeds c_w + slack in
    step 1: a cut ends at c_w, and a key that is placed whole fits. In step 2, as long as a bucket with weight
    waits, some worker has free capacity. So the worker with the most has some: its load is below c_w before
    the bucket and below c_w + b after it. (Rounding adds about 1e-16 of the total for each key.)

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the keys' hashes, 0 to 2**64 - 1.
        threshold: Share of the total at which a key is frequent, 2**-27 to 1; 1/(20n) if None.

    Raises:
        ValueError: If a parameter is outside its range; the message names parameter, value and range.
        TypeError: If a parameter has the wrong type.

    Source: ours. Filling one worker after another and cutting at capacity is McNaughton's wrap-around rule
    (Scheduling with Deadlines and Loss Functions, Management Science 6(1), 1959), whose n - 1 cuts are the
    fewest that any rule can guarantee; heaviest first to the least loaded is LPT (Graham, Bounds on
    Multiprocessing Timing Anomalies, SIAM Journal on Applied Mathematics 17(2), 1969).

    Example:
        >>> from keysplit.plan import CutToFit
        >>> CutToFit(workers=10)
        CutToFit(workers=10, seed=0, threshold=None)
    """

    name: ClassVar[str] = "cut_to_fit"

    workers: int
    seed: int = 0
    threshold: float | None = None

    def __post_init__(self) -> None:
        """Check every parameter and convert NumPy numbers, like a grouping with the same parameters."""
        checked = DistributionAwareKeyGrouping(workers=self.workers, seed=self.seed, threshold=self.threshold)
        for field in fields(self):
            object.__setattr__(self, field.name, getattr(checked, field.name))


Parameters: TypeAlias = Grouping | CutToFit

PLANS: dict[str, type[Grouping] | type[CutToFit]] = {
    each.name: each
    for each in (
        KeyGrouping,
        PartialKeyGrouping,
        DChoices,
        WChoices,
        RoundRobinHead,
        FlexD,
        DistributionAwareKeyGrouping,
        CutToFit,
    )
}
"""The classes of parameters for which plans can be made, by name."""


def head_threshold(params: Parameters | Grouping) -> float:
    """The share of the total at which a key is placed individually.

    Args:
        params: Parameters of one of the classes in [`PLANS`][keysplit.plan.PLANS], or of any grouping.

    Returns:
        The threshold; its default is 1/(20n) for cut_to_fit and flexd, 1/(5n) for the others. 1 for ``key``,
        which places no key individually.

    Example:
        >>> import keysplit as ks
        >>> from keysplit.plan import head_threshold
        >>> head_threshold(ks.DChoices(workers=50))
        0.004
    """
    if isinstance(params, KeyGrouping):
        return 1.0
    threshold: float | None = getattr(params, "threshold", None)
    if threshold is not None:
        return threshold
    return 1 / ((20 if isinstance(params, CutToFit | FlexD) else 5) * params.workers)


def sketch_capacity(params: Parameters) -> int:
    """The number of counters with which a sketch finds the keys that are placed individually.

    Args:
        params: Parameters of one of the classes in [`PLANS`][keysplit.plan.PLANS].

    Returns:
        The parameter ``sketch_capacity``; if None, the larger of 1000 and 10/threshold, so that the error of
        a count is at most a tenth of the threshold. At most 2**20.

    Example:
        >>> import keysplit as ks
        >>> from keysplit.plan import sketch_capacity
        >>> sketch_capacity(ks.DChoices(workers=50))
        2500
    """
    capacity: int | None = getattr(params, "sketch_capacity", None)
    if capacity is None:
        capacity = max(1000, math.ceil(10 / head_threshold(params)))
    return min(capacity, MOST_COUNTERS)
