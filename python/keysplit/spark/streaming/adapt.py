"""`Adapt`: a plan that changes while a stream runs."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

from pyspark.sql import Column

import keysplit as ks
from keysplit import paths
from keysplit.plan import PLANS, Plan, speeds_of
from keysplit.spark.checks import check_number, check_whole, type_name
from keysplit.spark.identity import trusted_names
from keysplit.spark.plan import GroupingOrName, Trusted, grouping_of
from keysplit.spark.request import GROUPING


@dataclass(frozen=True)
class Adapt:
    """A plan that changes while a stream runs: pass it as `plan=` to the operations of `kss.streaming`.

    All rows of a micro-batch use one plan, in all attempts at its tasks; the first attempt at a micro-batch
    writes down which one, and a restart finds that. No Python runs on the executors. It needs a classic
    session; docs/measured.md has what adapting costs.

    After each micro-batch the driver adds what the batch has counted to what it remembers, and makes a plan.
    The new plan replaces the current one if all of this holds:

    - in the batch the busiest worker got at least `gain` more than its fair share, and more than chance
      explains;
    - under the new plan it would have got less, by at least `gain` of a fair share;
    - over `horizon` batches the busiest worker is spared more rows than the change costs one worker:
      `copy_cost` rows for each worker that a frequent key gets, and for each row per batch of the rare
      keys that move, divided by the number of workers, which share that work;
    - the last change is at least `every` batches ago.

    Where rare keys have candidates (`partial_key`, `d_choices`, `w_choices`, `round_robin` and the online
    groupings), they stay where they are unless their worker is loaded by more than `gain` of a fair share
    above the best of these.

    Args:
        workers: the number of workers, 1..=65536. Leave it out with a grouping object or `start`.
        grouping: how plans are made: any grouping that `kss.plan` takes, or an online one such as "fish",
            whose router the driver then follows. For `streaming.write` "cut_to_fit" suits best.
        weight: the load of a row: a numeric column, an expression, or "bytes" (see `row_bytes`); 1 per row if
            left out. With a `start` that was made by a weight give the same one.
        row_id: the columns that distinguish rows, as in `kss.plan`; those of `start` if left out.
        trust: columns and functions that you guarantee to be deterministic, as in `kss.plan`.
        seed: the seed of the hashes, 0 if left out.
        start: the first plan, of `kss.plan`; if left out, the stream begins with all rows of a key on one
            worker.
        decay: what the memory counts for after one more batch, 0..=1. 0 forgets all but the last batch, 1
            forgets nothing: all batches count alike. Below 1, loads are balanced for the batches since the
            keys last differed from those before by more than chance explains. A key that was frequent before
            stays frequent while its share of the whole memory is large enough, so keys may take turns: at
            0.5 up to four keys that in turn have half of a batch stay split, at 0.9 up to five.
        gain: the smallest gain worth a change, as a fraction of a fair share, above 0.
        horizon: for how many batches a plan is expected to hold, at least 1.
        copy_cost: the cost of one more partial result, in rows, at least 0.
        every: the smallest number of batches between two changes, at least 1. None to change the plan only by
            `streaming.publish`, while the rows of each worker are counted for `streaming.observe`.
        sample: how many rows of a batch are drawn for the driver, at least 100; if left out, 100 for each key
            that can be frequent, but 4,000 to 20,000 in all. Of a batch that is larger than the one before,
            n rows in p tasks, at most about `sample * (1 + log n) * (1 + log p)` are drawn. Each adds some 25
            bytes to what the tasks of the batch send to the driver.
        capacities: the relative speed of each worker, above 0; or a function that returns them, which is
            called on the driver after each batch, and the next one waits for it. "measured" derives the
            speeds from the time per row of tasks. It needs an operation that places rows, such as
            `repartition`, so that a worker is a task. A run's first two batches are left out; a worker
            counts as slow or fast once three batches in a row say so, and what later ones do not confirm
            fades. Until the batches are balanced, a batch waits for the times of the one before, but at most
            a tenth of the time since that began, and at most a second. If left out, speeds are those of
            `start`, or equal.
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
        >>> Adapt(8, decay=0.2, every=5)  # doctest: +SKIP
    """

    workers: int | None = None
    _: KW_ONLY
    grouping: GroupingOrName = GROUPING
    weight: str | Column | None = None
    row_id: str | Sequence[str] | None = None
    trust: Trusted = ()
    seed: int | None = None
    start: Plan | None = None
    decay: float = 0.5
    gain: float = 0.1
    horizon: int = 10
    copy_cost: float = 1.0
    every: int | None = 1
    sample: int | None = None
    capacities: Sequence[float] | Callable[[], Sequence[float]] | Literal["measured"] | None = None
    log: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        workers = self.params.workers
        trusted_names(self.trust)
        if self.start is not None and self.start.weighted != (self.weight is not None):
            unit = "the one that start was made by" if self.start.weighted else "None, as start balances rows"
            raise ValueError(f"weight must be {unit}, got {self.weight!r}")
        check_number("decay", self.decay, 0, 1)
        check_number("gain", self.gain, 0, math.inf, without_least=True)
        check_number("copy_cost", self.copy_cost, 0, math.inf)
        check_whole("horizon", self.horizon, 1)
        if self.every is not None:
            check_whole("every", self.every, 1)
        if self.sample is not None:
            check_whole("sample", self.sample, 100)
        if isinstance(self.capacities, str):
            if self.capacities != "measured":
                raise TypeError(
                    f"capacities must be numbers, a function, 'measured' or None, got {self.capacities!r}"
                )
        elif self.capacities is not None and not callable(self.capacities):
            if self.start is not None:
                raise ValueError("capacities must be left out with start, which was made with its own")
            speeds_of(self.capacities, workers)
        if self.log is not None and not isinstance(self.log, str | os.PathLike):
            raise TypeError(f"log must be a path or URL, got {self.log!r}")
        if self.log == "":
            raise ValueError("log must be a folder, got ''")

    @property
    def params(self) -> Any:
        """The grouping with its parameters."""
        if self.start is None:
            return grouping_of(self.grouping, self.workers, self.seed, {**ks.GROUPINGS, **PLANS})
        if not isinstance(self.start, Plan):
            raise TypeError(f"start must be a Plan that kss.plan made, got {type_name(self.start)}")
        known = self.start.grouping
        for name, value in (("workers", known.workers), ("seed", known.seed)):
            given = getattr(self, name)
            if given is not None and given != value:
                raise ValueError(f"{name} must be left out with start, which has {value!r}, got {given!r}")
        if self.grouping not in (GROUPING, known.name, known):
            raise ValueError(f"grouping must be left out with start, by {known!r}, got {self.grouping!r}")
        return known

    @property
    def trusted(self) -> frozenset[str]:
        """The names of what is guaranteed to be deterministic."""
        return trusted_names(self.trust) | frozenset(() if self.start is None else self.start.trust)

    @property
    def speeds(self) -> tuple[float, ...] | None:
        """The fixed speeds of the workers; None if they are equal, or change."""
        if self.start is not None:
            return self.start.capacities
        if self.capacities is None or isinstance(self.capacities, str) or callable(self.capacities):
            return None
        return tuple(speeds_of(self.capacities, self.params.workers).tolist())

    @property
    def rule(self) -> "Adapt":
        """The same, ready for a run: only speeds that change, and a log that is found from any folder."""
        changing = isinstance(self.capacities, str) or callable(self.capacities)
        log = None if self.log is None else paths.absolute(self.log)
        return replace(self, capacities=self.capacities if changing else None, log=log)
