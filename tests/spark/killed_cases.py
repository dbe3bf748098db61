"""Kill an executor in mid-stage while unsteady rows are routed by a plan; print what came out.

usage: python killed_cases.py FOLDER [--speculation] [--times 1] CASE...

Each case makes rows downstream of a shuffle that hold values which differ when a task is retried, and
places them by a plan without a `row_id`. Spark's checksums of shuffles are off, as they are up to Spark
4.1: only keysplit's proof stands between a retried task and lost rows. Where `route` refuses a case, the
remedy that it names is taken. In the cases `index_trusted` and `zero_trusted` the guard is told to trust
what it should not; they are tried again as long as the retried tasks happen to give the same rows. With
`--speculation` one of the tasks that route hangs in joins, applies and writes, and a copy of it wins.

A line of JSON a case says what was found: "exact", "wrong", or "stopped" if Spark gave the job up. Exact
means that the steady columns of the rows are those of plain Spark without a kill.
"""

import argparse
import json
import os
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from unittest.mock import patch

import killed_executor
import pandas as pd
from killed_executor import ROWS, SOURCES, WORKERS, Job, cluster, reason, session, wait_for
from py4j.protocol import Py4JJavaError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import Window
from pyspark.sql import functions as F
from quick_java import QUICK

from keysplit import spark as kss

# With both settings Spark notices that a retried task gave other rows; they are on from Spark 4.2 on.
CHECKSUMS = [
    f"spark.sql.shuffle.orderIndependentChecksum.{name}" for name in ("enabled", "enableFullRetryOnMismatch")
]
BY_ID = {"row_id": ("id",), "trust": ("id",)}
BY_INDEX = {"row_id": ("at",), "trust": ("at",)}


def zip_with_index(df):
    return df.rdd.zipWithIndex().map(lambda pair: (*pair[0], pair[1])).toDF([*df.columns, "at"])


def index_of_pandas(df):
    import pyspark.pandas  # noqa: F401  it gives frames the method

    return df.pandas_api().to_spark(index_col="at")


def uuids_in_python(df):
    def drawing(frames):
        for frame in frames:
            yield frame.assign(u=[str(uuid.uuid4()) for _ in range(len(frame))])

    return df.mapInPandas(drawing, "id long, key long, u string")


def script(df):
    df.createOrReplaceTempView("rows")
    return df.sparkSession.sql("select transform(id, key) using 'cat' as (id bigint, key bigint) from rows")


def pairs(df, *columns, by):
    """Make a row of each two rows."""
    return df.groupBy(*by).agg(F.min("id").alias("id"), F.min("key").alias("key"), *columns)


def unsteady_columns(df):
    """A sign of zero, a sum of floats and a list, which depend on the order of rows, and a random string."""
    zero = (F.col("id") % 2 - 0.5) * 0.0  # of two literals that are equal Spark takes one
    unsteady = F.max(zero).cast("string").alias("z"), F.sum(F.sqrt("id")).alias("x"), F.collect_list("id")
    rows = pairs(df, *unsteady, by=[(F.col("id") / 2).cast("long").alias("pair")])
    return rows.withColumn("u", F.udf(lambda _: str(uuid.uuid4()))("id"))


def collated(df):
    """A key, a field of a key and a maximum, each of them one of two strings that are equal."""
    text = F.concat(F.lit("k"), (F.col("id") / 2).cast("long"))
    text = F.when(F.col("id") % 2 == 0, F.upper(text)).otherwise(text)
    rows = df.withColumn("c", text).withColumn("c", F.expr("c collate utf8_lcase"))
    return pairs(rows, F.max("c"), by=["c", F.struct("c").alias("s")])


def sampled(df):
    return df.sample(0.9, seed=1).checkpoint()


def limited(df):
    return df.offset(ROWS // 10).limit(ROWS // 2).checkpoint()


def beside_a_subquery(df):
    """Number the rows downstream of the join that Spark makes of a subquery, the only shuffle there is."""
    spark = df.sparkSession
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    df.createOrReplaceTempView("rows")
    spark.range(ROWS).toDF("k").repartition(3, "k").createOrReplaceTempView("keys")
    return spark.sql(
        "select *, monotonically_increasing_id() as m from rows where key in (select k from keys)"
    )


CASES = {
    "beside_a_subquery": (beside_a_subquery, None),
    "zip_with_index": (zip_with_index, BY_ID),
    "index_trusted": (zip_with_index, BY_INDEX),
    "index_of_pandas": (index_of_pandas, BY_ID),
    "uuids_in_python": (uuids_in_python, BY_ID),
    "script": (script, BY_ID),
    "unsteady_columns": (unsteady_columns, None),
    "zero_trusted": (unsteady_columns, {"trust": ("noted()", "z")}),
    "collated": (collated, BY_ID),
    "sample": (sampled, None),
    "offset_and_limit": (limited, None),
}
"""Makes rows with unsteady values, and the remedy where there is no other way."""

TRUSTED = ("index_trusted", "zero_trusted")
TRIES = 4
"""Outputs of the tasks upstream may come in the same order once more, by chance."""

JOINS = {"join": "place", "join_by_broadcast": "broadcast"}
ACTS = (*JOINS, "window", "asof_join", "apply", "write", "write_of_few_rows", "in_foreach_batch")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="+", choices=[*CASES, *ACTS])
    parser.add_argument("--speculation", action="store_true")
    parser.add_argument("--times", type=int, default=1, help="how often each case is tried")
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    cloudpickle.register_pickle_by_value(killed_executor)  # the workers cannot import it
    os.environ["JAVA_TOOL_OPTIONS"] = QUICK
    options.folder.mkdir(parents=True)
    with cluster(options.folder) as master:
        spark = session(master, options)
        spark.sparkContext.setCheckpointDir(str(options.folder / "checkpoints"))
        for setting in CHECKSUMS:
            spark.conf.set(setting, "false")
        numbers = spark.range(ROWS, numPartitions=SOURCES).selectExpr(
            "id", "CASE WHEN id % 3 = 0 THEN 0 ELSE CAST(sqrt(id) AS bigint) END AS key"
        )
        plan = kss.plan(numbers, "key", WORKERS, sample=0.2)
        turns = count()
        for case in options.cases * options.times:
            for _ in range(TRIES if case in TRUSTED else 1):
                found = lost(numbers, plan, options, case, next(turns))
                if found["outcome"] == "wrong":
                    break
            print(json.dumps({"case": case, **found}), flush=True)
        spark.stop()


def lost(numbers, plan, options, case, turn):
    """Run a case, in which an executor is lost, and return what was found."""
    wait_for(lambda: len(numbers.sparkSession._jsc.sc().statusTracker().getExecutorInfos()) == 3)
    job = Job(options.folder / f"{turn}-{case}", "partial", turn)
    job.folder.mkdir()
    try:
        if case in ACTS:
            found = acted(numbers, plan, job, case, hang=options.speculation)
        else:
            found = placed(numbers, plan, job, case)
    except (Py4JJavaError, PySparkException) as error:
        found = {"outcome": "stopped", "error": reason(error)}
    return found | job.ran()


def placed(numbers, plan, job, case):
    """Place the rows of a case, lose an executor, and compare the steady columns."""
    make, remedy = CASES[case]
    steady = ["id", "key"]
    below = numbers.withColumn("id", noted(job, "source")("id"))
    below = below if make is beside_a_subquery else below.repartition(SOURCES, "id")
    try:
        made = make(below)
    except (AttributeError, ImportError):  # this Spark's pandas API does not know this pandas or NumPy
        return {"outcome": "cannot run here"}
    rows = made.withColumn("id", noted(job, "route")("id"))
    given = {"trust": ("noted()",)}
    refused = None
    if remedy:
        try:
            kss.route(rows, "key", plan=replace(plan, trust=("noted()",)))
        except ValueError as error:
            refused = str(error)
        given = remedy
    routed = kss.repartition(rows, "key", plan=replace(plan, **given))
    routed.mapInArrow(job.work("partial"), routed.schema).write.parquet(str(job.folder / "rows"))
    spark = numbers.sparkSession
    # what a checkpoint has cut off is read from it again
    unkilled = made if make in (sampled, limited) else make(numbers)
    true = Counter(map(tuple, unkilled.select(*steady).collect()))
    return compared(spark.read.parquet(str(job.folder / "rows")).select(*steady), true) | {"refused": refused}


def acted(numbers, plan, job, case, *, hang):
    """Do what a case says downstream of a shuffle, and lose an executor."""
    spark = numbers.sparkSession
    below = numbers.withColumn("id", noted(job, "source")("id")).repartition(SOURCES, "id")
    rows = below.withColumn("id", noted(job, "route", hang=hang)("id"))
    given = {"plan": replace(plan, trust=("noted()",))}
    if case in JOINS:
        right = spark.range(150).select(F.col("id").alias("key"), (F.col("id") * 2).alias("w"))
        right = right.repartition(SOURCES, "w")
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # other keys are shuffled
        joined = kss.join(rows, right, "key", way=JOINS[case], **given)
        found = joined.mapInArrow(job.work("partial"), joined.schema)
        true = numbers.join(right, "key")
    elif case == "window":
        w = Window.partitionBy("key").orderBy(F.desc("id"))
        columns = [
            F.row_number().over(w).alias("n"),
            F.sum("id").over(w).alias("sum"),
            F.lag("id", 20).over(w).alias("before"),
            F.sum("id").over(w.rowsBetween(-10, 10)).alias("near"),
        ]
        windows = kss.window(rows, *columns, way="place", **given)
        job.forget()  # the order was sampled, and sums were taken
        found = windows.mapInArrow(job.work("partial"), windows.schema)
        true = numbers.select("*", *columns)
    elif case == "asof_join":
        right = numbers.filter("id % 3 < 2 AND id % 7 = 0").withColumn("last", F.col("id"))
        with patch("keysplit.spark.ordered.window.slots_of", lambda df: 64):  # on two nothing is split
            joined = kss.asof_join(rows, right, "id", "key", **given)
        assert kss.explain(joined).startswith("place: ")
        job.forget()
        found = joined.mapInArrow(job.work("partial"), joined.schema)
        true = kss.asof_join(numbers, right, "id", "key", workers=1)
        assert kss.explain(true).startswith("plain: ")
    elif case == "apply":
        slow, schema = job.work("partial"), "key long, n long, ids long"

        def part(frame):
            list(slow([frame]))
            sums = {"key": [frame["key"].iloc[0]], "n": [len(frame)], "ids": [frame["id"].sum()]}
            return pd.DataFrame(sums)

        def whole(frame):
            return pd.DataFrame(
                {"key": frame["key"].iloc[:1], "n": frame["n"].sum(), "ids": frame["ids"].sum()}
            )

        few = rows.filter("key < 12")  # each group sleeps
        found = kss.apply(few, "key", part, schema, merge=whole, way="place", **given)
        true = numbers.filter("key < 12").groupBy("key").agg(F.count("*"), F.sum("id"))
    elif case == "in_foreach_batch":
        place_micro_batch(numbers, job, given, hang=hang)
        found, true = spark.read.parquet(str(job.folder / "rows")).select("id", "key"), numbers
    else:
        few = {"rows_per_file": ROWS // 7} if case == "write_of_few_rows" else {}
        writer = kss.write(rows, "key", **few, **given)
        assert ("not over" in kss.explain(writer)) == bool(few)
        # no function of ours runs in the stage that writes: put one between
        slow = writer._df.mapInArrow(job.work("partial"), writer._df.schema)
        slow.write.partitionBy("key").parquet(str(job.folder / "rows"))
        found = spark.read.parquet(str(job.folder / "rows")).select("id", F.col("key").cast("long"))
        true = numbers
    return compared(found, Counter(map(tuple, true.collect())))


def place_micro_batch(numbers, job, given, *, hang):
    """Place the rows that `foreachBatch` is given, and write them."""

    def place(df, batch):
        placed = kss.repartition(df.withColumn("id", noted(job, "route", hang=hang)("id")), "key", **given)
        placed.mapInArrow(job.work("partial"), placed.schema).write.parquet(str(job.folder / "rows"))

    numbers.write.parquet(str(job.folder / "numbers"))
    stream = numbers.sparkSession.readStream.schema(numbers.schema).parquet(str(job.folder / "numbers"))
    writer = stream.writeStream.foreachBatch(place).trigger(availableNow=True)
    writer.option("checkpointLocation", str(job.folder / "checkpoint")).start().awaitTermination()


def compared(found, true):
    """Compare rows as multisets."""
    seen = Counter(map(tuple, found.collect()))
    outcome = "exact" if seen == true else "wrong"
    return {"outcome": outcome, "rows": sum(seen.values()), "distinct": len(seen), "of": sum(true.values())}


def noted(job, stage, hang=False):
    """A UDF that returns what it is given; its tasks note that they ran. With `hang` one of them hangs."""

    def noted(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        job.note(stage, hang)
        yield from batches

    return F.pandas_udf(noted, "long")


if __name__ == "__main__":
    main()
