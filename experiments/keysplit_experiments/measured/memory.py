"""The memory of every router: its size after 1e6, 1e7 and 1e8 messages, while new keys keep coming.

The stream is Zipf with exponent 1 over 1e7 keys, drawn in chunks and never held. One router of one source on
100 workers routes it, each grouping in a process of its own. Next to the size of the snapshot is how much
the process has grown since before the first message, by Linux's count of resident memory.

*Bounded* says that ten times as many messages changed nothing: from the last mark but one to the last, the
resident memory has not grown by more than a tenth and 1 MiB, and the snapshot not by more than a half and
1 KiB. (It writes a number in as many bytes as it needs, so what counts messages takes up to one byte more.)
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import keysplit as ks

MODULE = "keysplit_experiments.measured.memory"
KEYS = 10_000_000
WORKERS = 100
SNAPSHOT, RESIDENT = (1.5, 1 << 10), (1.1, 1 << 20)
"""How many times as large the last may be as the last but one, and how many bytes on top of that."""


class Size(NamedTuple):
    """Bytes at one mark."""

    snapshot: int
    resident: int


def chunks(messages: int, size: int) -> Iterator[np.ndarray]:
    """Key k with a share of nearly 1/k: the whole part of a continuous variable whose density is 1/x.

    It is always the same array, with new keys.
    """
    generator = np.random.Generator(np.random.PCG64(0))
    draws, keys = np.empty(size), np.empty(size, dtype=np.int64)
    for _ in range(messages // size):
        generator.random(out=draws)
        draws *= np.log(KEYS + 1)
        np.exp(draws, out=draws)
        keys[:] = draws
        yield keys


def chunk(marks: Sequence[int]) -> int:
    return min(1_000_000, marks[0])


def distinct(marks: Sequence[int]) -> list[int]:
    """How many different keys have come at each mark."""
    seen, counts, sent = np.zeros(KEYS + 2, dtype=bool), [], 0
    for keys in chunks(marks[-1], chunk(marks)):
        seen[keys] = True
        sent += len(keys)
        if sent in marks:
            counts.append(int(seen.sum()))
    return counts


def resident() -> int:
    """Bytes of this process that are in memory."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise SystemExit(
        "the system does not report how much memory a process has (no VmRSS in /proc/self/status)"
    )


def sizes(grouping: str, marks: Sequence[int]) -> Iterator[Size]:
    """Routes the stream in this process."""
    before, sent, router = 0, 0, None
    for keys in chunks(marks[-1], chunk(marks)):
        if router is None:
            ks.KeyGrouping(workers=WORKERS).router().route(keys)  # what drawing and a call need is there now
            before = resident()
            router = ks.grouping(grouping, workers=WORKERS).router()
        router.route(keys)
        sent += len(keys)
        if sent in marks:
            grown = resident() - before  # without the snapshot, which is made next
            yield Size(len(router.snapshot()), grown)


def in_a_process(grouping: str, marks: Sequence[int]) -> list[Size]:
    command = [sys.executable, "-m", MODULE, "--alone", "--groupings", grouping, "--messages", str(marks[-1])]
    # by default the C library comes to keep what large arrays have left
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return [Size(*map(int, line.split())) for line in run.stdout.splitlines()]


def bounded(measured: Sequence[Size]) -> bool:
    return all(
        last <= factor * before + slack
        for before, last, (factor, slack) in zip(*measured[-2:], (SNAPSHOT, RESIDENT), strict=True)
    )


def line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def power_of_ten(text: str) -> int:
    if not text.isdecimal() or int(text) < 10_000 or int(text) != 10 ** (len(text) - 1):
        raise argparse.ArgumentTypeError(f"must be a power of ten, at least 10000, got {text}")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--groupings", default=",".join(ks.GROUPINGS), help="names with commas between them (default: all)"
    )
    parser.add_argument("--messages", type=power_of_ten, default=10**8, help="the last mark (default: 10**8)")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    names = options.groupings.split(",")
    if unknown := [name for name in names if name not in ks.GROUPINGS]:
        parser.error(f"--groupings must be among {', '.join(ks.GROUPINGS)}, got {unknown[0]}")
    marks = [options.messages // 100, options.messages // 10, options.messages]
    if options.alone:
        for size in sizes(names[0], marks):
            print(size.snapshot, size.resident)
        return

    whats = ["snapshot, bytes", "resident growth, KiB"]
    at = [f"at 1e{len(str(mark)) - 1}" for mark in marks]
    print(line(["grouping", *(f"{what} {mark}" for what in whats for mark in at), "bounded"]))
    print(line(["---"] + ["---:"] * 6 + ["---"]))
    for name in names:
        measured = in_a_process(name, marks)
        snapshots = [f"{size.snapshot:,}" for size in measured]
        grown = [f"{size.resident // 1024:,}" for size in measured]
        print(line([name, *snapshots, *grown, "yes" if bounded(measured) else "NO"]), flush=True)
    keys = [f"{count:,} {mark}" for count, mark in zip(distinct(marks), at, strict=True)]
    print(f"\nDifferent keys: {', '.join(keys)}.")


if __name__ == "__main__":
    main()
