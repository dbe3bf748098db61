"""Fig. 11: load imbalance over time on voters and reviews."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from keysplit_experiments.harness import Claim, Experiment, Judged, Results
from keysplit_experiments.papers.flexd._balance import (
    ALL,
    SPLITTING,
    draw_of,
    measure_real,
    real_cells,
    settled_by,
    spell_by,
    table_of,
)

STREAMS = ["Voters", "Amazon"]


def lowest(results: Results) -> Judged:
    """FlexD: the lowest imbalance of all over the second half of both, or within 10 per cent of it."""
    found = {stream: settled_by(results, stream, ALL) for stream in STREAMS}
    return Judged(
        all(each["flexd"] <= 1.1 * min(each.values()) for each in found.values()),
        "; ".join(f"{stream}: {spell_by(each)}" for stream, each in found.items()),
    )


def alike(results: Results, stream: str, groupings: Sequence[str]) -> Judged:
    """Two groupings on a stream: their imbalance over the second half within a factor of 1.5."""
    found = settled_by(results, stream, groupings)
    return Judged(max(found.values()) <= 1.5 * min(found.values()), spell_by(found))


def splits_less(results: Results) -> Judged:
    """FlexD: fewer copies of a key than PStream on both streams."""
    found = {
        stream: {
            grouping: results.median("replication", stream=stream, grouping=grouping)
            for grouping in SPLITTING
        }
        for stream in STREAMS
    }
    return Judged(
        all(each["flexd"] < each["pstream"] for each in found.values()),
        "; ".join(f"{stream}: {spell_by(each)}" for stream, each in found.items()),
    )


CLAIMS = [
    Claim(
        says="FlexD has the lowest load imbalance of all (both streams, over the second half, or within 10 "
        "per cent of the lowest)",
        where="6.2",
        judge=lowest,
    ),
    Claim(
        says="On Voters FlexD and PStream balance almost equally (within a factor of 1.5)",
        where="6.2",
        judge=partial(alike, stream="Voters", groupings=["pstream", "flexd"]),
        because="PStream sends hot keys to the workers in turn, whatever their other load",
    ),
    Claim(
        says="On Amazon PStream and Dalton balance equally (within a factor of 1.5)",
        where="6.2",
        judge=partial(alike, stream="Amazon", groupings=["pstream", "dalton"]),
        because="no product has an eighth of an interval, where a key becomes hot for Dalton: it "
        "splits nothing",
    ),
    Claim(
        says="PStream costs more to aggregate than FlexD (both streams: copies of a key)",
        where="6.2",
        judge=splits_less,
    ),
]


EXPERIMENT = Experiment(
    name="flexd/fig11",
    label="Fig. 11",
    title="load imbalance over time on voters and reviews",
    setting="As Fig. 9. Streams are as long as their stand-ins. That of Voters has a few thousand keys that "
    "change over time, as postcodes do in a register ordered by county.",
    cells=partial(real_cells, streams=STREAMS),
    measure=measure_real,
    claims=CLAIMS,
    table=partial(table_of, parameter="stream", name="stream"),
    draw=partial(draw_of, parameter="stream", titles=STREAMS),
    size=(9, 3.5),
    version=2,
)
