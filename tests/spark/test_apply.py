"""`apply` equals applyInPandas of the whole group, and does the work of a hot key on all of its workers."""

import datetime as dt
import re
import subprocess
import sys
from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
import pytest
from frames import KEYS, UTC, frame, skewed
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql import functions as F
from pyspark.sql import types as T

import keysplit as ks
from keysplit import spark as kss
from keysplit.spark import slices, versions
from keysplit.spark.apply.functions import over
from keysplit.spark.jvm import setting_of
from keysplit.spark.slices import results
from keysplit.spark.slices.conversion import SETTINGS, of_pandas, settings_of

# The workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

# pandas holds the years 1678 to 2261; the first two are half past two in Berlin, summer time and winter time.
TIMES = [
    None,
    dt.datetime(2024, 10, 27, 0, 30, 0, 1, tzinfo=UTC),
    dt.datetime(2024, 10, 27, 1, 30, 0, 1, tzinfo=UTC),
    dt.datetime(1883, 5, 6, 7, 8, 9, 10, tzinfo=UTC),
]
APPLY_KEYS = {
    **KEYS,
    "timestamp": (T.TimestampType(), TIMES),
    "timestamp_ntz": (T.TimestampNTZType(), [time and time.replace(tzinfo=None) for time in TIMES]),
    "nested": (
        T.ArrayType(
            T.StructType(
                [
                    T.StructField("a.b", T.DoubleType()),
                    T.StructField("t", T.TimestampType()),
                    T.StructField("n", T.ArrayType(T.LongType())),
                    T.StructField("b", T.BinaryType()),
                ]
            )
        ),
        [
            None,
            [],
            [None],
            [(None, None, None, None)],
            [(float("nan"), TIMES[1], [None, 2**53 + 1], b"\0")],
            [(0.0, TIMES[2], [], b"")],
            [(-0.0, TIMES[2], [], b"")],
            [(1e-300, TIMES[3], None, b"\xff")],
        ],
    ),
}
FORMATS = pytest.mark.parametrize("format", ["pandas", "arrow"])
PARTS = "n long, total double, values array<long>"
WHOLE = "key string, n long, total double, different long"


def part(rows):
    """Count and sum a part, and find its different values."""
    values = rows["v"].dropna()
    return pd.DataFrame(
        {"n": [len(rows)], "total": [values.sum()], "values": [sorted(set(values.astype(int)))]}
    )


def whole(key, parts):
    different = set().union(*parts["values"])
    return pd.DataFrame(
        {
            "key": [readable(key)],
            "n": [parts["n"].sum()],
            "total": [parts["total"].sum()],
            "different": [len(different)],
        }
    )


def frames_one_by_one(key, rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    return rows


def tables_one_by_one(rows: "Iterator[pa.Table]") -> "Iterator[pa.Table]":
    return rows


def yields(rows):
    yield rows


def part_of_table(rows):
    values = rows["v"].drop_null()
    return pa.table(
        {
            "n": pa.array([rows.num_rows], pa.int64()),
            "total": pa.array([float(pc.sum(values).as_py() or 0)], pa.float64()),
            "values": pa.array([pc.unique(values).to_pylist()], pa.list_(pa.int64())),
        }
    )


def whole_of_tables(key, parts):
    different = set().union(*parts["values"].to_pylist())
    return pa.table(
        {
            "key": pa.array([readable([each.as_py() for each in key])], pa.string()),
            "n": pa.array([pc.sum(parts["n"]).as_py()], pa.int64()),
            "total": pa.array([pc.sum(parts["total"]).as_py()], pa.float64()),
            "different": pa.array([len(different)], pa.int64()),
        }
    )


def readable(key):
    # of 0.0 and -0.0, which are one key, either may stand for the group
    return re.sub(r"-0\.0\b", "0.0", repr(tuple(key)))


def rows_of(df):
    return sorted(map(repr, df.collect()))


def plainly(df, *key):
    """Return the rows that Spark's own applyInPandas gives."""
    return rows_of(df.groupBy(*key).applyInPandas(lambda key, rows: whole(key, part(rows)), WHOLE))


def in_parts(df, key, workers, function=part, **plan):
    """Apply `function` and `whole` by a plan, even where hashing is as good."""
    if plan:
        plan = {"plan": kss.plan(df, key, workers, **plan)}
    else:
        plan = {"workers": workers}
    return kss.apply(df, key, function, WHOLE, merge=whole, partial_schema=PARTS, way="place", **plan)


def needs_arrow(spark, format):
    if format == "arrow" and spark.version < "4":
        pytest.skip("this Spark has no applyInArrow")


VALUES = {
    **{
        name: (type_, keys)
        for name, (type_, keys) in APPLY_KEYS.items()
        if name not in ("timestamp_ntz", "date")
    },
    "date": (T.DateType(), [None, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "ntz": (T.TimestampNTZType(), [None, dt.datetime(1700, 1, 2), dt.datetime(2024, 3, 31, 2, 30)]),
    "void": (T.NullType(), [None]),
    "map": (T.MapType(T.StringType(), T.LongType()), [None, {}, {"a": None}, {"b": 2**53 + 1}]),
    "whole": (T.LongType(), [1, 2**53 + 1]),
    "flag": (T.BooleanType(), [True, False]),
    "list": (T.ArrayType(T.IntegerType()), [[], [1, 2], [3]]),
    "inner": (T.StructType([T.StructField("a", T.ArrayType(T.LongType()))]), [([1],), ([],), ([None],)]),
}


@pytest.fixture(scope="module")
def of_all_values(spark):
    """Make a frame with a column of each type: groups of one row to many, with nulls and without."""
    schema = T.StructType(
        [T.StructField("id", T.IntegerType()), T.StructField("key", T.LongType())]
        + [T.StructField(name, type_) for name, (type_, _) in VALUES.items()]
    )
    sizes = [1, 1, 2, 3, 5, 30]
    keys = [None if at == 3 else at for at, size in enumerate(sizes * 3) for _ in range(size)]
    rows = [
        (at, key, *(values[(at * 7 + at // 5) % len(values)] for _, values in VALUES.values()))
        for at, key in enumerate(keys)
    ]
    return spark.createDataFrame(rows, schema)


def shown(key, rows):
    """Say all that a function over pandas can see, but the order of the rows."""
    index, types = repr(rows.index), rows.dtypes.astype(str).to_dict()
    rows = rows.sort_values("id")
    seen = [key, index, types, [[(type(value), value) for value in row] for row in rows.values.tolist()]]
    values = [[(type(each), repr(each)) for each in rows[name]] for name in rows.columns]
    types = [getattr(each, "dtype", "") for each in rows["list"]]
    rows["id"] = rows["id"] + 1  # it may write into its rows
    return pd.DataFrame(
        {"key": [repr([(type(each), each) for each in key])], "seen": [repr([seen, values, types])]}
    )


def shown_in_arrow(key, rows):
    rows = rows.sort_by("id")
    seen = repr([key, rows.schema.to_string(), rows.to_pylist()])
    return pa.table({"key": [repr(key)], "seen": [seen]})


@pytest.mark.versions
@pytest.mark.parametrize("batch", [7, 10_000])
@FORMATS
def test_one_function_sees_what_spark_shows_it(spark, conf, of_all_values, format, batch):
    needs_arrow(spark, format)
    if pyspark.__version__.startswith("4.1.") and format == "pandas" and batch == 7:
        pytest.skip("Spark 4.1 converts each batch of a group alone: arrays in arrays vary with its cuts")
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", str(batch))
    function = shown if format == "pandas" else shown_in_arrow
    method = "applyInPandas" if format == "pandas" else "applyInArrow"
    ours = kss.apply(of_all_values, "key", function, "key string, seen string", format=format)
    plain = getattr(of_all_values.groupBy("key"), method)(function, "key string, seen string")
    assert kss.explain(ours).startswith("slices: ")
    assert rows_of(ours) == rows_of(plain)


RESULTS = {
    "rows of all types": (lambda rows: rows.drop(columns=["id", "void"]), None),
    "other orders": (lambda rows: rows[["key", "id"]], "id int, key long"),
    "no names": (lambda rows: pd.DataFrame([[1, 2.5], [3, None]]), "a long, b double"),
    "nothing": (lambda rows: pd.DataFrame() if len(rows) < 3 else rows[["id"]], "id int"),
    "no rows": (lambda rows: rows[["id"]].iloc[: len(rows) - 2], "id int"),
    "rows without columns": (lambda rows: pd.DataFrame(index=range(len(rows))), "id int"),
    "types by turns": (
        lambda rows: pd.DataFrame(
            {"a": [1.5 if len(rows) % 2 else 7], "b": [str(len(rows)) if len(rows) > 2 else None]}
        ),
        "a double, b string",
    ),
    "fractions by turns": (
        lambda rows: pd.DataFrame({"a": [0.5 if len(rows) % 2 else 2**53 + 1]}),
        "a long",
    ),
    "labels by turns": (
        lambda rows: pd.DataFrame({"a": [1], "b": [2]})[["a", "b"][:: 1 if len(rows) % 2 else -1]],
        "a long, b long",
    ),
    "times": (
        lambda rows: pd.DataFrame(
            {
                "a": TIMES[1:3],
                "b": pd.Series(TIMES[1:3], dtype=object),
                "c": pd.Series([TIMES[1], None], dtype=object),
                "d": [time.replace(tzinfo=None) for time in TIMES[1:3]],
            }
        ),
        "a timestamp, b timestamp, c timestamp, d timestamp_ntz",
    ),
    "nullable types": (
        lambda rows: pd.DataFrame({"a": pd.array([len(rows), None], "Int64"), "b": pd.array([True, None])}),
        "a long, b boolean",
    ),
    "categories": (lambda rows: pd.DataFrame({"a": pd.Categorical([str(len(rows))])}), "a string"),
    "rows written in place": (lambda rows: written(rows), "key long, id int"),
    "a frame that is returned again": (lambda rows: again(rows), "n long"),
    "a list that is returned again": (lambda rows: again(rows, values=True), "values array<long>"),
    "wrong name": (lambda rows: pd.DataFrame({"b": [1]}), "a long"),
    "too few": (lambda rows: pd.DataFrame([[1]]), "a long, b long"),
    "wrong type": (lambda rows: pd.DataFrame({"a": ["x"]}), "a long"),
    "one wrong type": (lambda rows: pd.DataFrame({"a": ["x" if len(rows) == 5 else 1]}), "a long"),
    "wrong type of no rows": (lambda rows: pd.DataFrame({"a": [1.5]}).iloc[:0], "a string"),
    "no frame": (lambda rows: [len(rows)], "a long"),
    "a large number": (lambda rows: pd.DataFrame({"a": [2.5 + len(rows)]}), "a long"),
    "stop": (lambda rows: next(iter([])), "a long"),
    "an error": (lambda rows: rows["none"], "a long"),
}
AGAIN = {}


def written(rows):
    """Change the rows in place, as a function may: those of other groups stay."""
    rows["id"] += 1
    rows.loc[0, "key"] = -1
    rows.sort_values("id", ascending=False, inplace=True)
    rows["id"].to_numpy()[:] *= 2
    return rows[["id", "key"]]


def again(rows, values=False):
    """Return the same frame each time, with other values."""
    if not AGAIN:
        AGAIN.update(n=pd.DataFrame({"n": [0]}), values=[])
    if not values:
        AGAIN["n"].loc[0, "n"] = len(rows)
        return AGAIN["n"]
    AGAIN["values"][:] = [len(rows)]
    return pd.DataFrame({"values": [AGAIN["values"]]})


def outcome(df):
    """Return the rows, or the class and the last line of the error."""
    try:
        return rows_of(df)
    except Exception as error:
        lines = [
            line for line in str(error).splitlines() if re.match(r"(\w+\.)*\w+(Error|Exception): ", line)
        ]
        return lines[-1:] or [str(error)]


@pytest.mark.parametrize("safely", [False, pytest.param(True, marks=pytest.mark.versions)])
def test_results_are_taken_as_spark_takes_them(spark, conf, of_all_values, safely):
    conf("spark.sql.execution.pandas.convertToArrowArraySafely", str(safely).lower())
    conf("spark.sql.shuffle.partitions", "1")
    different = {}
    for name in ["a large number"] if safely else RESULTS:
        function, schema = RESULTS[name]
        schema = schema or of_all_values.drop("id", "void").schema
        ours = kss.apply(of_all_values, "key", function, schema)
        plain = of_all_values.groupBy("key").applyInPandas(function, schema)
        assert ours.schema == plain.schema
        pair = outcome(ours), outcome(plain)
        if pair[0] != pair[1]:
            different[name] = pair
    assert different == {}


def test_results_are_the_same_without_what_only_pandas_has(spark, monkeypatch):
    """pandas shows the arrays of columns at once by a method that others need not have."""
    columns = {
        "n": [1, 2],
        "t": TIMES[1:3],
        "d": [time.replace(tzinfo=None) for time in TIMES[1:3]],
        "s": ["a", None],
        "k": pd.array([True, None]),
    }
    frames = [pd.DataFrame(columns).iloc[:rows] for rows in (2, 0, 1, 2)]
    schema = spark.createDataFrame([], "n long, t timestamp, d timestamp_ntz, s string, k boolean").schema

    def converted():
        convert = of_pandas(schema, settings_of(setting_of(spark)))
        held = results.Held(convert, schema)
        for each in frames:
            held.add(convert.checked(each))
        return held.taken()

    found = converted()
    monkeypatch.setattr(results, "arrays_of", results.arrays_of_series)
    assert converted() == found
    assert found.num_rows == 5


@FORMATS
def test_one_function_with_keys_of_all_types_at_once(spark, of_all_types, format):
    needs_arrow(spark, format)
    if format == "pandas":

        def seen(key, rows):
            return pd.DataFrame(
                {"key": [readable([type(each) for each in key] + list(key))], "n": [len(rows)]}
            )
    else:

        def seen(key, rows):
            return pa.table({"key": [readable([each.as_py() for each in key])], "n": [rows.num_rows]})

    method = "applyInPandas" if format == "pandas" else "applyInArrow"
    ours = kss.apply(of_all_types, list(APPLY_KEYS), seen, "key string, n long", format=format)
    plain = getattr(of_all_types.groupBy(*APPLY_KEYS), method)(seen, "key string, n long")
    assert rows_of(ours) == rows_of(plain)


def test_the_key_of_one_function_may_be_a_field(spark):
    type_, keys = KEYS["struct"]
    df = frame(spark, type_, skewed(keys, 60)).withColumn("key.a", F.col("key.b"))

    def seen(key, rows):
        return pd.DataFrame({"key": [repr(key)], "n": [len(rows)]})

    key = ["key.a", "`key.a`"]
    ours = kss.apply(df, key, seen, "key string, n long")
    assert rows_of(ours) == rows_of(df.groupBy(*key).applyInPandas(seen, "key string, n long"))


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_groups_may_span_batches(spark, conf, adaptive):
    """Keys in few parts and many, of which some return nothing; merge is told who they are."""
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", "5")
    conf("spark.sql.adaptive.enabled", adaptive)
    df = frame(spark, T.LongType(), [*skewed(range(40), 300), *[7] * 100, None, None])

    def some(key, rows):
        return part(rows).iloc[: 0 if key[0] == 2 else 1]

    ours = in_parts(df, "key", 4, some)
    plain = df.where("key is distinct from 2").groupBy("key")
    assert rows_of(ours) == rows_of(plain.applyInPandas(lambda key, rows: whole(key, part(rows)), WHOLE))


def test_only_split_keys_take_the_second_stage(spark):
    df = frame(spark, T.LongType(), [*[7] * 300, *range(60)], partitions=2)

    def place(parts):
        from pyspark import TaskContext

        return pd.DataFrame({"stage": [TaskContext.get().stageId()], "parts": [len(parts)]})

    def ours(df, **options):
        return kss.apply(
            df,
            "key",
            lambda rows: rows[["v"]].iloc[:1],
            "stage int, parts int",
            merge=place,
            partial_schema="v long",
            **options,
        )

    result = ours(df, workers=4, way="place")
    assert kss.explain(result).startswith(
        "slices: 1 key is split, all others are finished in the first stage"
    )
    stages = result.groupBy("stage").agg(F.count("*").alias("n"), F.max("parts").alias("parts"))
    found = sorted((row.n, row.parts) for row in stages.collect())
    assert found == [(1, 4), (59, 1)]
    by_key = kss.plan(df, "key", 4, grouping="key")
    for result in (
        ours(df.where("key <> 7"), workers=4),
        ours(df, plan=by_key, way="place"),
        ours(df, workers=4, way="slices"),
    ):
        assert kss.explain(result).startswith("slices: ")
        plan = result._jdf.queryExecution().executedPlan().toString()
        assert len(re.findall(r"Exchange", plan)) == 1


def test_a_number_of_workers_is_kept_in_every_shuffle(spark):
    # few bytes, of which adaptive execution would make one task
    df = frame(spark, T.LongType(), list(range(60)))
    months = df.withColumn("months", F.expr("make_ym_interval(1)"))
    hot = frame(spark, T.LongType(), [*[7] * 300, *range(60)])
    plan = kss.plan(hot, "key", 9)
    whole_keys = kss.plan(df, "key", 9, grouping="distribution_aware")

    def one(df, **options):
        return kss.apply(df, "key", lambda rows: rows[["v"]], "v long", **options)

    def two(df, **options):
        return kss.apply(df, "key", lambda rows: rows[["v"]], "v long", merge=lambda rows: rows, **options)

    def inside(df, **options):
        df = df.select(F.struct("key").alias("in"), "v", "months")
        return kss.apply(df, "in.key", lambda rows: rows[["v"]], "v long", **options)

    cut = [
        two(df, workers=9),
        two(hot, workers=9, way="place"),
        two(hot, plan=plan, way="place"),
        one(df, workers=9),
        one(df, plan=whole_keys),
        one(df, plan=whole_keys, way="place"),
    ]
    left_to_spark = [
        one(months, workers=9),
        inside(months, workers=9),
        two(months, workers=9),
        two(months, plan=plan),
        one(df, workers=9, way="plain"),
        two(hot, plan=plan, way="plain"),
    ]
    for way, built in {"slices": cut, "plain": left_to_spark}.items():
        for result in built:
            assert kss.explain(result).startswith(way)
            assert result.rdd.getNumPartitions() == 9
    assert one(df).rdd.getNumPartitions() < 4, "adaptive execution is on"


def test_one_function_by_a_plan_that_splits_no_key(spark):
    df = frame(spark, T.LongType(), skewed(range(9), 90))

    def place(rows):
        from pyspark import TaskContext

        return pd.DataFrame({"task": [TaskContext.get().partitionId()], "key": rows["key"].iloc[:1]})

    arguments = ("key", place, "task int, key long")
    for grouping in ("distribution_aware", ks.DChoices(workers=3, threshold=1.0)):
        plan = kss.plan(df, "key", 3 if isinstance(grouping, str) else None, grouping=grouping)
        ours = kss.apply(df, *arguments, plan=plan, way="place")
        assert kss.explain(ours).startswith(f"slices: a plan by {plan.grouping.name} places whole keys")
        routed = kss.route(df, "key", plan=plan).select(F.col("worker").alias("task"), "key").distinct()
        assert rows_of(ours) == rows_of(routed)
    for options in ({"workers": 3}, {"workers": 3, "way": "slices"}, {"plan": plan, "way": "slices"}):
        hashed = kss.apply(df, *arguments, **options)
        assert kss.explain(hashed).startswith("slices: Spark's own hash places whole keys")
        assert {row.task for row in hashed.collect()} <= {0, 1, 2}
    splits = kss.plan(df, "key", 3, grouping="w_choices")
    with pytest.raises(ValueError, match=r"^plan must not split keys without merge: .* with 'w_choices'$"):
        kss.apply(df, *arguments, plan=splits)


def test_what_slices_cannot_do_is_left_to_spark(spark):
    df = frame(spark, T.LongType(), [1, 1, 2])
    months = df.withColumn("months", F.expr("make_ym_interval(1)"))
    ours = kss.apply(months, "key", lambda rows: rows[["key"]], "key long")
    assert kss.explain(ours) == "plain: column 'months' is of type interval year to month"
    assert kss.explain(in_parts(months, "key", 2)) == kss.explain(ours)
    if spark.version >= "4.1":

        def several(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            yield from frames

        ours = kss.apply(df, "key", several, df.schema)
        assert kss.explain(ours) == "plain: the function takes an iterator"
        assert rows_of(ours) == rows_of(df)


def test_a_frame_without_rows(spark):
    df = frame(spark, T.LongType(), [])
    assert kss.apply(df, "key", lambda rows: rows, df.schema).collect() == []
    assert in_parts(df, "key", 2).collect() == []


@settings(max_examples=6)
@given(data=st.data())
def test_it_equals_the_whole_group(spark, data):
    type_, keys = APPLY_KEYS[data.draw(st.sampled_from(sorted(APPLY_KEYS)), label="type")]
    drawn = data.draw(
        st.one_of(
            st.just([]),
            st.lists(st.sampled_from(keys), max_size=40),
            st.builds(lambda key, rows: [key] * rows, st.sampled_from(keys), st.integers(1, 60)),
        ),
        label="keys",
    )
    grouping = data.draw(st.sampled_from(["w_choices", "cut_to_fit"]), label="grouping")
    workers = data.draw(st.sampled_from([1, 3]), label="workers")
    df = frame(spark, type_, drawn, partitions=2)
    assert rows_of(in_parts(df, "key", workers, grouping=grouping)) == plainly(df, "key")


@pytest.fixture(scope="module")
def of_all_types(spark):
    """Make a frame with a key column of each type; three rows of four have the same key."""
    schema = T.StructType([T.StructField(name, type_) for name, (type_, _) in APPLY_KEYS.items()])
    columns = [keys for _, keys in APPLY_KEYS.values()]
    most = max(map(len, columns))
    rows = [
        (*(keys[(at if at % 4 == 0 else 4) // 4 % len(keys)] for keys in columns), at % 9)
        for at in range(4 * most)
    ]
    return spark.createDataFrame(rows, schema.add("v", T.LongType()))


@pytest.mark.versions
@FORMATS
def test_keys_of_all_types_at_once(spark, of_all_types, format):
    needs_arrow(spark, format)
    function, merge = (part, whole) if format == "pandas" else (part_of_table, whole_of_tables)
    key = list(APPLY_KEYS)
    method = "applyInPandas" if format == "pandas" else "applyInArrow"
    plain = getattr(of_all_types.groupBy(*key), method)(lambda key, rows: merge(key, function(rows)), WHOLE)
    plan = kss.plan(of_all_types, key, 3, grouping="round_robin", row_id="v")
    options = {"merge": merge, "partial_schema": PARTS, "format": format, "plan": plan, "way": "place"}
    ours = kss.apply(of_all_types, key, function, WHOLE, **options)
    found = rows_of(ours)
    assert len(found) == max(len(keys) for _, keys in APPLY_KEYS.values())
    assert found == rows_of(plain)


@FORMATS
def test_the_functions_see_the_columns_of_the_frame_and_the_key(spark, format):
    needs_arrow(spark, format)
    df = (
        frame(spark, T.StringType(), ["a"] * 30 + ["b"])
        .withColumn("worker", F.lit(1.5))
        .withColumn("key_0", F.lit(1))
    )

    def seen(key, rows):
        names = rows.column_names if format == "arrow" else list(rows.columns)
        table = pa.table({"key_0": [str(key[0])], "Worker": [",".join(names)]})
        return table if format == "arrow" else table.to_pandas()

    def ours(merge, **options):
        schema = "key_0 string, Worker string"
        return kss.apply(df, "key", seen, schema, merge=merge, format=format, workers=3, **options)

    names = "key,v,d,s,worker,key_0"
    assert {tuple(row) for row in ours(lambda parts: parts).collect()} == {("a", names), ("b", names)}
    assert rows_of(ours(seen, way="place")) == [f"Row(key_0='{key}', Worker='key_0,Worker')" for key in "ab"]


def test_a_hot_key_is_worked_on_by_all_its_workers(spark):
    df = frame(spark, T.LongType(), [7] * 400, partitions=2)

    def place(rows):
        from pyspark import TaskContext

        return pd.DataFrame({"task": [TaskContext.get().partitionId()], "n": [len(rows)]})

    plan = kss.plan(df, "key", 4, grouping="w_choices")
    ours = kss.apply(df, "key", place, "task long, n long", merge=lambda parts: parts, plan=plan, way="place")
    tasks = ours.groupBy("task").agg(F.sum("n").alias("n")).toPandas()
    assert tasks.n.sum() == 400
    assert len(tasks) == 4
    assert tasks.n.max() <= 1.5 * 100


def test_rows_move_to_their_workers_and_parts_to_their_key_and_no_more(spark):
    df = frame(spark, T.LongType(), skewed([1, 2, 3], 60))
    plan = in_parts(df, "key", 3)._jdf.queryExecution().executedPlan().toString()
    assert len(re.findall(r"Exchange", plan)) == 2


def test_a_key_may_be_a_field_or_several_columns(spark):
    type_, keys = KEYS["struct"]
    df = frame(spark, type_, skewed(keys, 60))
    key = ["key.a", "s"]
    assert rows_of(in_parts(df, key, 3, grouping="w_choices")) == plainly(df, *key)


def test_collated_keys_give_the_groups_of_groupby(spark):
    if spark.version < "4":
        pytest.skip("this Spark has no collations")
    df = spark.sql("select k collate utf8_lcase as key, 1L as v from values ('a'), ('A'), ('b'), (null) t(k)")
    assert sorted(row.n for row in in_parts(df, "key", 4).collect()) == [1, 1, 2]


def test_parts_without_rows_are_left_out(spark):
    df = frame(spark, T.LongType(), [1, 2, 3] * 10)

    def some(key, rows):
        if key[0] == 1:
            return pd.DataFrame()
        return rows[["v"]].iloc[: 0 if key[0] == 2 else None]

    def count(key, parts):
        return pd.DataFrame({"key": [key[0]], "n": [len(parts)]})

    options = {"merge": count, "partial_schema": "v long", "workers": 2, "way": "place"}
    ours = kss.apply(df, "key", some, "key long, n long", **options)
    assert rows_of(ours) == ["Row(key=3, n=10)"]


@pytest.mark.versions
@pytest.mark.parametrize("way", ["slices", "place"])
def test_nan_inside_a_value_stays_nan_between_the_functions(spark, way):
    df = frame(spark, T.LongType(), [1] * 40)
    nan = float("nan")
    given = [
        {
            "a": 1.0,
            "b": [(nan, "x"), None, (None, None)],
            "m": {"p": nan, "q": None, "r": 0.5},
            "f": [nan],
        },
        None,
        {"a": nan, "b": None, "m": {}, "f": []},
        {"a": None, "b": [], "m": None, "f": None},
    ]

    def lists(rows):
        frame = pd.DataFrame({"s": pd.Series(given, dtype=object), "n": [nan, 1.0, 2.0, nan]})
        return frame[["n", "s"]].iloc[: 4 if len(rows) else 0]

    def plain(value):
        if hasattr(value, "__len__") and not isinstance(value, str):
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            pairs = value.asDict().items() if hasattr(value, "asDict") else pairs
            return [(key, plain(each)) for key, each in pairs]
        return "nan" if value != value else value

    def seen(parts):
        return pd.DataFrame({"t": sorted({str([plain(each) for each in parts["s"].iloc[:4]])})})

    inside = "a: double, b: array<struct<x: double, y: string>>, m: map<string, double>, f: array<float>"
    ours = kss.apply(
        df,
        "key",
        lists,
        "t string",
        merge=seen,
        partial_schema=f"s struct<{inside}>, n double",
        plan=kss.plan(df, "key", 2, grouping="w_choices"),
        way=way,
    )
    b = [(0, [("x", "nan"), ("y", "x")]), (1, None), (2, [("x", None), ("y", None)])]
    first = [
        ("a", 1.0),
        ("b", b),
        ("m", [("p", "nan"), ("q", None), ("r", 0.5)]),
        ("f", [(0, "nan")]),
    ]
    third = [("a", "nan"), ("b", None), ("m", []), ("f", [])]
    last = [("a", None), ("b", []), ("m", None), ("f", None)]
    assert [row.t for row in ours.collect()] == [str([first, None, third, last])]


def test_columns_without_names_go_by_their_position(spark):
    df = frame(spark, T.LongType(), [1] * 10)
    ours = kss.apply(
        df,
        "key",
        lambda rows: pd.DataFrame([[1, 2.5]]),
        "a long, b double",
        merge=lambda parts: parts,
        workers=1,
        way="place",
    )
    assert rows_of(ours) == ["Row(a=1, b=2.5)"]


def test_an_argument_with_a_default_is_no_key(spark):
    df = frame(spark, T.LongType(), [1] * 10)

    def count(rows, by=2):
        return pd.DataFrame({"n": [len(rows) * by]})

    ours = kss.apply(df, "key", count, "n long", merge=count, workers=1, way="place")
    assert rows_of(ours) == ["Row(n=2)"]


@pytest.mark.parametrize("where", ["function", "merge"])
def test_an_error_of_a_function_is_shown(spark, where):
    df = frame(spark, T.LongType(), [1] * 10)

    def fail(rows):
        raise ArithmeticError("cannot do this one")

    functions = {"function": lambda rows: rows[["v"]], "merge": lambda parts: parts, where: fail}
    result = kss.apply(df, "key", schema="v long", workers=2, way="place", **functions)
    with pytest.raises(Exception, match=r"ArithmeticError: cannot do this one"):
        result.collect()


def test_what_is_no_frame_is_named_by_spark(spark):
    df = frame(spark, T.LongType(), [1] * 10)
    options = {"merge": lambda parts: parts, "workers": 2, "way": "place"}
    result = kss.apply(df, "key", lambda rows: 5, "v long", **options)
    with pytest.raises(Exception, match=r"pandas.DataFrame.*int"):
        result.collect()


def test_executors_need_no_keysplit(spark):
    """What goes to them runs where keysplit cannot be imported."""
    settings = settings_of(setting_of(spark))
    schema = T.StructType([T.StructField("v", T.LongType())])
    places = slices.Places(["k", "v"], [0, 1], [0], [0])
    queries = []
    formats = ("pandas", "arrow") if versions.has_apply_in_arrow(spark.range(1)) else ("pandas",)
    for format in formats:
        first = slices.Call(lambda key, rows: rows[["v"]], True, schema, "pandas", settings)
        if format == "arrow":
            first = slices.Call(lambda key, rows: rows.select(["v"]), True, schema, "arrow", settings)
        second = slices.Call(lambda rows: rows, False, schema, format, settings)
        queries.append(over(slices.whole, first, places))
        queries.append(over(slices.finished, first, second, places))
        parts = over(slices.in_parts, first, second, places, 2, None)
        merged = over(slices.merged, first, second, places)
        queries.append(lambda batches, parts=parts, merged=merged: merged(parts(batches)))
    code = (
        "import gc, pickle, sys, zipimport\n"
        "sys.modules['keysplit'] = None\n"
        "import pyarrow as pa\n"
        "rows = pa.record_batch({'k': [1, 1, 2], 'v': [5, 6, 7], 'h': [0, 0, 1]})\n"
        "for query in pickle.load(sys.stdin.buffer):\n"
        "    print(pa.Table.from_batches(query(iter([rows]))).to_pydict())\n"
        # pandas alone has more objects
        "print(gc.get_freeze_count() > 10_000)\n"
        "print(hasattr(zipimport.zipimporter.invalidate_caches, 'files') or sys.version_info >= (3, 13))\n"
    )
    pickled = cloudpickle.dumps(queries)
    done = subprocess.run([sys.executable, "-c", code], input=pickled, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    *found, modules, archives = done.stdout.decode().splitlines()
    assert found == ["{'v': [5, 6, 7]}"] * 3 * len(formats)
    assert (modules, archives) == ("True", "True"), "tasks do what their worker has done"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"function": "f"}, TypeError, "function must be a function, got str"),
        ({"function": "f", "merge": None}, TypeError, "function must be callable, got str"),
        ({"merge": 5}, TypeError, "merge must be a function, got int"),
        (
            {"merge": None, "partial_schema": PARTS},
            ValueError,
            "partial_schema only applies with merge: omit",
        ),
        ({"merge": None, "way": "place"}, ValueError, "way must be 'plain', 'slices' or None without plan"),
        ({"way": "broadcast"}, ValueError, "way must be 'plain', 'slices', 'place' or None, got 'broadcast'"),
        ({"schema": None}, TypeError, "schema must be a StructType or DDL, got NoneType"),
        (
            {"merge": lambda a, b, c: a},
            TypeError,
            r"merge must take \(rows\) or \(key, rows\), got a function of 3 arguments",
        ),
        (
            {"function": lambda: 1},
            TypeError,
            r"function must take \(rows\) or \(key, rows\), got a function of 0",
        ),
        (
            {"merge": frames_one_by_one},
            TypeError,
            "merge must take all rows of a group at once and return them",
        ),
        (
            {"function": tables_one_by_one},
            TypeError,
            "function must take all rows of a group at once and return",
        ),
        ({"function": yields}, TypeError, "function must take all rows of a group at once and return"),
        ({"schema": 5}, TypeError, "schema must be a StructType or DDL, got int"),
        ({"schema": "no such thing"}, ValueError, "schema must be DDL such as .*, got 'no such thing'"),
        ({"partial_schema": "n lon"}, ValueError, "partial_schema must be DDL such as .*, got 'n lon'"),
        ({"format": "polars"}, ValueError, "format must be 'pandas' or 'arrow', got 'polars'"),
        ({"workers": 0}, ValueError, "workers must be in 1..=65536, got 0"),
        ({"workers": None}, ValueError, "workers must be given without a plan: a number in 1..=65536"),
        ({"plan": "plan.json"}, TypeError, "plan must be a Plan that kss.plan made, got str: Plan.load"),
    ],
)
def test_arguments_are_checked(spark, change, error, message):
    df = frame(spark, T.LongType(), [1])
    arguments = {"function": part, "merge": whole, "schema": WHOLE, "workers": 2, **change}
    with pytest.raises(error, match=message) as raised:
        kss.apply(df, "key", **arguments)
    assert "\n" not in str(raised.value)


def test_streams_are_refused(spark):
    stream = spark.readStream.format("rate").load()
    plan = kss.plan(spark.range(5), "id", workers=2)
    for options in ({"plan": plan}, {"workers": 2}):
        with pytest.raises(ValueError, match=r"a batch DataFrame, .*: kss\.streaming\.apply takes streams"):
            kss.apply(stream, "value", part, WHOLE, merge=whole, **options)


def test_arrow_is_refused_where_spark_has_none(spark, monkeypatch):
    df = frame(spark, T.LongType(), [1])
    for kind in type(df.groupBy()).__mro__:
        if "applyInArrow" in vars(kind):
            monkeypatch.delattr(kind, "applyInArrow")
    with pytest.raises(ValueError, match=r"format must be 'pandas' before Spark 4\.0, got 'arrow'"):
        kss.apply(df, "key", part, WHOLE, merge=whole, format="arrow", workers=2)


def test_the_time_zone_must_be_known():
    flags = settings_of({"spark.sql.session.timeZone": "Asia/Tokyo"}.get)
    assert flags.pop("timezone") == "Asia/Tokyo"
    assert flags == {key: default == "true" for key, (_, default) in SETTINGS.items() if key != "timezone"}
    with pytest.raises(
        ValueError, match=r"^df must come from a session that can read spark.sql.session.timeZone"
    ):
        settings_of(lambda name: None)


@pytest.mark.versions
def test_settings_that_nobody_has_set_are_those_of_spark(spark, conf):
    for name, default in SETTINGS.values():
        conf(name, default)  # which is taken back in the end
        spark.conf.unset(name)
    names = {key: name for key, (name, _) in SETTINGS.items()}
    found = settings_of(setting_of(spark))
    assert found["timezone"] == spark.conf.get("spark.sql.session.timeZone")
    for key in ("safe", "by_name"):
        assert found[key] == (spark.conf.get(names[key]) == "true")
    df = spark.range(3).selectExpr("id AS k", "id AS v")

    def large(rows):
        return rows.assign(v=2**40)

    def outcome(query):
        try:
            return sorted(map(tuple, query.collect()))
        except Exception as error:
            return type(error)

    schema = "k bigint, v int"
    assert outcome(kss.apply(df, "k", large, schema)) == outcome(df.groupBy("k").applyInPandas(large, schema))


def test_columns_of_one_name_are_left_to_spark(spark):
    df = spark.range(6).selectExpr("id % 2 AS k", "id AS x").select("k", "x", "x")

    def size(rows):
        return pd.DataFrame({"n": [rows.shape[0]]})

    for merge in (None, lambda parts: parts):
        found = kss.apply(df, "k", size, "n bigint", merge=merge, workers=3)
        assert [row.n for row in found.collect()] == [3, 3]
        assert "two columns have the same name" in kss.explain(found)
