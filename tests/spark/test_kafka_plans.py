"""A producer's partitioner sends keys where Spark sends them by the same plan."""

from collections import defaultdict

import pytest
from frames import DIRECT_KEYS
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keysplit import spark as kss
from keysplit.kafka import PlanPartitioner

KEYS = {
    "bigint": [None, -(2**63), -1, 0, 2**63 - 1, *range(100, 160)],
    "string": [*DIRECT_KEYS["string"][2], *(f"key {i}" for i in range(60))],
    "binary": [*DIRECT_KEYS["binary"][2], *(bytes([i]) * i for i in range(60))],
}


@pytest.mark.versions
@pytest.mark.parametrize("kind", KEYS)
def test_keys_go_where_spark_sends_them(spark, kind):
    type_, keys = DIRECT_KEYS[kind][0], KEYS[kind]
    rows = [(key, i) for i, key in enumerate([*keys, *[keys[1]] * 200, *[keys[0]] * 100])]
    df = spark.createDataFrame(
        rows, T.StructType([T.StructField("key", type_), T.StructField("id", T.LongType())])
    )
    plan = kss.plan(df, "key", 5, seed=2**64 - 3, row_id="id", sample=1)
    partitioner = PlanPartitioner(plan, partitions=5)
    frequent = {each.hash % 2**64: each for each in plan.head}
    workers = {
        key: set(frequent[hash_].workers) for key in keys if (hash_ := partitioner._hash(key)) in frequent
    }
    assert {keys[0], keys[1]} == {key for key in keys if len(workers.get(key, ())) > 1}
    placed = kss.route(df, "key", plan=plan)
    found = defaultdict(set)
    for key, got in placed.groupBy("key").agg(F.collect_set("worker")).collect():
        found[bytes(key) if kind == "binary" and key is not None else key] = set(got)
    for key in keys:
        sent = {partitioner.partition(key) for _ in range(200)}
        assert sent == workers.get(key, found[key])
        assert found[key] <= sent
    got, split = partitioner.route([keys[1]] * 2000), frequent[partitioner._hash(keys[1])]
    for worker, share in zip(split.workers, split.shares, strict=True):
        assert abs((got == worker).mean() - share) < 0.06
