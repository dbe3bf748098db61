"""Every grouping that can be planned, on every stream: imbalance and replication of its plan, row by row.

One pass over a stream makes the summary that a plan is made from; then every row goes where the plan's tables
say, by a hash of its key and a hash of its number. Next to the plans is what W-Choices does online, from
one source. Whether our own plan, cut_to_fit, holds its claims is judged with eight seeds.

The streams are Zipf with exponents 1.0, 1.4 and 2.0 (1e4 keys, 1e6 rows) and all that the folder that
KEYSPLIT_DATA names holds (docs/measured.md says how to make them).

- imbalance: of the rows, (largest - mean) / rows. Rows of a split key fall by chance, a hash, on its workers.
- expected: imbalance of the loads that the plan expects, without that chance.
- chance: how far the rows of a worker are from that, as a standard deviation; the largest of all workers.
- replication: workers that hold a key, averaged over the keys.
- copies: workers of all keys beyond one each.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import keysplit as ks
from keysplit import plan as planning
from keysplit_experiments.measured.files import data_folder, numbered

WORKERS = [10, 50, 100]
EXPONENTS = [1.0, 1.4, 2.0]
KEYS, ROWS = 10_000, 1_000_000
SEEDS = 8
OURS, ONLINE = "cut_to_fit", "w_choices online"
MOST_IMBALANCE = 1e-3


class Stream(NamedTuple):
    """Its rows' keys, numbered from 0 without gaps."""

    name: str
    keys: np.ndarray


class Hashed(NamedTuple):
    """A stream as a plan sees it: its keys' numbers, a hash of each number, and a hash of each row."""

    keys: np.ndarray
    hashes: np.ndarray
    rows: np.ndarray


class Figures(NamedTuple):
    """What is measured of one way to share out a stream."""

    imbalance: float
    replication: float
    copies: int
    expected: float = float("nan")
    chance: float = float("nan")


def streams(folder: Path | None, quick: bool) -> Iterator[Stream]:
    rows = ROWS // 10 if quick else ROWS
    for exponent in EXPONENTS:
        keys = ks.streams.zipf(exponent, KEYS, rows)
        yield Stream(f"zipf {exponent}", np.unique(keys, return_inverse=True)[1])
    for path in sorted(folder.glob("*.parquet")) if folder else ():
        import pyarrow.parquet

        column = pyarrow.parquet.read_table(path, columns=["key"])["key"]
        yield Stream(path.stem, numbered(column.slice(0, rows if quick else None)))


def hashed(keys: np.ndarray, seed: int) -> Hashed:
    numbers = np.arange(keys.max() + 1)
    hashes = ks.hash_keys(numbers, seed=2 * seed).view(np.int64)
    return Hashed(keys, hashes, ks.hash_keys(np.arange(len(keys)), seed=2 * seed + 1))


def summary(of: Hashed, capacity: int, bits: int) -> planning.Summary:
    sketch = ks.SpaceSaving(capacity)
    sketch.update(of.keys)
    found = [(-count, int(of.hashes[key]), error) for key, count, error in sketch.top(capacity)]
    counts, hashes, errors = np.array(sorted(found), dtype=object).T
    rows_of_keys = np.bincount(of.keys, minlength=len(of.hashes))
    buckets = np.bincount(planning.bucket_of(of.hashes, bits), weights=rows_of_keys, minlength=2**bits)
    return planning.Summary(
        total=float(len(of.keys)),
        hashes=hashes.astype(np.int64),
        counts=-counts.astype(np.float64),
        errors=errors.astype(np.float64),
        buckets=buckets.astype(np.float64),
    )


def share_out(of: Hashed, head: np.ndarray, placement: planning.Placement, bits: int) -> np.ndarray:
    """The worker of each row, from the tables of a plan."""
    workers: np.ndarray = placement.tail[planning.bucket_of(of.hashes, bits)][of.keys]
    if not len(head):
        return workers
    tables = [planning.alias_cells(*each) for each in zip(placement.workers, placement.shares, strict=True)]
    cuts, first, second = (np.concatenate(column) for column in zip(*tables, strict=True))
    sizes = np.array([len(each) for each in placement.workers])
    starts = np.cumsum(sizes) - sizes

    order = np.argsort(head)
    found = order[np.searchsorted(head[order], of.hashes).clip(max=len(head) - 1)]
    entries = np.where(head[found] == of.hashes, found, -1)[of.keys]
    frequent = entries >= 0
    entries, draws = entries[frequent], of.rows[frequent]
    cells = starts[entries] + ((draws >> 32) * sizes[entries].astype(np.uint64) >> 32).astype(np.int64)
    is_first = (draws & 0xFFFFFFFF).astype(np.int64) < cuts[cells]
    workers[frequent] = np.where(is_first, first[cells], second[cells])
    return workers


def imbalance(loads: np.ndarray) -> float:
    return float((loads.max() - loads.mean()) / loads.sum())


def figures(keys: np.ndarray, workers: np.ndarray, n: int) -> Figures:
    """From nothing but the keys and the chosen workers."""
    distinct, pairs = len(np.unique(keys)), len(np.unique(keys * n + workers))
    return Figures(imbalance(np.bincount(workers, minlength=n)), pairs / distinct, pairs - distinct)


def planned(of: Hashed, params: ks.groupings.Grouping | planning.CutToFit) -> Figures:
    n, bits = params.workers, planning.bucket_bits(params.workers)
    seen = summary(of, planning.sketch_capacity(params), bits)
    placement = planning.place(seen, params)
    head, weights = seen.hashes[placement.head], (seen.counts - seen.errors)[placement.head]
    loads = planning.expected_loads(seen, head, placement.workers, placement.shares, placement.tail, n)
    variance = np.zeros(n)
    for weight, workers, shares in zip(weights, placement.workers, placement.shares, strict=True):
        variance[workers] += weight * shares * (1 - shares)
    return figures(of.keys, share_out(of, head, placement, bits), n)._replace(
        expected=imbalance(loads), chance=float(np.sqrt(variance.max())) / len(of.keys)
    )


def online(keys: np.ndarray, n: int) -> Figures:
    return figures(keys, ks.WChoices(workers=n).router().route(keys), n)


Table = dict[tuple[str, int], dict[str, Figures]]
"""Figures by stream and number of workers, then by plan."""


class Claim(NamedTuple):
    """What must hold for our plan: a figure of every seed, and what it must be below."""

    claim: str
    stream: str
    workers: int
    figures: list[float]
    below: float

    @property
    def holds(self) -> int:
        return sum(figure < self.below for figure in self.figures)


def claims(stream: str, workers: int, ours: Sequence[Figures], theirs: Figures) -> list[Claim]:
    return [
        Claim("imbalance", stream, workers, [of.imbalance for of in ours], MOST_IMBALANCE),
        Claim("replication", stream, workers, [of.replication for of in ours], theirs.replication),
    ]


def short(value: float) -> str:
    return f"{value:.3f}" if value >= 0.01 else f"{value:.1e}"


def line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def head(*names: str, texts: int = 1) -> str:
    """The first lines of a table, whose first columns are text and the others numbers."""
    return "\n".join([line(names), line(["---"] * texts + ["---:"] * (len(names) - texts))])


def print_table(table: Table, workers: int, what: str) -> None:
    """One figure of all plans on all streams."""
    print("\n" + head(f"{what}, n = {workers}", *planning.PLANS, ONLINE))
    for (stream, n), row in table.items():
        if n == workers:
            print(line([stream, *(short(getattr(of, what)) for of in row.values())]))


def print_ours(table: Table, judged: Sequence[Claim]) -> None:
    columns = ["expected", "chance", "imbalance", "copies", "replication", "W-Choices' online"]
    print("\n" + head(OURS, "n", *columns))
    for (stream, n), row in table.items():
        ours = row[OURS]
        copies = f"{ours.copies:,}"
        numbers = [short(ours.expected), short(ours.chance), short(ours.imbalance), copies]
        replications = [f"{of.replication:.4f}" for of in (ours, row[ONLINE])]
        print(line([stream, str(n), *numbers, *replications]))
    print("\n" + head(f"{OURS}: claim", "stream", "n", "holds with", "largest", "must be below", texts=2))
    for of in judged:
        seeds = f"{of.holds} of {len(of.figures)} seeds"
        print(line([of.claim, of.stream, str(of.workers), seeds, short(max(of.figures)), short(of.below)]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="100,000 rows a stream at most, two seeds")
    options = parser.parse_args(arguments)
    table: Table = {}
    judged: list[Claim] = []
    for stream, keys in streams(data_folder(), options.quick):
        of_seeds = [hashed(keys, seed) for seed in range(2 if options.quick else SEEDS)]
        for n in WORKERS:
            row = {name: planned(of_seeds[0], kind(workers=n)) for name, kind in planning.PLANS.items()}
            table[stream, n] = row | {ONLINE: online(keys, n)}
            params = planning.CutToFit(workers=n)
            ours = [row[OURS], *(planned(of, params) for of in of_seeds[1:])]
            judged += claims(stream, n, ours, table[stream, n][ONLINE])
        print(f"{stream} is done", file=sys.stderr, flush=True)
    for n in WORKERS:
        print_table(table, n, "imbalance")
        print_table(table, n, "replication")
    print_ours(table, judged)
    if data_folder() is None:
        print("\nThe real streams are left out: KEYSPLIT_DATA names no folder")


if __name__ == "__main__":
    main()
