"""Load Balancing for Skewed Streams on Heterogeneous Cluster, Fig. 13 and 14: with equal and slow workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keysplit as ks
from keysplit_experiments.deployments.engine import agreement, comparing, segment
from keysplit_experiments.deployments.engine import stream as continuous
from keysplit_experiments.deployments.engine.comparing import along, less, looks, more
from keysplit_experiments.deployments.engine.reports import LATENCIES
from keysplit_experiments.deployments.engine.sizes import sized
from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS, bars, legend
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.consistent import EPSILON, PAPER, VIRTUAL_WORKERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUPINGS = ["key", "partial_key", "shuffle", "consistent"]
PLANNED = "CG, planned"
"""CG where workers are slow: a plan that follows it."""

SLOW, SLOW_SPEED = 2, 0.3
SLOT_S = 0.1
SEGMENT_S = 3.0
"""How long balanced workers take for a segment of a full run."""


def cells(scale: Scale) -> list[Parameters]:
    """Every grouping with every delay on equal workers, and with the longest where two are slow."""
    sources, workers = sized(scale, (8, 24), (4, 12), (2, 8))
    batches, per_batch = sized(scale, (20, 24_000), (8, 8_000), (6, 600))
    common = {"stream": "TW", "seed": 1, "sources": sources, "workers": workers}
    parameters: list[Parameters] = []
    for delay_ms in scale.grid([0.1, 0.4, 1.0], [1.0]):
        messages = scale.messages(round(workers * SEGMENT_S * 1000 / delay_ms), 24_000)
        parameters.append({**common, "messages": messages, "delay_ms": delay_ms, "slow": 0, "batches": None})
    slowed = {"messages": batches * per_batch, "delay_ms": 1.0, "slow": SLOW, "batches": batches}
    parameters.append({**common, **slowed})
    return [{**each, "grouping": grouping} for each in parameters for grouping in GROUPINGS]


def measure(
    inputs: Inputs,
    *,
    stream: str,
    messages: int,
    seed: int,
    sources: int,
    workers: int,
    delay_ms: float,
    slow: int,
    batches: int | None,
    grouping: str,
) -> Figures:
    """Send a segment through Spark, or a stream of micro-batches."""
    own: dict[str, Any] = {"virtual_workers": VIRTUAL_WORKERS, "epsilon": EPSILON, "slot_s": SLOT_S}
    params = ks.grouping(grouping, workers=workers, seed=seed, **(own if grouping == "consistent" else {}))
    keys = inputs.real(PAPER.datasets[stream])[:messages]
    service_time_s = delay_ms / 1000
    if batches is None:
        return segment.run(params, keys, sources=sources, service_time_s=service_time_s)
    return continuous.run(
        params,
        keys,
        sources=sources,
        batches=batches,
        service_time_s=service_time_s,
        speeds=[SLOW_SPEED] * slow + [1.0] * (workers - slow),
        follow=grouping == "consistent",
    )


def over_key(results: Results, figure: str, grouping: str, **where: Any) -> dict[float, float]:
    """Return a figure of a grouping over that of KG, by delay."""
    found, base = (along(results, "delay_ms", figure, grouping=each, **where) for each in (grouping, "key"))
    return comparing.over(found, base)


def label(grouping: str, slow: int) -> str:
    """Return the name of what is run: on equal workers the grouping, next to slow ones a plan for CG."""
    return PLANNED if slow and grouping == "consistent" else looks(grouping)


def superior(results: Results) -> Judged:
    """PKG, SG and CG on equal workers: more throughput than KG and a smaller p99, for every delay."""
    rates, waits = (
        {name: over_key(results, figure, name, slow=0) for name in GROUPINGS[1:]}
        for figure in ("throughput_per_s", "p99_latency_s")
    )
    least = {name: min(each.values()) for name, each in rates.items()}
    most = {name: max(each.values()) for name, each in waits.items()}
    return Judged(
        all(more(value, 1) for value in least.values()) and all(less(value, 1) for value in most.values()),
        ", ".join(
            f"{looks(name)} at least {spell(least[name])} times the throughput, at most {spell(most[name])} "
            "times the latency"
            for name in least
        ),
    )


def memory(results: Results) -> Judged:
    """Workers per key on equal workers: KG least; PKG and CG more by at most half of what SG has more."""
    longest = max(results.values("delay_ms"))
    found = {name: results.one("replication", grouping=name, slow=0, delay_ms=longest) for name in GROUPINGS}
    middle = [found["partial_key"], found["consistent"]]
    return Judged(
        less(found["key"], min(middle)) and max(middle) <= (found["key"] + found["shuffle"]) / 2,
        comparing.spelled(found),
    )


def best(results: Results) -> Judged:
    """A plan for CG with slow workers: more throughput than each other grouping, and a smaller p99."""
    rate, wait = (
        {name: results.one(figure, grouping=name, slow=SLOW) for name in GROUPINGS}
        for figure in ("throughput_per_s", "p99_latency_s")
    )
    others = GROUPINGS[:-1]
    return Judged(
        all(more(rate["consistent"], rate[name]) for name in others)
        and all(less(wait["consistent"], wait[name]) for name in others),
        ", ".join(
            f"{spell(rate['consistent'] / rate[name])} times {looks(name)}'s throughput, "
            f"{spell(wait['consistent'] / wait[name])} of its p99"
            for name in others
        ),
    )


def twice(results: Results) -> Judged:
    """A plan for CG with slow workers: at most half of KG's 99th percentile."""
    found = 1 / over_key(results, "p99_latency_s", "consistent", slow=SLOW)[1.0]
    return Judged(found >= 2, f"{spell(found)} times")


def throughput(results: Results) -> Judged:
    """A plan for CG with slow workers: at least 3.44 times KG's throughput; and the most possible."""
    found = over_key(results, "throughput_per_s", "consistent", slow=SLOW)[1.0]
    (cell,) = results.where(grouping="key", slow=SLOW).cells
    speed = cell.parameters["workers"] - SLOW + SLOW * SLOW_SPEED
    possible = speed / (cell.parameters["delay_ms"] / 1000) / cell.figures["throughput_per_s"]
    return Judged(
        found >= 3.44, f"{spell(found)} times; perfectly balanced workers would have {spell(possible)} times"
    )


def levelled(results: Results) -> Judged:
    """A plan for CG with slow workers: the busiest at most 1.25 times the mean in the second half."""
    found = results.one("balance", grouping="consistent", slow=SLOW)
    first = results.one("balances", grouping="consistent", slow=SLOW)[0]
    return Judged(found <= 1.25, f"{spell(found)}; in the first micro-batch {spell(first)}")


CLAIMS = [
    Claim(
        says="On equal workers PKG, SG and CG have a higher throughput and a lower latency than KG (p99; for "
        "every delay)",
        where="7.2, Q4, Fig. 13",
        judge=superior,
    ),
    Claim(
        says="KG needs the least memory, PKG and CG little more, SG the most (workers per key; little: at "
        "most half of what SG needs more)",
        where="7.2, Q4",
        paper="7, 8.5, 8.5 and 14 per cent of the cluster's memory",
        judge=memory,
    ),
    Claim(
        says="With two slow workers planned CG outperforms the others in throughput and latency (p99)",
        where="7.2, Q4, Fig. 14",
        judge=best,
    ),
    Claim(
        says="With two slow workers planned CG's latency is up to 2 times better than KG's (at least, p99)",
        where="7.2, Q4, Fig. 14",
        paper="2 times; its abstract has 3.44",
        judge=twice,
        because="all messages of a micro-batch wait when its workers start, so latencies can differ "
        "no more than throughput does",
    ),
    Claim(
        says="With two slow workers planned CG has 3.44 times KG's throughput (at least)",
        where="7.2, Q4, Fig. 14",
        paper="3.44 times; its introduction has 2",
        judge=throughput,
        because="no grouping can exceed perfectly balanced workers; the two slow workers may have few "
        "of KG's messages",
    ),
    Claim(
        says="Ours: with two slow workers planned CG settles (busiest worker at most 1.25 times the mean)",
        where="ours",
        judge=levelled,
    ),
    agreement.claim(agreement.BY_PLAN),
]


def table(results: Results) -> Table:
    """Throughput, balance and latencies of every cell."""
    rows: list[list[Any]] = []
    for cell in results:
        figures = cell.figures
        rows.append(
            [
                "two slow" if cell.parameters["slow"] else "equal",
                cell.parameters["delay_ms"],
                label(cell.parameters["grouping"], cell.parameters["slow"]),
                figures["throughput_per_s"],
                figures["balance"],
                figures["simulated_balance"],
                *(figures[name] for name in LATENCIES),
                figures.get("whole_p99_latency_s"),
            ]
        )
    heads = ["messages/s", "max/mean", "simulated", *LATENCIES.values(), "whole p99"]
    return Table(["workers", "delay ms", "grouping", *heads], rows)


def draw(figure: Figure, results: Results) -> None:
    """Throughput and latencies; a row for equal workers, a row for slow ones."""
    plots = figure.subplots(2, 2)
    for row, slow, title in zip(plots, (0, SLOW), ("equal workers", "two workers at 30 %"), strict=True):
        chosen = results.where(slow=slow)
        delays = sorted(chosen.values("delay_ms"))
        rates = [chosen.line("delay_ms", "throughput_per_s", grouping=name)[1] for name in GROUPINGS]
        at = chosen.where(delay_ms=delays[-1])
        waits = [[at.one(each, grouping=name) for each in LATENCIES] for name in GROUPINGS]
        styles = [LOOKS[name].bar() for name in GROUPINGS]
        if slow:
            styles[-1] |= {"label": PLANNED, "hatch": "///"}
        bars(row[0], [f"{delay} ms" for delay in delays], list(zip(styles, rates, strict=True)))
        bars(row[1], list(LATENCIES.values()), list(zip(styles, waits, strict=True)))
        if len(delays) > 1:
            row[0].set_yscale("log")
        row[0].set_title(title)
        row[1].set_title(f"{title}, {delays[-1]} ms")
        row[0].set_ylabel("messages per second")
        row[1].set_ylabel("latency, seconds")
    legend(figure)


EXPERIMENT = Experiment(
    name="deployments/consistent",
    label="Fig. 13, 14",
    title="throughput and latency with equal workers, and with two slow ones",
    setting="8 sources, 24 workers, which count the words of TW (the paper's: a naive Bayes "
    "classifier). *Equal*: segments that take balanced workers three seconds, with all "
    "messages there at the start. *Two slow*: two workers sleep 1/0.3 times as long; 20 "
    "micro-batches of 24,000 messages of 1 ms, the second half measured; KG, PKG and SG have "
    "a router per source for all micro-batches. *CG, planned* is a plan that follows CG: the "
    "time per row of the tasks says which workers are busy and idle, from the next "
    "micro-batch on. CG has 10 virtual workers per worker, epsilon 0.01 and time slots of 0.1 "
    "s. The paper limits CPUs and measures after ten minutes.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(10, 7),
    version=2,
    deploys="consistent",
)
