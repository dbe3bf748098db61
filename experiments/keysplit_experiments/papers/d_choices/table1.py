"""Table I: the datasets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale, steps
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, share, spell
from keysplit_experiments.papers.d_choices import FEW_EXPONENTS, MESSAGES, PAPER

KEYS = [10_000, 100_000, 1_000_000]


def cells(scale: Scale) -> list[Parameters]:
    """The streams in the real ones' stead, and the drawn ones."""
    real: list[Parameters] = [
        {"stream": symbol, "messages": scale.messages(dataset.messages)}
        for symbol, dataset in PAPER.datasets.items()
    ]
    drawn: list[Parameters] = [
        {"keys": keys, "exponent": exponent, "messages": scale.messages(MESSAGES)}
        for keys in KEYS
        for exponent in scale.grid(steps(0.4, 2.0, 0.4), FEW_EXPONENTS)
    ]
    return real + drawn


def measure(
    inputs: Inputs,
    *,
    messages: int,
    stream: str | None = None,
    keys: int | None = None,
    exponent: float | None = None,
) -> Figures:
    """Count messages, keys and the most frequent key."""
    if keys is not None and exponent is not None:
        counts = np.bincount(inputs.zipf(exponent, keys, messages, seed=1))
    elif stream is not None:
        counts = occurrences(inputs.real(PAPER.datasets[stream], messages))
    return {
        "messages": int(counts.sum()),
        "keys": int(np.count_nonzero(counts)),
        "top_share": float(counts.max() / counts.sum()),
    }


def occurrences(column: object) -> NDArray[np.int64]:
    """Count how often each key occurs in a column of any type."""
    if isinstance(column, np.ndarray):
        return np.unique(column, return_counts=True)[1]
    import pyarrow.compute as pc

    return np.asarray(pc.value_counts(column).field("counts"))


def expected(keys: int, exponent: float) -> float:
    """Share of the most frequent key: 1 / sum x**-z."""
    return float(1 / np.sum(np.arange(1, keys + 1, dtype=np.float64) ** -exponent))


def as_the_formula_says(results: Results) -> Judged:
    """The share of the most frequent key, within four standard errors."""
    worst = 0.0
    for cell in results.where(keys=KEYS):
        share_ = expected(cell.parameters["keys"], cell.parameters["exponent"])
        error = (share_ * (1 - share_) / cell.figures["messages"]) ** 0.5
        # where the first keys are about as frequent, the most frequent of them is a little above its share
        worst = max(worst, (share_ - cell.figures["top_share"]) / error)
        if cell.parameters["exponent"] >= 1:
            worst = max(worst, abs(cell.figures["top_share"] - share_) / error)
    return Judged(worst <= 4, f"at most {spell(worst)} standard errors apart")


def nearly_sixty(results: Results) -> Judged:
    """The most frequent key at z = 2."""
    found = results.all("top_share", exponent=2.0)
    return Judged(min(found) >= 0.58 and max(found) <= 0.62, f"{share(min(found))} to {share(max(found))}")


CLAIMS = [
    Claim(
        says="The most frequent key of ZF has a share of 1 / sum x^-z (within four standard errors of the "
        "draws)",
        where="Table I",
        judge=as_the_formula_says,
    ),
    Claim(
        says="With z = 2 the most frequent key has nearly 60% of the occurrences (58 to 62)",
        where="I",
        paper="nearly 60%",
        judge=nearly_sixty,
    ),
]


def table(results: Results) -> Table:
    """Messages, keys and share of the most frequent key, ours next to the paper's."""
    rows = []
    for cell in results:
        found, has = cell.figures, cell.parameters
        ours = [found["messages"], found["keys"], round(100 * found["top_share"], 2)]
        if "stream" in has:
            theirs = PAPER.datasets[has["stream"]]
            rows.append(
                [theirs.symbol, *ours, theirs.messages, theirs.keys, round(100 * theirs.top_share, 2)]
            )
        else:
            share_ = round(100 * expected(has["keys"], has["exponent"]), 2)
            rows.append([f"ZF, z = {has['exponent']:g}", *ours, MESSAGES, has["keys"], share_])
    heads = ["messages", "keys", "p1, per cent"]
    return Table(["stream", *heads, *(f"{head}: paper's" for head in heads)], rows)


EXPERIMENT = Experiment(
    name="d_choices/table1",
    label="Table I",
    title="the datasets",
    setting="The streams that stand for the paper's real ones, and Zipf streams as drawn. Keys are those "
    "that occur. The paper's p1 of ZF is its formula's.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
)
