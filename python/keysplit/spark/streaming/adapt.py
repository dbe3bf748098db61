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

    All rows of a micro-batch use the same plan, in all attempts at its tasks. The first attempt at a
    micro-batch records which plan it uses, and a restart reads the record. No Python runs on the executors.
    `Adapt` needs a classic session; docs/measured.md has the cost of adapting.

    After each micro-batch the driver adds the batch's counts to its memory, and makes a plan. The new plan
    replaces the current plan if all of these hold:

    - the busiest worker exceeded its fair share by at least `gain`, and by more than chance explains;
    - under the new plan the busiest worker would have got less, by at least `gain` of a fair share;
    - over `horizon` batches the busiest worker saves more rows than the change costs per worker. The cost is
        `copy_cost` rows for each worker that a frequent key gains, and for each row per batch of the rare
        keys that move, divided by the number of workers;
    - the last change was at least `every` batches ago.

    Rare keys that have candidates (`partial_key`, `d_choices`, `w_choices`, `round_robin` and the online
    groupings) move only if their worker's load exceeds the best candidate's by more than `gain` of a fair
    share.

    Args:
        workers: the number of workers, 1..=65536. Omit it if you pass a grouping object or `start`.
        grouping: the grouping of the plans: any grouping of `kss.plan`, or an online one such as "fish", for
            which the driver runs the router. "cut_to_fit" is the best for `streaming.write`.
        weight: the load of a row: a numeric column, an expression, or "bytes" (see `row_bytes`); 1 per row if
            omitted. If `start` was made with a weight, pass the same weight.
        row_id: the columns that distinguish rows, as in `kss.plan`; those of `start` if omitted.
        trust: columns and functions that you guarantee to be deterministic, as in `kss.plan`.
        seed: the seed of the hashes, 0 if omitted.
        start: the first plan, from `kss.plan`; if omitted, the stream begins with one worker per key.
        decay: the factor by which each batch multiplies older counts, 0..=1. With 0 only the last batch
            counts; with 1 all batches count equally. Below 1, loads are balanced for the batches since the
            keys last changed by more than chance explains. A previously frequent key stays frequent as long
            as its share of the whole memory is large enough, so keys may take turns: at 0.5 up to four keys
            that in turn have half of a batch stay split, at 0.9 up to five.
        gain: the smallest gain worth a change, as a fraction of a fair share, above 0.
        horizon: the number of batches for which a plan is expected to hold, at least 1.
        copy_cost: the cost of an additional partial result, in rows, at least 0.
        every: the smallest number of batches between two changes, at least 1. With None, only
            `streaming.publish` changes the plan; each worker's rows are still counted for
            `streaming.observe`.
        sample: how many rows of a batch are drawn for the driver, at least 100; if omitted, 100 for each key
            that can be frequent, 4,000 to 20,000 in total. If a batch is larger than the previous batch, at
            most about `sample * (1 + log n) * (1 + log p)` of its n rows in p tasks are drawn. Each drawn row
            adds about 25 bytes to the data that tasks send to the driver.
        capacities: the relative speed of each worker, above 0; or a function that returns the speeds. The
            driver calls it after each batch, and the next batch waits for it. "measured" derives the speeds
            from the tasks' time per row. This needs an operation that places rows, such as `repartition`, so
            that each worker is a task. A run's first two batches are ignored. A worker counts as slow or fast
            after three consistent measurements in a row; a difference that is not confirmed fades. Until the
            batches are balanced, a batch waits for the times of the previous batch: at most a tenth of the
            time since the previous batch began, and at most a second. If omitted, the speeds of `start`
            apply, or all are equal.
        log: the folder of the plan log, or its URL as in `Plan.save`. If omitted, `keysplit` in the query's
            checkpoint.

    Raises:
        TypeError: if an argument has a wrong type.
        ValueError: if an argument is out of its range.

    Source:
        decay: "Efficient Time-Evolving Stream Processing at Scale" (FISH, arXiv 1806.00760), section 4.1. Its
            epochs are the micro-batches here.

    Deviations:
        The papers use everything that a source has seen before each message. The plan of a micro-batch knows
        only the previous batches, so it reacts to a change of keys one batch later. keysplit counts the keys
        of drawn rows, each weighted by the number of rows it stands for, instead of all rows in a sketch. So
        the tasks of a batch need no Python, and estimates are unbiased.

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
            unit = "the weight of start" if self.start.weighted else "None, because start counts rows"
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
                raise ValueError("capacities must be omitted with start, which has its own")
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
                raise ValueError(f"{name} must be omitted with start, which has {value!r}, got {given!r}")
        if self.grouping not in (GROUPING, known.name, known):
            raise ValueError(f"grouping must be omitted with start, by {known!r}, got {self.grouping!r}")
        return known

    @property
    def trusted(self) -> frozenset[str]:
        """The names of the columns and functions that the user guarantees to be deterministic."""
        return trusted_names(self.trust) | frozenset(() if self.start is None else self.start.trust)

    @property
    def speeds(self) -> tuple[float, ...] | None:
        """The fixed speeds of the workers; None if the speeds are equal, or change."""
        if self.start is not None:
            return self.start.capacities
        if self.capacities is None or isinstance(self.capacities, str) or callable(self.capacities):
            return None
        return tuple(speeds_of(self.capacities, self.params.workers).tolist())

    @property
    def rule(self) -> "Adapt":
        """A copy for a run, with the log's absolute path, and without capacities unless they change."""
        changing = isinstance(self.capacities, str) or callable(self.capacities)
        log = None if self.log is None else paths.absolute(self.log)
        return replace(self, capacities=self.capacities if changing else None, log=log)
