"""Efficient Time-Evolving Stream Processing at Scale: what all its experiments share."""

from keysplit_experiments.harness import steps
from keysplit_experiments.harness.paper import Dataset, Paper, by_symbol

PAPER = Paper(
    slug="fish",
    title="Efficient Time-Evolving Stream Processing at Scale",
    authors="Huang",
    published="arXiv 1806.00760, 2018",
    setting="5 sources (the paper states none), so that each sees about as many messages as one of "
    "the 32 of its cluster; one seed on real streams. D-C, W-C and FISH have 1000 counters. "
    "Execution time, which the paper does not define, is that of a closed loop: a message "
    "takes 1 ms, and at most 10 messages per worker are in the system. ZF is a Zipf stream in "
    "which the order of the keys is reversed after 0.8 of the messages. Its number of keys is "
    "missing in our text: with 10,000 keys and 5,000,000 messages (the paper's table: 50 "
    "million) shuffle grouping needs the memory on 128 workers that the text states, 88.32 "
    "times FG's. Medians of three seeds (the paper: ten). FG keeps every key once.",
    datasets=by_symbol(
        Dataset(
            symbol="MT",
            title="words of quotes and phrases (MemeTracker)",
            messages=49_210_000,
            keys=390_000,
            top_share=0.0337,
            stands_in="words_reddit_titles_to2012.parquet",
            periods=10,
        ),
        Dataset(
            symbol="AM",
            title="movies reviewed at Amazon",
            messages=7_910_000,
            keys=250_000,
            top_share=0.0147,
            stands_in="reviews_movietweetings.parquet",
            periods=10,
        ),
    ),
)
"""The text does not give the share of the hottest key: it is that of the stand-in."""

SOURCES = 5
"""Given for the cluster only (32). Our streams are shorter: with 5 a source sees about as many messages."""

WORKERS = [16, 32, 64, 128]
KEYS = 10_000
MESSAGES = 5_000_000
SEEDS = [1, 2, 3]
EXPONENTS = steps(1.0, 2.0, 0.2)
FEW_EXPONENTS = [1.0, 1.4, 2.0]
"""Of a quick run."""

COUNTERS = 1_000
"""Of every grouping that counts (section 2.3, last paragraph but one)."""

SERVICE_TIME_S = 0.001
IN_FLIGHT = 10
"""Maximum messages in flight per worker."""
