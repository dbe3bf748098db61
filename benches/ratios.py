"""Print the benchmarks' results as ratios, beside the project's targets.

Reads what `cargo bench --package keysplit-core` and `pytest benches --benchmark-only` have left in target/.
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
    "space_saving_1000",
    "round_robin",
    "w_choices",
    "d_choices",
]
SPARED = 3
"""How many times its target a grouping may cost before it counts as too slow."""
CALL_NS = 2
"""What the call from Python may add to key grouping of 1e6 int64 keys, in nanoseconds a key."""


@dataclass(frozen=True)
class Target:
    """What a grouping should cost at each exponent, as a ratio, and how much faster it should be than others.

    Key grouping's cost is a ratio to reading and writing alone, all others' one to key grouping's kernel.
    """

    ratio: tuple[float, float]
    over_naive: float | None = None
    over_python: float | None = None


TARGETS = {
    "key": Target((3, 3), over_naive=6, over_python=50),
    "partial_key": Target((2.5, 2.5), over_naive=6, over_python=60),
    "space_saving_1000": Target((5, 3)),
    "w_choices": Target((12, 12), over_naive=12, over_python=100),
    "d_choices": Target((22, 22), over_naive=12, over_python=80),
}


def rust(exponent: float, kind: str, name: str) -> float:
    """Nanoseconds a message, the median."""
    path = CRITERION / f"zipf_{exponent:.1f}" / kind / name / "new" / "estimates.json"
    if not path.is_file():
        raise SystemExit(
            f"no result of {kind}/{name}: run `cargo bench --package keysplit-core` first ({path} is missing)"
        )
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
            to_kernel = ns / rust(exponent, "kernel", "hash_and_map")
            target = TARGETS.get(name)
            judged, of = to_kernel, ""
            if name == "key":
                judged, of = ns / rust(exponent, "kernel", "read_and_write"), " read and write"
            rows.append(
                [
                    name,
                    f"{exponent}",
                    f"{ns:.1f}",
                    f"{ns / rust(exponent, 'keysplit', 'key'):.1f}",
                    f"{to_kernel:.1f}",
                    f"{target.ratio[place]:g}{of}" if target else "",
                    f"{verdict(judged, target.ratio[place])} ({judged:.1f})" if target else "",
                ]
            )
    header = ["grouping", "z", "ns a message", "to key grouping", "to its kernel", "target", ""]
    return table("Cost in Rust, as ratios to key grouping and to its kernel", header, rows)


def factors() -> str:
    plain = {
        (record["name"], record["exponent"]): record["ns"] / record["reference_ns"]
        for record in python_records()
        if record["door"] == "pure Python"
    }
    rows = []
    for name in NAMES:
        for exponent in EXPONENTS:
            target = TARGETS.get(name, Target((0, 0)))
            naive = rust(exponent, "naive", name) / rust(exponent, "keysplit", name)
            python = plain.get((name, exponent))
            rows.append(
                [
                    name,
                    f"{exponent}",
                    f"{naive:.1f}",
                    f"{target.over_naive:g}" if target.over_naive else "",
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
    return table("What the call from Python adds, ns a key of 1e6 int64 keys", header, rows)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(costs(), factors(), calls(), sep="\n")


if __name__ == "__main__":
    main()
