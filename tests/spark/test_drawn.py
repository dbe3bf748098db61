"""Rows that micro-batches draw for the driver, by the tables of a plan."""

import numpy as np
import pytest

from keysplit import spark as kss
from keysplit.spark.expr import columns
from keysplit.spark.expr.hashes import plan_hash
from keysplit.spark.plan import planning
from keysplit.spark.request import check
from keysplit.spark.streaming import by_worker, current
from keysplit.spark.streaming.drawn import Bounds
from keysplit.spark.streaming.drawn import read as rows_drawn
from keysplit.spark.streaming.tables import Tables, last_of
from keysplit.spark.streaming.tally import Tally

WORKERS = 4


@pytest.mark.parametrize("wrong", ["NaN", "Infinity", "-5.0", "1e300"])
def test_a_wrong_weight_teaches_nothing_but_the_others_do(spark, wrong):
    rows = spark.range(300).selectExpr(
        "IF(id % 2 = 0, 'hot', CAST(id AS STRING)) AS key",
        "id AS value",
        f"IF(id = 5, CAST('{wrong}' AS DOUBLE), 2.0) AS w",
    )
    request = planning(rows, "key", WORKERS, row_id="value", weight="w")
    read = all_drawn(rows, request, kss.plan(rows, "key", WORKERS, row_id="value"))
    assert len(read.hashes) == 300
    kept = read.without_wrong_weights()
    assert (kept.weights == 2).all()
    assert len(kept.hashes) == len(kept.repeats) == len(kept.weights) == 299


def asked_of(plan, chance=0.5):
    """What asks for the tables of a plan in a batch."""

    def ask(question, reading="{}"):
        found = Tables(plan).answer(question, chance)
        return f"(SELECT {reading.format('told')} FROM VALUES ('{found}') AS answers(told))"

    return ask


@pytest.mark.parametrize(
    ("workers", "hot"), [(1, 0), (4, 0), (4, 1), (64, 1), (64, 300)], ids=lambda each: str(each)
)
def test_tables_in_one_array_say_what_the_plan_says(spark, workers, hot):
    rows = spark.range(20_000).selectExpr(
        f"IF(id % 2 = 0 AND {hot} > 0, id * id % greatest({hot}, 1), 1000 + id) AS key", "id AS value"
    )
    plan = kss.plan(rows, "key", workers=workers, row_id="value")
    assert bool(plan.head) == (workers > 1 and hot > 0)
    request = check(rows, "key", plan)
    placed = current.routed(request, tally_of(rows, workers), Bounds(1000.0, 0.5), asked_of(plan))
    expected = kss.route(rows, "key", plan=plan)
    assert placed.exceptAll(expected).count() == expected.exceptAll(placed).count() == 0

    keys = rows.select("key", plan_hash(request).alias("worker")).distinct()
    found = current.with_workers(keys, "worker", asked_of(plan))
    assert found.schema["worker"].dataType.simpleString() == "array<int>"
    same = columns.with_workers(keys, plan, "worker")
    assert found.exceptAll(same).count() == same.exceptAll(found).count() == 0


def tally_of(rows, workers=WORKERS):
    return Tally(rows.sparkSession.sparkContext, by_worker.counters(workers))


def fields_of(sent):
    return [field for each in sent for field in each.fields]


def all_drawn(rows, request, plan):
    """What a batch draws by which every row is drawn, with the values of its key."""
    tally, bounds = tally_of(rows, request.workers), Bounds(10**9, 1.0)
    routed = current.routed(request, tally, bounds, asked_of(plan, 1.0))
    routed.write.format("noop").mode("overwrite").save()
    return rows_drawn(fields_of(tally.take()), 1.0, bounds, request.key_types, request.weight is not None)


def drawn_of(rows, chance, bounds, weight=None):
    """What a batch draws, and by the hash of its key the number of each row."""
    plan = kss.plan(rows.limit(1000), "key", workers=WORKERS, row_id="value", weight=weight)
    request = planning(rows, "key", WORKERS, row_id="value", weight=weight)
    tally = tally_of(rows)
    routed = current.routed(request, tally, bounds, asked_of(plan, chance)).cache()
    counts = dict(routed.groupBy("worker").count().collect())
    sent = tally.take()
    routed.unpersist()
    assert sum(each.counts for each in sent).tolist() == [counts.get(worker, 0) for worker in range(WORKERS)]
    found = rows_drawn(fields_of(sent), chance, bounds, request.key_types, weight is not None)
    return found, rows.select("key", plan_hash(request).alias("hash")).toPandas().set_index("hash").key


@pytest.mark.versions
def test_rows_are_drawn_by_chance_alone(spark):
    number, drawn, shown = 100_000, 0.1, 0.25
    rows = spark.range(0, number, numPartitions=4).selectExpr("id AS key", "id AS value")
    found = []
    for _ in range(2):
        read, table = drawn_of(rows, drawn, Bounds(1e9, shown))
        assert (read.weights == 1).all()
        assert (read.repeats == 1 / drawn).all()
        ids, some = table[read.hashes].to_numpy(), read.texts
        assert all(table[hash_] == int(text) for hash_, (text,) in some.items())
        assert set(some) <= set(read.hashes.tolist())
        assert len(set(ids.tolist())) == len(ids)
        is_drawn = np.bincount(ids, minlength=number)
        # 10,000 rows or so, and 2,500, to 9 standard deviations
        assert abs(len(ids) - number * drawn) < 9 * (number * drawn) ** 0.5
        assert abs(len(some) - number * drawn * shown) < 9 * (number * drawn * shown) ** 0.5
        # Whatever the period of a source, each phase gets its part. By Laurent and Massart, chi-square is
        # beyond this bound with a chance of e**-40.
        for period in (2, 3, 7, 64, 1000):
            of_phase = np.bincount(np.arange(number) % period, is_drawn)
            expected = np.bincount(np.arange(number) % period) * drawn
            chi_square = ((of_phase - expected) ** 2 / (expected * (1 - drawn))).sum()
            assert chi_square < period + 2 * (period * 40) ** 0.5 + 2 * 40
        # Neighbours are drawn independently of each other, and so are the same rows of two batches.
        found.append(is_drawn)
        both = [(is_drawn[1:] * is_drawn[:-1]).sum(), *((found[0] * each).sum() for each in found[1:])]
        assert all(abs(each - number * drawn**2) < 9 * number**0.5 * drawn for each in both)


@pytest.mark.versions
@pytest.mark.parametrize(
    ("chance", "generated"),
    [
        pytest.param(0.1, True, id="0.1-generated"),
        pytest.param(1.0, False, id="1.0-interpreted"),
        pytest.param(1.0, True, id="1.0-generated", marks=pytest.mark.newest),
        pytest.param(0.1, False, id="0.1-interpreted", marks=pytest.mark.newest),
    ],
)
def test_few_rows_are_drawn_of_however_many(spark, chance, generated):
    number, tasks, most = 80_000, 4, 300.0
    rows = spark.range(0, number, numPartitions=tasks).selectExpr("id AS key", "id AS value", "id % 3 AS w")
    settings = {
        "spark.sql.codegen.wholeStage": generated,
        "spark.sql.codegen.factoryMode": "FALLBACK" if generated else "NO_CODEGEN",
    }
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, str(value))
        read, table = drawn_of(rows, chance, Bounds(most, 0.5), weight="w")
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert (read.weights == table[read.hashes].to_numpy() % 3).all()
    # What each task draws: each task counts its own rows, and the later ones draw fewer.
    places = np.arange(1, int(number / tasks * chance) + 1) * np.arange(1, tasks + 1)[:, None]
    chances = np.minimum(1.0, most / places)
    deviation = (chances * (1 - chances)).sum() ** 0.5 + (number * chance) ** 0.5 * chances.mean()
    assert abs(len(read.hashes) - chances.sum()) < 9 * deviation
    assert len(read.hashes) < 4 * most * np.log(number) * np.log(tasks)
    deviation = (1 / (chances * chance**2)).sum() ** 0.5
    assert abs(read.repeats.sum() - number) < 9 * deviation
    # later rows are drawn by a lower chance, and stand for more
    late = table[read.hashes].to_numpy() % (number // tasks) >= number // tasks // 2
    assert abs(read.repeats[late].sum() - number / 2) < 9 * deviation
    assert read.repeats[late].mean() > read.repeats[~late].mean()


def test_keys_of_what_is_drawn_are_as_in_a_profile(spark):
    texts = ["", "a b", "a,b", "ü", "x" * 1000, None]
    numbers = [None, 1, -1, 2**62, 0, None]
    rows = spark.createDataFrame(list(zip(texts, numbers, strict=True)), "text string, number bigint")
    keys = ["text", "number"]
    request = check(rows, keys, kss.plan(rows, keys, 2, row_id="number"))
    read = all_drawn(rows, request, request.plan)
    shown = [None if each is None else each[:256] + "…" * (len(each) > 256) for each in texts]
    written = [None if each is None else str(each) for each in numbers]
    assert set(read.texts.values()) == set(zip(shown, written, strict=True))
    nothing = rows_drawn([], 1.0, Bounds(1, 1.0), request.key_types, weighted=False)
    assert len(nothing.hashes) == len(nothing.repeats) == len(nothing.texts) == 0


@pytest.mark.parametrize(
    "key",
    [
        "named_struct('a', id, 'b', CAST(id AS STRING))",
        "named_struct('a', CAST(id AS DOUBLE))",
        "named_struct('a', array(id), 'b', named_struct('c', id > 3))",
        "array(CAST(id AS STRING))",
        "CAST(id AS DECIMAL(30, 2))",
        "timestamp_seconds(id)",
        "id % 2 = 0",
        "CAST(CAST(id AS STRING) AS BINARY)",
        "date_add(DATE'2020-01-01', CAST(id AS INT))",
    ],
)
def test_keys_of_any_type_are_drawn(spark, key):
    rows = spark.range(8).selectExpr("id AS value", f"{key} AS key")
    request = check(rows, "key", kss.plan(rows, "key", 2, row_id="value"))
    read = all_drawn(rows, request, request.plan)
    seen = [row.key for row in rows.select("key").distinct().collect()]
    seen = [bytes(key) if isinstance(key, bytearray) else key for key in seen]  # before Spark 4
    assert {text for (text,) in read.texts.values()} == set(map(str, seen))


def test_workers_that_share_a_counter_are_counted_together(spark):
    workers = 2 * by_worker.MOST_COUNTS + 1
    rows = spark.range(3000).selectExpr("id AS key", "id AS value")
    plan = kss.plan(rows, "key", workers, row_id="value")
    request = planning(rows, "key", workers, row_id="value")
    tally = tally_of(rows, workers)
    routed = current.routed(request, tally, Bounds(100, 0.5), asked_of(plan)).cache()
    found = routed.groupBy("worker").count().toPandas()
    routed.unpersist()
    counts = np.bincount(found.worker, found["count"], minlength=workers)
    together = by_worker.together(counts, workers)
    assert len(together) < workers
    assert sum(each.counts for each in tally.take()).tolist() == together.tolist()


@pytest.mark.parametrize("keys", [["", "a"], ["", None], [""]], ids=str)
def test_an_empty_key_is_a_field(spark, keys):
    rows = spark.createDataFrame([(key, at) for at, key in enumerate(keys)], "key string, value bigint")
    plan = kss.plan(rows, "key", 2, row_id="value")
    request = planning(rows, "key", 2, row_id="value", weight="value")
    read = all_drawn(rows, request, plan)
    assert sorted(read.weights.tolist()) == list(range(len(keys)))
    assert set(read.texts.values()) == {(key,) for key in keys}


def test_the_chance_of_a_row_is_exact():
    for chance in (1.0, 0.5, 0.1, 1e-6, 2.0**-64):
        assert last_of(chance) + 2**63 + 1 == int(chance * 2.0**64)
    assert last_of(0.0) == -(2**63)
