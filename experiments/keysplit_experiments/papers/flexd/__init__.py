"""Adaptive Key Partitioning in Distributed Stream Processing: what all its experiments share."""

from keysplit_experiments.harness import steps
from keysplit_experiments.harness.paper import Dataset, Paper, by_symbol

PAPER = Paper(
    slug="flexd",
    title="Adaptive Key Partitioning in Distributed Stream Processing",
    authors="Liu, Wang, Zhou, Mao",
    published="CCF Transactions on High Performance Computing, 2024",
    setting="Eight workers, one per node of the paper's cluster, and one source. ZF is a Zipf stream of "
    "1,000,000 messages and 10,000 keys: the paper's settings (its Table 1) are lost in our text, "
    "but for the range of z. Medians of five seeds. DAKG is what this paper calls DKG. Parameters "
    "are the defaults; FlexD's threshold is chosen by [how many claims "
    "hold](../groupings/flexd.md#the-default-threshold). The imbalance is (max - mean) / mean.",
    datasets=by_symbol(
        Dataset(
            symbol="Voters",
            title="registrations of voters in North Carolina by postcode",
            messages=8_000_000,
            keys=900,
            top_share=0.0369,
            stands_in="drift_scoop_updates.parquet",
            periods=10,
        ),
        Dataset(
            symbol="Amazon",
            title="reviews of customers by product",
            messages=1_300_000,
            keys=100_000,
            top_share=0.0147,
            stands_in="reviews_movietweetings.parquet",
            periods=10,
        ),
        Dataset(
            symbol="T4SA",
            title="words of tweets",
            messages=3_400_000,
            keys=100_000,
            top_share=0.0054,
            stands_in="objects_ecommerce_day.parquet",
        ),
        Dataset(
            symbol="WikiText",
            title="words of articles in Wikipedia",
            messages=100_000_000,
            keys=200_000,
            top_share=0.0337,
            stands_in="words_reddit_titles_to2012.parquet",
        ),
    ),
)
"""The text gives the messages of Amazon, T4SA (tweets) and WikiText; the rest is like the stand-ins."""

WORKERS = 8
"""One per node of the paper's cluster; Table 1 of the paper, with the settings, is lost in our text."""

KEYS = 10_000
MESSAGES = 1_000_000
EXPONENTS = steps(1.0, 3.0, 0.5)

SEEDS = [1, 2, 3, 4, 5]
"""Of the stream, if it is drawn, and of the hashes."""
