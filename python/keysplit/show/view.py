"""Views: a result for display, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Card", "Entry", "Panel", "Timing", "View"]


class Entry(NamedTuple):
    """A grouping on a page: its simulation, or its plan.

    Attributes:
        name: the grouping's name, which has a colour.
        label: the grouping's name on the page.
        loads: the load of each worker.
        busiest: the busiest worker's load divided by the mean.
        balanced: whether `busiest` counts as balanced.
        imbalance: (largest - mean) / sum of the loads.
        partials: the number of partial results, one per key and worker.
        replication: the number of partial results per key.
        mean_imbalance: the mean imbalance over the stream; None for a plan.
        over_time: positions in the stream, and the imbalance up to each; empty for a plan.
        front: whether no other grouping is as good in imbalance and replication, and better in one of them.
        keys: by worker, the names and messages of its known frequent keys, the most frequent first.
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
    """The part of a page for one number of workers.

    Attributes:
        workers: the number of workers.
        messages: the length of the stream.
        entries: the groupings that were simulated, the most balanced first.
        best: the grouping that the page is about, one of `entries` or a plan.
        verdict: what to do, in lines.
        details: further sentences, without the last full stop.
        line: code to paste.
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
    """A headline number, a second number next to it, and their label."""

    figure: str
    other: str
    text: str


class Timing(NamedTuple):
    """How busy workers were: positions in the stream, all queues at each, and each worker's utilisation."""

    positions: Sequence[int]
    queues: np.ndarray
    busy: np.ndarray


class View(NamedTuple):
    """A result for display.

    Attributes:
        title: the title.
        verdict: what to do, or the finding, in a few lines.
        columns: the titles of the table.
        rows: the rows of the table, as text.
        loads: the load of each worker, by grouping; the first is drawn first.
        unit: the unit of the loads.
        records: the figures, a dict per row.
        names: the names of the figures, if there may be no rows.
        line: code to paste.
        details: further lines, of one or more sentences.
        panels: a panel for each number of workers; without any, the page shows the fields above.
        about: short texts on what was simulated. This and the fields below are used only with `panels`.
        cards: further figures in large letters.
        figures: all figures with their names.
        timing: the times of a simulation.
        keys: the data of the page's section on frequent keys.
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
