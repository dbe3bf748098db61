"""`Adapt`: how the plan of a stream changes while the stream runs."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from keysplit.spark.checks import check_number, check_whole


@dataclass(frozen=True, kw_only=True)
class Adapt:
    """How the plan of a stream changes while the stream runs.

    After each micro-batch the driver adds what the batch has counted to what it remembers, and makes a plan.
    The new plan replaces the current one if all of this holds:

    - in the batch the busiest worker got at least `gain` more than its fair share, and more than chance
      explains;
    - under the new plan it would have got less, by at least `gain` of a fair share;
    - over `horizon` batches the busiest worker is spared more rows than the change costs one worker:
      `copy_cost` rows for each worker that a frequent key gets anew, and for each row per batch of the rare
      keys that move, divided by the number of workers, which share that work;
    - the last change is at least `every` batches ago.

    Where rare keys have candidates (`partial_key`, `d_choices`, `w_choices`, `round_robin` and the online
    groupings), they stay where they are unless their worker is loaded by more than `gain` of a fair share
    above the best of these.

    Args:
        decay: what the memory counts for after one more batch, 0..=1. 0 forgets all but the last batch, 1
            forgets nothing: all batches count alike. Below 1, loads are balanced for the batches since the
            keys last differed from those before by more than chance explains. A key that was frequent before
            stays frequent while its share of the whole memory is large enough, so keys may take turns: at
            0.5 up to four keys that in turn have half of a batch stay split, at 0.9 up to five.
        gain: the smallest gain worth a change, as a fraction of a fair share, above 0.
        horizon: for how many batches a plan is expected to hold, at least 1.
        copy_cost: the cost of one more partial result, in rows, at least 0.
        every: the smallest number of batches between two changes, at least 1.
        sample: how many rows of a batch are drawn for the driver, at least 100; if left out, 100 for each key
            that can be frequent, but 4,000 to 20,000 in all. Of a batch that is larger than the one before,
            n rows in p tasks, at most about `sample * (1 + log n) * (1 + log p)` are drawn. Each adds some 25
            bytes to what the tasks of the batch send to the driver.
        capacities: a function that returns the current relative speed of each worker, above 0; it is called
            on the driver after each batch, and the next one waits for it. "measured" derives the speeds from
            the time per row of tasks. It needs an operation that places rows, such as `repartition`, so that
            a worker is a task. A run's first two batches are left out; a worker counts as slow or fast once
            three batches in a row say so, and what later ones do not confirm fades. Until the batches are
            balanced, a batch waits for the times of the one before, but at most a tenth of the time since
            that began, and at most a second. If left out, speeds are those of the plan.
        log: the folder of the plan log, or its URL as `Plan.save` takes it. If left out, `keysplit` in the
            checkpoint of the query.

    Raises:
        TypeError: if an argument has a wrong type.
        ValueError: if an argument is out of its range.

    Source:
        decay: "Efficient Time-Evolving Stream Processing at Scale" (FISH, arXiv 1806.00760), section 4.1. Its
            epochs are the micro-batches here.

    Deviations:
        The papers route by what a source has seen up to the very message. A plan of a micro-batch knows the
        batches before: a change of the keys is answered one batch later. It counts the keys of drawn rows,
        each with the rows that it stands for, and not all rows in a sketch: the tasks of a batch need no
        Python, and estimates are unbiased.

    Example:
        >>> from keysplit.spark.streaming import Adapt  # doctest: +SKIP
        >>> Adapt(decay=0.2, every=5)  # doctest: +SKIP
    """

    decay: float = 0.5
    gain: float = 0.1
    horizon: int = 10
    copy_cost: float = 1.0
    every: int = 1
    sample: int | None = None
    capacities: Callable[[], Sequence[float]] | Literal["measured"] | None = None
    log: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        check_number("decay", self.decay, 0, 1)
        check_number("gain", self.gain, 0, math.inf, without_least=True)
        check_number("copy_cost", self.copy_cost, 0, math.inf)
        check_whole("horizon", self.horizon, 1)
        check_whole("every", self.every, 1)
        if self.sample is not None:
            check_whole("sample", self.sample, 100)
        is_measured = isinstance(self.capacities, str) and self.capacities == "measured"  # no array
        if not (is_measured or self.capacities is None or callable(self.capacities)):
            raise TypeError(f"capacities must be a function, 'measured' or None, got {self.capacities!r}")
        if self.log is not None and not isinstance(self.log, str | os.PathLike):
            raise TypeError(f"log must be a path or URL, got {self.log!r}")
        if self.log == "":
            raise ValueError("log must be a folder, got ''")
