"""As-of joins have the rows of `pandas.merge_asof`, whether hot keys are split or not."""

import datetime as dt
import re
from decimal import Decimal
from functools import partial

import pandas as pd
import pytest
from frames import same_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keysplit import spark as kss
from keysplit.spark.ordered import asof

WORKERS = 4
DAY = dt.date(2024, 10, 1)
# with the hour that comes twice in the time zone of the session
HOUR = dt.datetime(2024, 10, 26, 20, tzinfo=dt.UTC)
# a type of times, the time of a small number, what is a number to pandas, a tolerance of 2 of them
TIMES = {
    "int": (T.IntegerType(), int, 2),
    "bigint": (T.LongType(), lambda at: 10**12 + at, 2),
    "double": (T.DoubleType(), lambda at: at / 4, 0.5),
    "decimal": (T.DecimalType(10, 2), lambda at: Decimal(at) / 4, Decimal("0.5")),
    "date": (T.DateType(), lambda at: DAY + dt.timedelta(at), dt.timedelta(2)),
    "timestamp": (T.TimestampType(), lambda at: HOUR + dt.timedelta(hours=at), "2 hours"),
    "timestamp_ntz": (
        T.TimestampNTZType(),
        lambda at: HOUR.replace(tzinfo=None) + dt.timedelta(hours=at),
        dt.timedelta(hours=2),
    ),
}
KEYS = {"int": (T.IntegerType(), [0, 0, 0, 1, 2, None]), "string": (T.StringType(), ["", "", "", "b", None])}


@pytest.fixture
def split(monkeypatch):
    """Hot keys are split also where it brings nothing."""
    monkeypatch.setattr(asof, "window", partial(kss.window, way="place"))


@pytest.fixture(scope="module")
def sides(spark):
    """Two sides of a hot key, with times that several rows have."""
    at = F.col("id")
    key = F.when(at % 5 > 0, 0).when(at % 45 == 0, None).otherwise(at % 7).cast("int").alias("k")
    left = spark.range(300, numPartitions=2).select(key, (at * 7919 % 151).alias("o"), at.alias("a"), "id")
    right = spark.range(240, numPartitions=2).select(
        (at * 31 % 97).cast("int").alias("o"), at.alias("b"), key, "id", F.array(at).alias("list")
    )
    return left, right


def joined_by_pandas(left, right, **arguments):
    """Return the `b` for each `a`; the columns of a row are a key, a number as its time, and `a` or `b`."""
    kept = [row for row in left if row[1] is not None]
    found = dict.fromkeys(row[2] for row in left)
    sides = [
        pd.DataFrame([(repr(key), at, value) for key, at, value in rows], columns=["k", "o", name])
        for name, rows in (("a", kept), ("b", [row for row in right if row[1] is not None]))
    ]
    if all(map(len, sides)):
        ordered = [side.astype({"o": "int64"}).sort_values("o", kind="stable") for side in sides]
        theirs = pd.merge_asof(*ordered, on="o", **arguments)
        found |= {row.a: None if pd.isna(row.b) else int(row.b) for row in theirs.itertuples()}
    return found


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.parametrize("name", TIMES)
def test_as_pandas(spark, split, name, data):
    type_, time_of, tolerance = TIMES[name]
    key_type, keys = KEYS[data.draw(st.sampled_from(list(KEYS)))]
    row = st.tuples(st.sampled_from(keys), st.none() | st.integers(0, 40))
    left = [(*each, at) for at, each in enumerate(data.draw(st.lists(row, max_size=50)))]
    right = [(*each, at) for at, each in enumerate(data.draw(st.lists(row, max_size=50, unique=True)))]
    df, other = (
        spark.createDataFrame(
            [(key, None if at is None else time_of(at), value) for key, at, value in rows],
            T.StructType().add("k", key_type).add("o", type_).add(value, T.LongType()),
        ).coalesce(2)
        for value, rows in (("a", left), ("b", right))
    )
    arguments = {
        "direction": data.draw(st.sampled_from(["backward", "forward", "nearest"])),
        "allow_exact_matches": data.draw(st.booleans()),
        "by": data.draw(st.sampled_from(["k", None])),
    }
    if arguments["by"] is None:
        right = list({at: (None, at, value) for _, at, value in right}.values())
        other = other.filter(F.col("b").isin([value for *_, value in right])).drop("k")
        left = [(None, at, value) for _, at, value in left]
    measured = data.draw(st.booleans())
    found = kss.asof_join(
        df, other, "o", **arguments, tolerance=tolerance if measured else None, workers=WORKERS
    )
    assert kss.explain(found).startswith("place: ")
    assert found.columns == ["k", "o", "a", "b"]
    wanted = joined_by_pandas(left, right, **arguments, tolerance=2 if measured else None)
    assert {row.a: row.b for row in found.select("a", "b").collect()} == wanted


@pytest.mark.versions
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("exact", [True, False])
def test_split_as_plain(sides, monkeypatch, direction, exact):
    """Also where several rows of the right have one time."""
    arguments = {"by": ["k"], "direction": direction, "allow_exact_matches": exact, "workers": WORKERS}
    plain = kss.asof_join(*sides, "o", **arguments)
    assert kss.explain(plain).startswith("plain: splitting would gain too little")
    monkeypatch.setattr("keysplit.spark.ordered.window.slots_of", lambda df: 64)
    found = kss.asof_join(*sides, "o", **arguments)
    assert kss.explain(found) == "place: 1 key is split into 4 ranges of the order"
    assert same_rows(found, plain)
    assert found.columns == ["k", "o", "a", "id_x", "b", "id_y", "list"]
    assert found.schema["o"].dataType == T.LongType()
    assert found.count() == 300
    assert found.filter(sides[0]["a"] < 5).count() == 5


def test_many_rows_of_one_key_on_one_side(spark, sides, split):
    left, right = sides
    one = right.filter("id = 1")
    found = kss.asof_join(left, one, "o", "k", workers=WORKERS)
    assert kss.explain(found).startswith("place: 1 key")
    assert {row.b for row in found.filter("k = 0 AND o < 31").collect()} == {None}
    assert {row.b for row in found.filter("k = 0 AND o >= 31").collect()} == {1}
    back = kss.asof_join(one, left.drop("id"), "o", "k", workers=WORKERS).collect()
    assert len(back) == 1
    assert left.filter(F.col("a") == back[0].a).first().o <= 31


def test_a_plan_and_no_hot_key(sides, split):
    left, right = sides
    by_plan = kss.asof_join(left, right, "o", "k", plan=kss.plan(left, "k", WORKERS))
    assert same_rows(by_plan, kss.asof_join(left, right, "o", "k", workers=WORKERS))
    alone = kss.asof_join(left, right.withColumn("a", F.col("b")), "o", "a", workers=WORKERS)
    assert kss.explain(alone).startswith("place: no key is")
    wanted = left.join(right, F.expr("a = b")).filter(left["o"] >= right["o"]).count()
    assert alone.filter("list IS NOT NULL").count() == wanted


def test_times_that_are_no_numbers(spark, split):
    nan, infinite = float("nan"), float("inf")
    left = spark.createDataFrame(
        [(at, time) for at, time in enumerate([nan, None, infinite, 0.0, -0.0])], "a int, o double"
    )
    right = spark.createDataFrame([(0, nan), (1, None), (2, infinite), (3, -0.0)], "b int, o double")
    for direction in ("backward", "forward", "nearest"):
        found = kss.asof_join(left, right, "o", direction=direction, tolerance=0, workers=WORKERS)
        assert {row.a: row.b for row in found.collect()} == {0: None, 1: None, 2: 2, 3: 3, 4: 3}


def test_times_far_apart(spark):
    """Their distance may be no bigint."""
    least, most = -(2**63), 2**63 - 1
    left = spark.createDataFrame([(0, most), (1, least), (2, 0)], "a int, o bigint")
    right = spark.createDataFrame([(0, least), (1, most - 1)], "b int, o bigint")
    found = {}
    for tolerance in (None, most, 2**70, 1.5, Decimal("0.5")):
        rows = kss.asof_join(left, right, "o", direction="nearest", tolerance=tolerance, workers=2).collect()
        found[tolerance] = [row.b for row in sorted(rows)]
    assert found == {
        **{None: [1, 0, 1], most: [1, 0, 1], 2**70: [1, 0, 1]},
        **{1.5: [1, 0, None], Decimal("0.5"): [None, 0, None]},
    }


def test_a_right_side_by_chance_is_left_to_spark(sides):
    left, right = sides
    found = kss.asof_join(left, right.withColumn("x", F.rand()), "o", "k", workers=WORKERS)
    assert kss.explain(found).startswith("plain: ")
    assert found.filter("x IS NOT NULL").count() > 0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"left": 7}, TypeError, "left must be a Spark DataFrame, got int"),
        ({"on": ["o"]}, TypeError, "on must be a column name, got list"),
        ({"on": "x"}, ValueError, "on must name one column of the DataFrame, got 'x'"),
        ({"on": "s"}, TypeError, "on must be a number, date or timestamp, got string"),
        ({"on": "d"}, TypeError, "on must have the same type on both sides, got double and"),
        ({"on": "w", "direction": "nearest"}, TypeError, "on must have at most 37 digits with a tolerance"),
        ({"by": "o"}, ValueError, "by must not name the column of on, got 'o'"),
        ({"by": 7}, TypeError, "by must be a column name or a list of column names, got 7"),
        ({"by": "d"}, TypeError, "by must have the same type on both sides, got double and"),
        ({"direction": "back"}, ValueError, "direction must be 'backward', 'forward' or 'nearest', got 'bac"),
        (
            {"tolerance": "1 hour"},
            TypeError,
            "tolerance must be a number or None because on is a number, got str",
        ),
        ({"tolerance": -1}, ValueError, "tolerance must be 0 or more, got -1"),
        ({"tolerance": float("nan")}, ValueError, "tolerance must be 0 or more, got nan"),
        ({"on": "t", "tolerance": 3}, TypeError, "tolerance must be a datetime.timedelta, text such as"),
        ({"on": "t", "tolerance": dt.timedelta(-1)}, ValueError, "tolerance must be 0 or more, got"),
        ({"on": "t", "tolerance": "soon"}, ValueError, "tolerance must be a period of whole"),
        ({"allow_exact_matches": 1}, TypeError, "allow_exact_matches must be True or False, got 1"),
        ({"workers": 0}, ValueError, "workers must be in 1..=65536, got 0"),
        ({"plan": "a.json", "by": "k"}, TypeError, "plan must be a Plan that kss.plan made, got str"),
        ({"plan": "a.json"}, ValueError, "plan must be None without by"),
    ],
)
def test_wrong_arguments_are_refused(spark, arguments, error, message):
    columns = "1L AS o, 1 AS k, '' AS s, now() AS t, CAST(1 AS DECIMAL(38, 2)) AS w"
    sides = {"left": spark.sql(f"SELECT {columns}, 1D AS d"), "right": spark.sql(f"SELECT {columns}, 1 AS d")}
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        kss.asof_join(**({**sides, "on": "o", "workers": 3} | arguments))


def test_names_that_are_there_twice_are_refused(sides):
    left, right = sides
    with pytest.raises(ValueError, match=r"^right must have distinct column names, got \['o', 'b'"):
        kss.asof_join(left, right.select("*", "b"), "o", "k", workers=3)
    with pytest.raises(
        ValueError, match=r"^left and right must not give the result two columns called \['id_x'\]"
    ):
        kss.asof_join(left.withColumn("id_x", F.lit(0)), right, "o", "k", workers=3)
