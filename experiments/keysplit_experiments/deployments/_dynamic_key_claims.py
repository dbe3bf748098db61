"""What the text of Dynamic Key Grouping claims of its deployment, and how it is judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keysplit_experiments.deployments.engine import agreement, comparing
from keysplit_experiments.deployments.engine.comparing import fall, less, more, rise
from keysplit_experiments.harness import Claim, Judged, Results
from keysplit_experiments.harness.table import share, spell
from keysplit_experiments.papers.dynamic_key import DKG, METHODS
from keysplit_experiments.papers.dynamic_key._performance import (
    ELECTION,
    label,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


SEGMENT, ARRIVING, PLANNED = "segment", "arriving", "planned"
"""All messages are in Kafka before; they arrive while the query runs; the same by a plan that follows DKG."""

LATENCY, DEVIATION, COST, THROUGHPUT = "duration_s", "load_stddev", "replication", "throughput_per_s"
METRICS = {
    LATENCY: "latency, s",
    DEVIATION: "StdDev, per cent",
    COST: "DistCost",
    THROUGHPUT: "throughput, messages/s",
}
PAPERS_PER_S = {"shuffle": 9511, "key": 1344, "partial_key": 2739, DKG: 4529}
PAPERS_DEVIATION = {"key": 20.3202, "partial_key": 12.3513, DKG: 4.0972}
"""Throughput and StdDev of Table 3."""

LIKE, CLICKS = ELECTION.symbol, "wikipedia-clickstream"
KEYED = ["key", "partial_key", DKG]


def elections(results: Results) -> Results:
    """Keep the segments like twitter-election."""
    return results.where(like=LIKE, way=SEGMENT)


def by(results: Results, varied: str) -> Results:
    """Keep the segments like twitter-election in which one number varies, of workers or of sources."""
    chosen, other = elections(results), "sources" if varied == "workers" else "workers"
    return chosen.where(**{other: chosen.values(other)[0]})


def base(results: Results) -> Results:
    """Keep those with the fewest workers and sources: Table 3."""
    chosen = by(results, "workers")
    return chosen.where(workers=chosen.values("workers")[0])


def skewed(results: Results) -> Results:
    """Keep the streams of countries."""
    return results.where(like=None, stream=None)


def of(results: Results, figure: str, names: Sequence[str] = METHODS) -> dict[str, float]:
    """Return a figure of every method."""
    return {name: results.one(figure, method=name) for name in names}


def along(results: Results, x: str, figure: str, name: str) -> list[float]:
    """List a figure of a method over a parameter."""
    return list(comparing.along(results, x, figure, method=name).values())


def spelled(found: dict[str, float]) -> str:
    """Format a figure of every method."""
    return comparing.spelled(found, label)


def lines(found: dict[str, list[float]]) -> str:
    """Format a line of every method."""
    return "; ".join(f"{label(name)} {', '.join(map(spell, line))}" for name, line in found.items())


def ranked(results: Results) -> Judged:
    """Every metric: the methods in the order of the paper's table."""
    up = ["shuffle", DKG, "partial_key", "key"]
    orders = {LATENCY: up, DEVIATION: up, COST: up[::-1], THROUGHPUT: up[::-1]}
    fits = []
    for metric, order in orders.items():
        fits.append(rise(list(of(base(results), metric, order).values())))
    return Judged(sum(fits) == len(fits), f"in {sum(fits)} of {len(fits)} metrics")


def parts_of_shuffle(results: Results) -> Judged:
    """KG, PKG and DKG: throughput over SG's, within a quarter of the paper's."""
    found = of(base(results), THROUGHPUT)
    parts = {name: found[name] / found["shuffle"] for name in KEYED}
    papers = {name: PAPERS_PER_S[name] / PAPERS_PER_S["shuffle"] for name in KEYED}
    return Judged(all(within(parts[name], papers[name]) for name in KEYED), spelled(parts))


def deviations(results: Results) -> Judged:
    """KG, PKG and DKG: StdDev within a quarter of the paper's."""
    found = of(base(results), DEVIATION, KEYED)
    return Judged(all(within(found[name], PAPERS_DEVIATION[name]) for name in KEYED), spelled(found))


def within(value: float, other: float, factor: float = 1.25) -> bool:
    """Return whether two figures differ by this factor at most."""
    return other / factor <= value <= other * factor


def better(results: Results) -> Judged:
    """DKG on twitter-election: better than PKG, at a close DistCost."""
    chosen = results.where(stream=LIKE)
    own, other = ({metric: of(chosen, metric)[name] for metric in METRICS} for name in (DKG, "partial_key"))
    holds = (
        less(own[LATENCY], other[LATENCY])
        and less(own[DEVIATION], other[DEVIATION])
        and more(own[THROUGHPUT], other[THROUGHPUT])
        and own[COST] <= 1.5 * other[COST]
    )
    return Judged(
        holds,
        "; ".join(f"{METRICS[name]} {spell(own[name])} against {spell(other[name])}" for name in METRICS),
    )


def alike(results: Results) -> Judged:
    """PKG and DKG on streams of little skew: latency within a quarter."""
    names = [name for name in results.values("stream") if name not in (None, LIKE, CLICKS)]
    found = {name: of(results.where(stream=name), LATENCY, KEYED) for name in names}
    ratios = {name: each[DKG] / each["partial_key"] for name, each in found.items()}
    return Judged(
        all(within(ratio, 1) for ratio in ratios.values()),
        "DKG/PKG: " + ", ".join(f"{name} {spell(ratio)}" for name, ratio in ratios.items()),
    )


def hashing_wins(results: Results) -> Judged:
    """KG on the clicks: less latency than every other method."""
    found = of(results.where(stream=CLICKS), LATENCY)
    others = min(value for name, value in found.items() if name != "key")
    return Judged(less(found["key"], others), spelled(found) + " s")


def unmoved(results: Results) -> Judged:
    """SG: throughput within 15 per cent over all skews."""
    found = along(skewed(results), "ratio", THROUGHPUT, "shuffle")
    return Judged(max(found) <= 1.15 * min(found), ", ".join(map(spell, found)))


def declines(results: Results) -> Judged:
    """KG and PKG: throughput falls from 30 per cent on."""
    chosen = skewed(results).where(ratio=range(30, 101))
    found = {name: along(chosen, "ratio", THROUGHPUT, name) for name in ("key", "partial_key")}
    return Judged(all(map(fall, found.values())), lines(found))


def less_below_30(results: Results) -> Judged:
    """PKG below 30 per cent: more throughput than DKG, or within 5 per cent of it."""
    chosen = skewed(results).where(ratio=range(30))
    found = {name: along(chosen, "ratio", THROUGHPUT, name) for name in ("partial_key", DKG)}
    return Judged(
        all(own >= 0.95 * other for own, other in zip(found["partial_key"], found[DKG], strict=True)),
        lines(found),
    )


def more_above_30(results: Results) -> Judged:
    """DKG above 30 per cent: more throughput than KG and PKG."""
    chosen = skewed(results).where(ratio=range(31, 101))
    found = {name: along(chosen, "ratio", THROUGHPUT, name) for name in KEYED}
    return Judged(
        all(more(own, max(others)) for *others, own in zip(*found.values(), strict=True)),
        lines(found),
    )


def gain(results: Results, ratio: int) -> tuple[float, float]:
    """Return by how much DKG's latency is below and its throughput above PKG's."""
    chosen = skewed(results).where(ratio=ratio)
    latency, throughput = of(chosen, LATENCY), of(chosen, THROUGHPUT)
    return (
        1 - latency[DKG] / latency["partial_key"],
        throughput[DKG] / throughput["partial_key"] - 1,
    )


def at_30(results: Results) -> Judged:
    """DKG at 30 per cent: better than PKG, by up to twice what the paper says."""
    latency, throughput = gain(results, 30)
    balance = of(skewed(results).where(ratio=30), "balance", ["partial_key", DKG])
    return Judged(
        less(1 - latency, 1) and latency <= 0.14 and more(1 + throughput, 1) and throughput <= 0.16,
        f"{share(latency)} and {share(throughput)}; busiest worker over the mean: {spelled(balance)}",
    )


def at_most_skew(results: Results) -> Judged:
    """DKG above 80 per cent: at best as much better than PKG as the paper says, or more."""
    ratios = [ratio for ratio in skewed(results).values("ratio") if ratio > 80]
    found = {ratio: gain(results, ratio) for ratio in ratios}
    latencies, throughputs = zip(*found.values(), strict=True)
    return Judged(
        max(latencies) >= 0.48 and max(throughputs) >= 0.93,
        "; ".join(
            f"{share(latency)} and {share(throughput)} at {ratio}"
            for ratio, (latency, throughput) in found.items()
        ),
    )


def even(results: Results) -> Judged:
    """DKG and SG from 40 per cent on: StdDev at most half of KG's and of PKG's."""
    chosen = skewed(results).where(ratio=range(40, 101))
    found = {name: along(chosen, "ratio", DEVIATION, name) for name in METHODS}
    places = zip(*(found[name] for name in ("shuffle", DKG, "key", "partial_key")), strict=True)
    return Judged(
        all(2 * max(sg, dkg) <= min(kg, pkg) for sg, dkg, kg, pkg in places),
        lines({name: found[name] for name in ("partial_key", DKG)}),
    )


def costs(results: Results) -> Judged:
    """DistCost below 100 per cent: KG's, PKG's and DKG's at most a third of SG's."""
    chosen = skewed(results).where(ratio=range(100))
    found = {name: along(chosen, "ratio", COST, name) for name in METHODS}
    most = [max(values) for values in zip(*(found[name] for name in KEYED), strict=True)]
    holds = all(3 * value <= worst for value, worst in zip(most, found["shuffle"], strict=True))
    return Judged(holds, lines(found))


def order_by_workers(results: Results) -> Judged:
    """Latency with every number of workers: KG, PKG, DKG, SG."""
    found = {name: along(by(results, "workers"), "workers", LATENCY, name) for name in METHODS}
    places = zip(*(found[name] for name in ("key", "partial_key", DKG, "shuffle")), strict=True)
    return Judged(all(map(fall, places)), lines(found) + " s")


def same_by_workers(results: Results) -> Judged:
    """KG and PKG: latency within a quarter over all numbers of workers."""
    names = ("key", "partial_key")
    found = {name: along(by(results, "workers"), "workers", LATENCY, name) for name in names}
    return Judged(all(max(line) <= 1.25 * min(line) for line in found.values()), lines(found) + " s")


def deviation_falls(results: Results) -> Judged:
    """KG, PKG and DKG: less StdDev with more workers, and DKG's at most half of PKG's."""
    found = {name: along(by(results, "workers"), "workers", DEVIATION, name) for name in KEYED}
    half = all(2 * own <= other for own, other in zip(found[DKG], found["partial_key"], strict=True))
    return Judged(all(map(fall, found.values())) and half, lines(found))


def no_effect(results: Results) -> Judged:
    """Every method: throughput within 15 per cent over all numbers of sources."""
    found = {name: along(by(results, "sources"), "sources", THROUGHPUT, name) for name in METHODS}
    spread = {name: max(line) / min(line) for name, line in found.items()}
    return Judged(max(spread.values()) <= 1.15, "highest / lowest: " + spelled(spread))


def better_by_sources(results: Results) -> Judged:
    """DKG with every number of sources: better than KG and PKG in latency, StdDev and throughput."""
    fits = []
    for metric in (LATENCY, DEVIATION, THROUGHPUT):
        found = [along(by(results, "sources"), "sources", metric, name) for name in KEYED]
        for *others, own in zip(*found, strict=True):
            fits.append(more(own, max(others)) if metric == THROUGHPUT else less(own, min(others)))
    return Judged(all(fits), f"in {sum(fits)} of {len(fits)} figures")


def sooner(results: Results) -> Judged:
    """DKG where messages arrive: the 99th percentile to the result below KG's and PKG's."""
    found = of(results.where(way=ARRIVING), "result_p99_latency_s", KEYED)
    return Judged(less(found[DKG], min(found["key"], found["partial_key"])), spelled(found) + " s")


def plan_follows(results: Results) -> Judged:
    """The plan: more throughput than PKG, with the StdDev at most half."""
    own = results.where(way=PLANNED)
    other = results.where(way=ARRIVING, method="partial_key")
    found = {metric: (own.one(metric), other.one(metric)) for metric in (THROUGHPUT, DEVIATION)}
    holds = more(*found[THROUGHPUT]) and 2 * found[DEVIATION][0] <= found[DEVIATION][1]
    return Judged(
        holds,
        "; ".join(
            f"{METRICS[metric]} {spell(mine)} against {spell(theirs)}"
            for metric, (mine, theirs) in found.items()
        ),
    )


def observed(results: Results) -> Judged:
    """The observer: the StdDev of every micro-batch as the workers count it."""
    apart = results.where(way=PLANNED).one("observer_apart")
    return Judged(apart <= 1e-9, f"at most {spell(float(apart))} per cent apart")


CLAIMS = [
    Claim(
        says="The methods stand in the order of the table in latency, StdDev, DistCost and throughput",
        where="5.3, Table 3",
        judge=ranked,
    ),
    Claim(
        says="KG, PKG and DKG have this part of SG's throughput (within a quarter)",
        where="5.3, Table 3",
        paper="0.141, 0.288, 0.476",
        judge=parts_of_shuffle,
        because="all messages are in the queues from the start: what a worker gets too much of at "
        "first, it may get less of later. In a closed loop, simulated for Table 3 in "
        "Experiments, spouts wait for full workers",
    ),
    Claim(
        says="StdDev of KG, PKG and DKG (within a quarter)",
        where="5.3, Table 3",
        paper="20.3, 12.4, 4.10",
        judge=deviations,
    ),
    Claim(
        says="On twitter-election DKG has higher throughput and lower StdDev and latency than PKG, at a "
        "close DistCost (at most 1.5 times)",
        where="5.3, Fig. 9",
        judge=better,
        because="the stand-in has few keys, so the hot one alone, on several workers, may add much to "
        "the mean",
    ),
    Claim(
        says="On twitter-ticker, wikipedia-pageviews and by-lang PKG and DKG perform equally well "
        "(latency within a quarter)",
        where="5.3, Fig. 9",
        judge=alike,
    ),
    Claim(
        says="On wikipedia-clickstream KG does better than the others (the lowest latency)",
        where="5.3, Fig. 9",
        judge=hashing_wins,
        because="here every message costs the same, so a more balanced load is no slower; the paper "
        "does not say what else its runs had",
    ),
    Claim(
        says="SG: skew changes nothing (throughput within 15 per cent)", where="5.4, Fig. 10", judge=unmoved
    ),
    Claim(
        says="KG and PKG lose throughput as the skew grows (from 30 per cent on)",
        where="5.4, Fig. 10, 11",
        judge=declines,
    ),
    Claim(
        says="Below 30 per cent PKG has more throughput than DKG (or within 5 per cent of it)",
        where="5.4, Fig. 11",
        judge=less_below_30,
    ),
    Claim(
        says="Above 30 per cent DKG has more throughput than KG and PKG",
        where="5.4, Fig. 11",
        judge=more_above_30,
    ),
    Claim(
        says="At 30 per cent DKG improves on PKG a little in latency and throughput (up to twice the paper's "
        "figures)",
        where="abstract, 6",
        paper="up to 7% and 8%",
        judge=at_30,
        because="the busiest worker decides where all messages are in the queues from the start; in a "
        "closed loop, simulated for Fig. 11 in Experiments, the hot key may get workers too "
        "late",
    ),
    Claim(
        says="Above 80 per cent DKG improves on PKG in latency and throughput, at best by this much or more",
        where="abstract, 6",
        paper="up to 48% and 93%",
        judge=at_most_skew,
    ),
    Claim(
        says="With growing skew DKG and SG have clearly less StdDev than KG and PKG (from 40 per cent on at "
        "most half)",
        where="5.4, Fig. 11",
        judge=even,
        because="DKG gives a key another worker only above its threshold, 13.2 per cent on 10 "
        "workers, so its StdDev stays near 3 or more",
    ),
    Claim(
        says="SG has the worst DistCost; the others' are similar (below 100 per cent at most a "
        "third of SG's)",
        where="5.4, Fig. 11",
        judge=costs,
    ),
    Claim(
        says="KG has the highest latency, DKG less than PKG, SG the lowest, with every number of workers",
        where="5.5, Fig. 12",
        judge=order_by_workers,
        because="with SG each of 100 workers has 0.15 s of work, and a hundred processes that wake up "
        "at once wait for each other where cores are few",
    ),
    Claim(
        says="Latencies of KG and PKG hardly change with the number of workers (within a quarter)",
        where="5.5, Fig. 12",
        judge=same_by_workers,
    ),
    Claim(
        says="StdDev falls with more workers for KG, PKG and DKG, and DKG's is much below PKG's (at most "
        "half)",
        where="5.5, Fig. 12",
        judge=deviation_falls,
    ),
    Claim(
        says="More spouts have no effect (throughput of every method within 15 per cent)",
        where="5.6, Fig. 13",
        judge=no_effect,
    ),
    Claim(
        says="DKG has better latency, StdDev and throughput than KG and PKG, with every number of spouts",
        where="5.6, Fig. 13",
        judge=better_by_sources,
    ),
    Claim(
        says="Ours: where messages arrive while the query runs, DKG's 99th percentile from Kafka's timestamp "
        "to the committed result is below KG's and PKG's",
        where="ours",
        judge=sooner,
    ),
    Claim(
        says="Ours: a plan that follows DKG has more throughput than PKG, and at most half its StdDev",
        where="ours",
        judge=plan_follows,
    ),
    Claim(
        says="Ours: the observer of the query has the StdDev of every micro-batch as the workers count it",
        where="ours",
        judge=observed,
    ),
    agreement.claim(),
]
