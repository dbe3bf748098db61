"""Fig. 16: FISH with and without its estimate of waiting times, on workers of two speeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS, bars, legend, panels
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.fish import WORKERS
from keysplit_experiments.papers.fish._runs import (
    evolving,
    keys_of,
    largest,
    name_stream,
    named,
    over_ideal,
    params_of,
    ratio,
    real,
    run,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAST, SLOW = 2.0, 1.0
SAMPLED_S = 0.1
NEVER_S = 1e12
"""Without feedback FISH takes all workers for equal, and assigns by what it has sent."""

ASSIGNMENTS = {"waiting": SAMPLED_S, "load": NEVER_S}


def cells(scale: Scale) -> list[Parameters]:
    """FISH with both ways to assign, on every stream and number of workers."""
    return [
        {**stream, "workers": workers, "assignment": assignment}
        for stream in [*real(scale, "MT", "AM"), *evolving(scale)]
        for workers in WORKERS
        for assignment in ASSIGNMENTS
    ]


def speeds(workers: int) -> list[float]:
    """List the workers' speeds: the first half is twice as fast as the others."""
    return [FAST] * (workers // 2) + [SLOW] * (workers - workers // 2)


def measure(
    inputs: Inputs,
    *,
    seed: int,
    messages: int,
    workers: int,
    assignment: str,
    exponent: float | None = None,
    stream: str | None = None,
) -> Figures:
    """Simulate FISH in time."""
    figures = run(
        params_of("fish", workers, seed),
        keys_of(inputs, messages, seed, exponent=exponent, stream=stream),
        capacities=speeds(workers),
        feedback_interval_s=ASSIGNMENTS[assignment],
    )
    return over_ideal(figures, workers, sum(speeds(workers)) / workers)


def gains(results: Results) -> dict[tuple[object, int], float]:
    """Return the time by load over that by waiting time, by stream and workers."""
    return ratio(results, "time", {"assignment": "load"}, {"assignment": "waiting"})


def faster(results: Results) -> Judged:
    """By waiting time: shorter in every setting."""
    found = gains(results)
    cases = sum(value > 1 for value in found.values())
    return Judged(cases == len(found), f"in {cases} of {len(found)} settings")


def much_faster(results: Results) -> Judged:
    """By waiting time: somewhere less than half the time."""
    best, place = largest(gains(results))
    return Judged(best >= 2, f"up to {spell(best)} times ({place})")


CLAIMS = [
    Claim(
        says="Assigning by waiting time is faster than by load (in every setting)",
        where="6.4",
        judge=faster,
    ),
    Claim(
        says="Up to several times faster (at least twice somewhere)",
        where="6.4",
        paper="up to 2.61 times",
        judge=much_faster,
        because="equal parts on workers of speeds 2 and 1 take 1.5 times the ideal, and no more",
    ),
]


def table(results: Results) -> Table:
    """Time with both ways to assign."""
    streams = named(results)
    rows = [
        [
            workers,
            assignment,
            *(
                results.median("time", workers=workers, assignment=assignment, **where)
                for where in streams.values()
            ),
        ]
        for workers in WORKERS
        for assignment in ASSIGNMENTS
    ]
    return Table(["n", "time / ideal, by", *map(name_stream, streams)], rows)


def draw(figure: Figure, results: Results) -> None:
    """Time by stream, one plot per number of workers."""
    streams = named(results)
    plots = panels(figure, [f"{workers} workers" for workers in WORKERS], 2, y="execution time / ideal")
    looks = {
        "waiting": LOOKS["fish"].bar(),
        "load": LOOKS["fish"].bar(label="FISH without HWA", color="#7f7f7f"),
    }
    for axes, workers in zip(plots, WORKERS, strict=True):
        lines = [
            (
                look,
                [
                    results.median("time", workers=workers, assignment=each, **where)
                    for where in streams.values()
                ],
            )
            for each, look in looks.items()
        ]
        bars(axes, list(map(name_stream, streams)), lines)
    legend(figure)


EXPERIMENT = Experiment(
    name="fish/fig16",
    label="Fig. 16",
    title="execution time of FISH with and without its estimate of waiting times (HWA), on workers of two "
    "speeds",
    setting="Half of the workers are twice as fast as the others. With HWA sources get the service times "
    "every 0.1 s (the paper: *periodic*); without it never, so FISH assigns by what it has sent. "
    "Time is relative to workers that are never idle.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(10, 5.5),
)
