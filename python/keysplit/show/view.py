"""Views: what there is to see of a result, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Card", "Entry", "Panel", "Timing", "View"]


class Entry(NamedTuple):
    """A grouping on a page: its simulation, or its plan.

    Attributes:
        name: its name, which has a colour.
        label: what the page calls it.
        loads: the load of each worker.
        busiest: the load of the busiest worker over the mean.
        balanced: whether that counts as balanced.
        imbalance: (largest - mean) / sum of the loads.
        partials: the number of partial results, one per key and worker.
        replication: the same per key.
        mean_imbalance: the mean imbalance over the stream; None for a plan.
        over_time: positions in the stream, and the imbalance up to there; none for a plan.
        front: whether no other grouping is as good in both imbalance and replication and better in one.
        keys: for workers with known frequent keys, their names and messages, the most frequent first.
    """

    name: str
    label: str
    loads: np.ndarray
    busiest: float
    balanced: bool
    imbalance: float
    partials: int
    replication: float
    mean_imbalance: float | None = None
    over_time: tuple[Sequence[float], Sequence[float]] = ((), ())
    front: bool = False
    keys: Mapping[int, Sequence[tuple[str, float]]] = {}


class Panel(NamedTuple):
    """What a page shows for one number of workers.

    Attributes:
        workers: their number.
        messages: the length of the stream.
        entries: the groupings that were simulated, the most balanced first.
        best: the grouping that the page is about, one of `entries` or a plan.
        verdict: what to do, in lines.
        details: all else, in sentences without the last full stop.
        line: what to paste.
        named: whether frequent keys are known.
    """

    workers: int
    messages: int
    entries: Sequence[Entry]
    best: Entry
    verdict: str
    details: str = ""
    line: str = ""
    named: bool = False


class Card(NamedTuple):
    """A figure in large letters, another one next to it, and what they are."""

    figure: str
    other: str
    text: str


class Timing(NamedTuple):
    """How workers served a stream: positions, the queues of all workers there, and how busy each one was."""

    positions: Sequence[int]
    queues: np.ndarray
    busy: np.ndarray


class View(NamedTuple):
    """What there is to see of a result.

    Attributes:
        title: what it is.
        verdict: what to do, or what it says, in words: a few lines.
        columns: the titles of the table.
        rows: its rows, as text.
        loads: the load of each worker, by grouping; the first is drawn first.
        unit: what loads count.
        records: the figures, a dict per row.
        names: the names of the figures, where there may be no row.
        line: what to paste.
        details: all else, a sentence or more per line.
        panels: the page for each number of workers; without any, the page shows what is listed above.
        about: what was simulated, in a few words each. This and the following only with `panels`.
        cards: further figures in large letters.
        figures: all figures with their names.
        timing: the times of a simulation.
        keys: what the page says of frequent keys, for its template.
    """

    title: str
    verdict: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    loads: Mapping[str, np.ndarray]
    unit: str
    records: Sequence[Mapping[str, Any]]
    names: Sequence[str] = ()
    line: str = ""
    details: str = ""
    panels: Sequence[Panel] = ()
    about: Sequence[str] = ()
    cards: Sequence[Card] = ()
    figures: Sequence[tuple[str, str]] = ()
    timing: Timing | None = None
    keys: Mapping[str, Any] | None = None
