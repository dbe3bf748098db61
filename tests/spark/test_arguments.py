"""Wrong arguments are named in one line, before any job."""

import subprocess
import sys

import pandas as pd
import pytest
from frames import frame, skewed
from pyspark import cloudpickle
from pyspark.sql import functions as F
from pyspark.sql import types as T

import keysplit as ks
from keysplit import spark as kss

# The workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def df(spark):
    return frame(spark, T.LongType(), skewed([1, 2, 3], 30)).withColumn("m", F.create_map(F.lit("a"), "v"))


functions = pytest.mark.parametrize("function", [kss.route, kss.repartition])


@functions
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"plan": object()}, TypeError, "^plan must be a Plan that kss.plan made, got object$"),
        ({"plan": "a.json"}, TypeError, r"^plan must be a Plan .*, got str: Plan\.load\(path\) reads one$"),
        ({"speed": 9}, TypeError, "speed"),
        ({"grouping": "key"}, TypeError, "grouping"),
        (
            {"key": "nokey"},
            ValueError,
            "^key must name one column of the DataFrame, got 'nokey'; it has .*'key', 'v'",
        ),
        ({"key": "*"}, ValueError, "^key must name one column of the DataFrame, got '\\*'"),
        ({"key": ["v", "nokey"]}, ValueError, "^key must name one column of the DataFrame, got 'nokey'"),
        ({"key": []}, ValueError, "^key must name at least one column, got an empty list$"),
        ({"key": ["key", "KEY"]}, ValueError, r"^key must name each column once, got \['key', 'KEY'\]$"),
        ({"key": ["key", "`key`"]}, ValueError, r"^key must name each column once, got \['key', '`key`'\]$"),
        ({"key": ""}, ValueError, "^key must name a column, got '', which SQL cannot name$"),
        ({"key": None}, TypeError, "^key must be a column name or a list of column names, got None$"),
        ({"key": ["v", 3]}, TypeError, "^key must be a column name or a list of column names, got "),
        ({"key": "m"}, TypeError, "^key must not hold maps, got 'm' of type map<string,bigint>$"),
        ({"workers": None}, ValueError, "^workers must be given without a plan: .*, got None$"),
        ({"workers": 0}, ValueError, "^workers must be in 1..=65536, got 0$"),
        ({"workers": 65_537}, ValueError, "^workers must be in 1..=65536, got 65537$"),
        (
            {"worker_column": "v"},
            ValueError,
            "^worker_column must be an unused column name, got 'v'; df has",
        ),
        ({"worker_column": "V"}, ValueError, "^worker_column must be an unused column name, got 'V'"),
        ({"worker_column": ""}, ValueError, "^worker_column must be an unused column name, got ''"),
        ({"worker_column": 5}, TypeError, "^worker_column must be a column name, got int$"),
        ({"df": [1, 2]}, TypeError, "^df must be a Spark DataFrame, got list$"),
        ({"df": None}, TypeError, "^df must be a Spark DataFrame, got NoneType$"),
    ],
)
def test_wrong_arguments(df, function, arguments, error, message):
    arguments = {"df": df, "key": "key", "workers": 4} | arguments
    with pytest.raises(error, match=message) as raised:
        function(arguments.pop("df"), arguments.pop("key"), **arguments)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"grouping": "fish"}, ValueError, "^grouping must be one of .*, got 'fish': it routes rows one by"),
        ({"grouping": "best"}, ValueError, "^grouping must be one of .*d_choices.*, got 'best'$"),
        ({"grouping": 7}, TypeError, "^grouping must be a registered name or a grouping, got int$"),
        ({"grouping": ks.DChoices(workers=5)}, ValueError, r"^workers must .* DChoices\(workers=5.*, got 4$"),
        ({"grouping": ks.DChoices(workers=4), "seed": 1}, ValueError, r"^seed must be omitted .*, got 1$"),
        ({"workers": None}, ValueError, "^workers must be given with grouping='d_choices'"),
        ({"row_id": 3}, TypeError, "^row_id must be a column name or a list .*, got 3$"),
        ({"row_id": []}, ValueError, "^row_id must name at least one column, got an empty"),
        ({"row_id": "m"}, TypeError, "^row_id must be of types that Spark hashes, got 'm'"),
        ({"row_id": "no"}, ValueError, "^row_id must name one column of the DataFrame, got"),
        ({"trust": 3}, TypeError, "^trust must be a list of column names and functions, got int$"),
        ({"capacities": ["x"] * 4}, TypeError, r"^capacities must be numbers, got \['x', "),
        ({"capacities": [1]}, ValueError, r"^capacities must be 4 numbers, .*, got shape \(1,\)$"),
        ({"capacities": [1, 0, 1, 1]}, ValueError, r"^capacities must be in 1e-09\.\.=1\S+, got 0\.0$"),
        ({"weight": "none"}, ValueError, "^weight must name one column of the DataFrame, got 'none'"),
        ({"weight": "s"}, TypeError, "^weight must name a numeric column, got 's' of type string$"),
        ({"weight": 2}, TypeError, "^weight must be a column name, got int$"),
    ],
)
def test_wrong_arguments_of_planning(df, arguments, error, message):
    with pytest.raises(error, match=message) as raised:
        kss.plan(df, "key", **{"workers": 4} | arguments)
    assert "\n" not in str(raised.value)


@functions
def test_streams_are_refused(spark, function):
    stream = spark.readStream.format("rate").load().withColumnRenamed("value", "v")
    with pytest.raises(ValueError, match=r"^plan must be given for a streaming DataFrame"):
        function(stream, "v", workers=4)
    with pytest.raises(ValueError, match=r"^df must be a batch DataFrame, got a streaming one"):
        kss.plan(stream, "v", 4)


def test_column_names_differ_in_case_where_spark_says_so(conf, df):
    conf("spark.sql.caseSensitive", "true")
    assert kss.route(df, "key", workers=4, worker_column="V").columns[-1] == "V"


def test_an_ambiguous_key_is_refused(df):
    twice = df.select("key", F.col("v").alias("key"))
    with pytest.raises(ValueError, match=r"^key must name one column of the DataFrame, got 'key'"):
        kss.route(twice, "key", workers=4)


@pytest.mark.parametrize("name", ["user.id", "User.ID", "`user.id`"])
def test_the_very_name_of_a_column_is_that_column(spark, name):
    plain = spark.range(60).selectExpr("id % 3 AS k", "id AS n", "id AS w")
    # beside a struct that has no such field
    df = plain.selectExpr("k AS `user.id`", "n AS `n.o`", "w AS `w``t`", "named_struct('a', n) AS user")
    plan = kss.plan(df, name, 4, grouping="w_choices", row_id="n.o", weight="w`t")
    assert plan.key == ("`user.id`",) or name != "user.id"
    assert plan.row_id == ("`n.o`",)
    like = kss.plan(plain, "k", 4, grouping="w_choices", row_id="n", weight="w")
    assert [each.hash for each in plan.head] == [each.hash for each in like.head]
    workers = [row.worker for row in kss.route(plain, "k", plan=like).collect()]
    for function in (kss.route, kss.repartition):
        routed = function(df, name, plan=plan)
        assert [row.worker for row in routed.orderBy("`n.o`").collect()] == workers
    assert kss.profile(df, name, 4).total == 60
    assert kss.drift(plan, df, weight="w`t").moved == 0
    counts = [(0, 20), (1, 20), (2, 20)]
    options = {"plan": plan, "way": "place"}

    def size(key, rows):
        return pd.DataFrame({"k": [key[0]], "n": [rows["n"].sum() if "n" in rows else len(rows)]})

    results = [
        kss.apply(df, name, size, "k long, n long"),
        kss.apply(df, name, size, "k long, n long", merge=size, **options),
    ]
    if name != "`user.id`":  # a join and a write take it literally
        joined = kss.join(df, df.select("`user.id`").distinct(), name, **options)
        results.append(joined.groupBy("`user.id`").count())
        assert kss.explain(kss.write(df, name, plan=plan)).startswith("place")
    for result in results:
        assert sorted(map(tuple, result.collect())) == counts


def test_a_field_keeps_its_name(spark):
    df = spark.range(9).selectExpr("named_struct('id', id % 3) AS user", "id", "0 AS `user.id`")
    for name, keys in (("user.id", 3), ("`user.id`", 1)):
        plan = kss.plan(df, name, 2)
        assert plan.key == (name,)
        assert len(plan.head) == keys
    with pytest.raises(ValueError, match=r"^key must name each column once, got \['a.b', '`a.b`'\]$"):
        kss.plan(spark.range(9).selectExpr("id AS `a.b`"), ["a.b", "`a.b`"], 2)


def test_collated_strings_inside_a_key_are_refused(spark):
    if spark.version < "4":
        pytest.skip("this Spark has no collations")
    df = spark.sql("select array('a' collate utf8_lcase) as key")
    with pytest.raises(
        TypeError, match=r"^key must not hold collated strings inside, got 'key' of type array<string coll"
    ):
        kss.route(df, "key", workers=4)


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow", "pandas"])
def test_a_missing_package_is_named_with_its_remedy(missing):
    code = f"import sys; sys.modules[{missing!r}] = None\nfrom keysplit import spark"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = run.stderr.strip().splitlines()[-1]
    assert (
        last == f"ImportError: keysplit.spark needs {missing}: pip install '.[spark]' in a clone of keysplit"
    )
