"""Fig. 8: queues, latencies and utilisation over time on unequal workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.consistent._balance import label
from keysplit_experiments.papers.consistent._queues import (
    GROUPINGS,
    STRONG,
    TIMES,
    capacities,
    course,
    draw_over_time,
    grows,
    over_time,
    params_of,
    queues,
    settled,
)
from keysplit_experiments.papers.consistent._streams import drawn, on_stream, real

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUICK_MESSAGES = 1_000_000
OTHERS_MESSAGES = 2_200_000
"""Of the stream for the clusters that the paper tried and does not show."""

OTHERS = [(strong, times) for strong in (1, 3, 5, 9) for times in (2.0, 5.0, 10.0)]


def cells(scale: Scale) -> list[Parameters]:
    """Every grouping on every stream and the cluster of the figure, and on the others of a full run."""
    shown = [
        {**stream, "strong": STRONG, "times": TIMES, "grouping": grouping}
        for stream in (drawn(scale, "WP", QUICK_MESSAGES), real(scale, "TW", QUICK_MESSAGES))
        for grouping in GROUPINGS
    ]
    short = {"like": "WP", "messages": scale.messages(OTHERS_MESSAGES, QUICK_MESSAGES // 2)}
    others = [
        {**short, "strong": strong, "times": times, "grouping": grouping}
        for strong, times in scale.grid(OTHERS, [(1, 2.0), (9, 10.0)])
        for grouping in GROUPINGS
    ]
    return shown + others


@on_stream
def measure(keys: Any, *, strong: int, times: float, grouping: str) -> Figures:
    """Simulate one grouping."""
    return queues(params_of(grouping), keys, capacities(strong, times))


def shown(results: Results) -> Results:
    """Keep the cells of the figure: the longest stream like WP, and the real one."""
    like_wp = results.where(like="WP").values("messages")
    words = results.where(stream="TW").values("messages")
    return results.where(strong=STRONG, times=TIMES, messages=[max(like_wp), *words])


def fall_behind(results: Results) -> Judged:
    """KG and SG: the gaps of queue and latency at half the stream and at the end."""
    chosen = shown(results).where(like="WP")
    fits, words = [], []
    for name in ("key", "shuffle"):
        for figure, unit in (("queue_gap", "messages"), ("latency_gap_s", "s")):
            values = course(chosen, figure, grouping=name)
            fits.append(grows(chosen, figure, grouping=name))
            words.append(f"{label(name)} {spell(values[len(values) // 2 - 1])} to {spell(values[-1])} {unit}")
    return Judged(all(fits), "; ".join(words))


def lower(results: Results) -> Judged:
    """CG: a tenth of the others' gaps, over the second half."""
    chosen = shown(results).where(like="WP")
    fits, words = [], []
    for figure in ("queue_gap", "latency_gap_s"):
        own, *others = (settled(chosen, figure, grouping=name) for name in reversed(GROUPINGS))
        fits.append(own <= min(others) / 10)
        words.append(f"{spell(own)} against {spell(min(others))}")
    mean = [chosen.one("mean_latency_s", grouping=name) for name in reversed(GROUPINGS)]
    fits.append(mean[0] == min(mean))
    return Judged(all(fits), f"queue {words[0]} messages; latency {words[1]} s")


def even_utilisation(results: Results) -> Judged:
    """The gap of utilisation: CG's a hundredth of the others'."""
    chosen = shown(results).where(like="WP")
    own, *others = (settled(chosen, "utilisation_gap", grouping=name) for name in reversed(GROUPINGS))
    return Judged(own <= min(others) / 100, f"{spell(own)} against {spell(min(others))}")


def everywhere(results: Results) -> Judged:
    """The same on the clusters that the paper does not show."""
    short = min(results.where(like="WP").values("messages"))
    others = results.where(like="WP", messages=short)
    clusters = dict.fromkeys((cell.parameters["strong"], cell.parameters["times"]) for cell in others)
    found = []
    for strong, times in clusters:
        chosen = others.where(strong=strong, times=times)
        gaps = {name: settled(chosen, "queue_gap", grouping=name) for name in GROUPINGS}
        found.append((strong, times, gaps["consistent"] <= min(gaps["key"], gaps["shuffle"]) / 10))
    missed = [f"y = {strong}, z = {times:.0f}" for strong, times, fits in found if not fits]
    told_missed = f"; not at {', '.join(missed)}" if missed else ""
    return Judged(not missed, f"in {len(found) - len(missed)} of {len(found)}{told_missed}")


CLAIMS = [
    Claim(
        says="With KG and SG the gaps of queue and latency grow (like WP, from half the stream to its end "
        "by more than a half)",
        where="7.2, Q2",
        judge=fall_behind,
    ),
    Claim(
        says="With CG queues and latencies are lower (like WP: the gaps over the second half at most a "
        "tenth of the others', the mean latency the lowest)",
        where="7.2, Q2",
        judge=lower,
    ),
    Claim(
        says="The gap of utilisation is high with KG and SG and near zero with CG (like WP: at most a "
        "hundredth of the others')",
        where="7.2, Q2",
        judge=even_utilisation,
    ),
    Claim(
        says="The same holds in all configurations, y = 1 to 9, z = 2 to 10 (CG's gap of queue at "
        "most a tenth of the others')",
        where="7.2, Q2",
        judge=everywhere,
        because="SG asks a slow worker for 0.8 (n - y + y z) / n of what it can do, 0.88 of it for y "
        "= 1 and z = 2: no worker lags there, and the largest queue is a few messages",
    ),
]


def table(results: Results) -> Table:
    """The gaps on the cluster of the figure."""
    chosen = shown(results)
    return over_time(chosen, "grouping", label)


def draw(figure: Figure, results: Results) -> None:
    """The gaps over time."""
    chosen = shown(results)
    draw_over_time(figure, chosen, "grouping", lambda name: LOOKS[name].line())


EXPERIMENT = Experiment(
    name="consistent/fig8",
    label="Fig. 8",
    title="queues, latencies and utilisation over time on unequal workers",
    setting="y = 3 workers are z = 5 times as fast as the others. Other clusters, which the paper tried and "
    "does not show, are run on 2,200,000 messages.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(11, 6),
)
