"""The programs of `measured` run and measure what they say; the documentation's figures take full runs."""

import mmap
import os
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import keysplit as ks
from keysplit import plan as planning
from keysplit_experiments.measured import balance, groupings, memory, plans, processes


@pytest.fixture(scope="module")
def cells() -> list[Any]:
    return list(balance.cells(100_000, range(2)))


def test_balance_has_every_cell_with_the_papers_d(cells: list[Any]) -> None:
    ours = {(cell.exponent, cell.workers): cell.d for cell in reversed(cells) if cell.grouping == "d_choices"}
    assert ours == {
        (1.0, 20): 3,
        (1.0, 50): 6,
        (1.0, 100): 12,
        (1.4, 20): 10,
        (1.4, 50): 22,
        (1.4, 100): 43,
        (2.0, 50): 49,
        (2.0, 100): 95,
    }
    twice = [(cell.exponent, cell.workers, cell.d) for cell in cells if cell.d and cell.d == cell.authors_d]
    assert twice[3:5] == [(1.4, 20, 14), (1.4, 50, 22)]
    for name in ("key", "partial_key", "w_choices", "round_robin"):
        assert {(cell.exponent, cell.workers) for cell in cells if cell.grouping == name} == set(ours)


def test_balance_measures_the_groupings(cells: list[Any]) -> None:
    for cell in cells:
        assert len(cell.imbalances) == len(cell.replications) == 2
        assert cell.authors is None  # theirs are of longer streams
        assert 1 <= min(cell.replications) <= max(cell.replications) <= cell.workers
        if cell.grouping == "key":
            assert cell.replications == [1, 1]
        if cell.grouping == "partial_key":
            assert max(cell.replications) <= 2
        if cell.grouping == "w_choices":
            assert cell.imbalance_holds()
    imbalance = {
        cell.grouping: median(cell.imbalances)
        for cell in cells
        if (cell.exponent, cell.workers) == (1.4, 50) and cell.d != cell.workers
    }
    # a share of the stream, which its length hardly moves
    assert imbalance["key"] == pytest.approx(0.330, rel=0.1)
    assert imbalance["partial_key"] == pytest.approx(0.145, rel=0.1)
    assert imbalance["w_choices"] < imbalance["d_choices"] < imbalance["partial_key"] / 10


@pytest.mark.parametrize(
    ("grouping", "imbalances", "authors", "holds"),
    [
        ("key", [0.30, 0.32, 0.34], (0.350, 1.0), (True, True)),
        ("key", [0.30, 0.32, 0.34], (0.360, 1.2), (False, False)),
        ("partial_key", [0.05, 0.06, 0.07], (0.054, 1.15), (False, True)),
        ("w_choices", [1e-6, 1e-5], (1e-6, 1.0), (True, True)),
        ("w_choices", [1e-6, 1.1e-5], (1e-6, 1.0), (False, True)),
        ("d_choices", [3e-6, 3e-5], (8.9e-5, 1.0), (True, True)),
        ("d_choices", [3e-6, 3e-5], (9.1e-5, 1.0), (False, True)),
        ("round_robin", [3e-6, 3e-5], (0.9e-6, 1.0), (False, True)),
    ],
)
def test_balance_judges(
    cells: list[Any],
    grouping: str,
    imbalances: list[float],
    authors: tuple[float, float],
    holds: tuple[bool, bool],
) -> None:
    cell = replace(
        cells[0],
        grouping=grouping,
        messages=balance.MESSAGES,
        imbalances=imbalances,
        replications=[0.9, 1.0, 1.3],
        authors=authors,
    )
    assert (cell.imbalance_holds(), cell.replication_holds()) == holds
    (about_imbalance, about_replication) = balance.summary([cell])
    assert [" 1 of 1 " in about_imbalance, " 1 of 1 " in about_replication] == list(holds)


def test_balance_prints(capsys: pytest.CaptureFixture[str]) -> None:
    balance.main(["--quick", "--markdown"])
    table, summary = capsys.readouterr().out.split("\n\n")
    lines = [line.strip("| ").split(" | ") for line in table.splitlines()]
    assert lines[0] == balance.HEADER
    assert len(lines) == 2 + 8 * 5 + 2
    assert {tuple(line[:2]) for line in lines[2:]} == {(f"{z}", f"{n}") for z, n in balance.AUTHORS}
    assert summary.splitlines() == ["- w_choices, imbalance: holds in 8 of 8 cells"]
    balance.main(["--quick"])
    assert len(capsys.readouterr().out.splitlines()) == 1 + 8 * 5 + 2 + 2


@pytest.mark.parametrize(
    ("program", "options", "said"),
    [
        (balance, ["--slow"], "--slow"),
        (groupings, ["--seed", "1"], "--seed"),
        (plans, ["--seed", "1"], "--seed"),
        (memory, ["--groupings", "key,best"], "must be among shuffle, key, "),
        (memory, ["--messages", "1000"], "must be a power of ten, at least 10000, got 1000"),
        (memory, ["--messages", "20000"], "must be a power of ten, at least 10000, got 20000"),
    ],
)
def test_wrong_options_end_without_a_traceback(
    program: ModuleType, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        program.main(options)
    assert end.value.code == 2
    assert said in capsys.readouterr().err


DRIFT = [f"film {number // 4000 + number % 7}" for number in range(20_000)]
SKEWED = ["here" if number % 10 else f"abroad {number % 370}" for number in range(12_345)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small streams in the place of the real ones; two messages come in a second."""
    folder = tmp_path_factory.mktemp("data")
    for name, keys in ((groupings.DRIFT, DRIFT), (groupings.HIGH_SKEW, SKEWED)):
        times = [1_000_000 + number // 2 for number in range(len(keys))]
        pyarrow.parquet.write_table(pa.table({"ts": times, "key": keys}), folder / f"{name}.parquet")
    return folder


def test_groupings_reads_the_streams(data: Path) -> None:
    (zipf, drift, skewed), reasons = groupings.streams(15_000, 3, data)
    assert reasons == []
    assert (zipf.keys == ks.streams.zipf(1.4, 10_000, 15_000, 3)).all()
    assert zipf.times is None
    for stream, keys in ((drift, DRIFT[:15_000]), (skewed, SKEWED)):
        numbers: dict[str, int] = {}
        assert stream.keys.tolist() == [numbers.setdefault(key, len(numbers)) for key in keys]
        assert stream.times.tolist() == [1_000_000 + number // 2 for number in range(len(keys))]


@pytest.mark.parametrize("named", [True, False])
def test_groupings_leaves_out_what_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    monkeypatch.setenv("KEYSPLIT_DATA", str(tmp_path) if named else "")
    (zipf,), reasons = groupings.streams(1000, 0, groupings.data_folder())
    assert zipf.name == groupings.ZIPF
    assert [reason.split()[0] for reason in reasons] == [groupings.DRIFT, groupings.HIGH_SKEW]
    assert all("KEYSPLIT_DATA" in reason for reason in reasons)


def test_groupings_measures_as_a_loop_would() -> None:
    generator = np.random.default_rng(0)
    keys, chosen = generator.integers(0, 30, 5432), generator.integers(0, 7, 5432)

    def imbalance(loads: list[int]) -> float:
        return (max(loads) - sum(loads) / 7) / sum(loads)

    parts, cuts, loads = [], [], [0] * 7
    size, longer = divmod(5432, 100)
    for part in range(100):
        cuts.append((cuts[-1] if cuts else 0) + size + (part < longer))
    for position, worker in enumerate(chosen, start=1):
        loads[worker] += 1
        if position in cuts:
            parts.append(imbalance(loads))
    windows = [
        imbalance([list(chosen[start : start + 1000]).count(worker) for worker in range(7)])
        for start in range(0, 5000, 1000)
    ]
    pairs = set(zip(keys.tolist(), chosen.tolist(), strict=True))
    of = groupings.figures(keys, chosen.astype(np.uint32), 7)
    assert len(parts) == 100
    assert of.end == pytest.approx(imbalance(loads))
    assert of.over_time == pytest.approx(sum(parts) / 100)
    assert of.windows == pytest.approx(sum(windows) / 5)
    assert of.replication == pytest.approx(len(pairs) / len(set(keys.tolist())))
    assert of.largest == max(loads)


def test_groupings_takes_costs_by_the_key_grouping_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds are made up: key grouping takes 1, 2, 3 ... one after another, the others thrice the last."""
    times = [0.0]

    def seconds(name: str, keys: np.ndarray) -> float:
        if name == "key":
            times.append(times[-1] + 1)
            return times[-1]
        return 3 * times[-1]

    monkeypatch.setattr(groupings, "seconds", seconds)
    ratios = groupings.costs(np.arange(10), rounds=3)
    assert list(ratios) == list(ks.GROUPINGS)
    assert {ratio for name, ratio in ratios.items() if name != "key"} == {3.0}


def test_groupings_judges_by_the_figure_that_a_claim_names() -> None:
    """A claim holds where its smaller figure is smaller, not where both are equal or the larger one is."""
    equal = groupings.Figures(0.1, 0.1, 0.1, 2.0, 1000.0)
    for claim, streams, what, smaller, larger in groupings.CLAIMS:
        lower = equal._replace(**{what: 0.05})
        for name, holds in ((smaller, True), (larger, False), ("shuffle", False)):
            table = {stream: dict.fromkeys(ks.GROUPINGS, equal) | {name: lower} for stream in streams}
            judged = [verdict for verdict in groupings.claims(table) if verdict.claim == claim]
            assert [verdict.stream for verdict in judged] == streams
            assert all(verdict.holds is holds for verdict in judged)
    assert list(groupings.claims({})) == []


def test_groupings_judges_bounds() -> None:
    """The capacity of one of 50 workers is 20,201 messages of 1,000,001; of ten of 500 bins it is 20,210."""
    names = ["bounded_ring", "power_of_random", "consistent"]
    for largest, holds in ((20_201, [True] * 3), (20_202, [False, False, True]), (20_211, [False] * 3)):
        table = {"a stream": dict.fromkeys(names, groupings.Figures(2.0e-4, 0, 0, 1.0, largest))}
        judged = list(groupings.bounds(table, {"a stream": 1_000_001}))
        assert [verdict.holds for verdict in judged] == holds
        assert [verdict.numbers.split()[0] for verdict in judged] == names


def test_groupings_makes_the_stream_of_one_hot_key() -> None:
    counts = np.bincount(groupings.one_hot_key(70, 50_000), minlength=204)
    assert counts[0] / 50_000 == pytest.approx(0.7, abs=0.01)
    assert len(counts) == 204
    assert counts[1:].min() > 0


def test_groupings_routes_by_the_streams_times(data: Path) -> None:
    (_, drift, _), _ = groupings.streams(20_000, 0, data)
    for name in groupings.CLOCKED:
        router = ks.grouping(name, workers=50).router()
        step = 10_000 if name == "flexd" else 2  # two messages come at the same time
        chosen = [
            router.route(drift.keys[at : at + step], now=drift.times[at]) for at in range(0, 20_000, step)
        ]
        assert groupings.timed(name, drift) == groupings.figures(drift.keys, np.concatenate(chosen))


def test_groupings_prints(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(groupings, "costs", lambda keys, rounds: dict.fromkeys(ks.GROUPINGS, 1.5))
    monkeypatch.setenv("KEYSPLIT_DATA", str(data))
    groupings.main(["--quick"])
    table, verdicts, shares, by_share, exponents, by_exponent, clocks = (
        [row.strip("| ").split(" | ") for row in part.strip().splitlines()]
        for part in capsys.readouterr().out.split("\n\n")
    )
    streams = [groupings.ZIPF, groupings.DRIFT, groupings.HIGH_SKEW]
    assert [row[:2] for row in table[2:]] == [[stream, name] for stream in streams for name in ks.GROUPINGS]
    assert {row[6] for row in table[2:]} == {"1.5"}
    for judged in (verdicts, by_share, by_exponent):
        assert judged[0] == ["claim", "stream", "holds", "numbers"]
        assert {row[2] for row in judged[2:]} <= {"yes", "NO", "with 1 of 2 seeds"}
    assert len(shares) == 2 + 10
    assert len(by_share) == 2 + 9
    assert len(exponents) == 2 + 2 * 5
    assert len(by_exponent) == 2 + 2 * 3 * 2
    assert len(clocks) == 2 + 2 * 10
    kept = {row[1]: float(row[5]) for row in table[2:] if row[0] == groupings.ZIPF}
    assert {name for name, replication in kept.items() if replication == 1} == {"key", "ring"}


def test_memory_draws_keys_with_a_share_of_one_by_their_number() -> None:
    whole, parts = (
        np.concatenate([keys.copy() for keys in memory.chunks(200_000, size)]) for size in (200_000, 10_000)
    )
    assert (whole == parts).all()
    assert whole.min() == 1
    assert whole.max() <= memory.KEYS
    for key in (1, 2, 10):
        share = np.log((key + 1) / key) / np.log(memory.KEYS + 1)
        assert np.mean(whole == key) == pytest.approx(share, rel=0.1)
    assert memory.distinct([1000, 10_000]) == [len(set(whole[:end].tolist())) for end in (1000, 10_000)]


@pytest.mark.parametrize(
    ("then", "now", "holds"),
    [
        ((1000, 10 << 20), (2524, 12 << 20), True),
        ((1000, 10 << 20), (2525, 12 << 20), False),
        ((1000, 10 << 20), (1000, (12 << 20) + 1), False),
        ((1000, 0), (1000, 1 << 20), True),
    ],
)
def test_memory_judges(then: tuple[int, int], now: tuple[int, int], holds: bool) -> None:
    assert memory.bounded([memory.Size(1, 1), memory.Size(*then), memory.Size(*now)]) is holds


LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells resident memory")


@LINUX
def test_memory_sees_a_router_that_forgets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hoarder:
        def __init__(self) -> None:
            self.kept: list[mmap.mmap] = []

        def router(self) -> "Hoarder":
            return self

        def route(self, keys: np.ndarray) -> None:
            # pages of its own: an array may lie in memory that this process has had before
            self.kept.append(mmap.mmap(-1, 64 * len(keys)))
            self.kept[-1].write(bytes([1]) * len(self.kept[-1]))

        def snapshot(self) -> bytes:
            return bytes(len(self.kept))

    monkeypatch.setattr(memory.ks, "grouping", lambda name, workers: Hoarder())
    sizes = list(memory.sizes("key", [10_000, 100_000, 1_000_000]))
    assert [size.snapshot for size in sizes] == [1, 10, 100]
    assert sizes[2].resident - sizes[1].resident > 32 << 20  # of the 58 MB that it keeps
    assert not memory.bounded(sizes)


@LINUX
def test_memory_prints(capfd: pytest.CaptureFixture[str]) -> None:
    memory.main(["--groupings", "key,w_choices", "--messages", "100000"])
    table, keys = capfd.readouterr().out.split("\n\n")
    header, _, *rows = [row.strip("| ").split(" | ") for row in table.splitlines()]
    assert header[1:4] == ["snapshot, bytes at 1e3", "snapshot, bytes at 1e4", "snapshot, bytes at 1e5"]
    assert [row[0] for row in rows] == ["key", "w_choices"]
    assert [row[7] for row in rows] == ["yes", "yes"]
    router = ks.WChoices(workers=100).router()
    for chunk in memory.chunks(1000, 1000):
        router.route(chunk)
    assert int(rows[1][1].replace(",", "")) == len(router.snapshot())
    assert keys.startswith("Different keys: ")


def test_plans_summarise_and_share_out_as_a_loop_would() -> None:
    keys = np.unique(ks.streams.zipf(1.4, 200, 5000), return_inverse=True)[1]
    of, params = plans.hashed(keys, 3), planning.CutToFit(workers=7)
    assert len(set(of.hashes.tolist())) == keys.max() + 1
    assert len(set(of.rows.tolist())) == len(keys)
    seen = plans.summary(of, 1000, 12)
    counts = np.bincount(keys).tolist()
    expected = sorted((-count, int(of.hashes[key]), 0.0) for key, count in enumerate(counts))
    assert list(zip(-seen.counts, seen.hashes, seen.errors, strict=True)) == expected
    assert (seen.total, seen.buckets.sum()) == (5000, 5000)
    for key, count in enumerate(counts):
        assert seen.buckets[int(of.hashes[key]) % 2**64 >> 52] >= count

    placement = planning.place(seen, params)
    head = seen.hashes[placement.head].tolist()
    chosen = []
    for key, row in zip(keys.tolist(), of.rows.tolist(), strict=True):
        hash_of_key = int(of.hashes[key])
        if hash_of_key not in head:
            chosen.append(placement.tail[hash_of_key % 2**64 >> 52])
            continue
        entry = head.index(hash_of_key)
        cuts, first, second = planning.alias_cells(placement.workers[entry], placement.shares[entry])
        cell = (row >> 32) * len(cuts) >> 32
        chosen.append(first[cell] if row % 2**32 < cuts[cell] else second[cell])
    shared_out = plans.share_out(of, np.array(head), placement, 12)
    assert shared_out.tolist() == [int(worker) for worker in chosen]
    assert max(map(len, placement.workers)) > 1

    pairs = len(set(zip(keys.tolist(), shared_out.tolist(), strict=True)))
    measured = plans.planned(of, params)
    assert (measured.replication, measured.copies) == (pairs / len(counts), pairs - len(counts))
    loads = np.bincount(shared_out, minlength=7)
    assert measured.imbalance == pytest.approx((loads.max() - 5000 / 7) / 5000)
    assert abs(measured.imbalance - measured.expected) < 4 * measured.chance


def test_plans_judge() -> None:
    """Every seed counts; what equals the limit is not below it."""
    equal = plans.Figures(1e-3, 2.0, 10)
    better, theirs = equal._replace(imbalance=9e-4, replication=1.9), equal
    balance, copies = plans.claims("a stream", 7, [better, equal, better], theirs)
    assert [balance.holds, copies.holds] == [2, 2]
    assert [balance.claim, balance.stream, balance.workers] == ["imbalance", "a stream", 7]


def test_plans_print(data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(plans, "ROWS", 30_000)
    monkeypatch.setenv("KEYSPLIT_DATA", str(data))
    plans.main(["--quick"])
    tables = [
        [row.strip("| ").split(" | ") for row in part.strip().splitlines()]
        for part in capsys.readouterr().out.split("\n\n")
    ]
    streams = ["zipf 1.0", "zipf 1.4", "zipf 2.0", "highskew_retail_country", "reviews_movietweetings"]
    for table, (n, what) in zip(tables, product(plans.WORKERS, ["imbalance", "replication"]), strict=False):
        assert table[0] == [f"{what}, n = {n}", *planning.PLANS, plans.ONLINE]
        assert [row[0] for row in table[2:]] == streams
    ours, judged = tables[6:]
    assert [row[:2] for row in ours[2:]] == [[stream, str(n)] for stream in streams for n in plans.WORKERS]
    assert all(float(row[6]) < float(row[7]) for row in ours[2:])
    assert len(judged) == 2 + 2 * len(streams) * len(plans.WORKERS)
    assert {row[3] for row in judged[2:] if row[0] == "replication"} == {"2 of 2 seeds"}

    monkeypatch.delenv("KEYSPLIT_DATA")
    assert [stream.name for stream in plans.streams(plans.data_folder(), quick=True)] == streams[:3]


# A daemon as PySpark's, which waits for no worker, and a worker that is busy for half a second.
WORKER = """
import os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if not os.fork():
    while time.process_time() < 0.5:
        pass
    print("busy", flush=True)
    sys.stdin.readline()
    os._exit(0)
try:
    os.wait()
except ChildProcessError:
    print("ended", flush=True)
    sys.stdin.readline()
"""


def test_the_time_of_a_worker_that_nobody_waits_for_counts() -> None:
    before, clock = processes.cpu_s(os.getpid()), processes.CpuClock(os.getpid())
    command = [sys.executable, "-c", WORKER, "pyspark.daemon"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == "busy\n"
        clock._look()
        daemon.stdin.write("end\n")
        daemon.stdin.flush()
        assert daemon.stdout.readline() == "ended\n"
        without = processes.cpu_s(os.getpid()) - before
        assert clock.stop() > without + 0.4
