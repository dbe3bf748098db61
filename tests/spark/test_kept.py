"""A plan stays at its path: made once, measured by each run, made anew when it no longer fits."""

import json
import os
import re
import subprocess
import sys
import textwrap
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
from keysplit.spark.kept.place import Kept
from keysplit.spark.session.actions import _listener_of
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from keysplit import paths
from keysplit import spark as kss
from keysplit.spark.kept import pending, runs
from keysplit.spark.session import actions
from keysplit.spark.streaming import by_worker


@pytest.fixture(scope="module")
def day(spark):
    return spark.range(6000, numPartitions=3).selectExpr("IF(id % 10 < 8, 0, id % 100) AS key", "id AS v")


@pytest.fixture(scope="module")
def other_day(day):
    return day.withColumn("key", F.col("key") + 1000)


@pytest.fixture(scope="module")
def plan(day):
    return kss.plan(day, "key", 4)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "key.plan.json")


def run(df):
    df.write.format("noop").mode("overwrite").save()
    settle(df)


def settle(df):
    df.sparkSession.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(120_000)
    pending.settle()


def of(rows, *, fresh=False, weighted=False, plan="p"):
    """A made-up run."""
    rows = None if rows is None else np.array(rows, np.int64)
    return runs.Run(plan, "2026-01-01T00:00:00+00:00", fresh, weighted, rows)


# What a run counts.


@pytest.mark.parametrize("workers", [1, 3, 32, 4096, 4097, 65_536])
def test_the_rows_of_each_worker_are_counted_exactly(spark, workers):
    at = np.minimum(np.arange(4000) ** 2 % workers, workers - 1)
    df = spark.createDataFrame([(int(each),) for each in at], "`a ``b` int")
    sketch = df.agg(F.expr(by_worker.counting("a `b", workers))).first()[0]
    together = by_worker.workers_per_count(workers)
    assert -(-workers // together) <= by_worker.MOST_COUNTS
    expected = np.bincount(at // together, minlength=-(-workers // together))
    assert by_worker.counted(bytes(sketch), workers).tolist() == expected.tolist()


def test_no_two_workers_share_a_counter():
    for workers in (*range(1, 40), 4095):
        error, seed = by_worker._free_of_collisions(workers)
        assert error > 0
        assert seed >= 0


def test_another_sketch_is_refused(spark):
    other = spark.range(9).agg(F.expr("count_min_sketch(id, 0.1d, 0.9d, 1)")).first()[0]
    for wrong in (b"", bytes(other)):
        with pytest.raises(ValueError, match=r"^the counts of a run cannot be read: "):
            by_worker.counted(wrong, 4)


@pytest.mark.parametrize("engine", ["columns", "rust"])
def test_a_run_records_the_rows_that_each_worker_got(day, path, engine):
    placed = kss.repartition(day, "key", workers=8, plan=path, engine=engine)
    assert runs.read(path) == []
    rows = placed.groupBy("worker").count().collect()
    settle(placed)
    (found,) = runs.read(path)
    assert {row.worker: row["count"] for row in rows} == dict(enumerate(found.rows.tolist()))
    assert found.fresh
    # of several actions on one DataFrame the first is recorded
    run(placed.limit(3))
    assert len(runs.read(path)) == 1
    run(kss.route(day, "key", plan=path))
    assert [each.fresh for each in runs.read(path)] == [True, False]


def test_all_operations_record_their_runs(spark, day, path, tmp_path):
    def first_rows(rows):
        return rows.head(1)

    columns, schema = [F.collect_set("v")], "key long, v long"
    run(kss.aggregate(day, "key", *columns, workers=4, plan=path, force=True))
    run(kss.apply(day, "key", first_rows, first_rows, schema, plan=path, force=True))
    kss.write(day, "key", grouping="d_choices", plan=path).parquet(str(tmp_path / "table"))
    settle(day)
    assert [int(each.rows.sum()) for each in runs.read(path)] == [6000] * 3


def test_where_hashing_is_as_good_nothing_is_counted(spark, path):
    even = spark.range(4000).selectExpr("id % 1000 AS key", "id AS v")
    for _ in range(2):
        result = kss.join(even, even.limit(3), "key", workers=4, plan=path)
        assert kss.explain(result).startswith("plain: ")
    assert [each.rows for each in runs.read(path)] == [None, None]


def test_runs_begin_anew_where_a_plan_is_made_anew_as_it_was(spark, path):
    even = spark.range(4000).selectExpr("id % 1000 AS key", "id AS v")

    def joined():
        return kss.join(even, even.limit(3), "key", workers=4, plan=path)

    joined()
    (first,) = runs.read(path)
    for _ in range(runs.MOST_RUNS - 2):
        runs.append(path, first)
    plan = kss.Plan.load(path)
    with pytest.warns(UserWarning, match="sent no rows to workers, .*; it is made anew now$"):
        joined()
    assert kss.Plan.load(path) == plan
    joined()  # without a warning
    assert len(runs.read(path)) == 2


def test_a_late_run_by_a_plan_that_was_replaced_is_not_recorded(day, other_day, path):
    late = kss.repartition(day, "key", workers=4, plan=path)
    run(kss.repartition(other_day, "key", workers=4, plan=path, refresh="always"))
    known = [each.to_json() for each in runs.read(path)]
    assert len(known) == 1
    run(late)
    assert [each.to_json() for each in runs.read(path)] == known


def test_what_fails_or_never_runs_leaves_no_record(spark, day, path):
    pending._pending.clear()
    kss.repartition(day, "key", workers=4, plan=path)
    late = day.withColumn("v", F.expr("IF(v = 5999, raise_error('late'), v)"))
    with pytest.raises(Exception, match="late"):
        kss.repartition(late, "key", plan=path, row_id="key").write.format("noop").mode("overwrite").save()
    settle(day)
    assert runs.read(path) == []
    assert len(pending._pending) == 1


def test_the_thread_ends_when_nothing_is_awaited(day, path, monkeypatch):
    monkeypatch.setattr(pending, "_pending", [])
    placed = kss.repartition(day, "key", workers=4, plan=path)
    placed.count()
    for _ in range(1200):
        thread = pending._thread
        if thread is None:
            break
        assert thread.daemon
        pending._new.set()
        threading.Event().wait(0.05)
    assert pending._thread is None
    assert len(runs.read(path)) == 1


def test_the_first_action_counts(day, path):
    late = day.withColumn("v", F.expr("IF(v = 5999, raise_error('late'), v)"))
    kss.repartition(day, "key", workers=4, plan=path)
    placed = kss.repartition(late, "key", plan=path, row_id="key")
    for _ in range(2):
        with pytest.raises(Exception, match="late"):
            placed.write.format("noop").mode("overwrite").save()
        settle(placed)
    whole = kss.repartition(day, "key", plan=path)
    for _ in range(2):
        run(whole)
    assert [int(each.rows.sum()) for each in runs.read(path)] == [6000]


def test_one_listener_serves_a_session(spark):
    # `foreachBatch` makes such an object in each micro-batch
    same = SparkSession(spark.sparkContext, spark._jsparkSession)
    assert same is not spark
    assert _listener_of(same) is _listener_of(spark)
    assert _listener_of(spark.newSession()) is not _listener_of(spark)


def test_a_query_that_spark_cannot_analyse_does_not_disturb(spark, day, path, monkeypatch):
    ended, errors = actions._Listener._ended, []

    def noted(self, *of):
        try:
            ended(self, *of)
        except Exception as error:
            errors.append(error)

    monkeypatch.setattr(actions._Listener, "_ended", noted)
    placed = kss.repartition(day, "key", workers=4, plan=path)
    with pytest.raises(AnalysisException):
        day.select("nothing")
    run(placed)
    assert not errors
    assert len(runs.read(path)) == 1


def test_what_spark_cannot_analyse_is_logged_once(day, path, monkeypatch):
    logger = pytest.importorskip("pyspark.logger", reason="Spark 3.5 logs no errors of queries").PySparkLogger
    logged = []
    monkeypatch.setattr(logger, "exception", lambda self, message, *args, **more: logged.append(message))
    kss.plan(day, "key", 4).save(path)
    routed = kss.route(day, "key", plan=path)
    with pytest.raises(AnalysisException):
        routed.select("nosuch")
    run(routed)
    assert len(logged) == 1  # by PySpark itself


def test_a_job_goes_on_where_spark_cannot_call_python(spark, plan, path, monkeypatch):
    def refused(*_):
        raise OSError("no port")

    plan.save(path)
    df = spark.newSession().range(600).selectExpr("id AS key", "id AS v")  # it has no listener yet
    monkeypatch.setattr(actions, "ensure_callback_server_started", refused)
    with pytest.warns(UserWarning, match=r"^runs by plans are not counted, as Spark .*: no"):
        placed = kss.repartition(df, "key", plan=path)
    assert placed.count() == 600
    settle(df)
    assert runs.read(path) == []


def test_a_session_that_is_gone_is_forgotten(monkeypatch):
    class Gone:
        def peek(self):
            raise LookupError("the session has been stopped")

        def settle(self):
            pass

    class Waits(Gone):
        def peek(self):
            return None

    monkeypatch.setattr(
        pending, "_pending", [pending._Pending(each(), print) for each in (Gone, Waits, Gone)]
    )
    pending.settle()
    assert [type(each.observed) for each in pending._pending] == [Waits]


@pytest.mark.newest
@pytest.mark.parametrize("last", ["count", "count and stop", "fail and stop"])
def test_a_run_is_recorded_when_the_program_ends(plan, path, last):
    plan.save(path)
    program = f"""
    from contextlib import suppress
    from pyspark.sql import SparkSession, functions as F
    from keysplit import spark as kss
    from keysplit.spark.kept import pending
    pending._SOONEST_S = 1000.0
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.appStateStore.asyncTracking.enable", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    df = spark.range(100).selectExpr("id % 3 AS key", "id")
    never = kss.repartition(df, "key", plan={path!r})
    if {last!r}.startswith("count"):
        kss.repartition(df, "key", plan={path!r}).count()
    else:
        df = df.withColumn("id", F.expr("IF(id = 99, raise_error('late'), id)"))
        with suppress(Exception):
            kss.repartition(df, "key", plan={path!r}, row_id="key").collect()
    if {last!r}.endswith("stop"):
        spark.stop()
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=300, capture_output=True
    )
    assert [int(each.rows.sum()) for each in runs.read(path)] == [100] * last.startswith("count")


# Whether the plan still fits.


@pytest.mark.parametrize(
    ("history", "fits"),
    [
        ([], True),
        ([of([1500] * 4)], True),
        ([of([1600, 1500, 1500, 1400])], True),
        ([of([3000, 1000, 1000, 1000])], False),
        # the last run decides
        ([of([3000, 1000, 1000, 1000]), of([1500] * 4)], True),
        # few rows say little: 8 where 5 are expected
        ([of([8, 4, 4, 4])], True),
        ([of([800, 400, 400, 400])], False),
        ([of([0] * 4)], True),
        # the rows that the plan was made from lay like that
        ([of([3000, 1000, 1000, 1000], fresh=True)], True),
        ([of([3000, 1000, 1000, 1000], fresh=True), of([3100, 1000, 1000, 900])], True),
        ([of([3000, 1000, 1000, 1000], fresh=True), of([4500, 500, 500, 500])], False),
        # a plan by weight: the rows of a worker weigh what they weighed when it was made
        ([of([3000, 1000, 1000, 1000], fresh=True, weighted=True), of([3000, 1000, 1000, 1000])], True),
        ([of([30000, 10000, 10000, 10000], fresh=True, weighted=True), of([15000] * 4)], False),
        ([of(None)] * 28, True),
        ([of(None)] * 29, False),
        ([of(None)] * 28 + [of([1500] * 4)] + [of(None)], True),
    ],
)
def test_when_a_plan_fits(plan, history, fits):
    assert (runs.misfit(plan, history) is None) == fits


def test_unequal_workers_have_unequal_shares(day):
    plan = kss.plan(day, "key", 4, capacities=[1, 1, 1, 3])
    assert runs.misfit(plan, [of([1000, 1000, 1000, 3000])]) is None
    assert "the busiest worker had 1.50 times its fair share" in runs.misfit(plan, [of([1500] * 4)])


def test_runs_are_few_and_the_first_is_kept(tmp_path):
    path = tmp_path / "p"
    for at in range(runs.MOST_RUNS + 5):
        runs.append(path, of([at], fresh=at == 0))
    found = runs.read(path)
    assert len(found) == runs.MOST_RUNS
    assert [each.rows.tolist() for each in found[:2]] == [[0], [6]]
    runs.append(path, of([7], plan="another"))
    assert [each.plan for each in runs.read(path)] == ["another"]
    assert [each.name for each in tmp_path.iterdir()] == ["p.runs.jsonl"]


def test_a_plan_that_no_longer_fits_is_made_anew(day, other_day, path):
    run(kss.repartition(day, "key", workers=8, plan=path))
    old = kss.Plan.load(path)
    run(kss.repartition(other_day, "key", plan=path))
    says = (
        r"no longer fits: in its last run \(\S+, 6,000 rows\) the busiest worker had \d\.\d\d times its fair"
    )
    with pytest.warns(UserWarning, match=says + r".*; refresh='auto' makes it anew$") as warned:
        kss.route(other_day, "key", plan=path, refresh="never")
    assert warned[0].filename == __file__
    assert kss.Plan.load(path) == old
    with pytest.warns(UserWarning, match=says + r".*; it is made anew now$"):
        fresh = kss.repartition(other_day, "key", plan=path)
    assert kss.Plan.load(path) == kss.plan(other_day, "key", 8) != old
    # runs of the old plan say nothing of the new one
    kss.route(other_day, "key", plan=path)
    run(fresh)
    assert [(each.fresh, int(each.rows.sum())) for each in runs.read(path)] == [(True, 6000)]


def test_a_plan_that_is_made_anew_keeps_what_tells_rows_apart(spark, path):
    """The number of an event is beside a map, so that no column of its own is left: rows look alike."""

    def of(hot):
        return spark.range(0, 4000, 1, 3).selectExpr(
            f"if(id % 2 = 0, '{hot}', concat('r', id % 90)) AS key",
            "struct(id AS id, map('a', id) AS tags) AS event",
        )

    kss.plan(of("a"), "key", 4, row_id="event.id", group_weight=2).save(path)
    run(kss.repartition(of("a"), "key", plan=path))
    run(kss.repartition(of("b"), "key", plan=path))
    with pytest.warns(UserWarning, match="it is made anew now$") as warned:
        fresh = kss.repartition(of("b"), "key", plan=path)
    assert not [each for each in warned if "look alike" in str(each.message)]
    assert max(row["count"] for row in fresh.groupBy("worker").count().collect()) < 1100
    found = kss.Plan.load(path)
    assert (found.row_id, found.group_weight) == (("event.id",), 2.0)


def test_a_day_whose_rows_lack_what_tells_them_apart_takes_it_from_no_other(day, other_day, path):
    kss.plan(day.withColumn("n", F.col("v")), "key", 4, row_id="n").save(path)
    run(kss.repartition(day, "key", plan=path))
    run(kss.repartition(other_day, "key", plan=path))
    with pytest.warns(UserWarning, match="it is made anew now$"):
        kss.repartition(other_day, "key", plan=path)
    assert kss.Plan.load(path).row_id == ("n",)


def test_a_plan_of_no_rows_is_not_kept(day, other_day, path):
    for _ in range(2):
        run(kss.repartition(day.filter("v < 0"), "key", workers=4, plan=path))
        assert not os.path.exists(path)
    run(kss.repartition(day, "key", workers=4, plan=path))
    plan = kss.Plan.load(path)
    run(kss.repartition(other_day, "key", plan=path))
    with pytest.warns(UserWarning, match="it is made anew now$"):
        run(kss.repartition(day.filter("v < 0"), "key", plan=path))
    assert kss.Plan.load(path) == plan
    # one that somebody has kept by hand
    kss.plan(day.filter("v < 0"), "key", 4).save(path)
    with pytest.warns(UserWarning, match="no longer fits: it was made of no rows; it is made anew now$"):
        run(kss.repartition(day, "key", plan=path))
    assert kss.Plan.load(path) == plan


def test_a_relative_path_is_that_of_the_call(day, tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    placed = kss.repartition(day, "key", workers=4, plan="key.plan.json")
    monkeypatch.chdir(tmp_path / "two")
    run(placed)
    assert len(runs.read(tmp_path / "one" / "key.plan.json")) == 1
    assert list((tmp_path / "two").iterdir()) == []


def test_an_action_that_stops_early_says_nothing_of_a_plan(day, path, recwarn):
    rows = day.orderBy("key")  # those of a key lie together
    run(kss.route(rows, "key", workers=4, plan=path, row_id="v"))
    routed = kss.route(rows, "key", plan=path, row_id="v")
    assert len(routed.take(2)) == 2
    settle(routed)
    assert [int(each.rows.sum()) < 3000 for each in runs.read(path)] == [False, True]
    assert Kept.at(path, "auto").rows == 6000
    # one that has most of the rows counts, and so does a small day where all rows pass
    few = rows.filter("v < 4000")
    run(kss.route(few, "key", plan=path, row_id="v"))
    assert Kept.at(path, "auto").rows == 4000
    run(kss.repartition(rows.filter("v < 1000"), "key", plan=path, row_id="v"))
    assert Kept.at(path, "auto").rows == 1000
    assert not [each for each in recwarn if "no longer fits" in str(each.message)]


def test_always_makes_it_anew_for_whatever_the_call_says(day, path):
    kss.route(day, "key", workers=8, plan=path)
    kss.route(day, "key", workers=5, plan=path, refresh="always")
    assert kss.Plan.load(path).workers == 5


# What is at the path.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 9}, "workers must be left out or equal that of the plan at '{}', 4, got 9"),
        ({"seed": 7}, "seed must be left out or equal that of the plan at '{}', 0, got 7"),
        ({"grouping": "cut_to_fit"}, "grouping must be left out or equal that of the plan at '{}', DChoices"),
        (
            {"capacities": [1, 1, 1, 2]},
            "capacities must be left out or in proportion to those of the plan at '{}', None",
        ),
        ({"key": "s"}, "key must have the types that the plan at '{}' is for, ('bigint',), got ('string',)"),
    ],
)
def test_a_plan_for_something_else_is_refused(day, path, options, message):
    kss.plan(day, "key", 4).save(path)
    with pytest.raises(ValueError, match=re.escape(message.format(path))):
        kss.route(day.withColumn("s", F.lit("s")), plan=path, **{"key": "key", **options})


def test_capacities_are_shares(day, path):
    kss.plan(day, "key", 4, capacities=[1, 1, 1, 2]).save(path)
    for same in ([0.1, 0.1, 0.1, 0.2], [3, 3, 3, 6]):
        kss.route(day, "key", plan=path, capacities=same)
    with pytest.raises(ValueError, match=r"got \(1.0, 1.0, 1.0, 1.0\)$"):
        kss.route(day, "key", plan=path, capacities=[1, 1, 1, 1])
    kss.plan(day, "key", 4).save(path)
    kss.route(day, "key", plan=path, capacities=[7, 7, 7, 7])


@pytest.mark.parametrize("refresh", ["auto", "never", "always"])
@pytest.mark.parametrize("text", ["", "{}", "not a plan", '{"format": "keysplit plan", "version": 99}'])
def test_what_is_no_plan_is_left_alone(day, path, text, refresh):
    paths.write(path, text)
    with pytest.raises(ValueError, match=f"^plan at {re.escape(repr(path))} cannot be used: "):
        kss.route(day, "key", workers=4, plan=path, refresh=refresh)
    assert paths.read(path) == text


def test_a_plan_is_no_folder(day, tmp_path):
    with pytest.raises(IsADirectoryError, match=r"^plan must be the path of a file, got the folder"):
        kss.route(day, "key", workers=4, plan=tmp_path)
    with pytest.raises(ValueError, match=r"^plan must be the path of a file, got ''"):
        kss.route(day, "key", workers=4, plan="")


def test_a_folder_that_is_not_there_is_named_before_any_job(day, path):
    missing = path + "/below/key.plan.json"
    with pytest.raises(FileNotFoundError, match=r"^plan must be a path in a folder that is there, got"):
        kss.route(day, "key", workers=4, plan=missing)


def test_damaged_runs_are_left_alone(day, path):
    run(kss.repartition(day, "key", workers=4, plan=path))
    paths.write(runs.path_of(path), "mine\n")
    with pytest.warns(UserWarning, match=r"the runs by the plan at .* are damaged: .*no run is recorded$"):
        run(kss.repartition(day, "key", plan=path))
    assert paths.read(runs.path_of(path)) == "mine\n"
    for line in ("{}", "[]", json.dumps({"format": "keysplit run", "version": 2})):
        with pytest.raises(ValueError, match="no run: "):
            runs.Run.from_json(line)


def test_a_plan_that_cannot_be_written_is_named_before_any_job(day, path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda folder, mode: False)
    kss.plan(day, "key", 4).save(path)
    for place, refresh in ((path + ".new", "auto"), (path, "always")):
        with pytest.raises(
            PermissionError, match=r"^plan must be a path in a folder that can be written to, got "
        ):
            kss.repartition(day, "key", workers=4, plan=place, refresh=refresh)


def test_a_run_goes_on_where_its_new_plan_cannot_be_kept(day, other_day, path, monkeypatch):
    run(kss.repartition(day, "key", workers=4, plan=path))
    run(kss.repartition(other_day.withColumn("key", F.lit(7)), "key", plan=path))
    before = paths.read(path)

    def refused(*_):
        raise OSError("read-only")

    monkeypatch.setattr(paths, "write", refused)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        placed = kss.repartition(day, "key", plan=path)
    assert placed.count() == 6000
    assert [str(each.message) for each in caught if "cannot be replaced" in str(each.message)] == [
        f"the plan at {path!r} cannot be replaced, so this run's plan is not kept: read-only"
    ]
    assert paths.read(path) == before


def test_jobs_that_race_go_by_one_plan(day, path, plan):
    first, second = Kept.at(path, "auto"), Kept.at(path, "auto")
    other = replace(plan, total=plan.total + 1)
    assert first.saved(plan).plan == plan
    late = second.saved(other)
    assert (late.plan, late.fresh) == (plan, False)
    third = replace(second)
    with pytest.raises(ValueError, match=r"has just been made for DChoices\(workers=4"):
        third.saved(kss.plan(day, "key", 5))
    assert kss.Plan.load(path) == plan


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_file_is_created_once(tmp_path, scheme):
    made = []

    def create(text):
        made.append((paths.create(f"{scheme}{tmp_path}/one", text), text))

    threads = [threading.Thread(target=create, args=(str(at) * 5000,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [text for new, text in made if new]
    assert paths.read(tmp_path / "one") == winner
    assert [each.name for each in tmp_path.iterdir()] == ["one"]


def test_a_stream_goes_by_the_plan_that_is_there(spark, day, other_day, path):
    run(kss.repartition(day, "key", workers=8, plan=path))
    run(kss.repartition(other_day, "key", plan=path))
    stream = spark.readStream.format("rate").load().withColumnRenamed("value", "key")
    with pytest.warns(UserWarning, match="no longer fits"):
        routed = kss.route(stream, "key", plan=path, row_id="timestamp")
    assert routed.isStreaming
    assert len(runs.read(path)) == 2
