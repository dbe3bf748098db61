"""Large plans: their tables are the small sides of joins, and answer as literals do."""

import numpy as np
import pytest
from frames import same_rows
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss
from keysplit.plan import Plan, Summary, bucket_bits, bucket_of, place
from keysplit.spark.expr import columns, hashes, literals
from keysplit.spark.keys import seeded_hash
from keysplit.spark.request import check
from reference.plan_table import PlanTable

pytestmark = pytest.mark.newest

WORKERS, FREQUENT = 4000, 20_000


def made(spark, grouping, frequent):
    """A plan of so many frequent keys, 0 and up, that get weights as in Zipf's law."""
    keys = spark.range(frequent).select(seeded_hash(grouping.seed, [F.col("id")]))
    found = np.array([row[0] for row in keys.collect()], np.int64)
    weights = np.floor(1e9 / np.arange(1, frequent + 1) ** 0.7)
    bits = bucket_bits(grouping.workers)
    buckets = np.bincount(bucket_of(found, bits), weights, minlength=2**bits) + 1000
    summary = Summary(float(buckets.sum()), found, weights, np.zeros(frequent), buckets)
    return Plan.of(
        summary,
        place(summary, grouping),
        grouping=grouping,
        key=("key",),
        key_types=("bigint",),
        texts={int(hash_): (str(key),) for key, hash_ in enumerate(found.tolist())},
        capacities=None,
        row_id=("id",),
    )


@pytest.fixture(scope="module")
def large(spark):
    return made(spark, ks.DChoices(workers=WORKERS, threshold=1e-6), FREQUENT)


@pytest.fixture(scope="module")
def rows(spark):
    """Hot keys, many frequent ones, many that are not, and null; with names that a look-up might take."""
    key = "CASE WHEN id % 3 = 0 THEN id % 4 WHEN id % 7 < 5 THEN id * 7 % 40000 END"
    return spark.range(6000).selectExpr(
        f"{key} AS key", "id", "'x' AS worker_hash", "1 AS Worker_run", "2 AS worker_at_"
    )


def values(df):
    return sorted(map(repr, df.collect()))


def expected(df, plan):
    request = check(df, "key", plan)
    pairs = df.select(hashes.plan_hash(request), hashes.row_hash(request)).collect()
    model = PlanTable(*(getattr(plan.tables, name).tolist() for name in PlanTable._fields))
    return model.route([pair[0] for pair in pairs], [pair[1] for pair in pairs])


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_large_plan_answers_as_its_tables_say(rows, large, conf, adaptive):
    conf("spark.sql.adaptive.enabled", adaptive)
    assert len(large.head) == FREQUENT
    routed = kss.route(rows, "key", plan=large)
    assert routed.columns == [*rows.columns, "worker"]
    assert not routed.schema["worker"].nullable
    assert [row.worker for row in routed.collect()] == expected(rows, large)
    assert len(routed._jdf.queryExecution().toString()) < 100_000


@pytest.mark.parametrize("rows_of_batch", ["0", "-1", "7"])
def test_a_large_plan_does_not_depend_on_the_batches_of_arrow(rows, large, conf, rows_of_batch):
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", rows_of_batch)
    ours = kss.route(rows, "key", plan=large)
    assert [row.worker for row in ours.collect()] == expected(rows, large)


def test_a_large_plan_is_stored_in_a_few_megabytes(large):
    text = large.to_json()
    assert len(text) < 6e6
    assert kss.Plan.from_json(text) == large


GROUPINGS = [
    ks.KeyGrouping(workers=8),
    ks.WChoices(workers=8, threshold=0.01),
    ks.DChoices(workers=8, threshold=1e-4, seed=2**64 - 1),
    ks.DistributionAwareKeyGrouping(workers=8, threshold=0.01),
]


@pytest.mark.parametrize("grouping", GROUPINGS, ids=lambda each: each.name)
def test_broadcast_tables_answer_as_literals(spark, rows, monkeypatch, grouping):
    plan = made(spark, grouping, 40)
    request = check(rows, "key", plan)
    hashed = rows.select("*", *(hashes.plan_hash(request).alias(name) for name in ("h", "all")))

    def answers():
        routed = kss.route(rows, "key", plan=plan)
        workers = columns.with_workers(hashed, plan, "all")
        split = columns.of_split_keys(hashed, plan, "h")
        return list(map(values, (routed, workers, split)))

    literals = answers()
    lists = {row.h: row["all"] for row in columns.with_workers(hashed, plan, "all").collect()}
    known = {each.hash: list(each.workers) for each in plan.head}
    bits = bucket_bits(8)
    for hash_, workers in lists.items():
        rare = [int(plan.tail[bucket_of(np.array([hash_]), bits)[0]])]
        assert workers == known.get(hash_, rare)
    monkeypatch.setattr(columns, "MOST_LITERALS", 0)
    assert answers() == literals


@pytest.mark.parametrize("grouping", GROUPINGS, ids=lambda each: each.name)
def test_runs_of_keys_that_are_not_split_are_their_workers(spark, grouping):
    plan = made(spark, grouping, 40)
    arrays = literals.arrays_of(plan)
    runs = dict(zip(arrays["held"].tolist(), arrays["runs"].tolist(), strict=True))
    for each in plan.head:
        if len(each.workers) == 1:
            assert runs[each.hash] == -1 - each.workers[0]
        else:
            assert runs[each.hash] >= 0


@pytest.mark.parametrize("most", [0, columns.MOST_LITERALS], ids=["broadcast", "literals"])
def test_a_row_is_hashed_once_for_its_key_and_once_for_its_identity(spark, rows, monkeypatch, conf, most):
    conf("spark.sql.adaptive.enabled", "false")
    monkeypatch.setattr(columns, "MOST_LITERALS", most)
    for grouping, hashed in ((GROUPINGS[1], "key id"), (GROUPINGS[-1], "key")):
        plan = made(spark, grouping, 40)
        assert plan.head
        assert plan.splits == ("id" in hashed)
        routed = kss.route(rows.select("key", "id"), "key", plan=plan)
        code = routed._jdf.queryExecution().debug().codegenToSeq().toString()
        # the seed, and a column
        assert code.count("XXH64.hash") == 2 * len(hashed.split())


def test_operations_by_broadcast_tables_equal_plain_ones(spark, rows, monkeypatch, conf):
    def same(part):
        return part

    monkeypatch.setattr(columns, "MOST_LITERALS", 0)
    conf("spark.sql.adaptive.enabled", "true")
    plan = made(spark, ks.WChoices(workers=6, threshold=0.01), 40)
    rows = rows.select("key", "id")
    other = spark.range(50).selectExpr("IF(id = 49, null, id % 30) AS key", "id AS there")
    for how in ("inner", "full", "anti"):
        joined = kss.join(rows, other, "key", how, plan=plan, split="left", way="place")
        assert same_rows(joined, rows.join(other, "key", how)), how
    applied = kss.apply(rows, "key", same, "key long, id long", merge=same, plan=plan, way="place")
    assert values(applied) == values(rows)
    placed = kss.repartition(rows, "key", plan=plan)
    assert placed.filter("worker <> spark_partition_id()").count() == 0


def test_streams_are_routed_by_broadcast_tables(spark, rows, monkeypatch, tmp_path):
    rows = rows.select("key", "id")
    plan = made(spark, ks.WChoices(workers=6, threshold=0.01), 40)
    literal = kss.route(rows, "key", plan=plan)
    monkeypatch.setattr(columns, "MOST_LITERALS", 0)
    rows.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
    routed = kss.streaming.route(stream, "key", plan=plan)
    query = (
        routed.writeStream.format("memory")
        .queryName("routed_by_broadcast")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert values(spark.table("routed_by_broadcast")) == values(literal)


def test_what_is_routed_by_broadcast_tables_is_steady(spark, rows, monkeypatch):
    monkeypatch.setattr(columns, "MOST_LITERALS", 0)
    plan = made(spark, ks.WChoices(workers=6, threshold=0.01), 40)
    routed = kss.route(rows.select("key", "id"), "key", plan=plan, worker_column="first")
    again = kss.route(routed, "key", plan=plan)
    assert again.filter("worker IS NOT NULL").count() == 6000
