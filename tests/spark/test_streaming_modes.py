"""`streaming.aggregate` puts out in each batch what Spark's own query does: all modes, windows and ways."""

import datetime as dt
import json

import pytest
from frames import skewed
from pyspark.sql import functions as F
from streams import Files, Outputs
from test_aggregate import EXACT, FLOATS, LISTS, SKETCHES

from keysplit import spark as kss

SCHEMA = "at timestamp, key string, part int, v bigint, d decimal(30,4), s string, x double"
START = dt.datetime(2024, 3, 30, 23, tzinfo=dt.UTC)  # the clocks of Berlin go forward after it
WORKERS = 4
WINDOWS = {
    "tumbling": lambda: F.window("at", "30 minutes"),
    "sliding": lambda: F.window("at", "1 hour", "30 minutes"),
    "session": lambda: F.session_window("at", "3 minutes"),
    "time": lambda: F.col("at"),
    "none": lambda: None,
}
# Spark refuses the others: append without a window, sessions in update mode.
QUICK = [("append", ["sliding"]), ("update", ["none"]), ("complete", ["session"])]
ALL = [
    ("append", ["tumbling", "session", "time"]),
    ("update", ["tumbling", "sliding", "time"]),
    ("complete", ["tumbling", "sliding", "time", "none"]),
]


def hour(number, rows=90):
    """Return the rows of an hour: half of them of one key, some of null, none in every fourth minute."""
    keys = skewed(["hot", None, "a", "b", "c"], rows)
    return [
        {
            "at": (START + dt.timedelta(hours=number, seconds=40 * i + 120 * (i // 12))).isoformat(),
            "key": key,
            "part": None if i % 9 == 0 else i % 2,
            "v": None if i % 7 == 3 else i * 37 % 101 - 20 + number,
            "d": None if i % 5 == 4 else f"{i * 1234567890123 % 97}.{i % 9999:04}",
            "s": None if i % 11 == 0 else f"s{i % 6}",
            "x": i / 8,
        }
        for i, key in enumerate(keys)
    ]


@pytest.fixture(scope="module")
def files(spark, tmp_path_factory):
    files = Files(spark, tmp_path_factory.mktemp("modes") / "in", SCHEMA)
    files.add(hour(0))
    files.add(hour(3, rows=5))
    # the first hour comes again when the watermark has passed it, and a key that was not there
    files.add([*hour(4), *hour(0, rows=20), {**hour(0)[0], "key": "late"}])
    return files


@pytest.fixture(scope="module")
def plan(files):
    plan = kss.plan(files.batch(), "key", WORKERS, "w_choices")
    assert {each.key: len(each.workers) for each in plan.head}["hot",] == WORKERS
    return plan


def sums():
    return [F.count("*").alias("n"), F.sum("v"), F.avg("d"), F.max("s"), F.collect_set("s")]


def spark_s(df, key, *columns, window=None):
    return df.groupBy(*([] if window is None else [window]), key).agg(*columns)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("workers", -3),
        ("grouping", "y"),
        ("engine", "x"),
        ("row_id", "nope"),
        ("weight", "nope"),
        ("worker_column", "key"),
        ("trust", 5),
    ],
)
def test_arguments_are_checked_where_no_plan_is_needed(files, name, value):
    with pytest.raises((TypeError, ValueError), match=f"^{name} must "):
        kss.streaming.aggregate(files.stream(), "key", *sums(), **{name: value})


@pytest.mark.parametrize(
    ("mode", "windows"), [*QUICK, *(pytest.param(*each, marks=pytest.mark.slow) for each in ALL)]
)
def test_each_batch_puts_out_what_spark_does(files, plan, tmp_path, conf, mode, windows):
    conf("spark.sql.shuffle.partitions", "2")
    conf("spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition", "true")
    aggregate, rows, results = kss.streaming.aggregate, files.stream("10 minutes"), {}
    for window in windows:
        span = WINDOWS[window]()
        results[window, "spark"] = expected = spark_s(rows, "key", *sums(), window=span)
        results[window, "force"] = aggregate(rows, "key", *sums(), window=span, plan=plan, force=True)
        assert kss.explain(results[window, "force"]).startswith("place: ")
        if mode == "append" and window != "session":
            results[window, "split"] = aggregate(
                rows, "key", *sums(), window=span, plan=plan, split_state=True
            )
        for given in (None, plan):
            plain = aggregate(rows, "key", *sums(), window=span, plan=given)
            assert plain.sameSemantics(expected)
            assert kss.explain(plain).startswith("plain: Spark combines count, sum, avg and 2 more before")
            assert (window == "session") == kss.explain(plain).endswith("sessions.in.local.partition is true")
        assert all(each.schema == expected.schema for (name, _), each in results.items() if name == window)
    found = Outputs(tmp_path).run({"-".join(name): each for name, each in results.items()}, mode)
    for window, way in results:
        expected, got = found[f"{window}-spark"], found[f"{window}-{way}"]
        assert sum(map(len, expected.values())) > 5
        if way == "split":  # its second step may put out in a later batch
            expected, got = at_the_end(expected), at_the_end(got)
        assert got == expected, (window, way)
        late = any("'late'" in row for row in at_the_end(found[f"{window}-{way}"]))
        assert late == (window == "none" or (mode == "complete" and window != "session")), (window, way)


def at_the_end(batches):
    """Return the rows of all batches."""
    return sorted(row for rows in batches.values() for row in rows)


@pytest.mark.versions
@pytest.mark.usefixtures("state_store")
def test_a_query_may_have_another_way_and_plan_when_it_starts_again(spark, plan, tmp_path, conf):
    conf("spark.sql.shuffle.partitions", "2")
    files, outputs, keys = Files(spark, tmp_path / "in", SCHEMA), Outputs(tmp_path), ["key", "part"]
    other = kss.plan(spark.createDataFrame([("hot", 1)] * 99, "key string, part int"), keys, 3, "round_robin")
    first = kss.plan(spark.createDataFrame([("hot", 0), (None, 1)] * 99, "key string, part int"), keys, 4)
    rows, span = files.stream("10 minutes"), F.window("at", "2 hours")
    ways = [
        {"plan": first, "force": True},
        {},
        {"plan": other, "force": True, "engine": "rust", "row_id": ["v", "s"]},
    ]
    for number, way in enumerate(ways):
        files.add(hour(number))
        ours = kss.streaming.aggregate(rows, keys, *sums(), window=span, **way)
        found = outputs.run({"spark": rows.groupBy(span, *keys).agg(*sums()), "ours": ours}, "update")
    assert found["ours"] == found["spark"]
    windows = [{row.split(")), ")[0] for row in rows} for rows in found["ours"].values() if rows]
    assert len(windows) == 3
    assert windows[0] & windows[1]  # there was state
    assert windows[1] & windows[2]


@pytest.mark.parametrize("mode", ["append", "update", "complete"])
def test_a_plan_that_changes_aggregates(files, tmp_path, conf, mode):
    conf("spark.sql.shuffle.partitions", "2")
    rows, span = files.stream("10 minutes"), F.window("at", "30 minutes")
    adapt = kss.streaming.Adapt(gain=0.01, horizon=1000)
    results = {"spark": spark_s(rows, "key", *sums(), window=span)}
    for way in ("force", "split_state")[: 2 if mode == "append" else 1]:
        results[way] = kss.streaming.aggregate(
            rows, "key", *sums(), window=span, adapt=adapt, workers=WORKERS, **{way: True}
        )
        assert kss.explain(results[way]).startswith("place: the plan for 4 workers changes")
    found = Outputs(tmp_path).run(results, mode)
    (log,) = (tmp_path / "force" / "keysplit").iterdir()
    assert len({json.loads(each.read_text())["plan"] for each in log.glob("batch-*.json")}) > 1
    assert found["force"] == found["spark"]
    if mode == "append":
        assert at_the_end(found["split_state"]) == at_the_end(found["spark"])
        plain = kss.streaming.aggregate(rows, "key", *sums(), window=span, adapt="auto", workers=WORKERS)
        assert plain.sameSemantics(results["spark"])


@pytest.mark.slow
def test_every_aggregate_of_a_stream(files, plan, tmp_path, conf):
    conf("spark.sql.shuffle.partitions", "2")
    others = ("distinct", "bits", "hll)", "tuples", "theta)", "top,", "kll", "percentile_approx")
    exact = [sql for each in (EXACT, LISTS, SKETCHES) for sql in each["3.5"]]
    exact = [sql for sql in exact if not any(other in sql for other in others)]
    assert len(exact) > 30
    columns = [F.expr(sql).alias(f"a{at}") for at, sql in enumerate(exact)]
    # sums of eighths are exact, their squares and products nearly
    columns += [F.round(F.expr(sql), 6).alias(f"f{at}") for at, sql in enumerate(FLOATS["3.5"][:-1])]
    rows = files.stream()
    ours = kss.streaming.aggregate(rows, "key", *columns, plan=plan, force=True)
    found = Outputs(tmp_path).run({"ours": ours, "spark": rows.groupBy("key").agg(*columns)}, "complete")
    assert found["ours"] == found["spark"]


def test_what_cannot_be_merged_is_refused_where_rows_are_placed(files, plan):
    rows = files.stream()
    with pytest.raises(ValueError, match=r"^columns must not depend on the order of rows, got first\(v\)"):
        kss.streaming.aggregate(rows, "key", F.first("v"), plan=plan, force=True)
    plain = kss.streaming.aggregate(rows, "key", F.first("v"))
    assert kss.explain(plain) == "plain: Spark combines first before its shuffle"
