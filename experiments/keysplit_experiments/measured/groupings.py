"""Every grouping on three streams: imbalance, replication and cost, and whether the papers' claims hold.

One source, 50 workers. The streams are Zipf with exponent 1.4 (1e4 keys, 1e6 messages); movie
ratings posted on Twitter, whose frequent keys change from week to week; and a web shop's order lines by
country, where one key has 91 per cent. The last two are read from the folder that KEYSPLIT_DATA names
(docs/measured.md says how to make them); a stream that is not there is left out. Their keys become whole
numbers first, so that routing alone is measured.

- end: imbalance of the final loads, (largest - mean) / messages.
- over time: the same of the loads so far, averaged over 100 positions.
- windows: the same of the loads of 1,000 messages alone, averaged over windows cut one after another.
- replication: workers that hold a key, averaged over the keys.
- cost: thread CPU time of `route` from fresh, as a ratio to key grouping timed just before. Median.

The figures are those of seed 0, of the drawn stream and of all hashes. The claims that they can decide are
judged with eight seeds; *NO* means with none of them.

A paper is cited by its number: [0] Dynamic Key Grouping, [1] Load Balancing for Skewed Streams on
Heterogeneous Cluster, [2] When Two Choices Are not Enough, [3] Efficient Time-Evolving Stream Processing at
Scale, [4] FlexD.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any, NamedTuple

import numpy as np

import keysplit as ks
from keysplit_experiments.measured.files import data_folder, numbered, why_left_out

WORKERS = 50
KEYS, MESSAGES = 10_000, 1_000_000
SAMPLES, WINDOW = 100, 1000
SEEDS = 8
ZIPF, DRIFT, HIGH_SKEW = "zipf 1.4", "reviews_movietweetings", "highskew_retail_country"


@dataclass(frozen=True)
class Stream:
    """Keys as whole numbers, and when they came, in seconds, where the stream knows."""

    name: str
    keys: np.ndarray
    times: np.ndarray | None = None


class Figures(NamedTuple):
    """What is measured of one grouping on one stream, but for the cost."""

    end: float
    over_time: float
    windows: float
    replication: float
    largest: float


class Verdict(NamedTuple):
    """Whether one claim holds on one stream, with the numbers that decide."""

    claim: str
    stream: str
    holds: bool
    numbers: str


Table = dict[str, dict[str, Figures]]
"""Figures by stream and grouping."""


def read(name: str, folder: Path, messages: int) -> Stream:
    """The first messages of a file with columns ts and key, the keys numbered in the order they come in."""
    import pyarrow.parquet

    file = pyarrow.parquet.read_table(folder / f"{name}.parquet", columns=["ts", "key"]).slice(0, messages)
    return Stream(name, numbered(file["key"]), file["ts"].to_numpy().astype(np.float64))


def streams(messages: int, seed: int, folder: Path | None) -> tuple[list[Stream], list[str]]:
    """The streams, and for those that are left out why."""
    found, reasons = [Stream(ZIPF, ks.streams.zipf(1.4, KEYS, messages, seed))], []
    for name in (DRIFT, HIGH_SKEW):
        if folder and (folder / f"{name}.parquet").is_file():
            found.append(read(name, folder, messages))
        else:
            reasons.append(f"{name} is left out: {why_left_out(name)}")
    return found, reasons


def figures(keys: np.ndarray, chosen: np.ndarray, workers: int = WORKERS) -> Figures:
    """What the choices come to, from nothing but the keys and the chosen workers."""
    loads, over_time = np.zeros(workers), []
    for part in np.array_split(chosen, SAMPLES):
        loads += np.bincount(part, minlength=workers)
        over_time.append((loads.max() - loads.mean()) / loads.sum())
    whole = len(chosen) // WINDOW
    places = np.repeat(np.arange(whole) * workers, WINDOW) + chosen[: whole * WINDOW]
    windows = np.bincount(places, minlength=whole * workers).reshape(whole, workers)
    return Figures(
        end=float(over_time[-1]),
        over_time=float(np.mean(over_time)),
        windows=float(np.mean((windows.max(axis=1) - WINDOW / workers) / WINDOW)),
        replication=ks.metrics.replication(keys, chosen),
        largest=float(loads.max()),
    )


def run(name: str, keys: np.ndarray, seed: int = 0, workers: int = WORKERS, **params: Any) -> Figures:
    router = ks.grouping(name, workers=workers, seed=seed, **params).router()
    return figures(keys, router.route(keys), workers)


def costs(keys: np.ndarray, rounds: int) -> dict[str, float]:
    """Ratios to key grouping, which is timed before every other; all of them in every round."""
    ratios: dict[str, list[float]] = {name: [] for name in ks.GROUPINGS}
    for _ in range(rounds):
        for name, times in ratios.items():
            by = seconds("key", keys)
            times.append(seconds(name, keys) / by)
    return {name: median(times) for name, times in ratios.items()}


def seconds(name: str, keys: np.ndarray) -> float:
    router = ks.grouping(name, workers=WORKERS).router()
    begin = thread_time()
    router.route(keys)
    return thread_time() - begin


def short(value: float) -> str:
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}" if value >= 0.01 else f"{value:.1e}"


FIGURES = ["end", "over time", "windows", "replication"]


def cells_of(of: Figures) -> list[str]:
    return [short(value) for value in (of.end, of.over_time, of.windows, of.replication)]


def line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def head(*names: str, texts: int = 1) -> str:
    """The first lines of a table, whose first columns are text and the others numbers."""
    return "\n".join([line(names), line(["---"] * texts + ["---:"] * (len(names) - texts))])


EVERYWHERE, SKEWED = [ZIPF, DRIFT, HIGH_SKEW], [ZIPF, HIGH_SKEW]
CLAIMS = [
    (
        "FISH beats W-Choices under drift over short windows [3, 6.2]",
        [DRIFT],
        "windows",
        "fish",
        "w_choices",
    ),
    ("FISH keeps fewer copies than W-Choices [3, 6.4]", EVERYWHERE, "replication", "fish", "w_choices"),
    (
        "DKG beats PKG where one key has more than 30 per cent [0, 5.4]",
        SKEWED,
        "end",
        "dynamic_key",
        "partial_key",
    ),
    ("FlexD keeps fewer copies than W-Choices", EVERYWHERE, "replication", "flexd", "w_choices"),
    ("FlexD keeps fewer copies than PStream [4, 6.2]", EVERYWHERE, "replication", "flexd", "pstream"),
    ("FlexD is better balanced than PStream at high skew [4, 6.2]", SKEWED, "end", "flexd", "pstream"),
    ("FlexD is better balanced than Dalton at high skew [4, 6.2]", SKEWED, "end", "flexd", "dalton"),
    (
        "PoRC keeps fewer copies than the bounded ring [1, 7.2]",
        EVERYWHERE,
        "replication",
        "power_of_random",
        "bounded_ring",
    ),
    ("W-Choices balances better than D-Choices [2, V]", [ZIPF], "end", "w_choices", "d_choices"),
    ("D-Choices balances better than PKG [2, V]", SKEWED, "end", "d_choices", "partial_key"),
    (
        "D-Choices keeps fewer copies than W-Choices [2, V]",
        [ZIPF, DRIFT],
        "replication",
        "d_choices",
        "w_choices",
    ),
    ("PKG balances better than key grouping [2, V]", EVERYWHERE, "end", "partial_key", "key"),
    (
        "Distribution-aware key grouping balances better than key grouping (Rivetti et al. 2015)",
        EVERYWHERE,
        "end",
        "distribution_aware",
        "key",
    ),
]
"""What is claimed, on which streams, of which figure; and whose is the smaller, whose the larger one."""


def claims(table: Table) -> Iterator[Verdict]:
    for claim, streams, what, smaller, larger in CLAIMS:
        for stream in streams:
            if stream in table:
                one, other = (getattr(table[stream][name], what) for name in (smaller, larger))
                numbers = f"{smaller} {short(one)}, {larger} {short(other)}"
                yield Verdict(claim, stream, one < other, numbers)


def bounds(table: Table, sizes: dict[str, int]) -> Iterator[Verdict]:
    """That the largest load at the end is at most what the bins of a worker may hold."""
    for name, bins in (("bounded_ring", 1), ("power_of_random", 1), ("consistent", 10)):
        for stream, rows in table.items():
            messages, of = sizes[stream], rows[name]
            most = bins * ceil(1.01 * messages / (bins * WORKERS))
            numbers = f"{name} {short(of.end)}, at most {short((most - messages / WORKERS) / messages)}"
            yield Verdict("Imbalance within epsilon's bound [1, 6.1]", stream, of.largest <= most, numbers)


def bins(table: Table, found: list[Stream], seed: int) -> Iterator[Verdict]:
    """Consistent grouping next to a bounded ring of as many bins, shared out evenly to the workers."""
    for stream in found:
        router = ks.BoundedRingGrouping(workers=10 * WORKERS, seed=seed).router()
        ring = figures(stream.keys, router.route(stream.keys) % WORKERS).replication
        ours = table[stream.name]["consistent"].replication
        yield Verdict(
            "Consistent grouping keeps fewer copies than a bounded ring of as many bins [1, 7.2]",
            stream.name,
            ours < ring,
            f"consistent {short(ours)}, bounded_ring {short(ring)}",
        )


def print_verdicts(verdicts: Iterable[Sequence[Verdict]]) -> None:
    """A line for each claim on each stream, with the numbers of the first seed."""
    lines = list(verdicts)  # what they are taken from is printed on the way
    print("\n" + head("claim", "stream", "holds", "numbers", texts=4))
    for seeds in lines:
        count = sum(verdict.holds for verdict in seeds)
        holds = {0: "NO", len(seeds): "yes"}.get(count, f"with {count} of {len(seeds)} seeds")
        print(line([seeds[0].claim, seeds[0].stream, holds, seeds[0].numbers]))


def one_hot_key(percent: int, messages: int) -> np.ndarray:
    """One of 204 keys has this share, the others have equal ones: the streams of [0, 5.1]."""
    generator = np.random.default_rng(0)
    keys = generator.integers(1, 204, messages)
    keys[generator.random(messages) < percent / 100] = 0
    return keys


def skewness(messages: int) -> Iterator[Verdict]:
    """Dynamic key grouping against PKG, on 10 workers as there. PKG's choices differ, as the other's do."""
    claim = "DKG beats PKG above 30 per cent skew, and not below [0, 5.4]"
    cases: dict[str, dict[str, Any]] = {"key": {}, "partial_key": {"distinct": True}, "dynamic_key": {}}
    print("\n" + head("share of one key of 204, n = 10", *cases, *(f"{name}, copies" for name in cases)))
    for percent in range(0, 100, 10):
        keys = one_hot_key(percent, messages)
        row = {name: run(name, keys, workers=10, **params) for name, params in cases.items()}
        cells = [short(of.end) for of in row.values()] + [short(of.replication) for of in row.values()]
        print(line([f"{percent} per cent", *cells]), flush=True)
        ours, pkg = row["dynamic_key"].end, row["partial_key"].end
        numbers = f"dynamic_key {short(ours)}, partial_key {short(pkg)}"
        if percent != 30:
            yield Verdict(claim, f"{percent} per cent", (ours < pkg) == (percent > 30), numbers)


def high_skew(messages: int) -> Iterator[Verdict]:
    """FlexD, PStream and Dalton where the Zipf exponent rises, on 8 workers as in [4, 6.1.4] and on ours."""
    names = ["flexd", "pstream", "dalton"]
    headings = [f"{name}, {what}" for what in ("end", "start", "copies") for name in names]
    print("\n" + head("z, n", *headings))
    for workers in (8, WORKERS):
        for exponent in (1.0, 1.5, 2.0, 2.5, 3.0):
            keys, stream = ks.streams.zipf(exponent, KEYS, messages), f"z {exponent}, n = {workers}"
            row = {name: run(name, keys, workers=workers) for name in names}
            balance = {
                "in the end": {name: of.end for name, of in row.items()},
                "at the start": {
                    name: run(name, keys[: messages // 20], workers=workers).end for name in names
                },
            }
            cells = [short(end) for of in balance.values() for end in of.values()]
            print(line([stream, *cells, *(short(of.replication) for of in row.values())]), flush=True)
            for when, ends in balance.items():
                if exponent >= 2.0:
                    claim = f"FlexD is best balanced {when}, z of 2.0 and more [4, 6.2]"
                    numbers = ", ".join(f"{name} {short(end)}" for name, end in ends.items())
                    yield Verdict(
                        claim, stream, ends["flexd"] < min(ends["pstream"], ends["dalton"]), numbers
                    )


def timed(name: str, stream: Stream, service_time_s: float | None = None) -> Figures:
    """Routed with the stream's own times: by segment for FlexD, else by the moment."""
    assert stream.times is not None
    router = ks.grouping(name, workers=WORKERS).router()
    if service_time_s is not None:
        router.observe(now=stream.times[0], service_time_s=service_time_s)
    if name == "flexd":
        cuts = np.arange(0, len(stream.keys), 10_000)[1:]
    else:
        cuts = np.flatnonzero(np.diff(stream.times)) + 1
    chosen = [
        router.route(keys, now=times[0])
        for keys, times in zip(np.split(stream.keys, cuts), np.split(stream.times, cuts), strict=True)
    ]
    return figures(stream.keys, np.concatenate(chosen))


def clocks(table: Table, found: list[Stream]) -> None:
    """The groupings whose rules run on time, by their own clock and the stream's; FISH without decay, too."""
    print("\n" + head("grouping, its clock or setting", "stream", *FIGURES, texts=2))
    for stream in found:
        if stream.times is None:
            continue
        span, messages = stream.times[-1] - stream.times[0], len(stream.keys)
        busy = 0.8 * WORKERS * span / messages
        rows = {f"{name}, 1,000 messages a second": table[stream.name][name] for name in CLOCKED}
        router = ks.grouping("fish", workers=WORKERS).router()
        router.observe(service_time_s=0.8 * WORKERS / 1000)
        rows["fish, 1,000 messages a second, workers 80 per cent busy"] = figures(
            stream.keys, router.route(stream.keys)
        )
        rows |= {f"{name}, the stream's times": timed(name, stream) for name in CLOCKED}
        rows["fish, the stream's times, workers 80 per cent busy"] = timed("fish", stream, busy)
        rows["fish, decay = 1: nothing is forgotten"] = run("fish", stream.keys, decay=1.0)
        rows["w_choices, for comparison"] = table[stream.name]["w_choices"]
        for label, of in rows.items():
            print(line([label, stream.name, *cells_of(of)]), flush=True)


CLOCKED = ["fish", "flexd", "dynamic_key"]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="100,000 messages a stream, one timing, two seeds"
    )
    options = parser.parse_args(arguments)
    messages, rounds, seeds = (100_000, 1, 2) if options.quick else (MESSAGES, 7, SEEDS)

    of_seeds: list[tuple[Table, list[Stream], list[Verdict]]] = []
    for seed in range(seeds):
        found, reasons = streams(messages, seed, data_folder())
        table = {of.name: {name: run(name, of.keys, seed) for name in ks.GROUPINGS} for of in found}
        sizes = {of.name: len(of.keys) for of in found}
        verdicts = [*claims(table), *bounds(table, sizes), *bins(table, found, seed)]
        of_seeds.append((table, found, verdicts))
    table, found, _ = of_seeds[0]
    print(head("stream", "grouping", *FIGURES, "cost", texts=2))
    for stream in found:
        cost = costs(stream.keys, rounds)
        for name, of in table[stream.name].items():
            print(line([stream.name, name, *cells_of(of), f"{cost[name]:.1f}"]), flush=True)
    for reason in reasons:
        print(f"\n{reason}")
    print_verdicts(zip(*(verdicts for _, _, verdicts in of_seeds), strict=True))
    print_verdicts((verdict,) for verdict in skewness(messages))
    print_verdicts((verdict,) for verdict in high_skew(messages))
    clocks(table, found)


if __name__ == "__main__":
    main()
