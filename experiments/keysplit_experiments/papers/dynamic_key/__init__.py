"""Dynamic Key Grouping: what all its experiments share."""

from keysplit_experiments.harness.paper import Dataset, Paper, by_symbol

PAPER = Paper(
    slug="dynamic_key",
    title="Dynamic Key Grouping: A Load Balancing Algorithm for Distributed Stream Processing Engines",
    authors="Dalabasmaz, Can",
    published="Hacettepe University",
    setting="5 sources and 10 workers unless a figure says otherwise. The model is our own: a closed "
    "loop with 100 messages per worker in the system. A message takes 1.05 ms, so that SG "
    "takes the time of Table 3; in shorter streams it takes longer, so that DKG's clock runs "
    "as long as in the paper. The paper's latency is the time of the whole stream. *DKG-60*, "
    "on which the claims are tested, tries to give a key another worker at most once in 60 "
    "seconds, as the authors' program does; *DKG* has no such interval. *Like "
    "twitter-election* is drawn: 5,320,000 messages, 68 per cent of them with one key. The "
    "paper gives no figures for the others; here they follow Zipf's law with z = 1.64, which "
    "gives SG the DistCost of Table 3, 2.45.",
    datasets=by_symbol(
        Dataset(
            symbol="twitter-election",
            title="tweets of the US election of 2016",
            messages=5_320_000,
            keys=100_000,
            top_share=0.68,
            stands_in="highskew_retail_country.parquet",
        ),
        Dataset(
            symbol="twitter-ticker",
            title="cashtags in tweets, which drift",
            messages=1_500_000,
            keys=2_900,
            top_share=0.10,
            stands_in="drift_scoop_updates.parquet",
            periods=10,
        ),
        Dataset(
            symbol="wikipedia-clickstream",
            title="pages of Wikipedia reached by a click",
            messages=8_000_000,
            keys=1_000_000,
            top_share=0.10,
            stands_in="objects_ecommerce_day.parquet",
        ),
        Dataset(
            symbol="wikipedia-pageviews",
            title="pages of Wikipedia visited in a day",
            messages=22_000_000,
            keys=2_900_000,
            top_share=0.09,
            stands_in="web_nasa_19950801.parquet",
        ),
        Dataset(
            symbol="wikipedia-pageviews-by-lang",
            title="pages of Wikipedia visited, by language",
            messages=588_000_000,
            keys=100_000,
            top_share=0.27,
            stands_in="links_reddit_domains_to2012.parquet",
        ),
    ),
)
"""The paper gives messages (those of twitter-election are latency times throughput in Table 3) and the share
of the hottest key. The numbers of keys are those of such streams in Nasir et al. (ICDE 2016), else ours."""

SOURCES = 5
WORKERS = 10
DKG = "dynamic_key_60"
"""DKG as the authors' program has it: a key asks for another worker at most once in 60 seconds."""

METHODS = ["shuffle", "key", "partial_key", DKG]
GROUPINGS = [*METHODS, "dynamic_key"]
"""The paper's methods, and DKG without that interval, which the paper does not mention."""
