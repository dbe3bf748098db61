"""Instructions, cache misses and mispredicted branches per message of every grouping, counted by a profiler.

They do not depend on what else the machine does. The profiler, callgrind, is part of valgrind, which has to
be installed; it knows no AVX-512, so it counts the code for AVX2. The streams are those of `make bench`,
200,000 messages of each; a router has seen them once before.

usage: python benches/instructions.py [--record | --check] [CASE...]

--record writes the table to benches/records. --check counts instructions alone, which is faster, and fails if
a case takes over 10 per cent more than in the newest record, if that is of the same compiler and vector unit.
"""

import argparse
import datetime
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "benches" / "records"
MESSAGES = 200_000
"""As in rust/benches/src/bin/instructions.rs."""
MORE = 1.1
"""How many times the instructions of the record a case may take."""
COUNTED = "instructions::counted"
# The first level and the last one: the machine's own would give other counts elsewhere.
SIMULATION = ["--cache-sim=yes", "--branch-sim=yes", "--D1=32768,8,64", "--LL=33554432,16,64"]
ROW = re.compile(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \|", re.MULTILINE)


class Counts(NamedTuple):
    """What a message takes on average."""

    instructions: float
    misses: float
    """Of the first-level cache for data, 32 KB."""
    mispredicted: float


class Machine(NamedTuple):
    """What decides how many instructions there are, except the sources."""

    compiler: str
    vectors: str


Case = tuple[str, str]
"""A label and the exponent of its stream."""


def main() -> int:
    parser = argparse.ArgumentParser()
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--record", action="store_true")
    what.add_argument("--check", action="store_true")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    arguments = parser.parse_args()
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        parser.error("valgrind must be installed")
    simulation = [] if arguments.check else SIMULATION
    machine, found = measured(valgrind, built(), arguments.cases, simulation)
    if arguments.check:
        return check(machine, found)
    table = written(machine, found)
    print(table)
    if arguments.record:
        RECORDS.mkdir(exist_ok=True)
        (RECORDS / f"instructions-{datetime.date.today()}.md").write_text(table, encoding="utf-8")
    return 0


def built() -> Path:
    """Build the program and return its path."""
    # with the features that the extension asks for, so that what `make build` has compiled is used again
    packages = ["--package", "keysplit-python", "--package", "keysplit-benches"]
    command = ["cargo", "build", "--release", *packages, "--bin", "instructions"]
    run = subprocess.run(
        [*command, "--message-format=json"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    messages = map(json.loads, run.stdout.splitlines())
    return Path(next(path for each in messages if (path := each.get("executable"))))


def measured(
    valgrind: str, program: Path, cases: list[str], simulation: list[str]
) -> tuple[Machine, dict[Case, Counts]]:
    """Run the program under the profiler; without a simulation there are no misses, and no branches."""
    compiler = subprocess.run(["rustc", "--version"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "counts")
        options = ["--tool=callgrind", *simulation, f"--callgrind-out-file={out}"]
        options += [f"--dump-before={COUNTED}", f"--dump-after={COUNTED}"]
        command = [valgrind, "--quiet", *options, program, *cases]
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        vectors, *labels = run.stdout.splitlines()
        # a dump as each counted call begins, of what came before, and one as it ends
        dumps = [Path(f"{out}.{2 * (at + 1)}").read_text() for at in range(len(labels))]
    found = {tuple(label.split()): counts_in(dump) for label, dump in zip(labels, dumps, strict=True)}
    return Machine(compiler.stdout.split(" (")[0].strip(), vectors), found


def counts_in(dump: str) -> Counts:
    """Return what a dump of the profiler says, per message."""
    names, values = (re.search(rf"^{name}: (.*)$", dump, re.MULTILINE) for name in ("events", "summary"))
    if names is None or values is None:
        raise ValueError("the profiler has written no counts")
    # trailing zeros are left out
    each = Counter(dict(zip(names[1].split(), map(int, values[1].split()), strict=False)))
    sums = each["Ir"], each["D1mr"] + each["D1mw"], each["Bcm"] + each["Bim"]
    return Counts(*(count / MESSAGES for count in sums))


def written(machine: Machine, found: Mapping[Case, Counts]) -> str:
    """Return the table as Markdown."""
    lines = [
        "# Instructions per message",
        "",
        f"{machine.compiler}, {machine.vectors}: `python benches/instructions.py`. Misses are of a",
        "first-level cache of 32 KB, *mispredicted* are branches.",
        "",
        "| case | z | instructions | misses | mispredicted |",
        "|---|---|---:|---:|---:|",
    ]
    lines += [
        f"| {label} | {exponent} | {each.instructions:.1f} | {each.misses:.2f} | {each.mispredicted:.2f} |"
        for (label, exponent), each in found.items()
    ]
    return "\n".join(lines) + "\n"


def check(machine: Machine, found: Mapping[Case, Counts]) -> int:
    """Compare with the newest record; return 1 if a case has become slower."""
    records = sorted(RECORDS.glob("instructions-*.md"))
    if not records:
        print("there is no record to compare with", file=sys.stderr)
        return 0
    record = records[-1].read_text(encoding="utf-8")
    if f"{machine.compiler}, {machine.vectors}:" not in record:
        print(f"{records[-1].name} is of another compiler or vector unit: not compared", file=sys.stderr)
        return 0
    more = slower(record, found)
    for line in more:
        print(line, file=sys.stderr)
    print(f"{len(found)} cases compared with {records[-1].name}: {len(more)} take over 10 per cent more")
    return int(bool(more))


def slower(record: str, found: Mapping[Case, Counts]) -> list[str]:
    """Return a line for each case that takes more instructions than a record allows."""
    known = {(label, exponent): float(value) for label, exponent, value in ROW.findall(record)}
    return [
        f"{label} at z = {exponent}: {each.instructions:.1f} instructions per message, {before:.1f} recorded"
        for (label, exponent), each in found.items()
        if (before := known.get((label, exponent))) is not None and each.instructions > MORE * before
    ]


if __name__ == "__main__":
    sys.exit(main())
