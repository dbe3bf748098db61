"""Adaptive Key Partitioning in Distributed Stream Processing, Fig. 8 and 10 to 14: throughput and balance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keysplit as ks
from keysplit_experiments.deployments.engine import agreement, segment
from keysplit_experiments.deployments.engine.comparing import along, looks, more, spelled
from keysplit_experiments.deployments.engine.sizes import sized
from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS, bars, legend
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.flexd import KEYS, PAPER, WORKERS
from keysplit_experiments.papers.flexd._balance import ALL, SPLITTING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

AGGREGATES, WORDS = ["Voters", "Amazon"], ["T4SA", "WikiText"]
STREAMS = [*AGGREGATES, *WORDS]
MESSAGES = 140_000
LEARNING = (
    "learning takes a router no time here; the paper puts DKG's throughput down to its lack "
    "of parallel processing"
)
MERGING = "what merging the copies of a key costs is not in our time"


def cells(scale: Scale) -> list[Parameters]:
    """Every grouping at every skew and on every real stream."""
    balanced_s = sized(scale, 3.0, 0.6, 0.3)
    messages = scale.messages(MESSAGES, 30_000)
    common = {"messages": messages, "seed": 1, "service_time_s": round(balanced_s * WORKERS / messages, 7)}
    streams: list[Parameters] = [{"exponent": z} for z in scale.grid([1.0, 1.5, 2.0, 2.5, 3.0], [1.0, 3.0])]
    streams += [{"stream": symbol} for symbol in STREAMS]
    return [{**each, **common, "grouping": name} for each in streams for name in ALL]


def measure(
    inputs: Inputs,
    *,
    messages: int,
    seed: int,
    service_time_s: float,
    grouping: str,
    exponent: float | None = None,
    stream: str | None = None,
) -> Figures:
    """Send a segment through Spark."""
    if exponent is None:
        keys = inputs.real(PAPER.datasets[str(stream)])[:messages]
    else:
        keys = inputs.zipf(exponent, KEYS, messages, seed)
    params = ks.grouping(grouping, workers=WORKERS, seed=seed)
    return segment.run(params, keys, sources=1, service_time_s=service_time_s)


def by_skew(results: Results, figure: str) -> dict[str, list[float]]:
    """List a figure by skew, of every grouping."""
    skewed = results.where(stream=None)
    return {name: list(along(skewed, "exponent", figure, grouping=name).values()) for name in ALL}


def on_stream(results: Results, figure: str, stream: str) -> dict[str, float]:
    """Return a figure on a real stream, of every grouping."""
    return {name: results.one(figure, stream=stream, grouping=name) for name in ALL}


def on_streams(results: Results, figure: str, streams: Sequence[str]) -> tuple[list[dict[str, float]], str]:
    """Return a figure of every grouping on real streams, also as text."""
    found = {stream: on_stream(results, figure, stream) for stream in streams}
    return list(found.values()), "; ".join(f"{stream}: {spelled(each)}" for stream, each in found.items())


def highest(results: Results) -> Judged:
    """FlexD: the highest throughput at every skew, or within 5 per cent of it."""
    found = by_skew(results, "throughput_per_s")
    parts = [own / max(each) for own, *each in zip(found["flexd"], *found.values(), strict=True)]
    return Judged(min(parts) >= 0.95, "times the highest: " + ", ".join(map(spell, parts)))


def learned_lowest(results: Results) -> Judged:
    """DAKG: the lowest throughput at every skew, or within 5 per cent of it."""
    found = by_skew(results, "throughput_per_s")
    parts = [own / min(each) for own, *each in zip(found["distribution_aware"], *found.values(), strict=True)]
    return Judged(max(parts) <= 1.05, "times the lowest: " + ", ".join(map(spell, parts)))


def falls(results: Results) -> Judged:
    """Most groupings: at least 5 per cent less throughput at the largest skew than at the smallest."""
    parts = {name: line[-1] / line[0] for name, line in by_skew(results, "throughput_per_s").items()}
    return Judged(
        sum(part <= 0.95 for part in parts.values()) > len(parts) / 2,
        "largest / smallest skew: " + spelled(parts),
    )


def best_on_streams(results: Results) -> Judged:
    """FlexD: the highest throughput on Voters and Amazon, or within 5 per cent of it."""
    found, text = on_streams(results, "throughput_per_s", AGGREGATES)
    return Judged(all(each["flexd"] >= 0.95 * max(each.values()) for each in found), text)


def most_balanced(results: Results) -> Judged:
    """FlexD: on Voters and Amazon the lowest max/mean of the workers' times, or within 5 per cent of it."""
    found, text = on_streams(results, "balance", AGGREGATES)
    return Judged(all(each["flexd"] <= 1.05 * min(each.values()) for each in found), text)


def similar_on_words(results: Results) -> Judged:
    """FlexD: on T4SA and WikiText the highest throughput, or within 5 per cent of it."""
    found, text = on_streams(results, "throughput_per_s", WORDS)
    return Judged(all(each["flexd"] >= 0.95 * max(each.values()) for each in found), text)


def dalton_worst(results: Results) -> Judged:
    """Dalton: on WikiText the least balanced of the groupings that split."""
    found = on_stream(results, "balance", "WikiText")
    splitting = {grouping: found[grouping] for grouping in SPLITTING}
    others = max(found[grouping] for grouping in SPLITTING if grouping != "dalton")
    return Judged(more(found["dalton"], others), spelled(splitting))


def copies(results: Results) -> Judged:
    """The largest skew: one worker per key for KG and DAKG, more for the others."""
    found = {name: line[-1] for name, line in by_skew(results, "replication").items()}
    single = [found["key"], found["distribution_aware"]]
    splitting = [found[name] for name in SPLITTING]
    return Judged(max(single) == 1 and more(min(splitting), 1), spelled(found))


CLAIMS = [
    Claim(
        says="FlexD has the highest throughput (every skew, or within 5 per cent of it)",
        where="6.2, Fig. 8",
        judge=highest,
    ),
    Claim(
        says="DAKG has the lowest (every skew, or within 5 per cent of it)",
        where="6.2, Fig. 8",
        judge=learned_lowest,
        because=LEARNING,
    ),
    Claim(
        says="Most lose throughput as the skew grows (more than half of the groupings, at least 5 per cent "
        "from the smallest skew to the largest)",
        where="6.2, Fig. 8",
        judge=falls,
        because="a grouping splits keys only from a threshold on, which they may not reach at the smallest "
        f"skew; and {MERGING}",
    ),
    Claim(
        says="FlexD outperforms the others slightly on Voters and Amazon (highest throughput, or within 5 "
        "per cent of it)",
        where="6.2, Fig. 10",
        judge=best_on_streams,
        because=f"{MERGING}, and that is where the paper has FlexD ahead of PStream",
    ),
    Claim(
        says="FlexD has the lowest load imbalance there (max/mean, or within 5 per cent of the lowest)",
        where="6.2, Fig. 11",
        judge=most_balanced,
    ),
    Claim(
        says="FlexD performs similarly or slightly better on T4SA and WikiText (highest throughput, or "
        "within 5 per cent of it)",
        where="6.2, Fig. 12",
        judge=similar_on_words,
    ),
    Claim(
        says="Dalton balances worse on WikiText (the worst of the groupings that split)",
        where="6.2, Fig. 13",
        judge=dalton_worst,
    ),
    Claim(
        says="At the largest skew one worker has all of a key with KG and DAKG, and several with the others",
        where="6.2, Fig. 14",
        judge=copies,
        because="a key's worker may change once, after the 10,000 messages that DAKG learns from, which are "
        "routed by hash",
    ),
    agreement.claim(),
]


def table(results: Results) -> Table:
    """Throughput, balance and copies of every cell."""
    rows: list[list[Any]] = []
    for cell in results:
        figures = cell.figures
        rows.append(
            [
                cell.parameters.get("stream") or f"z = {cell.parameters['exponent']}",
                looks(cell.parameters["grouping"]),
                figures["throughput_per_s"],
                figures["balance"],
                figures["simulated_balance"],
                figures["p99_latency_s"],
                figures["replication"],
            ]
        )
    heads = ["messages/s", "max/mean", "simulated", "p99", "replication"]
    return Table(["stream", "grouping", *heads], rows)


def draw(figure: Figure, results: Results) -> None:
    """Throughput and imbalance, by skew and by real stream; copies at the largest skew."""
    plots = list(figure.subplots(1, 3, width_ratios=[5, 5, 2]))
    names = [f"z = {z}" for z in results.where(stream=None).values("exponent")]
    styles = {name: LOOKS[name].bar() for name in ALL}
    for axes, what, label in zip(
        plots,
        ("throughput_per_s", "balance"),
        ("messages per second", "load imbalance, max/mean - 1"),
        strict=False,
    ):
        skewed = by_skew(results, what)
        real = {stream: on_stream(results, what, stream) for stream in STREAMS}
        less = 1 if what == "balance" else 0
        heights = {
            name: [value - less for value in (*skewed[name], *(real[each][name] for each in STREAMS))]
            for name in ALL
        }
        bars(axes, [*names, *STREAMS], [(styles[name], heights[name]) for name in ALL])
        axes.set_ylabel(label)
    last = by_skew(results, "replication")
    bars(plots[2], [names[-1]], [(styles[name], last[name][-1:]) for name in ALL])
    plots[2].set_ylabel("replication")
    legend(figure)


EXPERIMENT = Experiment(
    name="deployments/flexd",
    label="Fig. 8, 10-14",
    title="throughput and balance of counts of words, reviews and voters",
    setting="Eight workers, one source; ZF has 10,000 keys. A cell is a segment of the first 140,000 "
    "messages, all there when the workers start; balanced workers take three seconds (0.17 ms "
    "per message). Parameters are the defaults, as the paper's are lost in our text. DAKG is "
    "the paper's DKG. Merging the copies of a key is not in the time. Imbalance over time, "
    "and the claims of Fig. 9, are [simulated](experiments/flexd.md).",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(16, 4.5),
    version=3,
    deploys="flexd",
)
