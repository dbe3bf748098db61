"""Estimates of a query's cost from a setting and the text of its physical plan."""

import re
from collections.abc import Iterator

from pyspark.sql import DataFrame

from keysplit.spark.jvm import explained

# A line of a plan: the tree's branches, the number of the stage, and the operator.
_LINE = re.compile(r"^([\s:|+*-]*)(?:\*\(\d+\) |\* )?(\w+)", re.MULTILINE)
_PYTHON = re.compile("Python|Pandas|Arrow")
_SHUFFLES = ("Exchange", "CollectLimit", "GlobalLimit", "ShuffleQueryStage", "TakeOrderedAndProject")

THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
_DEFAULT_LIMIT = 10 << 20
_SUFFIXES = "bkmgtp"


def broadcast_limit(setting: str | None) -> int:
    """Return how many bytes Spark broadcasts automatically, by `THRESHOLD`; below 0 if it never does."""
    found = re.fullmatch(r"(-?\d+)\s*([bkmgtp]?)i?b?", (setting or "").strip().lower())
    if found is None:
        return _DEFAULT_LIMIT
    return int(found[1]) << 10 * _SUFFIXES.index(found[2] or "b")


def beyond_a_scan(df: DataFrame) -> str | None:
    """Return what makes reading a DataFrame expensive, a shuffle or Python; None for a plain scan.

    Operators upstream of a cache do not count.
    """
    for operator in _operators(explained(df)):
        if operator in _SHUFFLES:
            return "a shuffle"
        if _PYTHON.search(operator):
            return "Python"
    return None


def joins_by_broadcast(df: DataFrame) -> bool:
    """Return whether Spark would broadcast a side of the topmost join of a query."""
    found = next((each for each in _operators(explained(df)) if each.endswith("Join")), "")
    return found.startswith("Broadcast")


def _operators(text: str) -> Iterator[str]:
    cached: int | None = None
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        depth = len(found[1])
        if cached is not None and depth > cached:
            continue
        cached = depth if found[2] == "InMemoryTableScan" else None
        yield found[2]
