"""What is measured: each operation in plain Spark, salted by hand, and by keysplit.

- apply: whole-group Python, a histogram of a group's values, in two steps that merge.
- apply, whole: the same in one function (applyInPandas), which cannot be split.
- join, wide rows: a sort-merge join of the stream with a table of one row per key; each row of the stream has
  a payload of 100 bytes. join, many rows: the same without it, followed by an expensive expression per row.
- join, both hot: a join of two streams that have the same hot key.
- write: files partitioned by the key.

Ways: *plain* is Spark as it is. *salted* is what a careful engineer writes: every key gets one of 8 salts by
the hash of its row, a partial result by (key, salt), a second by key; in joins the other side 8 times.
*keysplit* makes its plan at the call, *kept* has it from before.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame, DataFrameWriter
from pyspark.sql import functions as F

from keysplit import spark as kss
from keysplit.spark.few_rows import ROWS_PER_FILE, tasks_for
from keysplit.spark.place import placed
from keysplit.spark.strategy import took, way_of
from keysplit_experiments.measured.spark_skew import streams
from keysplit_experiments.measured.spark_skew.figures import REDUCERS, Result, Way

SALTS = 8
SCHEMA = "key string, value long, n long"
By = Callable[..., Result]


@dataclass(frozen=True)
class Operation:
    """An operation, each way a function of the rows; `by` takes keysplit's arguments as well."""

    plain: Way
    by: By
    salted: Way | None = None

    def ways(self, df: DataFrame, workers: int = REDUCERS) -> dict[str, Way]:
        """Return all ways, with a plan of these rows for the last one."""
        found: dict[str, Way | None] = {
            "plain": self.plain,
            "salted": self.salted,
            "keysplit": lambda df: self.by(df, workers=workers),
            "kept": self.kept(plan_of(df, workers)),
        }
        return {name: way for name, way in found.items() if way is not None}

    def kept(self, plan: kss.Plan) -> Way:
        """Return the way by a plan that is there."""
        return lambda df: self.by(df, plan=plan)


def plan_of(df: DataFrame, workers: int) -> kss.Plan:
    return kss.plan(df, "key", workers, grouping="cut_to_fit", row_id="id")


def counted(frame: pd.DataFrame) -> pd.DataFrame:
    values, counts = np.unique(frame["value"].to_numpy(), return_counts=True)
    return pd.DataFrame({"key": frame["key"].iloc[0], "value": values, "n": counts})


def merged(frame: pd.DataFrame) -> pd.DataFrame:
    values, places = np.unique(frame["value"].to_numpy(), return_inverse=True)
    counts = np.bincount(places, weights=frame["n"].to_numpy()).astype(np.int64)
    return pd.DataFrame({"key": frame["key"].iloc[0], "value": values, "n": counts})


def slow(frame: pd.DataFrame) -> pd.DataFrame:
    time.sleep(0.001 * len(frame))
    return counted(frame)


def salt() -> Column:
    return F.pmod(F.xxhash64("id"), F.lit(SALTS)).cast("int").alias("salt")


def applied(partial: Callable[[pd.DataFrame], pd.DataFrame]) -> Operation:
    return Operation(
        plain=lambda df: df.groupBy("key").applyInPandas(partial, SCHEMA),
        salted=lambda df: (
            df.groupBy("key", salt())
            .applyInPandas(partial, SCHEMA)
            .groupBy("key")
            .applyInPandas(merged, SCHEMA)
        ),
        by=lambda df, **how: kss.apply(df, "key", partial, SCHEMA, merge=merged, **how),
    )


def asleep(joined: DataFrame) -> DataFrame:
    def wait(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            time.sleep(0.001 * len(frame))
            yield frame

    return joined.mapInPandas(wait, joined.schema)


def digested(joined: DataFrame) -> DataFrame:
    digest = F.col("id").cast("string")
    for _ in range(8):
        digest = F.sha2(digest, 512)
    return joined.withColumn("digest", digest)


def joined(wide: bool = False, work: Callable[[DataFrame], DataFrame] = lambda joined: joined) -> Operation:
    def left(df: DataFrame) -> DataFrame:
        return df.withColumn("payload", F.rpad(F.col("id").cast("string"), 100, "x")) if wide else df

    def salted(df: DataFrame) -> DataFrame:
        copies = names(df).withColumn("salt", F.explode(F.array(*(F.lit(i) for i in range(SALTS)))))
        return work(
            left(df).withColumn("salt", salt()).hint("merge").join(copies, ["key", "salt"]).drop("salt")
        )

    def by(df: DataFrame, **how: Any) -> DataFrame:
        result = kss.join(left(df).hint("merge"), names(df), "key", **how)
        return took(work(result), way_of(result))

    return Operation(
        plain=lambda df: work(left(df).hint("merge").join(names(df), "key")),
        salted=salted,
        by=by,
    )


def names(df: DataFrame) -> DataFrame:
    """A table with a row per key of a stream, which lies in files as the stream does."""
    files = df.inputFiles()
    distinct = df.select("key").distinct().withColumn("name", F.upper("key"))
    if not files:
        return distinct
    path = f"{files[0].rpartition('/')[0]}-names".removeprefix("file://")
    if not Path(path).exists():
        distinct.coalesce(2).write.parquet(path)
    return df.sparkSession.read.parquet(path)


def both_hot(df: DataFrame) -> DataFrame:
    """The right side of a join whose hot key is hot there, too: a row in 1,000 of the left one."""
    return df.filter("id % 1000 = 0").select("key", F.col("id").alias("other"))


def both_hot_salted(df: DataFrame) -> DataFrame:
    copies = both_hot(df).withColumn("salt", F.explode(F.array(*(F.lit(i) for i in range(SALTS)))))
    return df.withColumn("salt", salt()).hint("merge").join(copies, ["key", "salt"]).drop("salt")


OPERATIONS = {
    "apply": applied(counted),
    "apply, whole": Operation(
        plain=lambda df: df.groupBy("key").applyInPandas(counted, SCHEMA),
        by=lambda df, workers=None, plan=None: kss.apply(
            df, "key", counted, SCHEMA, workers=workers or plan.workers
        ),
    ),
    "join, wide rows": joined(wide=True),
    "join, many rows": joined(work=digested),
    "join, both hot": Operation(
        plain=lambda df: df.hint("merge").join(both_hot(df), "key"),
        salted=both_hot_salted,
        by=lambda df, **how: kss.join(df.hint("merge"), both_hot(df), "key", **how),
    ),
    "write": Operation(
        plain=lambda df: df.repartition(REDUCERS, "key").write.partitionBy("key"),
        salted=lambda df: df.repartition(REDUCERS, F.col("key"), salt()).write.partitionBy("key"),
        by=lambda df, **how: kss.write(df, "key", **how),
    ),
}
EMULATED = {"apply": applied(slow), "join": joined(work=asleep)}


def causes(df: DataFrame, workers: int = REDUCERS) -> dict[str, Way]:
    """Ways of a write between plain Spark's and keysplit's, for rows with the columns of a stream."""
    plan = plan_of(df, workers)
    assert plan.sample is not None
    slots = df.sparkSession.sparkContext.defaultParallelism
    tasks = min(tasks_for(plan.sample.rows / plan.sample.fraction, ROWS_PER_FILE, slots), workers)
    hottest = plan.head[0]
    rows = -(-df.filter(F.col("key") == hottest.key[0]).count() // len(hottest.workers))
    path = Path(df.inputFiles()[0].removeprefix("file://")).parent
    known = f"{path}-routed"
    kss.route(df.drop("value"), "key", plan=plan).write.parquet(known)
    routed = df.sparkSession.read.parquet(known).withColumn("value", streams.value())

    def plain(df: DataFrame, tasks: int = workers) -> DataFrameWriter:
        return df.repartition(tasks, "key").drop("worker").write.partitionBy("key")

    return {
        "plain": plain,
        "plain, as many files": lambda df: plain(df).option("maxRecordsPerFile", rows),
        "routed, then as plain": lambda df: plain(kss.route(df, "key", plan=plan)),
        "workers known before": lambda df: (
            placed(routed, "worker", workers).drop("worker").write.partitionBy("key")
        ),
        "kept, all workers": lambda df: kss.write(df, "key", plan=plan, way="place"),
        "plain, as few tasks": lambda df: plain(df, tasks),
        "kept": lambda df: kss.write(df, "key", plan=plan),
        "keysplit": lambda df: kss.write(df, "key", workers=workers),
    }


def scaled(plain: Callable[[DataFrame, int], DataFrame], by: By) -> Operation:
    """An operation that plain Spark does on as many partitions as keysplit has workers."""
    return Operation(lambda df: plain(df, int(df.sparkSession.conf.get("spark.sql.shuffle.partitions"))), by)


def planned(df: DataFrame, plan: kss.Plan) -> DataFrame:
    """Make the plan again, and nothing else."""
    kss.plan(df, "key", plan.workers, row_id="id")
    return df.limit(0)


SCALED = {
    "plan, over a repartition": scaled(lambda df, n: df.repartition(n, "key"), planned),
    "route": scaled(lambda df, n: df, lambda df, **how: kss.route(df, "key", **how)),
    "repartition": scaled(
        lambda df, n: df.repartition(n, "key"), lambda df, **how: kss.repartition(df, "key", **how)
    ),
    "inner join": scaled(
        lambda df, n: df.hint("merge").join(names(df), "key"),
        lambda df, **how: kss.join(df.hint("merge"), names(df), "key", way="place", **how),
    ),
    "full join": scaled(
        lambda df, n: df.hint("merge").join(names(df), "key", "full"),
        lambda df, **how: kss.join(df.hint("merge"), names(df), "key", "full", way="place", **how),
    ),
    "apply": applied(counted),
}
