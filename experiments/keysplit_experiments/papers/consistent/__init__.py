"""Load Balancing for Skewed Streams on Heterogeneous Cluster: what all its experiments share."""

from keysplit_experiments.harness.paper import Paper
from keysplit_experiments.papers import d_choices

PAPER = Paper(
    slug="consistent",
    title="Load Balancing for Skewed Streams on Heterogeneous Cluster",
    authors="Nasir, Horii, Serafini, Kourtellis, Raymond, Girdzijauskas, Osogami",
    published="arXiv 1705.09073, 2017",
    datasets={symbol: d_choices.PAPER.datasets[symbol] for symbol in ("WP", "TW")},
)
"""Both papers describe these two alike."""

MESSAGES = 22_000_000
"""Of the stream WP."""

WORKERS = [5, 10, 50, 100]
VIRTUAL_WORKERS = 10
EPSILON = 0.01
