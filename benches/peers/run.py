"""Measure keysplit next to what a user would pick instead; print ratios and record them in benches/records/.

Run by `make bench-peers`. Streams are Zipf with z = 1.0 and 1.4, 1e5 keys, 1e6 messages, on 100 workers.
Times are CPU time per message, medians of rounds in which the programs take turns. Peers in Rust take turns
with keysplit's core in one program; Storm and Spark run in processes of their own. A peer that takes a
message per call is measured on the first 1e5 messages.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

os.environ["POLARS_MAX_THREADS"] = "1"

import numpy as np
import pyarrow as pa

import keysplit as ks

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache"
EXPONENTS, KEYS, MESSAGES, SOME = (1.0, 1.4), 100_000, 1_000_000, 100_000
WORKERS, COUNTERS, POINTS, ROUNDS = 100, 768, 100, 5

sys.path.insert(0, str(ROOT / "benches"))
import pure_python  # noqa: E402

Row = tuple[str, str, str, float | str, float]
"""Task, peer, z, its ns per message or why it cannot be had, keysplit's ns per message."""


def measure(programs: dict[str, tuple[Callable[[], Any], int]]) -> dict[str, float]:
    """Nanoseconds per message of each program, given with its number of messages."""
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(ROUNDS):
        for name, (run, messages) in programs.items():
            start = process_time()
            run()
            times[name].append((process_time() - start) * 1e9 / messages)
    return {name: statistics.median(some) for name, some in times.items()}


def each(call: Callable[[Any], Any], keys: list[Any]) -> list[Any]:
    return [call(key) for key in keys]


def numpy_key(keys: Any) -> Any:
    return (keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) % np.uint64(WORKERS)


def numpy_partial_key(keys: Any) -> list[int]:
    """Candidates by column, then a loop over the messages."""
    one, two = numpy_key(keys).tolist(), numpy_key(keys ^ 0x5DEECE66D).tolist()
    loads, chosen = [0] * WORKERS, []
    for first, second in zip(one, two, strict=True):
        worker = first if loads[first] <= loads[second] else second
        loads[worker] += 1
        chosen.append(worker)
    return chosen


def route(grouping: ks.Grouping, keys: Any) -> Any:
    return grouping.router().route(keys)


def in_python(keys: Any, z: str) -> list[Row]:
    """The peers that are called from Python."""
    import datasketches
    import mmh3
    import polars as pl
    import uhashring
    import xxhash

    words = [f"key{key}" for key in keys.tolist()]
    arrow, series, numbers = pa.array(words), pl.Series(words), pl.Series(keys)
    few, few_words, few_bytes = keys[:SOME], words[:SOME], [word.encode() for word in words[:SOME]]
    ring = uhashring.HashRing([str(worker) for worker in range(WORKERS)], vnodes=POINTS)

    def count(column: Any) -> None:
        ks.SpaceSaving(COUNTERS).update(column)

    def count_words() -> None:
        sketch = datasketches.frequent_strings_sketch(10)  # at most 768 counters
        for word in words:
            sketch.update(word)

    def encode_and_hash() -> None:
        for word in few_words:
            xxhash.xxh3_64_intdigest(word.encode())

    tasks: dict[str, tuple[Callable[[], Any], dict[str, tuple[Callable[[], Any], int]]]] = {
        "hash strings": (
            partial(ks.hash_keys, arrow),
            {
                "polars Series.hash": (series.hash, MESSAGES),
                "xxhash.xxh3_64_intdigest": (partial(each, xxhash.xxh3_64_intdigest, few_bytes), SOME),
                "mmh3.hash64": (partial(each, mmh3.hash64, few_bytes), SOME),
            },
        ),
        "hash a list of str": (
            partial(ks.hash_keys, words),
            {"encode, then xxhash": (encode_and_hash, SOME)},
        ),
        "hash an array of objects": (
            partial(ks.hash_keys, np.array(words, dtype=object)),
            {"encode, then xxhash": (encode_and_hash, SOME)},
        ),
        "hash int64": (partial(ks.hash_keys, keys), {"polars Series.hash": (numbers.hash, MESSAGES)}),
        "frequent strings": (
            partial(count, arrow),
            {"datasketches (Python)": (count_words, MESSAGES)},
        ),
        "ring, strings": (
            partial(route, ks.RingGrouping(workers=WORKERS, virtual_nodes=POINTS), arrow),
            {"uhashring": (partial(each, ring.get_node, few_words), SOME)},
        ),
        "key": (
            partial(route, ks.KeyGrouping(workers=WORKERS), keys),
            {
                "NumPy, columns": (partial(numpy_key, keys), MESSAGES),
                "plain Python": (partial(pure_python.key, few.tolist(), WORKERS), SOME),
            },
        ),
        "partial_key": (
            partial(route, ks.PartialKeyGrouping(workers=WORKERS), keys),
            {
                "NumPy and a loop": (partial(numpy_partial_key, few), SOME),
                "plain Python": (partial(pure_python.partial_key, few.tolist(), WORKERS), SOME),
            },
        ),
        "w_choices": (
            partial(route, ks.WChoices(workers=WORKERS), keys),
            {"plain Python": (partial(pure_python.w_choices, few.tolist(), WORKERS), SOME)},
        ),
        "partial_key, strings": (partial(route, ks.PartialKeyGrouping(workers=WORKERS), arrow), {}),
    }
    rows: list[Row] = []
    for task, (ours, peers) in tasks.items():
        ns = measure({"keysplit": (ours, MESSAGES), **peers})
        rows += [(task, peer, z, ns[peer], ns["keysplit"]) for peer in peers]
        if not peers:
            rows.append((task, "", z, "", ns["keysplit"]))
    return rows


def output(command: list[str | Path]) -> str:
    """What a program prints, or a RuntimeError with the last line of its errors."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it failed"])[-1])
    return done.stdout


def in_rust(files: dict[str, Path]) -> list[Row]:
    manifest, target = ROOT / "benches/peers/rust/Cargo.toml", CACHE / "peers/target"
    command = ["cargo", "run", "--quiet", "--release", "--locked", "--manifest-path", manifest]
    try:
        lines = output([*command, "--target-dir", target, "--", *files.values()]).splitlines()
    except (OSError, RuntimeError) as error:
        return [("in Rust", "datasketches, hashring", "", str(error), 0)]
    found = {tuple(line.split("|")[:3]): float(line.split("|")[3]) for line in lines}
    by_path = {str(path): z for z, path in files.items()}
    return [
        (f"{task}, in Rust", name, by_path[path], ns, found[path, task, "keysplit"])
        for (path, task, name), ns in found.items()
        if name != "keysplit"
    ]


def in_storm(files: dict[str, Path], ours: dict[str, float]) -> list[Row]:
    task, peer = "partial_key, strings", "Apache Storm 2.8 PartialKeyGrouping"
    try:
        output([sys.executable, ROOT / "scripts/jars", "storm"])
        program = ROOT / "benches/peers/storm/PartialKey.java"
        lines = output(["java", "-cp", f"{CACHE}/storm/jars/*", program, *files.values()]).splitlines()
    except (OSError, RuntimeError) as error:
        return [(task, peer, "", str(error), 0)]
    return [(task, peer, z, float(line.split("|")[1]), ours[z]) for z, line in zip(files, lines, strict=True)]


def in_spark(ours: float) -> Row:
    task, peer = "key", "Spark pmod(hash(key), n), in whole-stage code"
    try:
        ns = float(output([ROOT / "scripts/with-env", "python", "benches/peers/spark_hash.py"]))
    except (OSError, RuntimeError, ValueError) as error:
        return (task, peer, "any", str(error), 0)
    return (task, peer, "any", ns, ours)


def written(rows: list[Row]) -> str:
    """The Markdown page."""
    lines = [
        "# keysplit beside its peers",
        "",
        f"{date.today()}, {platform.machine()}, Python {platform.python_version()}: `make bench-peers`.",
        "CPU time in nanoseconds per message, medians; a ratio below 1 means that keysplit is slower.",
        "",
        "| task | peer | z | peer | keysplit | peer / keysplit |",
        "|---|---|---|---:|---:|---:|",
    ]
    for task, peer, z, ns, ours in rows:
        if isinstance(ns, str):
            lines.append(f"| {task} | {peer} | {z} | not measured: {ns} | | |")
        else:
            behind = " **(slower)**" if ns < ours else ""
            lines.append(f"| {task} | {peer} | {z} | {ns:.1f} | {ours:.1f} | {ns / ours:.2g}{behind} |")
    return "\n".join([*lines, ""])


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        numbers, words = {}, {}
        for exponent in EXPONENTS:
            keys, z = ks.streams.zipf(exponent, keys=KEYS, messages=MESSAGES, seed=1), f"{exponent}"
            numbers[z], words[z] = Path(folder, f"{z}.int64"), Path(folder, f"{z}.txt")
            keys.astype("<i8").tofile(numbers[z])
            words[z].write_text("".join(f"key{key}\n" for key in keys.tolist()))
            rows += in_python(keys, z)
        ours = {z: ns for task, peer, z, _, ns in rows if task == "partial_key, strings"}
        rows = [row for row in rows if row[1]]
        key = statistics.median(ns for task, _, _, _, ns in rows if task == "key")
        rows += [*in_rust(numbers), *in_storm(words, ours), in_spark(key)]
    page = written(rows)
    path = ROOT / f"benches/records/peers-{date.today()}.md"
    path.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
