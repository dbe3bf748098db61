"""A frozen plan routes and places the rows of a stream as those of a batch."""

import datetime as dt

import pytest
from frames import skewed
from pyspark.sql import functions as F
from streams import Files, rows_of

from keysplit import spark as kss
from keysplit.spark.streaming.slots import slot

WORKERS = 4
SCHEMA = "at timestamp, key string, v bigint"
START = dt.datetime(2024, 3, 30, 22, tzinfo=dt.UTC)  # the clocks of Berlin go forward in it


def hour(number):
    """Return the rows of an hour: half of them of one key."""
    keys = skewed(["hot", None, "a", "b", "c", "d", "e"], 120)
    return [
        {
            "at": (START + dt.timedelta(hours=number, seconds=30 * i)).isoformat(),
            "key": key,
            "v": None if i % 7 == 3 else i * 37 % 101 - 20 + number,
        }
        for i, key in enumerate(keys)
    ]


def test_a_stream_is_routed_and_placed_as_a_batch(spark, tmp_path):
    files = Files(spark, tmp_path / "in", SCHEMA)
    for number in range(3):
        files.add(hour(number))
    plan, found = kss.plan(files.batch(), "key", WORKERS, grouping="w_choices"), {}
    assert {each.key: len(each.workers) for each in plan.head}["hot",] == WORKERS
    rows = files.stream("10 minutes")
    routed = kss.streaming.route(rows, "key", plan=plan, worker_column="to")
    placed = kss.streaming.repartition(rows, "key", plan=plan, worker_column="to")
    for name, result in {
        "routed": routed,
        "placed": placed.withColumn("partition", F.spark_partition_id()),
    }.items():
        writer = result.writeStream.format("parquet").option("path", str(tmp_path / name))
        writer = writer.option("checkpointLocation", str(tmp_path / f"checkpoint {name}"))
        writer.trigger(availableNow=True).start().awaitTermination()
        found[name] = spark.read.schema(result.schema).parquet(str(tmp_path / name))
    expected = kss.route(files.batch(), "key", plan=plan, worker_column="to")
    assert rows_of(found["routed"]) == rows_of(expected)
    assert rows_of(found["placed"].drop("partition")) == rows_of(expected)
    assert found["placed"].filter("to <> partition").count() == 0


@pytest.mark.parametrize("workers", [1, 7, 300])
def test_the_hash_of_a_slot_is_the_worker(spark, workers):
    df = spark.range(2000, numPartitions=2).select(
        F.when(F.col("id") % 3 > 0, F.col("id")).alias("a"),
        F.col("id").cast("string").alias("b"),
        (F.col("id") % workers).cast("int").alias("worker"),
    )
    slots = df.withColumn("slot", slot(F.hash("a", "b"), F.col("worker"), workers))
    assert slots.filter(F.hash("a", "b", "slot") == F.col("worker")).count() == 2000
