"""What plans that adapt do where keys or speeds change, by the driver's code alone: tables in Markdown.

usage: KEYSPLIT_DATA=FOLDER scripts/with-env python -m keysplit_experiments.measured.driving [--batches 60]

There is no Spark. Each micro-batch is routed by its plan as Spark would route it, and rows are drawn for the
driver as tasks draw them. The former rules run next to those of today.

Keys: with *recent*, where the keys of a batch differ from the memory by more than chance explains, all before
the batch is forgotten. *adapt* is `Adapt()`, *all* is `Adapt(decay=1)`. *Busiest* is the rows of the busiest
worker over the mean: the mean and the 95th percentile over all micro-batches from the fifth on. *Changes* is
how often the plan changed over all micro-batches.

Speeds: how long each worker is busy is made up. *Followed* takes each measurement half for itself.
*Confirmed* is `Adapt(capacities="measured")`. *Speeds* are the smallest and the largest in the last plan.
*Rows* and *time* are those of the busiest worker over the mean, over the last ten micro-batches.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql.types import LongType

import keysplit as ks
from keysplit.plan import Plan, Summary, bucket_bits, place
from keysplit.spark.streaming import Adapt, running
from keysplit.spark.streaming.drawn import Bounds
from keysplit.spark.streaming.engine import MicroBatch
from keysplit.spark.streaming.learning import Batch, Memory, Speeds
from keysplit.spark.streaming.running import Running, Shared, rows_wanted
from keysplit.spark.streaming.tables import BY_CELLS
from keysplit.spark.streaming.tally import Sent
from keysplit_experiments.measured.files import data_folder, numbered, why_left_out

WORKERS, ROWS = 8, 5000
TASKS = 4


class Seen(NamedTuple):
    """What a micro-batch has shown.

    Attributes:
        rows: the rows of each worker.
        busy_s: for how long each was busy.
        plan: the plan of the batch.
    """

    rows: np.ndarray
    busy_s: np.ndarray
    plan: Plan

    @property
    def busiest(self) -> float:
        """The rows of the busiest worker over the mean."""
        return float(self.rows.max() / self.rows.mean())

    @property
    def busiest_s(self) -> float:
        """The busy time of the busiest worker over the mean."""
        return float(self.busy_s.max() / self.busy_s.mean())


Busy = Callable[[int, np.ndarray], np.ndarray]
"""Returns for how long each worker was busy, of a micro-batch and the rows of each worker."""


def equally_busy(_: int, rows: np.ndarray) -> np.ndarray:
    """Return times of workers that take a tenth of a millisecond per row."""
    return rows * 1e-4


def driven(
    batches: Iterable[np.ndarray],
    adapt: Adapt,
    *,
    busy: Busy = equally_busy,
) -> list[Seen]:
    """Send a stream through the driver's part of a query whose plan adapts.

    Args:
        batches: the keys of each micro-batch, int64.
        adapt: how the plan changes.
        busy: for how long each worker is busy.

    Returns:
        What each micro-batch has shown.
    """
    workers = adapt.params.workers
    first, rng = nothing_known(workers), np.random.default_rng(1)
    wanted = rows_wanted(adapt, first)
    sent: list[Sent] = []
    times: list[float] = []
    outside: Any = SimpleNamespace(of=lambda *_: sent, forget=lambda _: None)
    shared = Shared(lambda *_: times, first, adapt, [LongType()], False, outside, Bounds(wanted, 0.0))
    seen = []
    with tempfile.TemporaryDirectory(prefix="keysplit-driving-") as folder:
        query = Running(shared, MicroBatch("query", "run", 0, folder), f"{folder}/log", lambda: outside)
        for number, keys in enumerate(batches):
            hashes = ks.hash_keys(keys).view(np.int64)
            last = int(query.answer(BY_CELLS, number).partition(",")[0])  # the last random number that counts
            plan = query.plan_of(number)
            assert plan is not None
            identities = ks.hash_keys(rng.permutation(len(keys)), seed=number).view(np.int64)
            routed = plan.tables.in_rust().route(hashes, identities)
            rows = np.bincount(routed, minlength=workers)
            sent[:] = [Sent("query", number, rows, drawn(hashes, (last + 2**63) / 2**64, wanted, rng))]
            times[:] = busy(number, rows).tolist()
            query.learn(number)
            seen.append(Seen(rows, np.array(times), plan))
    return seen


def nothing_known(workers: int) -> Plan:
    """Return the plan that a stream begins with: every key on the worker of its hash."""
    none, params = np.empty(0), ks.DChoices(workers=workers)
    summary = Summary(0.0, none.astype(np.int64), none, none, np.zeros(2 ** bucket_bits(workers)))
    return Plan.of(
        summary,
        place(summary, params),
        grouping=params,
        key=("key",),
        key_types=("bigint",),
        texts={},
        capacities=None,
    )


def drawn(hashes: np.ndarray, chance: float, wanted: int, rng: np.random.Generator) -> list[str]:
    """Return what tasks send of the rows that they draw, see `keysplit.spark.streaming.drawn`."""
    fields = []
    for task, part in enumerate(np.array_split(hashes, TASKS), 1):
        part = part[rng.random(len(part)) <= chance]
        places = task * np.arange(1, len(part) + 1)
        for at in np.flatnonzero(rng.random(len(part)) * places < wanted).tolist():
            fields += [str(part[at]), str(places[at]), "null"]
    return fields


class Recent(Memory):
    """A memory that is dropped where the keys have changed."""

    def add(self, batch: Batch) -> None:
        """Remember a batch."""
        super().add(batch)
        for sums in (self._weights, self._totals, self._squares):
            sums[1] = sums[0]


WAYS = {
    "recent": (Recent, Adapt(WORKERS)),
    "adapt": (Memory, Adapt(WORKERS)),
    "all": (Memory, Adapt(WORKERS, decay=1)),
}
TURNS: dict[str, Callable[[int], int]] = {
    "A, B in turn": lambda batch: batch % 2,
    "A, B, C in turn": lambda batch: batch % 3,
    "A, A, B, B": lambda batch: batch // 2 % 2,
    "four batches each": lambda batch: batch // 4 % 2,
    "a new key every 8 batches": lambda batch: batch // 8,
    "a new key in every batch": lambda batch: batch,
}
"""Which key has half of the rows of a micro-batch."""
REAL = ("reviews_movietweetings", "drift_scoop_updates")


def turning(hot: Callable[[int], int], batches: int) -> Iterator[np.ndarray]:
    """Yield micro-batches: one key has half of the rows, 1,000 others share the rest."""
    rng = np.random.default_rng(7)
    for batch in range(batches):
        keys = 10**6 + rng.integers(0, 1000, ROWS)
        keys[::2] = hot(batch)
        yield keys


def drifting(every: int, batches: int) -> Iterator[np.ndarray]:
    """Yield micro-batches of Zipf's law with exponent 1.2, other keys being frequent every so many."""
    keys = ks.streams.zipf(1.2, keys=10_000, messages=batches * ROWS, seed=1).astype(np.int64)
    for batch in range(batches):
        yield (keys[batch * ROWS : (batch + 1) * ROWS] + batch // every * 1_000) % 10_000


def streams(batches: int, folder: Path | None) -> Iterator[tuple[str, Callable[[], Iterable[np.ndarray]]]]:
    """Yield the streams by name, each to be read several times, the real ones as far as there are files."""
    for name, hot in TURNS.items():
        yield name, partial(turning, hot, batches)
    for every in (8, 20):
        yield f"Zipf, other keys every {every}", partial(drifting, every, batches)
    for name in REAL:
        path = folder / f"{name}.parquet" if folder else None
        if path and path.exists():
            keys = numbered(pq.read_table(path, columns=["key"])["key"])
            yield name, partial(np.array_split, keys, batches)
        else:
            print(f"{name} is left out: {why_left_out(name)}", file=sys.stderr)


class Followed(Speeds):
    """Speeds that follow each measurement."""

    def add(self, rows: np.ndarray, times: np.ndarray) -> None:
        """Add a batch."""
        known = (rows > 0) & (times >= 0.05)
        if known.sum() < 2:
            return
        relative = times[known] / rows[known]
        relative /= np.median(relative)
        relative[(relative < 1.3) & (relative > 1 / 1.3)] = 1.0
        self._times[known] = np.log((np.exp(self._times[known]) + relative) / 2)


def busy_with(
    noise: Callable[[int], float], speed: Callable[[int], float] = lambda _: 1.0, short_from: int = 10**9
) -> Busy:
    """Return how long workers are busy: 0.2 ms per row, by chance more or less.

    Args:
        noise: the standard deviation of the logarithm of a worker's time, in a batch.
        speed: the speed of worker 2 in a batch.
        short_from: from this batch on all takes a tenth of the time.
    """
    rng = np.random.default_rng(3)

    def busy(batch: int, rows: np.ndarray) -> np.ndarray:
        times = rows * (2e-5 if batch >= short_from else 2e-4) * rng.lognormal(0, noise(batch), len(rows))
        times[2] /= speed(batch)
        return times

    return busy


SPEEDS: dict[str, Callable[[], Busy]] = {
    "equal, noise in the first batch, then short": lambda: busy_with(lambda at: 0.4 * (at < 1), short_from=1),
    "equal, noise in two batches, then short": lambda: busy_with(lambda at: 0.4 * (at < 2), short_from=2),
    "equal, noise in ten batches, then short": lambda: busy_with(lambda at: 0.4 * (at < 10), short_from=10),
    "equal, noise for ever": lambda: busy_with(lambda _: 0.4),
    "one at half speed": lambda: busy_with(lambda _: 0.1, lambda _: 0.5),
    "one slows to 30 % at 20": lambda: busy_with(lambda _: 0.1, lambda at: 0.3 if at >= 20 else 1.0),
    "one at 30 % recovers at 20": lambda: busy_with(lambda _: 0.1, lambda at: 0.3 if at < 20 else 1.0),
}
"""How long workers are busy; each has chances of its own."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=60)
    batches = parser.parse_args().batches
    if batches < 6:
        parser.error(f"--batches must be at least 6, got {batches}")
    print("| stream | " + " | ".join(f"{way}: mean | 95 % | changes" for way in WAYS) + " |")
    print("|---|" + "---:|" * 3 * len(WAYS))
    for name, read in streams(batches, data_folder()):
        cells = []
        for memory, adapt in WAYS.values():
            with patch.object(running, "Memory", memory):
                seen = driven(read(), adapt)
            busiest = [each.busiest for each in seen[4:]]
            cells += [f"{np.mean(busiest):.2f}", f"{np.quantile(busiest, 0.95):.2f}", str(changes_in(seen))]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    rules = {"followed": Followed, "confirmed": Speeds}
    print("\n| workers | " + " | ".join(f"{rule}: speeds | rows | time | changes" for rule in rules) + " |")
    print("|---|" + "---:|" * 4 * len(rules))
    for name, busy in SPEEDS.items():
        cells = []
        for rule in rules.values():
            with patch.object(running, "Speeds", rule):
                seen = driven(drifting(batches, batches), Adapt(WORKERS, capacities="measured"), busy=busy())
            speeds, last = seen[-1].plan.speeds, seen[-10:]
            cells += [
                f"{speeds.min():.2f} to {speeds.max():.2f}",
                f"{np.mean([each.busiest for each in last]):.2f}",
                f"{np.mean([each.busiest_s for each in last]):.2f}",
                str(changes_in(seen)),
            ]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def changes_in(seen: list[Seen]) -> int:
    """Return how often the plan changed."""
    return sum(one.plan is not other.plan for one, other in pairwise(seen))


if __name__ == "__main__":
    main()
