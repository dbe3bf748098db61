"""Dynamic Key Grouping, Table 3 and Fig. 9 to 13: from Kafka through sources and workers to Kafka."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import keysplit as ks
from keysplit import streams
from keysplit_experiments.deployments._dynamic_key_claims import (
    ARRIVING,
    CLAIMS,
    CLICKS,
    KEYED,
    LIKE,
    METRICS,
    PAPERS_PER_S,
    PLANNED,
    SEGMENT,
    by,
    of,
    skewed,
)
from keysplit_experiments.deployments.engine import kafka
from keysplit_experiments.deployments.engine.sizes import sized
from keysplit_experiments.harness import Experiment, Figures, Parameters, Results, Scale
from keysplit_experiments.harness.figure import bars, legend
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table
from keysplit_experiments.papers.dynamic_key import DKG, GROUPINGS, METHODS, PAPER
from keysplit_experiments.papers.dynamic_key._performance import (
    bar,
    election_of,
    label,
    line,
    method,
)
from keysplit_experiments.papers.dynamic_key._skew import COUNTRIES
from keysplit_experiments.papers.dynamic_key._skew import MESSAGES as COUNTRY_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure


def cells(scale: Scale) -> list[Parameters]:
    """Every method on every stream, at every skew, with every number of workers and of sources."""
    messages = scale.messages(60_000, 20_000)
    all_workers = sized(scale, [10, 50, 100], [10, 20], [4, 6])
    all_sources = sized(scale, [5, 10, 20], [5, 10], [2, 4])
    workers, sources = all_workers[0], all_sources[0]
    service_time_s = sized(scale, 0.6, 0.2, 0.1) * workers / messages
    common = {"messages": messages, "seed": 1, "service_time_s": round(service_time_s, 7), "way": SEGMENT}
    # slower, so that a hundred workers have something to do
    election: Parameters = {"like": LIKE, "service_time_s": round(2.5 * service_time_s, 7)}
    found: list[Parameters] = []

    def add(methods: Sequence[str], **parameters: Any) -> None:
        for name in methods:
            cell = {**common, "workers": workers, "sources": sources, **parameters, "method": name}
            found.append({**cell, "grouping": "dynamic_key" if name == DKG else name})

    add(scale.grid(GROUPINGS, METHODS), **election)
    for symbol in scale.grid(list(PAPER.datasets), [LIKE, CLICKS, "twitter-ticker"]):
        add(METHODS, stream=symbol)
    for ratio in scale.grid([0, 10, 30, 40, 50, 80, 90, 100], [10, 30, 90]):
        add(METHODS, ratio=ratio)
    for number in all_sources[1:]:
        add(METHODS, **election, sources=number)
    batches, each, period_s, balanced_s = sized(
        scale, (5, 20_000, 3.0, 0.9), (4, 5_000, 1.5, 0.3), (4, 500, 1.0, 0.1)
    )
    arriving: Parameters = {
        "like": LIKE,
        "messages": batches * each,
        "batches": batches,
        "rate_per_s": each / period_s,
        "service_time_s": round(balanced_s * workers / each, 7),
    }
    add(scale.grid(GROUPINGS, KEYED), **arriving, way=ARRIVING)
    add(["dynamic_key"], **arriving, way=PLANNED)
    for number in all_workers[1:]:  # last: each takes a session of its own
        add(METHODS, **election, workers=number)
    return found


def measure(
    inputs: Inputs,
    *,
    messages: int,
    seed: int,
    service_time_s: float,
    way: str,
    workers: int,
    sources: int,
    method: str,
    grouping: str,
    like: str | None = None,
    stream: str | None = None,
    ratio: int | None = None,
    batches: int = 1,
    rate_per_s: float | None = None,
) -> Figures:
    """Send a stream from Kafka to Kafka."""
    if ratio is not None:
        keys, whole = (
            streams.zipf_hot_key(0.0, COUNTRIES, messages, seed, share=ratio / 100),
            COUNTRY_MESSAGES,
        )
    else:
        keys = (
            election_of(inputs, messages, like=like)
            if stream is None
            else inputs.real(PAPER.datasets[stream])[:messages]
        )
        whole = PAPER.datasets[stream or LIKE].messages
    lasts_s = messages / rate_per_s if way == PLANNED and rate_per_s else None
    return kafka.run(
        params_of(method, workers, seed, messages=len(keys), whole=whole, sources=sources, lasts_s=lasts_s),
        keys,
        sources=sources,
        batches=batches,
        service_time_s=service_time_s,
        rate_per_s=rate_per_s,
        follow=way == PLANNED,
    )


def params_of(
    name: str, workers: int, seed: int, *, messages: int, whole: int, sources: int, lasts_s: float | None
) -> ks.Grouping:
    """Make a grouping of the paper, with DKG's clock as fast as the stream is shorter than the paper's.

    Args:
        name: Its name.
        workers: Number of workers.
        seed: Seed of the hashes.
        messages: Of the stream.
        whole: Of the paper's stream.
        sources: Number of sources, which share the messages.
        lasts_s: How long the stream lasts, where the clock is the real one. If None, the clock of a router
            follows its messages.
    """
    params = method(name, workers, seed)
    if not isinstance(params, ks.DynamicKeyGrouping):
        return params
    papers_s = whole / PAPERS_PER_S[DKG]
    if lasts_s is None:
        return replace(params, messages_per_s=messages / sources / papers_s)
    part = lasts_s / papers_s
    return replace(
        params,
        warm_up_s=params.warm_up_s * part,
        teenage_interval_s=params.teenage_interval_s * part,
        old_interval_s=params.old_interval_s * part,
        messages_per_s=messages / sources / lasts_s,
    )


# what claims are about


def table(results: Results) -> Table:
    """The metrics of every cell, next to those of the simulator, and the waits."""
    rows: list[list[Any]] = []
    for cell in results:
        parameters, figures = cell.parameters, cell.figures
        rows.append(
            [
                _stream(parameters),
                parameters["sources"],
                parameters["workers"],
                _name(parameters),
                *(figures[metric] for metric in METRICS),
                figures["simulated_stddev"],
                figures["simulated_replication"],
                figures["balance"],
                figures["simulated_balance"],
                figures["p99_latency_s"],
                figures.get("result_p99_latency_s"),
            ]
        )
    heads = [*METRICS.values(), "simulated StdDev", "simulated DistCost", "max/mean", "simulated"]
    return Table(
        ["stream", "spouts", "workers", "method", *heads, "p99 in queue, s", "p99 to result, s"], rows
    )


def _name(parameters: Parameters) -> str:
    name = label(parameters["method"])
    return name if parameters["way"] == SEGMENT else f"{name}, {parameters['way']}"


def _stream(parameters: Parameters) -> str:
    if "ratio" in parameters:
        return f"country-skew-r{parameters['ratio']}"
    return str(parameters.get("stream") or f"like {parameters['like']}")


def draw(figure: Figure, results: Results) -> None:
    """Fig. 9 over the highest value, then each metric over skew, workers and spouts."""
    plots = figure.subplots(4, len(METRICS))
    real = [name for name in results.values("stream") if name is not None]
    names = [name.removeprefix("wikipedia-") for name in real]
    shown: list[tuple[str, Callable[[Results], Results], str]] = [
        ("ratio", skewed, "skewness ratio, per cent"),
        ("workers", partial(by, varied="workers"), "workers"),
        ("sources", partial(by, varied="sources"), "spouts"),
    ]
    for place, (metric, name) in enumerate(METRICS.items()):
        axes = plots[0][place]
        found = {stream: of(results.where(stream=stream), metric) for stream in real}
        heights = {
            each: [found[stream][each] / max(found[stream].values()) for stream in real] for each in METHODS
        }
        bars(axes, names, [(bar(each), heights[each]) for each in METHODS])
        axes.tick_params(axis="x", rotation=30)
        axes.set_title(name)
        for row, (x, chosen, x_label) in enumerate(shown, 1):
            axes = plots[row][place]
            for each in METHODS:
                axes.plot(*chosen(results).line(x, metric, method=each), **line(each))
            axes.set_xlabel(x_label)
            axes.set_ylim(bottom=0)
    plots[0][0].set_ylabel("part of the highest value")
    legend(figure)


EXPERIMENT = Experiment(
    name="deployments/dynamic_key",
    label="Table 3, Fig. 9-13",
    title="the methods from Kafka to Kafka",
    setting="A streaming query reads a topic of Kafka that has a partition per spout. Each spout "
    "splits its messages, the workers count keys, and an aggregator sends the totals to "
    "another topic in a transaction; these are compared with a plain count. 5 spouts and 10 "
    "workers unless the figure says otherwise; mostly one micro-batch of 60,000 messages (the "
    "paper: millions) of 0.1 ms. *Latency* is the paper's, the time of all messages: compare "
    "ratios of methods, not values. *Arriving*: five micro-batches of 20,000 messages that "
    "arrive in three seconds each; the last three are measured. *p99 to result* is from "
    "Kafka's timestamp to the commit of the totals. *Planned* is a plan that follows DKG. "
    "DKG's clock counts messages, so a stream lasts as long as the paper's; with a plan it is "
    "the real clock. *DKG-60* and *like twitter-election* are [those of the simulated "
    "figures](experiments/dynamic_key.md), with fewer messages of 0.25 ms. Of the paper's "
    "eleven ratios of skew eight are run, of its four numbers of spouts three.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(14, 13),
    version=2,
    deploys="dynamic_key",
)
