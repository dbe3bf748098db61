"""`apply` equals applyInPandas of the whole group, and does the work of a hot key on all of its workers."""

import datetime as dt
import re
import subprocess
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from frames import KEYS, UTC, frame, skewed
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keysplit import spark as kss
from keysplit.spark.operations.apply import _in_arrow, _in_arrow_merge, _in_pandas, _in_pandas_merge

pytestmark = pytest.mark.versions

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


def needs_arrow(spark, format):
    if format == "arrow" and spark.version < "4":
        pytest.skip("this Spark has no applyInArrow")


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
    options = data.draw(
        st.sampled_from(
            [
                {"grouping": "w_choices"},
                {"grouping": "cut_to_fit", "engine": "rust"},
                {"grouping": "shuffle", "mode": "online"},
            ]
        ),
        label="options",
    )
    workers = data.draw(st.sampled_from([1, 3]), label="workers")
    df = frame(spark, type_, drawn, partitions=2)
    ours = kss.apply(df, "key", part, whole, WHOLE, partial_schema=PARTS, workers=workers, **options)
    assert rows_of(ours) == plainly(df, "key")


@pytest.fixture(scope="module")
def of_all_types(spark):
    """Make a frame with a key column of each type; three rows of four have the same key."""
    schema = T.StructType([T.StructField(name, type_) for name, (type_, _) in APPLY_KEYS.items()])
    columns = [keys for _, keys in APPLY_KEYS.values()]
    most = max(map(len, columns))
    rows = [
        tuple(keys[(at if at % 4 == 0 else 4) // 4 % len(keys)] for keys in columns) for at in range(4 * most)
    ]
    rows = spark.createDataFrame(rows, schema)
    return rows.withColumn("v", F.monotonically_increasing_id() % 9)


@FORMATS
def test_keys_of_all_types_at_once(spark, of_all_types, format):
    needs_arrow(spark, format)
    functions = (part, whole) if format == "pandas" else (part_of_table, whole_of_tables)
    key = list(APPLY_KEYS)
    if format == "arrow":
        plain = of_all_types.groupBy(*key).applyInArrow(
            lambda key, rows: whole_of_tables(key, part_of_table(rows)), WHOLE
        )
    else:
        plain = of_all_types.groupBy(*key).applyInPandas(lambda key, rows: whole(key, part(rows)), WHOLE)
    ours = kss.apply(
        of_all_types,
        key,
        *functions,
        WHOLE,
        partial_schema=PARTS,
        format=format,
        workers=3,
        grouping="round_robin",
        row_id=["v"],
    )
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

    ours = kss.apply(
        df, "key", seen, lambda parts: parts, "key_0 string, Worker string", format=format, workers=3
    )
    names = "key,v,d,s,worker,key_0"
    assert {tuple(row) for row in ours.collect()} == {("a", names), ("b", names)}
    merged = kss.apply(df, "key", seen, seen, "key_0 string, Worker string", format=format, workers=3)
    assert rows_of(merged) == [f"Row(key_0='{key}', Worker='key_0,Worker')" for key in "ab"]


def test_a_hot_key_is_worked_on_by_all_its_workers(spark):
    df = frame(spark, T.LongType(), [7] * 400, partitions=2)

    def place(rows):
        from pyspark import TaskContext

        return pd.DataFrame({"task": [TaskContext.get().partitionId()], "n": [len(rows)]})

    ours = kss.apply(
        df, "key", place, lambda parts: parts, "task long, n long", workers=4, grouping="w_choices"
    )
    tasks = ours.groupBy("task").agg(F.sum("n").alias("n")).toPandas()
    assert tasks.n.sum() == 400
    assert len(tasks) == 4
    assert tasks.n.max() <= 1.5 * 100


def test_rows_move_to_their_workers_and_parts_to_their_key_and_no_more(spark):
    df = frame(spark, T.LongType(), skewed([1, 2, 3], 60))
    ours = kss.apply(df, "key", part, whole, WHOLE, partial_schema=PARTS, workers=3)
    plan = ours._jdf.queryExecution().executedPlan().toString()
    assert len(re.findall(r"Exchange", plan)) == 2


def test_a_key_may_be_a_field_or_several_columns(spark):
    type_, keys = KEYS["struct"]
    df = frame(spark, type_, skewed(keys, 60))
    key = ["key.a", "s"]
    ours = kss.apply(df, key, part, whole, WHOLE, partial_schema=PARTS, workers=3, grouping="w_choices")
    assert rows_of(ours) == plainly(df, *key)


def test_collated_keys_give_the_groups_of_groupby(spark):
    if spark.version < "4":
        pytest.skip("this Spark has no collations")
    df = spark.sql("select k collate utf8_lcase as key, 1L as v from values ('a'), ('A'), ('b'), (null) t(k)")
    ours = kss.apply(df, "key", part, whole, WHOLE, partial_schema=PARTS, workers=4)
    assert sorted(row.n for row in ours.collect()) == [1, 1, 2]


def test_parts_without_rows_are_left_out(spark):
    df = frame(spark, T.LongType(), [1, 2, 3] * 10)

    def some(key, rows):
        if key[0] == 1:
            return pd.DataFrame()
        return rows[["v"]].iloc[: 0 if key[0] == 2 else None]

    def count(key, parts):
        return pd.DataFrame({"key": [key[0]], "n": [len(parts)]})

    ours = kss.apply(df, "key", some, count, "key long, n long", partial_schema="v long", workers=2)
    assert rows_of(ours) == ["Row(key=3, n=10)"]


def test_columns_without_names_go_by_their_position(spark):
    df = frame(spark, T.LongType(), [1] * 10)
    ours = kss.apply(
        df, "key", lambda rows: pd.DataFrame([[1, 2.5]]), lambda parts: parts, "a long, b double", workers=1
    )
    assert rows_of(ours) == ["Row(a=1, b=2.5)"]


def test_an_argument_with_a_default_is_no_key(spark):
    df = frame(spark, T.LongType(), [1] * 10)

    def count(rows, by=2):
        return pd.DataFrame({"n": [len(rows) * by]})

    assert rows_of(kss.apply(df, "key", count, count, "n long", workers=1)) == ["Row(n=2)"]


@pytest.mark.parametrize("where", ["partial", "merge"])
def test_an_error_of_a_function_is_shown(spark, where):
    df = frame(spark, T.LongType(), [1] * 10)

    def fail(rows):
        raise ArithmeticError("cannot do this one")

    functions = {"partial": lambda rows: rows[["v"]], "merge": lambda parts: parts, where: fail}
    result = kss.apply(df, "key", functions["partial"], functions["merge"], "v long", workers=2)
    with pytest.raises(Exception, match=r"ArithmeticError: cannot do this one"):
        result.collect()


def test_what_is_no_frame_is_named_by_spark(spark):
    df = frame(spark, T.LongType(), [1] * 10)
    result = kss.apply(df, "key", lambda rows: 5, lambda parts: parts, "v long", workers=2)
    with pytest.raises(Exception, match=r"pandas.DataFrame.*int"):
        result.collect()


def test_executors_need_no_keysplit():
    functions = [
        _in_pandas(lambda key, rows: rows, "worker", {"key_0": 1}, ["v"]),
        _in_pandas_merge(lambda key, rows: rows, ["key_0"]),
        _in_arrow(lambda key, rows: rows, "worker", {"key_0": 1}, ["v"]),
        _in_arrow_merge(lambda key, rows: rows, ["key_0"]),
    ]
    code = (
        "import sys, pickle\n"
        "sys.modules['keysplit'] = None\n"
        "import pandas as pd, pyarrow as pa\n"
        "part, merge, part_of_table, merge_tables = pickle.load(sys.stdin.buffer)\n"
        "rows = pd.DataFrame({'v': [1, 2], 'worker': [0, 0]})\n"
        "print(merge((7,), part((0, 7), rows)).to_dict('list'))\n"
        "rows = pa.table({'v': [1, 2], 'worker': [0, 0]})\n"
        "print(merge_tables((7,), part_of_table((pa.scalar(0), pa.scalar(7)), rows)).to_pydict())\n"
    )
    pickled = cloudpickle.dumps(functions)
    done = subprocess.run([sys.executable, "-c", code], input=pickled, capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == ["{'v': [1, 2]}", "{'v': [1, 2]}"]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"partial": "f"}, TypeError, "partial must be a function, got str"),
        ({"merge": None}, TypeError, "merge must be a function, got NoneType"),
        (
            {"merge": lambda a, b, c: a},
            TypeError,
            r"merge must take \(rows\) or \(key, rows\), got one that takes 3 arguments",
        ),
        (
            {"partial": lambda: 1},
            TypeError,
            r"partial must take \(rows\) or \(key, rows\), got one that takes 0",
        ),
        ({"schema": 5}, TypeError, "schema must be a StructType or DDL, got int"),
        ({"schema": "no such thing"}, ValueError, "schema must be DDL such as .*, got 'no such thing'"),
        ({"partial_schema": "n lon"}, ValueError, "partial_schema must be DDL such as .*, got 'n lon'"),
        ({"format": "polars"}, ValueError, "format must be 'pandas' or 'arrow', got 'polars'"),
        ({"workers": 0}, ValueError, "workers must be in 1..=65536, got 0"),
    ],
)
def test_arguments_are_checked(spark, change, error, message):
    df = frame(spark, T.LongType(), [1])
    arguments = {"partial": part, "merge": whole, "schema": WHOLE, "workers": 2, **change}
    with pytest.raises(error, match=message) as raised:
        kss.apply(df, "key", **arguments)
    assert "\n" not in str(raised.value)


def test_streams_are_refused(spark):
    stream = spark.readStream.format("rate").load()
    plan = kss.plan(spark.range(5), "id", workers=2)
    with pytest.raises(ValueError, match="df must be a batch DataFrame, got a streaming one"):
        kss.apply(stream, "value", part, whole, WHOLE, plan=plan)


def test_arrow_is_refused_where_spark_has_none(spark, monkeypatch):
    df = frame(spark, T.LongType(), [1])
    for kind in type(df.groupBy()).__mro__:
        if "applyInArrow" in vars(kind):
            monkeypatch.delattr(kind, "applyInArrow")
    with pytest.raises(ValueError, match=r"format must be 'pandas' before Spark 4\.0, got 'arrow'"):
        kss.apply(df, "key", part, whole, WHOLE, format="arrow", workers=2)
