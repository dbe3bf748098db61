"""Fig. 11: memory, over that of FG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keysplit_experiments.harness import Claim, Experiment, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS, legend, logarithmic, panels
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.fish import WORKERS
from keysplit_experiments.papers.fish._groupings import GROUPINGS, cells_of, measure
from keysplit_experiments.papers.fish._runs import evolving, name_stream, named, real

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = WORKERS[-1]


def cells(scale: Scale) -> list[Parameters]:
    """Every grouping on every stream and number of workers."""
    return cells_of([*real(scale, "MT", "AM"), *evolving(scale)])


def on_most(results: Results, grouping: str) -> dict[Any, float]:
    """Return a grouping's memory on 128 workers, by stream."""
    return {
        name: results.median("replication", grouping=grouping, workers=MOST, **where)
        for name, where in named(results).items()
    }


def ends(found: dict[Any, float]) -> str:
    """Format the smallest and the largest of figures by stream, and where they are."""
    low, high = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    return f"{spell(found[low])} ({name_stream(low)}) to {spell(found[high])} ({name_stream(high)})"


def comparable(results: Results) -> Judged:
    """FISH: at most 2.61 times FG's memory on 128 workers."""
    found = on_most(results, "fish")
    return Judged(max(found.values()) <= 2.61, ends(found))


def shuffle_most(results: Results) -> Judged:
    """SG: the largest memory on 128 workers, at least 5 times FISH's on every stream."""
    shuffled, ours = on_most(results, "shuffle"), on_most(results, "fish")
    return Judged(all(shuffled[name] >= 5 * ours[name] for name in ours), ends(shuffled))


def others_close(results: Results) -> Judged:
    """PKG, D-C and W-C: at most the 2.61 times that FISH is allowed."""
    found = {grouping: on_most(results, grouping) for grouping in ("partial_key", "d_choices", "w_choices")}
    return Judged(
        all(value <= 2.61 for each in found.values() for value in each.values()),
        "; ".join(f"{LOOKS[name].label} {ends(each)}" for name, each in found.items()),
    )


CLAIMS = [
    Claim(
        says="FISH's memory is comparable to FG's (128 workers, 2.61 times at most)",
        where="6.2",
        paper="1.11 to 2.61",
        judge=comparable,
    ),
    Claim(
        says="SG's memory is far larger (128 workers, at least 5 times FISH's)",
        where="6.2",
        paper="15.52 to 88.32 times FG's",
        judge=shuffle_most,
        because="SG cannot spread what does not come often enough: AM's stand-in has 11 messages per "
        "key (the paper's 32), MT's 53 (126)",
    ),
    Claim(
        says="PKG, D-C and W-C are close to FG (128 workers, 2.61 times at most)",
        where="6.2",
        judge=others_close,
        because="W-C gives every key of the head all 128 workers, and at z = 1 keys pass in and out of it; "
        "the text's *close* is taken for what it allows FISH",
    ),
]


def table(results: Results) -> Table:
    """Memory over that of FG, on the fewest and the most workers."""
    rows = [
        [
            workers,
            LOOKS[grouping].label,
            *(
                results.median("replication", grouping=grouping, workers=workers, **where)
                for where in named(results).values()
            ),
        ]
        for workers in WORKERS
        for grouping in ["shuffle", *GROUPINGS]
    ]
    return Table(["n", "memory / FG's", *map(name_stream, named(results))], rows)


def draw(figure: Figure, results: Results) -> None:
    """Memory over the workers, a plot a stream."""
    streams = named(results)
    plots = panels(figure, [name_stream(name) for name in streams], 4, x="workers", y="memory / FG's")
    for axes, where in zip(plots, streams.values(), strict=True):
        for grouping in ["shuffle", *GROUPINGS]:
            xs, ys = results.line("workers", "replication", grouping=grouping, **where)
            axes.plot(xs, ys, **LOOKS[grouping].line())
        axes.set_xscale("log", base=2)
        axes.set_xticks(WORKERS, [str(workers) for workers in WORKERS])
    logarithmic(plots)
    legend(figure)


EXPERIMENT = Experiment(
    name="fish/fig11",
    label="Fig. 11",
    title="memory, over that of FG",
    setting="Copies of a key over those of FG.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(11, 5.5),
)
