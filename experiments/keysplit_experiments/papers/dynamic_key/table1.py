"""Table 1: from which load on a worker counts as full, and how many workers a key may have."""

from __future__ import annotations

import math

import numpy as np

import keysplit as ks
from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table

PAPERS = {
    5: (20.00, 24.47, 5),
    10: (10.00, 13.16, 8),
    20: (5.00, 7.24, 14),
    50: (2.00, 3.41, 30),
    100: (1.00, 2.00, 51),
}
"""The paper's table: ideal load, threshold load (per cent), most workers per key; by workers."""

MESSAGES = 1_000_000
DURATION_S = 3600.0


def cells(scale: Scale) -> list[Parameters]:
    """A stream of one key on every number of workers."""
    return [{"workers": workers, "messages": scale.messages(MESSAGES)} for workers in PAPERS]


def measure(inputs: Inputs, *, workers: int, messages: int) -> Figures:
    """Route a stream of one key long enough for it to get all the workers that it may have."""
    params = ks.DynamicKeyGrouping(workers=workers, seed=1, messages_per_s=messages / DURATION_S)
    router = params.router()
    router.route(np.zeros(messages, dtype=np.int64))
    ideal = 100 / workers
    return {
        "ideal": ideal,
        "threshold": ideal + math.sqrt(ideal),
        "allowed": params.max_workers_per_key,
        "reached": int(np.count_nonzero(router.loads)),
    }


def figures(results: Results, figure: str) -> list[float]:
    """List a figure by workers."""
    return [float(results.one(figure, workers=workers)) for workers in PAPERS]


def loads(results: Results) -> Judged:
    """Ideal and threshold load: the paper's two decimals."""
    ideal, threshold = figures(results, "ideal"), figures(results, "threshold")
    fits = all(
        abs(ours - paper[place]) <= 0.005
        for place, line in enumerate((ideal, threshold))
        for ours, paper in zip(line, PAPERS.values(), strict=True)
    )
    return Judged(fits, "; ".join(f"{value:.2f}" for value in threshold))


def most(results: Results) -> Judged:
    """Workers of a key that has all messages: the paper's maximum, reached and never passed."""
    reached, allowed = figures(results, "reached"), figures(results, "allowed")
    return Judged(
        reached == allowed == [paper[2] for paper in PAPERS.values()], "; ".join(f"{n:.0f}" for n in reached)
    )


CLAIMS = [
    Claim(
        says="Threshold load of 5, 10, 20, 50, 100 workers, L_i + sqrt(L_i) of the ideal load L_i = 100/n "
        "per cent",
        where="Table 1",
        paper="24.47; 13.16; 7.24; 3.41; 2.00",
        judge=loads,
    ),
    Claim(
        says="Most workers of a key: so many has a key in the end that is alone in the stream",
        where="Table 1",
        paper="5; 8; 14; 30; 51",
        judge=most,
    ),
]


def table(results: Results) -> Table:
    """Ours next to the paper's."""
    rows = [
        [
            workers,
            results.one("ideal", workers=workers),
            results.one("threshold", workers=workers),
            f"{PAPERS[workers][1]:.2f}",
            results.one("reached", workers=workers),
            PAPERS[workers][2],
        ]
        for workers in PAPERS
    ]
    heads = ["n", "ideal load, %", "threshold, %", "paper", "most workers of a key", "paper's"]
    return Table(heads, rows)


EXPERIMENT = Experiment(
    name="dynamic_key/table1",
    label="Table 1",
    title="from which load on a worker counts as full, and how many workers a key may have",
    setting="A stream of 1,000,000 messages of one key in an hour, one source. The most workers of a key "
    "are those that it was sent to.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
)
