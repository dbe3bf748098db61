"""The bytes of a row as a weight."""

import math
import warnings

import pytest
from pyspark.sql import functions as F

from keysplit import spark as kss
from keysplit.spark import weights


def bytes_of(df):
    return df.select(kss.row_bytes(df).alias("bytes")).first()["bytes"]


def test_it_counts_what_a_row_holds(spark):
    df = spark.sql(
        "select 1 as i, 'äb' as s, cast(null as string) as n, array('x', 'y') as a, true as b, "
        "cast(1 as decimal(20, 2)) as d, cast('abc' as binary) as x, map('k', 1) as m, 1L as `a.b``c`, "
        "interval '1' day as t, cast(null as int) as z"
    )
    known = 4 + 3 + 0 + len('["x","y"]') + 1 + 16 + 3 + len('{"k":1}') + 8 + 0
    assert bytes_of(df) == known + len("INTERVAL '1' DAY")
    assert df.select(kss.row_bytes(df)).dtypes[0][1] == "double"


@pytest.mark.newest
def test_geometries_weigh_what_their_binary_form_has(spark):
    if not hasattr(F, "st_geogfromwkb"):
        pytest.skip("this Spark has no geometries")
    point = "X'0101000000000000000000F03F0000000000000040'"
    df = spark.sql(f"SELECT ST_GeomFromWKB({point}) AS a, ST_GeogFromWKB({point}) AS b")
    assert bytes_of(df) == 42.0


def test_null_is_no_byte_whatever_the_type(spark):
    types = ["int", "bigint", "double", "boolean", "date", "timestamp", "decimal(38, 2)", "string", "binary"]
    types += ["array<int>", "map<int, int>", "struct<a: int>"]
    nulls = spark.range(1).select(*(F.lit(None).cast(type_).alias(type_) for type_ in types))
    assert bytes_of(nulls) == 0
    assert bytes_of(spark.range(1)) == 8
    assert bytes_of(nulls.select("int", F.lit(1).cast("int").alias("one"))) == 4


@pytest.fixture(scope="module")
def wide(spark):
    """Make rows of 2,000 columns of three types, many of which hold nulls."""
    made = ["if(id % 2 = {0} % 2, null, id + {0})", "cast(id + {0} as int)", "concat('x', {0} + id)"]
    columns = [f"{made[at % 3].format(at)} as c{at}" for at in range(1999)]
    return spark.range(20).selectExpr("id % 3 as key", *columns)


@pytest.mark.slow
def test_two_thousand_columns_are_weighed(wide):
    rows = wide.collect()
    sizes = {"bigint": 8, "int": 4}
    total = sum(
        len(value) if kind == "string" else sizes[kind]
        for row in rows
        for value, (_, kind) in zip(row, wide.dtypes, strict=True)
        if value is not None
    )
    assert kss.plan(wide, "key", 2, grouping="cut_to_fit", weight="bytes").total == total


def test_the_sum_is_no_deeper_than_its_logarithm():
    for terms in (1, 2, 3, 1000):
        text = weights._sum(["1"] * terms)
        assert eval(text) == terms
        depth = max(text[:at].count("(") - text[:at].count(")") for at in range(len(text) + 1))
        assert depth == math.ceil(math.log2(terms))


def test_one_expression_is_made_for_all_columns(wide, monkeypatch):
    made = []
    expr = F.expr
    monkeypatch.setattr(F, "expr", lambda text: made.append(text) or expr(text))
    for name in ("col", "when", "coalesce", "lit"):
        monkeypatch.setattr(F, name, None)
    kss.row_bytes(wide)
    assert len(made) == 1


def fat(spark):
    """Make rows of weight 10 and one of 20,000, which is one of many of its key."""
    keys = "if(id % 2 = 0, 'hot', concat('b', id)) as key"
    return spark.range(0, 1600, 1, 4).selectExpr(keys, "id", "if(id = 800, 20000, 10) as w")


@pytest.mark.parametrize("options", [{}, {"sample": 1}])
@pytest.mark.parametrize("grouping", ["d_choices", "cut_to_fit", "round_robin"])
def test_a_plan_knows_that_no_split_cuts_a_row(spark, options, grouping):
    df = fat(spark)
    with pytest.warns(UserWarning, match=r"^one row weighs 4\.45 times the fair share of a worker, which"):
        plan = kss.plan(df, "key", 8, grouping=grouping, weight="w", **options)
    assert plan.heaviest[0] == 20_000
    assert plan.heaviest_row == pytest.approx(8 * 20_000 / 35_990)
    loads = [
        row.w
        for row in kss.route(df, "key", plan=plan).groupBy("worker").agg(F.sum("w").alias("w")).collect()
    ]
    assert plan.heaviest_row <= plan.busiest == pytest.approx(8 * max(loads) / 35_990, rel=0.1)
    assert plan.loads.sum() == pytest.approx(plan.total)
    assert "4.446 by one row alone" in str(plan)
    assert kss.Plan.from_json(plan.to_json()).busiest == plan.busiest


def test_a_profile_knows_the_heaviest_row(spark):
    profile = kss.profile(fat(spark), "key", 8, weight="w")
    assert min(each.busiest for each in profile.predicted.values()) >= 8 * 20_000 / 35_990
    heavy = "One row weighs 4.45 times a worker's fair share, and no plan cuts a row"
    assert heavy in profile.advice[0].details
    alone = kss.profile(fat(spark).filter("id = 800 or id < 20"), "key", 8, weight="w")
    assert alone.verdict.startswith("no action helps: one row weighs 7.92 times a worker's fair share")


def test_a_sample_knows_the_rows_that_it_has_drawn(spark):
    df = fat(spark)
    with pytest.warns(UserWarning, match=r"^one row weighs at least \d\.\d\d times the fair share"):
        drawn = kss.plan(df.filter("key = 'hot'"), "key", 8, weight="w", sample=0.9)
    assert drawn.heaviest == (20_000.0,)
    assert "busiest worker: at least " in str(drawn)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        level = kss.plan(df, "key", 8, sample=1)
    assert (level.heaviest, level.heaviest_row) == (None, 0)


def test_an_aggregate_is_no_weight_of_a_row(spark):
    df = spark.range(5)
    with pytest.raises(
        ValueError, match=r"^weight must be one number per row, got Column<.sum.*, an aggregate or a"
    ):
        kss.plan(df, "id", workers=2, weight=F.sum("id"))
    with pytest.raises(ValueError, match=r"^weight must be one number .*, an aggregate or a generator$"):
        kss.plan(df, "id", workers=2, weight=F.explode(F.array("id", "id")))
