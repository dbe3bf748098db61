"""Operations on real streams equal plain Spark's; skipped where the streams are not there."""

import os
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from frames import same_rows
from pyspark import cloudpickle
from pyspark.sql import functions as F

from keysplit import spark as kss

# The workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROWS, WORKERS = 60_000, 16
STREAMS = [
    "drift_scoop_updates",
    "highskew_retail_country",
    "links_reddit_domains_to2012",
    "objects_ecommerce_day",
    "reviews_movietweetings",
    "web_nasa_19950801",
    "words_reddit_titles_to2012",
]


@pytest.fixture(scope="module", params=STREAMS)
def stream(spark, request, tmp_path_factory):
    """The first rows of a stream, told apart by their number."""
    path = Path(os.environ.get("KEYSPLIT_DATA", "/nowhere")) / f"{request.param}.parquet"
    if not path.exists():
        pytest.skip(f"{request.param} is not there: KEYSPLIT_DATA names no folder that holds it")
    rows = next(pq.ParquetFile(path).iter_batches(ROWS, columns=["key", "ts"]))
    rows = pa.Table.from_batches([rows]).append_column("id", pa.array(range(rows.num_rows)))
    copy = tmp_path_factory.mktemp(request.param)
    for part in range(3):
        pq.write_table(rows.slice(part * ROWS // 3, ROWS // 3), copy / f"{part}.parquet")
    df = spark.read.parquet(str(copy)).cache()
    yield df
    df.unpersist()


@pytest.fixture(scope="module")
def plan(stream):
    return kss.plan(stream, "key", workers=WORKERS, row_id="id")


def test_apply(stream, plan):
    def partial(rows):
        return pd.DataFrame({"n": [len(rows)], "last": [rows["ts"].max()]})

    def merge(key, parts):
        return pd.DataFrame({"key": [key[0]], "n": [parts["n"].sum()], "last": [parts["last"].max()]})

    few = stream.where("abs(xxhash64(key)) % 40 = 0 or key in ('self', 'United Kingdom')")
    ours = kss.apply(
        few,
        "key",
        partial,
        "key string, n long, last long",
        merge=merge,
        partial_schema="n long, last long",
        plan=plan,
    )
    whole = few.groupBy("key").applyInPandas(lambda key, rows: merge(key, partial(rows)), ours.schema)
    assert same_rows(ours, whole)


@pytest.mark.parametrize("how", ["inner", "left", "full", "semi", "anti"])
def test_join(stream, plan, how):
    other = stream.groupBy("key").agg(F.min("ts").alias("first")).where("abs(xxhash64(key)) % 3 > 0")
    ours = kss.join(stream, other, "key", how, plan=plan, way="place")
    assert same_rows(ours, stream.join(other, "key", how))


def test_both_engines_give_each_row_the_same_worker(stream, plan):
    columns, rust = (kss.route(stream, "key", plan=plan).toPandas() for engine in ("columns", "rust"))
    pd.testing.assert_frame_equal(columns, rust)
    assert len(columns) == stream.count()
