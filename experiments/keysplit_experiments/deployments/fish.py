"""Efficient Time-Evolving Stream Processing at Scale, Fig. 18 to 20: latency, throughput and memory."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from statistics import mean
from typing import TYPE_CHECKING, Any

from keysplit_experiments.deployments.engine import agreement, segment
from keysplit_experiments.deployments.engine import stream as continuous
from keysplit_experiments.deployments.engine.comparing import less, more
from keysplit_experiments.deployments.engine.reports import LATENCIES
from keysplit_experiments.deployments.engine.segment import as_column
from keysplit_experiments.deployments.engine.sizes import sized
from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS, bars, legend
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.fish._runs import keys_of, params_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUPINGS = ["key", "partial_key", "d_choices", "w_choices", "fish", "shuffle"]
MEMORY_SERVICE_TIME_S = 0.001
ONLINE, PLANNED, ELASTIC = "online", "planned", "elastic"
"""A router per source; a plan that follows FISH; the same while workers leave and come back."""

HOTTEST = 10
"""Hottest keys of a micro-batch by which a stream's drift is told."""


def cells(scale: Scale) -> list[Parameters]:
    """Every grouping on real streams, FISH by a plan and with other workers, and the memory on ZF."""
    sources, workers, batches, batch_s = sized(scale, (32, 128, 8, 2.0), (8, 32, 6, 0.5), (2, 8, 6, 0.4))
    per_batch = sized(scale, {"MT": 64_000, "AM": 14_080}, {"AM": 14_080}, {"AM": 480})
    common: Parameters = {"seed": 1, "sources": sources, "workers": workers}
    found: list[Parameters] = []
    for stream, each in per_batch.items():
        cell = {**common, "stream": stream, "messages": batches * each, "batches": batches}
        cell["service_time_s"] = round(batch_s * workers / each, 4)
        found += [{**cell, "way": ONLINE, "grouping": grouping} for grouping in GROUPINGS]
        found.append({**cell, "way": PLANNED, "grouping": "fish"})
    found.append({**found[-1], "way": ELASTIC})
    segments = {**common, "messages": scale.messages(workers * 2000), "batches": None, "way": ONLINE}
    segments["service_time_s"] = MEMORY_SERVICE_TIME_S
    return found + [
        {**segments, "exponent": exponent, "grouping": grouping}
        for exponent in scale.grid([1.0, 1.4, 2.0], [1.0, 2.0])
        for grouping in ("fish", "shuffle")
    ]


def measure(
    inputs: Inputs,
    *,
    messages: int,
    seed: int,
    sources: int,
    workers: int,
    batches: int | None,
    service_time_s: float,
    way: str,
    grouping: str,
    stream: str | None = None,
    exponent: float | None = None,
) -> Figures:
    """Send a stream of micro-batches through Spark, or a segment."""
    params = params_of(grouping, workers, seed)
    keys = keys_of(inputs, messages, seed, exponent=exponent, stream=stream)
    if batches is None:
        return segment.run(params, keys, sources=sources, service_time_s=service_time_s)
    fewer = {batches // 3: workers * 3 // 4, batches * 2 // 3: workers}
    found = continuous.run(
        params,
        keys,
        sources=sources,
        batches=batches,
        service_time_s=service_time_s,
        follow=way != ONLINE,
        present=fewer if way == ELASTIC else {},
    )
    return {**found, "kept": kept(keys, batches)}


def kept(keys: Any, batches: int) -> float:
    """Return how many of the ten hottest keys of a micro-batch are among those of the next, in the mean."""
    column = as_column(keys)
    per_batch = len(column) // batches
    parts = [column.slice(batch * per_batch, per_batch).to_pylist() for batch in range(batches)]
    hottest = [{key for key, _ in Counter(part).most_common(HOTTEST)} for part in parts]
    return mean(len(before & after) for before, after in pairwise(hottest))


def by_stream(results: Results, figure: str, grouping: str, way: str = ONLINE) -> dict[str, float]:
    """Return a figure of a grouping on each real stream."""
    chosen = results.where(grouping=grouping, way=way)
    streams = [name for name in chosen.values("stream") if name is not None]
    return {name: chosen.one(figure, stream=name) for name in streams}


def over(results: Results, figure: str, one: str, other: str, way: str = ONLINE) -> dict[str, float]:
    """Return a figure of one grouping over that of another, by stream."""
    base = by_stream(results, figure, other)
    return {name: value / base[name] for name, value in by_stream(results, figure, one, way).items()}


def spelled(found: dict[str, float]) -> str:
    """Format a figure of every stream."""
    return ", ".join(f"{spell(value)} ({name})" for name, value in found.items())


def lowest(results: Results) -> Judged:
    """FG: less throughput than every other grouping."""
    found = {name: max(over(results, "throughput_per_s", "key", name).values()) for name in GROUPINGS[1:]}
    return Judged(
        less(max(found.values()), 1),
        "at most " + ", ".join(f"{spell(value)} of {LOOKS[name].label}'s" for name, value in found.items()),
    )


def considerable(results: Results) -> Judged:
    """PKG: at least 1.2 times FG's throughput."""
    found = over(results, "throughput_per_s", "partial_key", "key")
    return Judged(min(found.values()) >= 1.2, f"{spelled(found)} times")


def in_between(results: Results) -> Judged:
    """D-C and W-C: more throughput than PKG, less than SG."""
    above, below = (
        {name: over(results, "throughput_per_s", name, other) for name in ("d_choices", "w_choices")}
        for other in ("partial_key", "shuffle")
    )
    holds = all(more(min(each.values()), 1) for each in above.values()) and all(
        less(max(each.values()), 1) for each in below.values()
    )
    return Judged(
        holds,
        "; ".join(
            f"{LOOKS[name].label} over PKG {spelled(above[name])}, over SG {spelled(below[name])}"
            for name in above
        ),
    )


def faster(results: Results) -> Judged:
    """FISH: at least 1.32 times W-C's throughput and 1.48 times D-C's, each on some stream."""
    found = {name: over(results, "throughput_per_s", "fish", name) for name in ("w_choices", "d_choices")}
    holds = max(found["w_choices"].values()) >= 1.32 and max(found["d_choices"].values()) >= 1.48
    return Judged(
        holds,
        "; ".join(
            f"{spelled(each)} times {LOOKS[name].label}'s, whose max/mean is "
            f"{spelled(by_stream(results, 'balance', name))}"
            for name, each in found.items()
        ),
    )


def near_shuffle(results: Results) -> Judged:
    """FISH: at least 85 per cent of SG's throughput."""
    found = over(results, "throughput_per_s", "fish", "shuffle")
    return Judged(min(found.values()) >= 0.85, f"{spelled(found)} of it")


def near_shuffle_in_latency(results: Results) -> Judged:
    """FISH: p50 and p99 at most 1.25 times SG's."""
    found = {name: over(results, f"{name}_latency_s", "fish", "shuffle") for name in ("p50", "p99")}
    worst = max(max(each.values()) for each in found.values())
    return Judged(worst <= 1.25, "; ".join(f"{name} {spelled(each)} times" for name, each in found.items()))


def reduces(results: Results) -> Judged:
    """FISH: W-C's average latency less by 87.12 per cent, its p99 by 76.34, each on some stream."""
    average, last = (
        over(results, figure, "fish", "w_choices") for figure in ("mean_latency_s", "p99_latency_s")
    )
    holds = min(average.values()) <= 1 - 0.8712 and min(last.values()) <= 1 - 0.7634
    return Judged(holds, f"average {spelled(average)} times W-C's, p99 {spelled(last)} times")


def memory(results: Results) -> dict[float, float]:
    """Return the workers per key of FISH over those of SG, by skew."""
    chosen = results.where(batches=None)
    fish, shuffle = (
        dict(zip(*chosen.line("exponent", "replication", grouping=name), strict=True))
        for name in ("fish", "shuffle")
    )
    return {exponent: fish[exponent] / shuffle[exponent] for exponent in fish}


def less_memory(results: Results) -> Judged:
    """FISH: at most half of SG's workers per key, at every skew."""
    found = memory(results)
    return Judged(
        max(found.values()) <= 0.5,
        ", ".join(f"{spell(value)} at z = {exponent}" for exponent, value in found.items()),
    )


def plan_follows(results: Results) -> Judged:
    """A plan that follows FISH: at least 85 per cent of SG's throughput."""
    found = over(results, "throughput_per_s", "fish", "shuffle", PLANNED)
    return Judged(min(found.values()) >= 0.85, f"{spelled(found)} of it")


def elastic(results: Results) -> Judged:
    """Workers that leave get nothing, and some once they are back; the busiest within 1.5 times the mean."""
    balances, busy_s, present = (results.one(name, way=ELASTIC) for name in ("balances", "busy_s", "present"))
    fewest = min(present)
    fewer = [batch for batch, number in enumerate(present) if number == fewest]
    later = range(fewer[-1] + 1, len(present))
    gone = max(each for batch in fewer for each in busy_s[batch][fewest:])
    back = min(each for batch in later for each in busy_s[batch][fewest:])
    most, most_later = (max(balances[batch] for batch in batches) for batches in (fewer, later))
    return Judged(
        max(most, most_later) <= 1.5 and gone == 0 < back,
        f"at most {spell(most)} while they are gone, {spell(most_later)} later; in a micro-batch a worker "
        f"that is gone works {spell(gone)} s at most, and one that is back {spell(back)} s at least",
    )


BY_PLAN = (
    "a plan cannot know keys that turn hot in its own micro-batch, leaves keys below its "
    "threshold where they are hashed, and changes only for a gain of 10 per cent or more"
)

CLAIMS = [
    Claim(says="FG has the lowest throughput", where="6.6, Fig. 19", judge=lowest),
    Claim(
        says="PKG improves on FG considerably (at least 1.2 times)", where="6.6, Fig. 19", judge=considerable
    ),
    Claim(
        says="D-C and W-C are better than PKG, but below SG",
        where="6.6, Fig. 19",
        judge=in_between,
        because="where a stream hardly drifts, lifetime counts may find the hot keys in time, which "
        "leaves SG less than the margin to gain",
    ),
    Claim(
        says="FISH has 1.32 times W-C's throughput and 1.48 times D-C's (at least, each on one of the "
        "streams)",
        where="6.6, Fig. 19",
        paper="1.32 and 1.48 times",
        judge=faster,
        because="workers only sleep here, so a grouping gains about as much as the other's busiest "
        "worker is above the mean; the stand-ins may have less skew and drift",
    ),
    Claim(
        says="FISH's throughput is close to SG's (at least 85 per cent)",
        where="6.6, Fig. 19",
        judge=near_shuffle,
    ),
    Claim(
        says="FISH reduces W-C's average latency and p99 (by as much as the paper's, each on one of the "
        "streams)",
        where="6.6, Fig. 18",
        paper="87.12 and 76.34 per cent",
        judge=reduces,
        because="all messages of a micro-batch wait when its workers start, so latencies can differ "
        "no more than throughput does; queues on the paper's cluster may have grown without "
        "end, or been empty",
    ),
    Claim(
        says="FISH's latencies are almost SG's (p50 and p99 at most 1.25 times)",
        where="6.6, Fig. 18",
        judge=near_shuffle_in_latency,
    ),
    Claim(
        says="FISH needs significantly less memory than SG (workers per key: at most half at every skew)",
        where="6.6, Fig. 20",
        judge=less_memory,
    ),
    Claim(
        says="Ours: a plan that follows FISH, with the workers' times measured, is close to SG in throughput "
        "(at least 85 per cent)",
        where="ours",
        judge=plan_follows,
        because=BY_PLAN,
    ),
    Claim(
        says="Ours: when a quarter of the workers leaves it gets nothing, and some when it is back, and the "
        "busiest worker stays within 1.5 times the mean of those present, from the first micro-batch on",
        where="ours",
        judge=elastic,
        because=BY_PLAN,
    ),
    agreement.claim(),
]


def table(results: Results) -> Table:
    """Throughput, balance, latencies and memory of every cell."""
    rows: list[list[Any]] = []
    for cell in results:
        parameters, figures = cell.parameters, cell.figures
        rows.append(
            [
                parameters.get("stream") or f"z = {parameters['exponent']}",
                f"{LOOKS[parameters['grouping']].label}, {parameters['way']}",
                figures["throughput_per_s"],
                figures["balance"],
                figures.get("simulated_balance"),
                *(figures[name] for name in LATENCIES),
                figures.get("whole_p99_latency_s"),
                figures["replication"],
                figures.get("kept"),
            ]
        )
    heads = ["messages/s", "max/mean", "simulated", *LATENCIES.values(), "whole p99", "replication", "kept"]
    return Table(["stream", "grouping", *heads], rows)


def draw(figure: Figure, results: Results) -> None:
    """Latencies of each stream; throughput over SG's; memory over SG's."""
    streams = list(by_stream(results, "throughput_per_s", "shuffle"))
    plots = list(figure.subplots(1, len(streams) + 2))
    looks = [LOOKS[name].bar() for name in GROUPINGS]
    for axes, stream in zip(plots, streams, strict=False):
        at = results.where(stream=stream, way=ONLINE)
        heights = [[at.one(each, grouping=name) for each in LATENCIES] for name in GROUPINGS]
        bars(axes, list(LATENCIES.values()), list(zip(looks, heights, strict=True)))
        axes.set_title(stream)
        axes.set_ylabel("latency, seconds")
        axes.tick_params(axis="x", rotation=30)
    parts = [list(over(results, "throughput_per_s", name, "shuffle").values()) for name in GROUPINGS]
    bars(plots[-2], streams, list(zip(looks, parts, strict=True)))
    plots[-2].set_ylabel("throughput / SG's")
    found = memory(results)
    bars(plots[-1], [f"z = {z}" for z in found], [(LOOKS["fish"].bar(), list(found.values()))])
    plots[-1].set_ylabel("memory / SG's")
    legend(figure)


EXPERIMENT = Experiment(
    name="deployments/fish",
    label="Fig. 18-20",
    title="latency, throughput and memory on streams that drift",
    setting="32 sources, 128 workers, and the first messages of MT, which hardly drifts in them, and "
    "of AM, which does. Eight micro-batches of 64,000 (MT) and 14,080 (AM) messages, the "
    "second half measured. A message takes so long that balanced workers need two seconds per "
    "micro-batch: 4 ms (MT), 18.2 ms (AM). ZF, for the memory, is a segment of 256,000 "
    "messages of 1 ms. *Online*: a router per source for all micro-batches. *Planned*: a plan "
    "that follows FISH; tasks measure the time per message of each worker. *Elastic*: a plan "
    "for 96 workers is published after a third of the micro-batches, one for 128 after two "
    "thirds; these are plans of D-C, so this cell is not simulated. FG is KG. D-C, W-C and "
    "FISH have 1000 counters.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(13, 4.5),
    version=2,
    deploys="fish",
)
