"""Print the benchmarks' results as ratios, with the project's targets.

Reads the results of `make bench` in target/.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
CRITERION = ROOT / "target" / "criterion"
PYTHON = ROOT / "target" / "python-benchmarks.json"
MESSAGES = 1_000_000
EXPONENTS = [1.0, 1.4]
NAMES = [
    "shuffle",
    "key",
    "partial_key",
    "greedy_4",
    "greedy_8",
    "power_of_two",
    "ring",
    "bounded_ring",
    "power_of_random",
    "power_of_random_1000",
    "power_of_random_10000",
    "space_saving_1000",
    "round_robin",
    "w_choices",
    "d_choices",
    "consistent",
    "fish",
    "flexd",
    "dynamic_key",
    "distribution_aware",
    "pstream",
    "dalton",
]
"""A grouping on 100 workers, unless its name ends in another number of workers."""
SPARED = 3
"""How many times its target a grouping may cost before it counts as too slow."""
WIDER = 1.3
"""How many times as much power of random choices may cost on 10,000 workers as on 1,000."""
CALL_NS = 1
"""What the call from Python may add to key grouping of 1e6 int64 keys, in nanoseconds per key."""


@dataclass(frozen=True)
class Target:
    """What a grouping should cost at each exponent, as a ratio, and how much faster it should be than others.

    Key grouping's cost is a ratio to reading and writing alone; all others are ratios to key grouping.
    """

    ratio: tuple[float, float]
    over_naive: tuple[float, float] | None = None
    over_python: float | None = None


TARGETS = {
    "key": Target((3, 3), over_naive=(6, 6), over_python=50),
    "partial_key": Target((2.5, 2.5), over_naive=(6, 6), over_python=60),
    "ring": Target((3, 3)),
    "power_of_random_1000": Target((15, 15), over_naive=(5, 30), over_python=80),
    "space_saving_1000": Target((5, 3)),
    "w_choices": Target((12, 12), over_naive=(12, 12), over_python=100),
    "d_choices": Target((22, 22), over_naive=(12, 12), over_python=80),
    "fish": Target((30, 30), over_naive=(20, 20), over_python=80),
}


def result(exponent: float, kind: str, name: str) -> Path:
    return CRITERION / f"zipf_{exponent:.1f}" / kind / name / "new" / "estimates.json"


def rust(exponent: float, kind: str, name: str) -> float:
    """Nanoseconds per message, the median."""
    path = result(exponent, kind, name)
    if not path.is_file():
        raise SystemExit(f"no result of {kind}/{name}: run `make bench` first ({path} is missing)")
    return json.loads(path.read_text(encoding="utf-8"))["median"]["point_estimate"] / MESSAGES


def python_records() -> list[dict]:
    if not PYTHON.is_file():
        raise SystemExit(f"no results: run `pytest benches --benchmark-only` first ({PYTHON} is missing)")
    return json.loads(PYTHON.read_text(encoding="utf-8"))


def table(title: str, header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; the first column to the left, the others to the right."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    lines = ["| " + " | ".join(cells) + " |" for cells in [header, rule, *rows]]
    return "\n".join([f"**{title}**", "", *lines, ""])


def verdict(measured: float, target: float) -> str:
    return "met" if measured <= target else f"within {SPARED} x" if measured <= SPARED * target else "missed"


def costs() -> str:
    rows = []
    for name in NAMES:
        for place, exponent in enumerate(EXPONENTS):
            ns = rust(exponent, "keysplit", name)
            to_key = ns / rust(exponent, "keysplit", "key")
            to_kernel = ns / rust(exponent, "kernel", "hash_and_map")
            row = [name, f"{exponent}", f"{ns:.1f}", f"{to_key:.1f}", f"{to_kernel:.1f}"]
            if name not in TARGETS:
                rows.append([*row, "", "", ""])
                continue
            target = TARGETS[name].ratio[place]
            if name == "key":
                to_floor = ns / rust(exponent, "kernel", "read_and_write")
                judged = [f"{target:g} read and write", f"{verdict(to_floor, target)} ({to_floor:.1f})", ""]
            else:
                judged = [f"{target:g}", verdict(to_key, target), verdict(to_kernel, target)]
            rows.append([*row, *judged])
    header = ["grouping", "z", "ns per message", "to key grouping", "to its kernel", "target"]
    header += ["by key grouping", "by its kernel"]
    return table("Cost in Rust, as ratios to key grouping and to its kernel", header, rows)


def widths() -> str:
    """Power of random choices on ten times as many workers."""
    lines = []
    for exponent in EXPONENTS:
        narrow, wide = (rust(exponent, "keysplit", f"power_of_random_{n}") for n in (1000, 10000))
        times, met = wide / narrow, "met" if wide <= WIDER * narrow else "NOT MET"
        lines.append(
            f"- power_of_random, z = {exponent}: {times:.2f} times the cost on 10,000 workers"
            f" of that on 1,000; at most {WIDER}: {met}"
        )
    return "\n".join([*lines, ""])


def factors() -> str:
    plain = {
        (record["name"], record["exponent"]): record["ns"] / record["reference_ns"]
        for record in python_records()
        if record["door"] == "pure Python"
    }
    rows = []
    for name in NAMES:
        for place, exponent in enumerate(EXPONENTS):
            target = TARGETS.get(name, Target((0, 0)))
            if not result(exponent, "naive", name).is_file():
                continue  # it has no naive program
            naive = rust(exponent, "naive", name) / rust(exponent, "keysplit", name)
            python = plain.get((name, exponent))
            rows.append(
                [
                    name,
                    f"{exponent}",
                    f"{naive:.1f}",
                    f"{target.over_naive[place]:g}" if target.over_naive else "",
                    f"{python:.0f}" if python else "",
                    f"{target.over_python:g}" if target.over_python else "",
                ]
            )
    header = ["grouping", "z", "x naive Rust", "target", "x plain Python", "target"]
    return table("How many times as fast", header, rows)


def calls() -> str:
    rows = []
    for record in python_records():
        if record["door"] != "NumPy int64" or record["name"] not in NAMES:
            continue
        ns = rust(record["exponent"], "keysplit", record["name"])
        added = record["ns"] - ns
        limit = (
            f"at most {CALL_NS}: {'met' if added <= CALL_NS else 'NOT MET'}"
            if record["name"] == "key"
            else ""
        )
        rows.append(
            [
                record["name"],
                f"{record['exponent']}",
                f"{ns:.1f}",
                f"{record['ns']:.1f}",
                f"{added:+.1f}",
                limit,
            ]
        )
    header = ["grouping", "z", "Rust", "Python", "added", "target"]
    return table("What the call from Python adds, in ns per key (1e6 int64 keys)", header, rows)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(costs(), widths(), factors(), calls(), sep="\n")


if __name__ == "__main__":
    main()
