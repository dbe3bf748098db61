"""A write of few rows goes by a plan for fewer tasks, and keeps all its promises."""

import re
import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss
from keysplit.spark import few_rows, jvm
from keysplit.spark.few_rows import tasks_for, with_files

WORKERS, SLOTS = 12, 2
PART = re.compile(r"part-(\d+)-")


@pytest.fixture(scope="module")
def sales(spark):
    """Several of seven countries are larger than a worker's part of the 3,000 rows; half are of one."""
    return spark.range(3000, numPartitions=3).selectExpr(
        "CAST(CASE WHEN id % 4 < 2 THEN 1 WHEN id % 4 = 2 THEN 2 ELSE 3 + id % 10 END AS int) AS country",
        "id",
    )


def tasks_of(path):
    """Return the numbers of the tasks that wrote each partition, as files are named."""
    found = [(file.parent.name, int(PART.match(file.name)[1])) for file in path.rglob("*.parquet")]
    assert len(found) == len(set(found))
    return found


@given(
    rows=st.integers(0, 10**12) | st.floats(0, 1e9),
    rows_per_file=st.integers(1, 10**9),
    slots=st.none() | st.integers(1, 500),
)
def test_tasks_come_in_full_waves_that_the_rows_fill(rows, rows_per_file, slots):
    tasks, at_once = tasks_for(rows, rows_per_file, slots), slots or 1
    assert tasks >= at_once
    assert tasks % at_once == 0
    assert tasks == at_once or rows / tasks >= rows_per_file * (1 - 1e-12)
    assert rows / (tasks + at_once) < rows_per_file * (1 + 1e-12)


def test_files_are_balanced_beside_rows(spark):
    rows = spark.range(40_000).selectExpr("IF(id % 10 < 8, 0, 1 + id % 400) AS key", "id")
    plan = kss.plan(rows, "key", WORKERS, grouping="cut_to_fit")
    assert [each.key[0] for each in plan.head] == ["0"]
    partitions = np.count_nonzero(plan.buckets)
    assert partitions in range(78, 82)  # 80 rare keys, few of them in one bucket
    # a file weighs 10,000 rows, and all files no more than all rows
    assert with_files(plan, 4e6).total == pytest.approx(
        plan.total * (1 + partitions * 10_000 / 4e6), rel=0.02
    )
    assert with_files(plan, 40_000).total == pytest.approx(2 * plan.total)

    def files(plan):
        """Return how many files the task with the most of them writes."""
        written = kss.route(rows, "key", plan=plan).select("key", "worker").distinct()
        return max(row["count"] for row in written.groupBy("worker").count().collect())

    assert files(plan.with_workers(4)) == 81
    assert files(with_files(plan, 40_000).with_workers(4)) < 40


def test_rows_go_where_a_plan_for_fewer_tasks_says(spark, tmp_path, sales):
    plan = kss.plan(sales, "country", WORKERS, grouping="cut_to_fit")
    fewer = with_files(plan, 3000).with_workers(4)
    whole = {int(each.key[0]) for each in fewer.head if len(each.workers) == 1}
    for number, how in enumerate(({"plan": plan}, {"workers": WORKERS})):
        path = tmp_path / str(number)
        writer = kss.write(sales, "country", rows_per_file=700, **how)  # for 2 waves there are enough
        writer.parquet(str(path))
        expected = kss.route(sales, "country", plan=fewer).select("id", "worker")
        written = spark.read.parquet(str(path)).select("id", F.input_file_name().alias("file"))
        found = {row.id: int(PART.search(row.file)[1]) for row in written.collect()}
        assert found == {row.id: row.worker for row in expected.collect()}
        partitions = Counter(name for name, _ in tasks_of(path))
        assert {int(name.partition("=")[2]) for name, n in partitions.items() if n > 1}.isdisjoint(whole)
        assert partitions["country=1"] > 1
        assert partitions.total() <= len(partitions) + 4 - 1
        keys = sum(len(each.workers) > 1 for each in fewer.head)
        assert kss.explain(writer) == (
            f"place: {keys} key{'s are' if keys > 1 else ' is'} split over 4 workers by cut_to_fit, "
            f"not over {WORKERS}, because 3,000 rows fill no more files of 700"
        )


def test_never_fewer_tasks_write_than_run_at_once(tmp_path, sales):
    writer = kss.write(sales, "country", workers=WORKERS)
    writer.parquet(str(tmp_path / "out"))
    assert {task for _, task in tasks_of(tmp_path / "out")} == set(range(SLOTS))
    assert "split over 2 workers" in kss.explain(writer)
    assert kss.explain(writer).endswith("because 3,000 rows fill no more files of 100,000")


def test_where_workers_are_no_more_than_the_rows_fill_they_stay(tmp_path, sales):
    plan = kss.plan(sales, "country", WORKERS, grouping="cut_to_fit")
    for number, how in enumerate(({"way": "place"}, {"rows_per_file": 1}, {"rows_per_file": 250})):
        writer = kss.write(sales, "country", plan=plan, **how)
        writer.parquet(str(tmp_path / str(number)))
        assert {task for _, task in tasks_of(tmp_path / str(number))} == set(range(WORKERS))
        assert kss.explain(writer).endswith(f"split over {WORKERS} workers by cut_to_fit")
    few = kss.write(sales, "country", workers=2)
    assert kss.explain(few).endswith("split over 2 workers by cut_to_fit")


def test_weights_are_no_rows(sales):
    plan = kss.plan(sales, "country", WORKERS, grouping="cut_to_fit", weight=F.lit(0.01))
    writer = kss.write(sales, "country", plan=plan)
    assert kss.explain(writer).endswith(f"split over {WORKERS} workers by cut_to_fit")


def test_a_sample_says_how_many_rows_there_are(spark):
    df = spark.range(0, 200_000, numPartitions=2).selectExpr("id % 10 * id % 7 AS key", "id")
    plan = kss.plan(df, "key", WORKERS, grouping="cut_to_fit", weight=F.lit(1e-6))
    assert plan.sample is not None
    for how in ({"plan": plan}, {"workers": WORKERS}):
        told = kss.explain(kss.write(df, "key", rows_per_file=30_000, **how))
        rows = re.search(r"split over 6 workers by cut_to_fit, not over 12, because ([\d,]+) rows", told)
        assert float(rows[1].replace(",", "")) == pytest.approx(200_000, rel=0.05)


def test_where_nothing_says_how_many_rows_or_tasks_there_are_all_workers_write(monkeypatch, sales):
    def told(**how):
        return kss.explain(kss.write(sales, "country", workers=WORKERS, **how))

    for by in ({"weight": "bytes"}, {"capacities": [1.0] * WORKERS}):
        plan = kss.plan(sales, "country", WORKERS, grouping="cut_to_fit", **by)
        writer = kss.write(sales, "country", plan=plan)
        assert kss.explain(writer).endswith(f"over {WORKERS} workers by cut_to_fit")
    monkeypatch.setattr(jvm, "slots", lambda df: None)
    assert told().endswith(f"over {WORKERS} workers by cut_to_fit")
    assert "over 3 workers by cut_to_fit, not over 12" in told(rows_per_file=1000)
    assert "over 1 worker by cut_to_fit, not over 12" in told(rows_per_file=10_000)


def test_a_plan_of_far_fewer_rows_is_held_against_the_bytes(monkeypatch, sales):
    plan = kss.plan(sales, "country", WORKERS, grouping="cut_to_fit")
    monkeypatch.setattr(few_rows, "_BYTES_PER_TASK", jvm.size(sales) / 5)
    assert "over 5 workers" in kss.explain(kss.write(sales, "country", plan=plan))
    few = kss.plan(sales.filter("id < 100"), "country", WORKERS, grouping="cut_to_fit")
    assert "over 5 workers" in kss.explain(kss.write(sales, "country", plan=few))
    monkeypatch.setattr(few_rows, "_BYTES_PER_TASK", 1)
    assert kss.explain(kss.write(sales, "country", plan=plan)).endswith(
        f"over {WORKERS} workers by cut_to_fit"
    )


def test_a_plan_that_only_streams_follow_stays(sales):
    plan = kss.plan(sales, "country", WORKERS, grouping="w_choices")
    streams = replace(plan, grouping=ks.Fish(workers=WORKERS))
    told = kss.explain(kss.write(sales, "country", plan=streams))
    assert told.endswith(f"over {WORKERS} workers by fish")


def test_rows_that_look_alike_are_warned_of_where_that_can_be_noticed(spark, monkeypatch):
    def caught(hot, **how):
        df = spark.range(1000).selectExpr(
            f"IF(id < {hot}, 'hot', concat('c', id % 20)) AS key", f"IF(id < {hot}, 0, id) AS id"
        )
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            kss.write(df, "key", workers=WORKERS, **how)
        return [str(each.message) for each in found if "cannot be spread" in str(each.message)]

    assert caught(900, way="place")
    assert not caught(900)  # on two slots
    monkeypatch.setattr(jvm, "slots", lambda df: 3)
    assert "over 2 workers: only 1 of 900 rows" in caught(900)[0]
    assert not caught(400)  # three tasks split none
    assert caught(400, way="place")
