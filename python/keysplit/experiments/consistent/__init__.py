"""Load Balancing for Skewed Streams on Heterogeneous Cluster: what all its experiments share."""

from keysplit.experiments.papers import Dataset, Paper, by_symbol

PAPER = Paper(
    slug="consistent",
    title="Load Balancing for Skewed Streams on Heterogeneous Cluster",
    authors="Nasir, Horii, Serafini, Kourtellis, Raymond, Girdzijauskas, Osogami",
    published="arXiv 1705.09073, 2017",
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
    ),
)

MESSAGES = 22_000_000
"""Of the stream WP."""

WORKERS = [5, 10, 50, 100]
VIRTUAL_WORKERS = 10
EPSILON = 0.01
