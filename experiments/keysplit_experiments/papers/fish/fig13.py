"""Fig. 13: FISH by its threshold."""

from __future__ import annotations

from functools import partial

from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Results
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import spell
from keysplit_experiments.papers.fish._parameters import cells_of, draw_of, table_of
from keysplit_experiments.papers.fish._runs import name_place, ratio, varied

THRESHOLDS = {"2/n": 2.0, "1/n": 1.0, "1/(2n)": 0.5, "1/(4n)": 0.25, "1/(8n)": 0.125}
"""In shares of a worker's part 1/n."""

DEFAULT = {"threshold": "1/(4n)"}


def measure(
    inputs: Inputs, *, exponent: float, seed: int, messages: int, workers: int, threshold: str
) -> Figures:
    """Simulate FISH in time."""
    return varied(inputs, exponent, seed, messages, workers, threshold=THRESHOLDS[threshold] / workers)


def only_the_largest(results: Results) -> Judged:
    """2/n: somewhere 1.2 times the time of 1/(4n); the others: nowhere."""
    worst = {
        threshold: max(ratio(results, "time", {"threshold": threshold}, DEFAULT).values())
        for threshold in THRESHOLDS
    }
    return Judged(
        worst["2/n"] > 1.2 >= max(value for name, value in worst.items() if name != "2/n"),
        "at most "
        + ", ".join(f"{name}: {spell(value)}" for name, value in worst.items() if name != "1/(4n)"),
    )


def memory_level(results: Results) -> Judged:
    """All thresholds: memory within a quarter of that of 1/(4n)."""
    found = {
        (threshold, *place): value
        for threshold in THRESHOLDS
        for place, value in ratio(results, "replication", {"threshold": threshold}, DEFAULT).items()
    }
    low, high = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    return Judged(
        found[low] >= 0.75 and found[high] <= 1.25,
        f"{spell(found[low])} ({low[0]}, {name_place(low[1:])}) to {spell(found[high])} ({high[0]}, "
        f"{name_place(high[1:])}) times",
    )


def smallest_costs(results: Results) -> Judged:
    """1/(8n): at the smallest skew, more memory than 1/(4n) on 64 and 128 workers."""
    found = ratio(results, "replication", {"threshold": "1/(8n)"}, DEFAULT)
    low = min(results.values("exponent"))
    ours = {workers: found[low, workers] for workers in (64, 128)}
    return Judged(
        all(value > 1 for value in ours.values()),
        ", ".join(f"n = {workers}: {spell(value)} times" for workers, value in ours.items()),
    )


CLAIMS = [
    Claim(
        says="Only a threshold of 2/n costs significantly in time (more than 1.2 times that of 1/(4n) "
        "somewhere; the others nowhere)",
        where="6.3",
        judge=only_the_largest,
    ),
    Claim(
        says="Memory changes little with the threshold (within a quarter of that of 1/(4n))",
        where="6.3",
        judge=memory_level,
    ),
    Claim(
        says="1/(8n) needs more memory at low skew on many workers (z = 1.0, 64 and 128 workers)",
        where="6.3",
        judge=smallest_costs,
    ),
]


EXPERIMENT = Experiment(
    name="fish/fig13",
    label="Fig. 13",
    title="execution time and memory of FISH by its threshold",
    setting="Time is relative to workers that are never idle, memory to that of FG.",
    cells=partial(cells_of, parameter="threshold", values=THRESHOLDS),
    measure=measure,
    claims=CLAIMS,
    table=partial(table_of, parameter="threshold"),
    draw=partial(draw_of, parameter="threshold", values=list(THRESHOLDS)),
    size=(11, 5.5),
)
