"""When Two Choices Are not Enough: what all its experiments share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import keysplit as ks
from keysplit import _core
from keysplit_experiments.harness import Figures, Parameters, Results, Scale, figures_of, steps
from keysplit_experiments.harness.paper import Dataset, Paper, by_symbol

PAPER = Paper(
    slug="d_choices",
    title="When Two Choices Are not Enough: Balancing at Scale in Distributed Stream Processing",
    authors="Nasir, De Francisci Morales, Kourtellis, Serafini",
    published="ICDE 2016",
    setting="Five sources. Zipf streams have 10,000 keys and 10,000,000 messages unless a figure says "
    "otherwise. The threshold is 1/(5n), the tolerance 1e-4.",
    datasets=by_symbol(
        Dataset(
            symbol="WP",
            title="pages of Wikipedia visited in a day",
            messages=22_000_000,
            keys=2_900_000,
            top_share=0.0932,
            stands_in="web_nasa_19950801.parquet",
        ),
        Dataset(
            symbol="TW",
            title="words of tweets",
            messages=1_200_000_000,
            keys=31_000_000,
            top_share=0.0267,
            stands_in="words_reddit_titles_to2012.parquet",
        ),
        Dataset(
            symbol="CT",
            title="cashtags in tweets, which drift",
            messages=690_000,
            keys=2_900,
            top_share=0.0329,
            stands_in="drift_scoop_updates.parquet",
            periods=10,
        ),
    ),
)

SOURCES = 5
WORKERS = [5, 10, 20, 50, 100]
GROUPINGS = ["partial_key", "d_choices", "w_choices"]
"""That are compared on real streams."""

KEYS = 10_000
MESSAGES = 10_000_000
TOLERANCE = 1e-4
EXPONENTS = steps(0.1, 2.0, 0.1)
FEW_EXPONENTS = [0.4, 0.8, 1.2, 1.6, 2.0]
"""Of a quick run."""


def real_cells(scale: Scale, streams: Sequence[str], workers: Sequence[int]) -> list[Parameters]:
    """Name the cells of every grouping on real streams and numbers of workers."""
    return [
        {
            "stream": stream,
            "messages": scale.messages(PAPER.datasets[stream].messages),
            "seed": seed,
            "workers": number,
            "grouping": grouping,
        }
        for stream in streams
        for seed in scale.grid([1, 2, 3, 4, 5], [1])
        for number in workers
        for grouping in GROUPINGS
    ]


def frequencies(stream: NDArray[np.int64]) -> NDArray[np.float64]:
    """Count how often each key occurs, the most frequent first."""
    return np.sort(np.bincount(stream))[::-1].astype(np.float64)


def solved(counts: NDArray[np.float64], workers: int) -> tuple[NDArray[np.bool_], int]:
    """Solve d on exact frequencies, as section IV-A does; give which keys are the head, and d."""
    messages = float(counts.sum())
    head = counts * 5 * workers >= messages
    return head, _core.solve_choices(counts[head], messages, workers, TOLERANCE)


def balance(params: ks.Grouping, keys: Any) -> Figures:
    """Simulate a grouping with the paper's number of sources, and give its imbalances and its memory."""
    result = ks.simulate(params, keys, sources=SOURCES)
    return figures_of(result, "imbalance", "mean_imbalance", "memory", "messages")


def by_workers(results: Results, grouping: str, figure: str = "imbalance", **where: Any) -> dict[int, float]:
    """Return a figure of a grouping for every number of workers, the median over the seeds."""
    return dict(zip(*results.line("workers", figure, grouping=grouping, **where), strict=True))
