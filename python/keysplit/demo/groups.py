"""The demo without emulation: one pandas function over thousands of small groups, on the real cores."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

# At most this many groups, as each takes Spark milliseconds.
ROWS = 20_000
STRETCH = 64
RUNS = 3
SCHEMA = "first long, rows long, mean double"


@dataclass(frozen=True, kw_only=True)
class Groups:
    """What a function over small groups took.

    Args:
        rows: the number of rows.
        groups: the number of groups: a key's rows in a stretch of the stream.
        spark_s: seconds by `groupBy(...).applyInPandas(...)`, the median of the runs.
        keysplit_s: seconds by `kss.apply(...)`, the median of the runs.
        equal: whether both gave the same results.
        way: how `kss.apply` came to its results.
    """

    rows: int
    groups: int
    spark_s: float
    keysplit_s: float
    equal: bool
    way: str

    @property
    def ratio(self) -> float:
        """Wall time by keysplit over that by Spark."""
        return self.keysplit_s / self.spark_s


def measure(rows: "DataFrame") -> Groups:
    """Run a function over the small groups of a stream by Spark and by keysplit, in turn.

    Args:
        rows: a DataFrame with the columns `key`, `value` and `position`.

    Returns:
        What was measured.
    """
    from pyspark.sql import functions as F

    from keysplit import spark as kss

    stretch = F.floor(F.col("position") / STRETCH).alias("stretch")
    some = rows.where(F.col("position") < ROWS).select("key", stretch, "value", "position").cache()
    ways: dict[str, Callable[[], DataFrame]] = {
        "spark": lambda: some.groupBy("key", "stretch").applyInPandas(_described, SCHEMA),
        "keysplit": lambda: kss.apply(some, ["key", "stretch"], _described, schema=SCHEMA),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, list[Any]] = {}
    count = some.count()
    for _ in range(RUNS):
        for name, way in ways.items():
            start = time.monotonic()
            found[name] = way().collect()
            taken[name].append(time.monotonic() - start)
    told = kss.explain(ways["keysplit"]())
    some.unpersist()
    return Groups(
        rows=count,
        groups=len(found["spark"]),
        spark_s=median(taken["spark"]),
        keysplit_s=median(taken["keysplit"]),
        equal=sorted(map(repr, found["spark"])) == sorted(map(repr, found["keysplit"])),
        way=told,
    )


def _described(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Describe a group; this runs in Spark's Python workers."""
    import pandas as pd

    return pd.DataFrame(
        {"first": [frame["position"].min()], "rows": [len(frame)], "mean": [frame["value"].mean()]}
    )
