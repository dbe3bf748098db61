"""Table 1: imbalance of schemes that share out messages to more and more virtual workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.table import Entry, Table, spell, with_paper
from keysplit_experiments.papers.consistent._balance import ALLOCATIONS, allocation, balance, label
from keysplit_experiments.papers.consistent._streams import (
    drawn,
    named,
    on_stream,
    real,
)

BINS = [10, 100, 1000, 10_000]
BY_KEY = ["key", "partial_key"]
"""Whose balance depends on the hashes of the hottest keys."""

EPSILON = 0.3
PAPERS = {
    ("WP", "key"): [0.8, 9.15, 93, 931],
    ("WP", "partial_key"): [8e-7, 3.67, 45.59, 464],
    ("WP", "power_of_two"): [8e-7, 8e-6, 9e-5, 1e-3],
    ("WP", "power_of_random"): [0.3, 0.3, 0.3, 0.3],
    ("WP", "bounded_ring"): [0.3, 0.3, 0.3, 0.3],
    ("WP", "shuffle"): [4e-7, 3e-6, 4e-6, 2.8e-4],
    ("TW", "key"): [2.2, 25, 246, 2469],
    ("TW", "partial_key"): [1.52, 11.34, 22, 1233],
    ("TW", "power_of_two"): [9.5e-8, 2e-6, 2e-5, 3e-4],
    ("TW", "power_of_random"): [0.3, 0.3, 0.3, 0.3],
    ("TW", "bounded_ring"): [0.3, 0.3, 0.3, 0.3],
    ("TW", "shuffle"): [0, 2e-7, 6e-6, 4e-5],
}
"""The figures of the paper's table, by stream and grouping: one per number of virtual workers."""


def cells(scale: Scale) -> list[Parameters]:
    """Every scheme on every stream and number of virtual workers."""
    return [
        {**stream, "bins": bins, "grouping": grouping, "seed": seed}
        for stream in (drawn(scale, "WP"), drawn(scale, "TW"), real(scale, "WP"), real(scale, "TW"))
        for bins in scale.grid(BINS, BINS[:3])
        for grouping in ALLOCATIONS
        for seed in scale.grid([1, 2, 3] if grouping in BY_KEY else [1], [1])
    ]


@on_stream
def measure(keys: Any, *, bins: int, grouping: str, seed: int) -> Figures:
    """Simulate one scheme."""
    return balance(allocation(grouping, bins, EPSILON, seed), keys)


def pairs(results: Results, like: str, grouping: str) -> list[tuple[int, float, float]]:
    """List the numbers of virtual workers with our imbalance (the median of the seeds) and the paper's."""
    chosen = results.where(like=like, grouping=grouping)
    papers = dict(zip(BINS, PAPERS[like, grouping], strict=True))
    return [
        (bins, chosen.median("relative_imbalance", bins=bins), papers[bins]) for bins in chosen.values("bins")
    ]


def near(like: str, grouping: str, few: float, many: float) -> Callable[[Results], Judged]:
    """Judge whether our figures are the paper's within a factor: one on 10 virtual workers, one on more."""

    def judge(results: Results) -> Judged:
        found = pairs(results, like, grouping)
        factors = [few if bins == BINS[0] else many for bins, _, _ in found]
        fits = [
            paper / factor <= ours <= paper * factor
            for (_, ours, paper), factor in zip(found, factors, strict=True)
        ]
        return Judged(all(fits), "; ".join(spell(ours) for _, ours, _ in found))

    return judge


def nearly_none(grouping: str, over: float) -> Callable[[Results], Judged]:
    """Judge whether the largest load is at most so many messages above the mean."""

    def judge(results: Results) -> Judged:
        most = max(
            cell.figures["relative_imbalance"] * cell.figures["messages"] / cell.parameters["bins"]
            for cell in results.where(grouping=grouping)
        )
        return Judged(most <= over, f"at most {spell(most)} messages")

    return judge


def two_choices_on_ten(results: Results) -> Judged:
    """PKG on ten virtual workers, like WP: the messages above the mean, the median of the seeds."""
    chosen = results.where(like="WP", grouping="partial_key", bins=10)
    imbalance, messages = chosen.median("relative_imbalance"), chosen.median("messages")
    return Judged(imbalance * messages / 10 <= 5, spell(imbalance))


def bounded(results: Results) -> Judged:
    """PoRC and CH: the largest load is epsilon above the mean, and at most one message more than that."""
    beyond = [
        (cell.figures["relative_imbalance"] - EPSILON) * cell.figures["messages"] / cell.parameters["bins"]
        for cell in results.where(grouping=["power_of_random", "bounded_ring"])
    ]
    found = [
        results.median("relative_imbalance", grouping=grouping, bins=bins, like=like)
        for grouping in ("power_of_random", "bounded_ring")
        for like in ("WP", "TW")
        for bins in results.values("bins")
    ]
    return Judged(
        max(beyond) <= 1 and min(found) >= 0.9 * EPSILON,
        f"{spell(min(found))} to {spell(max(found))} like WP and TW; never more than {spell(max(beyond))} "
        "messages above",
    )


def grows(results: Results) -> Judged:
    """KG and PKG on the real streams: more virtual workers, more imbalance."""
    lines = [
        results.where(stream=stream, grouping=grouping).line("bins", "relative_imbalance")[1]
        for stream in ("WP", "TW")
        for grouping in ("key", "partial_key")
    ]
    return Judged(
        all(line == sorted(line) for line in lines),
        "; ".join(f"{spell(line[0])} to {spell(line[-1])}" for line in lines),
    )


CLAIMS = [
    Claim(
        says="Like WP, KG on 10, 100, 1000, 10,000 virtual workers (within a tenth; on 10, where it depends "
        "on which other keys share the hottest one's worker, within a factor of 2)",
        where="Table 1",
        paper="0.8; 9.15; 93; 931",
        judge=near("WP", "key", 2, 1.1),
    ),
    Claim(
        says="Like WP, PKG on 100, 1000, 10,000 virtual workers (within a tenth)",
        where="Table 1",
        paper="3.67; 45.59; 464",
        judge=lambda results: near("WP", "partial_key", 2, 1.1)(results.where(bins=BINS[1:])),
    ),
    Claim(
        says="Like WP, PKG on 10 virtual workers: next to nothing (the largest load at most 5 messages "
        "above the mean)",
        where="Table 1",
        paper="8e-7",
        judge=two_choices_on_ten,
    ),
    Claim(
        says="Like a TW whose hottest key has 24.7 per cent, KG (within a tenth; on 10 within a factor of 2)",
        where="Table 1",
        paper="2.2; 25; 246; 2469",
        judge=near("TW", "key", 2, 1.1),
    ),
    Claim(
        says="Like such a TW, PKG on 100 and 10,000 virtual workers (within a tenth)",
        where="Table 1",
        paper="11.34; 1233",
        judge=lambda results: near("TW", "partial_key", 2, 1.1)(results.where(bins=[100, 10_000])),
    ),
    Claim(
        says="Like such a TW, PKG on 1000 virtual workers (within a tenth)",
        where="Table 1",
        paper="22",
        judge=lambda results: near("TW", "partial_key", 2, 1.1)(results.where(bins=1000)),
        because="the hottest key's half on one of 1000 is 123 times the mean; the paper's figures on 100 "
        "and 10,000 fit that, so its 22 seems to lack a digit",
    ),
    Claim(
        says="Like such a TW, PKG on 10 virtual workers (within a factor of 2)",
        where="Table 1",
        paper="1.52",
        judge=lambda results: near("TW", "partial_key", 2, 1.1)(results.where(bins=10)),
        because="1.5 above the mean is all of the hottest key on one worker: its two choices must "
        "have been the same, which has a chance of 1/10; its half alone is 0.23 above",
    ),
    Claim(
        says="PoTC: next to nothing (the largest load at most 5 messages above the mean, on every stream)",
        where="Table 1",
        paper="9.5e-8 to 1e-3",
        judge=nearly_none("power_of_two", 5),
    ),
    Claim(
        says="SG: next to nothing (at most one message above the mean, on every stream)",
        where="Table 1",
        paper="0 to 2.8e-4",
        judge=nearly_none("shuffle", 1),
    ),
    Claim(
        says="PoRC and CH: the bound 0.3 everywhere (never more than a message above it, and reached within "
        "a tenth on the drawn streams)",
        where="Table 1",
        paper="0.3",
        judge=bounded,
    ),
    Claim(
        says="KG and PKG: the imbalance grows with the number of virtual workers, on the real streams too",
        where="5.1",
        judge=grows,
    ),
]


def table(results: Results) -> Table:
    """Ours, and the paper's in parentheses where it has a figure."""
    bins = results.values("bins")
    rows: list[Sequence[Entry]] = []
    for name, stream in named(results):
        for grouping in ALLOCATIONS:
            chosen = results.where(**stream, grouping=grouping)
            ours = [chosen.median("relative_imbalance", bins=n) for n in bins]
            paper = PAPERS[stream["like"], grouping] if "like" in stream else []
            rows.append([name, label(grouping), *with_paper(ours, paper[: len(bins)])])
    return Table(["stream", "grouping", *(f"{n:,}" for n in bins)], rows)


EXPERIMENT = Experiment(
    name="consistent/table1",
    label="Table 1",
    title="imbalance on more and more virtual workers",
    setting="*Like TW* is a Zipf stream of 22,000,000 messages and 570,000 keys with a hottest key of "
    "24.69%. Table 2 of the paper states 2.67 per cent, but with that no grouping by key can "
    "be as imbalanced as Table 1 states. Epsilon 0.3 for PoRC and CH. KG and PKG: medians of "
    "three seeds of the hashes. The paper's figures are in parentheses.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
)
