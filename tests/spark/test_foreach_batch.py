"""Operations for batches in `foreachBatch`, which gets rows as an RDD; the query knows the plan of it."""

import pytest
from pyspark.sql import functions as F

from keysplit import spark as kss

WORKERS, ROWS = 4, 900
SCHEMA = "id bigint, key bigint, amount double"


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    rows = spark.range(ROWS).selectExpr("id", "IF(id % 4 < 2, 0, id % 50) AS key", "id / 4 AS amount")
    for number in range(2):
        rows.filter(F.col("id") % 2 == number).write.mode("append").parquet(str(folder / "in"))
    return folder


def read(spark, folder):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2).parquet(str(folder / "in"))


def run(df, checkpoint, each, mode="append"):
    writer = df.writeStream.foreachBatch(each).outputMode(mode).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    assert query.awaitTermination(120)


def as_rows(df):
    return sorted(tuple(row) for row in df.collect())


def test_operations_equal_plain_ones(spark, folder, tmp_path):
    met = []

    def total(whole):
        return whole.groupby("key", as_index=False).agg(rows=("id", "size"), amount=("amount", "sum"))

    def work(df, batch):
        plan = kss.plan(df, "key", WORKERS, row_id="id")
        placed = kss.repartition(df, "key", plan=plan).withColumn("partition", F.spark_partition_id())
        assert placed.filter("worker != partition").count() == 0
        assert placed.groupBy("worker").count().count() == WORKERS
        by_columns = kss.route(df, "key", workers=WORKERS).drop("worker")
        assert as_rows(by_columns) == as_rows(df)
        applied = kss.apply(df, "key", total, "key bigint, rows bigint, amount double", workers=WORKERS)
        assert as_rows(applied) == as_rows(df.groupBy("key").agg(F.count("id"), F.sum("amount")))
        met.append(df.count())

    run(read(spark, folder), tmp_path / "c", work)
    assert sum(met) == ROWS
    assert len(met) > 1


@pytest.mark.versions
def test_a_watermark_filters_and_new_columns_are_known(spark, folder, tmp_path):
    df = read(spark, folder).withColumn("at", F.timestamp_seconds("id")).withWatermark("at", "1 hour")
    met = []
    run(
        df.filter("id > 10 AND current_timestamp() > at"),
        tmp_path / "c",
        lambda df, _: met.append(placed(df)),
    )
    assert len(met) > 1
    assert not any(map(refused, met))


@pytest.mark.versions
def test_sources_that_count_are_known(spark, tmp_path):
    rows, met = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).load(), []
    query = (
        rows.writeStream.foreachBatch(lambda df, _: met.append(placed(df, key="value", row_id=None)))
        .option("checkpointLocation", str(tmp_path / "c"))
        .start()
    )
    try:
        while len(met) < 2 and query.isActive:
            query.awaitTermination(1)
    finally:
        query.stop()
    assert len(met) > 1
    assert not any(map(refused, met))


def placed(df, key="key", row_id="id"):
    """Return what becomes of a placing: the rows of each worker, or the error."""
    try:
        found = kss.repartition(df, key, plan=kss.plan(df, key, WORKERS, row_id=row_id))
        return [row["count"] for row in found.groupBy("worker").count().collect()]
    except ValueError as error:
        return str(error)


def refused(found):
    return isinstance(found, str)


def beside_python(df):
    # the columns of the identity are all unsteady
    of_file = df.withColumn("p", F.udf(lambda id: id, "bigint")("id")).withColumn("f", F.input_file_name())
    return of_file.select(
        F.col("f").alias("id"), "p", F.length("f").alias("key"), F.length("f").alias("amount")
    )


def same(df):
    return df.withColumn("id", F.udf(lambda id: id, "bigint")("id"))


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (same, "the Python function '<lambda>'"),
        (beside_python, "input_file_name"),
        (lambda df: df.mapInPandas(lambda frames: frames, SCHEMA), "the Python function '<lambda>'"),
        (lambda df: df.groupBy("key", "id").count(), "the operator Aggregate in the stream"),
        (lambda df: df.dropDuplicates(["id"]), "the operator Deduplicate in the stream"),
    ],
    ids=["a Python function", "the file beside one", "mapInPandas", "an aggregation", "dropDuplicates"],
)
def test_what_is_not_proved_is_refused(spark, folder, tmp_path, made, why):
    met = []

    def work(df, batch):
        met.append(placed(df))
        df.count()  # what is refused has run no job, and Spark asks for the state of the batch

    run(made(read(spark, folder)), tmp_path / "c", work, mode="update")
    assert met
    assert [each for each in met if not (refused(each) and why in each)] == []


def test_a_subquery_in_the_stream_is_refused(spark, folder, tmp_path):
    spark.range(5).createOrReplaceTempView("few")
    met = []
    read(spark, folder).createOrReplaceTempView("many")
    df = spark.sql("SELECT * FROM many WHERE id NOT IN (SELECT id FROM few)")
    run(df, tmp_path / "c", lambda df, _: met.append(placed(df)))
    assert len(met) > 1
    assert all(refused(each) and "an RDD" in each for each in met)


def test_rows_of_another_batch_are_refused(spark, folder, tmp_path):
    kept, met = [], []

    def work(df, batch):
        kept.append(df)
        met.append(placed(kept[0]))

    run(read(spark, folder), tmp_path / "c", work)
    assert len(met) > 1
    assert not refused(met[0])
    assert all("an RDD" in each for each in met[1:])
