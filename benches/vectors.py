"""What choosing the vector unit at run time brings: the benchmark of the groupings, compiled in several ways.

The shipped code is compiled for any x86-64. Some of its loops are also compiled for AVX2 and for AVX-512, and
the best that the processor has is chosen at run time. Two of the programs have these loops in one version
alone, and one is compiled as a whole for this very machine. They take turns, call by call, on the streams of
`make bench`.

usage: python benches/vectors.py [--record] [CASE...]

--record writes the table to benches/records.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Mapping
from pathlib import Path
from typing import IO, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "benches" / "records"
PROGRAMS = {
    "shipped": [],
    "avx2": ["--cfg", 'keysplit_vectors="avx2"'],
    "generic": ["--cfg", 'keysplit_vectors="generic"'],
    "native": ["-C", "target-cpu=native"],
}
"""Flags of the compiler by the name of a program."""

Case = tuple[str, str]
"""A label and the exponent of its stream."""
Times = dict[Case, dict[str, list[float]]]
"""Nanoseconds per message by case and program."""


class Running(NamedTuple):
    """A program that waits for its turn."""

    turn: IO[str]
    lines: IO[str]

    def next_line(self) -> str:
        return self.lines.readline().strip()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", action="store_true")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    arguments = parser.parse_args()
    if platform.machine() not in ("x86_64", "AMD64"):
        parser.error("these vector units are x86-64's")
    vectors, times = measured({name: built(name) for name in PROGRAMS}, arguments.cases)
    table = written(vectors, times)
    print(table)
    if arguments.record:
        (RECORDS / f"vectors-{datetime.date.today()}.md").write_text(table, encoding="utf-8")
    return 0


def built(name: str) -> Path:
    """Build a program in a folder of its own, so that each is compiled once, and return its path."""
    command = ["cargo", "build", "--release", "--package", "keysplit-benches", "--bin", "vectors"]
    run = subprocess.run(
        [*command, "--message-format=json", f"--target-dir=target/vectors-{name}"],
        cwd=ROOT,
        env={**os.environ, "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(PROGRAMS[name])},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    messages = map(json.loads, run.stdout.splitlines())
    return Path(next(path for each in messages if (path := each.get("executable"))))


def measured(programs: Mapping[str, Path], cases: list[str]) -> tuple[str, Times]:
    """Let the programs take turns; return the vector unit that the shipped one chooses, and all times."""
    running = {name: started(program, cases) for name, program in programs.items()}
    vectors = {name: program.next_line() for name, program in running.items()}
    times: Times = defaultdict(lambda: defaultdict(list))
    names = deque(PROGRAMS)
    while True:
        names.rotate()  # none is always the first of a turn
        for name in names:
            program = running[name]
            label = program.next_line()
            if not label:
                return vectors["shipped"], times
            case, exponent = label.split()
            program.turn.write("\n")
            times[case, exponent][name].append(float(program.next_line()))


def started(program: Path, cases: list[str]) -> Running:
    """Start a program."""
    process = subprocess.Popen(
        [program, *cases], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdin is not None
    assert process.stdout is not None
    return Running(process.stdin, process.stdout)


def written(vectors: str, times: Times) -> str:
    """Return the table as Markdown."""
    compiler = subprocess.run(["rustc", "--version"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    rounds = min(len(each) for of_case in times.values() for each in of_case.values()) - 1
    names = [name for name in PROGRAMS if name != "shipped"]
    ratios = " | ".join(f"{name} / shipped" for name in names)
    lines = [
        "# Vector units",
        "",
        f"{compiler.stdout.split(' (')[0].strip()}: `python benches/vectors.py`.",
        f"*shipped* chooses {vectors} here;",
        "*generic* is any x86-64, *native* compiles everything for this machine. Thread CPU time, medians of",
        f"{rounds} calls in turns, of the times and of the ratios of a turn.",
        "",
        f"| case | z | shipped, ns per message | {ratios} |",
        f"|---|---|---:|{'---:|' * len(names)}",
    ]
    for (label, exponent), each in times.items():
        # the first call warms up
        base = each["shipped"][1:]
        turns = [zip(each[name][1:], base, strict=True) for name in names]
        found = " | ".join(f"{statistics.median(other / own for other, own in pairs):.2f}" for pairs in turns)
        lines.append(f"| {label} | {exponent} | {statistics.median(base):.1f} | {found} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
