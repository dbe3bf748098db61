"""Load Balancing for Skewed Streams on Heterogeneous Cluster: what all its experiments share."""

from keysplit_experiments.harness.paper import Paper
from keysplit_experiments.papers import d_choices

PAPER = Paper(
    slug="consistent",
    title="Load Balancing for Skewed Streams on Heterogeneous Cluster",
    authors="Nasir, Horii, Serafini, Kourtellis, Raymond, Girdzijauskas, Osogami",
    published="arXiv 1705.09073, 2017",
    setting="One source and one seed of the hashes, unless a figure says otherwise. CG and CH have 10 "
    "virtual workers per worker and epsilon 0.01; where messages go to virtual workers, each "
    "is one point on CH's circle. *Like WP* is a Zipf stream of 22,000,000 messages with "
    "2,900,000 possible keys, the hottest with 9.32 per cent (Table 2). Imbalance is (largest "
    "load - mean load) / mean load at the end; memory is the number of different keys per "
    "worker, summed over the workers. Fig. 7, 8, 11 and 12 have ten workers. There messages "
    "arrive at equal intervals for 2,034 seconds (the 10,817 of Table 2 read as messages per "
    "second), at 80 per cent of what all workers can serve. There are ten signals and time "
    "slots per second, which the paper leaves open; busy above 0.85 and idle below 0.75 of "
    "the capacity (7.2). These figures show the largest minus the smallest value of a worker "
    "at 100 positions: its queue, the mean latency of its messages since the last position, "
    "and its utilisation, the queue over the capacity (section 3), where the slowest worker "
    "has speed 1.",
    datasets={symbol: d_choices.PAPER.datasets[symbol] for symbol in ("WP", "TW")},
)
"""Both papers describe these two in the same way."""

MESSAGES = 22_000_000
"""Of the stream WP."""

WORKERS = [5, 10, 50, 100]
VIRTUAL_WORKERS = 10
EPSILON = 0.01
