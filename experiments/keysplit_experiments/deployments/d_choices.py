"""When Two Choices Are not Enough, Fig. 13 and 14: throughput and latency on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keysplit as ks
from keysplit_experiments.deployments.engine import agreement, comparing, segment
from keysplit_experiments.deployments.engine.comparing import fall, less, more
from keysplit_experiments.deployments.engine.reports import LATENCIES
from keysplit_experiments.deployments.engine.sizes import sized
from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS, bars, legend
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, spell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUPINGS = ["key", "partial_key", "d_choices", "w_choices", "shuffle"]
NEW = ["d_choices", "w_choices"]
KEYS = 10_000
SERVICE_TIME_S = 0.001


def cells(scale: Scale) -> list[Parameters]:
    """Every grouping at every skew."""
    sources, workers = sized(scale, (48, 80), (24, 40), (4, 8))
    return [
        {
            "exponent": exponent,
            "messages": scale.messages(200_000, 20_000),
            "seed": 1,
            "sources": sources,
            "workers": workers,
            "grouping": grouping,
        }
        for exponent in scale.grid([1.4, 1.7, 2.0], [1.4, 2.0])
        for grouping in GROUPINGS
    ]


def measure(
    inputs: Inputs, *, exponent: float, messages: int, seed: int, sources: int, workers: int, grouping: str
) -> Figures:
    """Send a segment through Spark."""
    return segment.run(
        ks.grouping(grouping, workers=workers, seed=seed),
        inputs.zipf(exponent, KEYS, messages, seed),
        sources=sources,
        service_time_s=SERVICE_TIME_S,
    )


def by_skew(results: Results, figure: str, grouping: str) -> dict[float, float]:
    """Return a figure of a grouping at every skew."""
    return comparing.along(results, "exponent", figure, grouping=grouping)


def over(results: Results, figure: str, one: str, other: str) -> dict[float, float]:
    """Return a figure of one grouping over that of another, at every skew."""
    return comparing.over(by_skew(results, figure, one), by_skew(results, figure, other))


def spelled(found: dict[float, float]) -> str:
    """Format a figure of every skew."""
    return ", ".join(f"{spell(value)} at z = {exponent}" for exponent, value in found.items())


def lowest(results: Results) -> Judged:
    """KG: less throughput than every other grouping at every skew."""
    found = {
        name: max(over(results, "throughput_per_s", "key", name).values())
        for name in GROUPINGS
        if name != "key"
    }
    return Judged(
        less(max(found.values()), 1),
        "at most " + ", ".join(f"{spell(value)} of {LOOKS[name].label}'s" for name, value in found.items()),
    )


def between(results: Results) -> Judged:
    """PKG: more throughput than KG and less than SG at every skew."""
    above = over(results, "throughput_per_s", "partial_key", "key")
    below = over(results, "throughput_per_s", "partial_key", "shuffle")
    return Judged(
        more(min(above.values()), 1) and less(max(below.values()), 1),
        f"over KG's: {spelled(above)}; over SG's: {spelled(below)}",
    )


def match(results: Results) -> Judged:
    """D-C and W-C: at least 85 per cent of SG's throughput at every skew."""
    found = {name: min(over(results, "throughput_per_s", name, "shuffle").values()) for name in NEW}
    copies = {name: max(over(results, "replication", name, "shuffle").values()) for name in NEW}
    return Judged(
        min(found.values()) >= 0.85,
        ", ".join(
            f"{LOOKS[name].label} at least {spell(value)} of SG's, with at most {spell(copies[name])} of its "
            "workers per key"
            for name, value in found.items()
        ),
    )


def harder(results: Results) -> Judged:
    """KG and PKG: less throughput at a larger skew."""
    found = {name: list(by_skew(results, "throughput_per_s", name).values()) for name in GROUPINGS[:2]}
    return Judged(
        all(map(fall, found.values())),
        "; ".join(
            f"{LOOKS[name].label} {' to '.join(f'{value:,.0f}' for value in line)} messages per second"
            for name, line in found.items()
        ),
    )


def gains(results: Results) -> Judged:
    """D-C and W-C: in the best case at least 2.5 times PKG's throughput and 3.3 times KG's."""
    best = {
        (name, other): max(over(results, "throughput_per_s", name, other).values())
        for name in NEW
        for other in ("partial_key", "key")
    }
    holds = all(value >= {"partial_key": 2.5, "key": 3.3}[other] for (_, other), value in best.items())
    return Judged(
        holds,
        ", ".join(
            f"{LOOKS[name].label} {spell(value)} times {LOOKS[other].label}'s"
            for (name, other), value in best.items()
        ),
    )


def little_difference(results: Results) -> Judged:
    """The smallest skew: the 99th percentile of KG at most twice that of SG."""
    exponent = min(results.values("exponent"))
    found = over(results, "p99_latency_s", "key", "shuffle")[exponent]
    return Judged(found <= 2, f"{spell(found)} times")


def half(results: Results) -> Judged:
    """PKG at the highest skew: 35 to 65 per cent of KG's latency, in the largest average of a worker."""
    exponent = max(results.values("exponent"))
    found = over(results, "largest_mean_latency_s", "partial_key", "key")[exponent]
    return Judged(0.35 <= found <= 0.65, f"{found:.0%}")


def thrice(results: Results) -> Judged:
    """SG: less than PKG's 99th percentile at every skew, and in the best case a third of it, or less."""
    found = over(results, "p99_latency_s", "partial_key", "shuffle")
    return Judged(
        more(min(found.values()), 1) and max(found.values()) >= 3, f"smaller by a factor of {spelled(found)}"
    )


def close(results: Results) -> Judged:
    """D-C and W-C: at most 1.25 times SG's 99th percentile."""
    found = {name: max(over(results, "p99_latency_s", name, "shuffle").values()) for name in NEW}
    return Judged(
        max(found.values()) <= 1.25,
        ", ".join(f"{LOOKS[name].label} at most {spell(value)} times" for name, value in found.items()),
    )


def reduced(results: Results) -> Judged:
    """D-C and W-C: in the best case 60 per cent less than PKG's 99th percentile, 75 less than KG's."""
    best = {
        (name, other): 1 - min(over(results, "p99_latency_s", name, other).values())
        for name in NEW
        for other in ("partial_key", "key")
    }
    holds = all(value >= {"partial_key": 0.6, "key": 0.75}[other] for (_, other), value in best.items())
    return Judged(
        holds,
        ", ".join(
            f"{LOOKS[name].label} {value:.0%} less than {LOOKS[other].label}"
            for (name, other), value in best.items()
        ),
    )


CLAIMS = [
    Claim(says="KG has the lowest throughput", where="V-B, Q4, Fig. 13", judge=lowest),
    Claim(says="PKG has more than KG, and less than SG", where="V-B, Q4, Fig. 13", judge=between),
    Claim(
        says="D-C and W-C match SG's throughput (at least 85 per cent of it)",
        where="V-B, Q4, Fig. 13",
        judge=match,
    ),
    Claim(
        says="The problem becomes harder for KG and PKG as the skew grows",
        where="V-B, Q4, Fig. 13",
        judge=harder,
    ),
    Claim(
        says="In the best case D-C and W-C improve throughput by 150 per cent over PKG's and by 230 over "
        "KG's (at least 2.5 and 3.3 times, the stricter reading)",
        where="abstract, I, VII; V-B, Q4, Fig. 13",
        paper="150 and 230 per cent; 1.5 and 2.3 times higher",
        judge=gains,
    ),
    Claim(
        says="With modest skew latencies differ little (p99 of KG at most twice SG's at z = 1.4)",
        where="V-B, Q4, Fig. 14",
        judge=little_difference,
        because="all messages wait from the start and only the workers limit the rate, so latencies "
        "may differ as much as loads do",
    ),
    Claim(
        says="PKG has about half of KG's latency at the highest skew (35 to 65 per cent)",
        where="V-B, Q4, Fig. 14",
        paper="about 50 per cent",
        judge=half,
    ),
    Claim(
        says="SG's latency is smaller than PKG's at every skew, and up to 3 times (at least, p99)",
        where="V-B, Q4, Fig. 14",
        paper="3 times",
        judge=thrice,
    ),
    Claim(
        says="D-C and W-C are very close to SG in latency (p99 at most 1.25 times)",
        where="V-B, Q4, Fig. 14",
        judge=close,
    ),
    Claim(
        says="In the best case D-C and W-C reduce PKG's p99 by 60 per cent and KG's by over 75 (at least)",
        where="abstract, I; V-B, Q4, Fig. 14",
        paper="60 and 75 per cent",
        judge=reduced,
    ),
    agreement.claim(),
]


def table(results: Results) -> Table:
    """Throughput, balance, latencies and copies of every cell."""
    rows: list[list[Any]] = []
    for cell in results:
        figures = cell.figures
        rows.append(
            [
                cell.parameters["exponent"],
                LOOKS[cell.parameters["grouping"]].label,
                figures["throughput_per_s"],
                figures["balance"],
                figures["simulated_balance"],
                *(figures[name] for name in LATENCIES),
                figures["replication"],
            ]
        )
    heads = ["messages/s", "max/mean", "simulated", *LATENCIES.values(), "replication"]
    return Table(["z", "grouping", *heads], rows)


def draw(figure: Figure, results: Results) -> None:
    """Throughput over skew; under it the latencies, a plot a skew."""
    exponents = results.values("exponent")
    grid = figure.add_gridspec(2, len(exponents))
    axes = figure.add_subplot(grid[0, :])
    lines = [list(by_skew(results, "throughput_per_s", name).values()) for name in GROUPINGS]
    looks = [LOOKS[name].bar() for name in GROUPINGS]
    bars(axes, [f"z = {exponent}" for exponent in exponents], list(zip(looks, lines, strict=True)))
    axes.set_ylabel("messages per second")
    first = None
    for place, exponent in enumerate(exponents):
        axes = first = figure.add_subplot(grid[1, place], sharey=first)
        at = results.where(exponent=exponent)
        heights = [[at.one(each, grouping=name) for each in LATENCIES] for name in GROUPINGS]
        bars(axes, list(LATENCIES.values()), list(zip(looks, heights, strict=True)))
        axes.set_title(f"z = {exponent}")
        axes.set_yscale("log")
        if place == 0:
            axes.set_ylabel("latency, seconds")
    legend(figure)


EXPERIMENT = Experiment(
    name="deployments/d_choices",
    label="Fig. 13, 14",
    title="throughput and latency on a cluster",
    setting="48 sources, 80 workers, Zipf streams of 10,000 keys, 1 ms per message. A cell is a "
    "segment of 200,000 messages (the paper: 2,000,000) that are all there when the workers "
    "start. Latency is the wait in a worker's queue and its work. Throughput is messages over "
    "the time from the start of the workers to the end of the last. Only the workers limit "
    "the rate, so groupings may differ more than on the paper's cluster.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(11, 7),
    deploys="d_choices",
)
