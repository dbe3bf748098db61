"""Of a wide frame some columns are proved steady, without those that nobody asks for.

Proving some says of them what proving all does. It is nothing that differs between versions of Spark.
"""

import re

import hypothesis
import pandas as pd
import pytest
from calls import Calls
from hypothesis import strategies as st
from proofs import check_some_columns, proved
from pyspark.sql import functions as F

from keysplit.spark import query
from keysplit.spark.session.steadiness import Proof


@pytest.fixture(scope="module")
def rows(spark):
    return spark.range(40).selectExpr("id % 3 AS key", "id", "concat('s', id % 7) AS s", "id / 3 AS x")


@pytest.fixture(scope="module")
def files(rows, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("some") / "rows")
    rows.write.parquet(path)
    return path


@pytest.mark.parametrize(
    "made",
    [
        lambda spark, path: spark.read.parquet(path),
        lambda spark, path: spark.read.parquet(path).alias("t"),
        lambda spark, path: spark.read.option("ignoreCorruptFiles", "true").parquet(path),
        lambda spark, path: spark.read.option("mode", "DROPMALFORMED").schema("a int, b int").csv(path),
        lambda spark, path: spark.range(9),
        lambda spark, path: spark.sql("VALUES (1, 'a'), (2, 'b') AS t(x, y)"),
        lambda spark, path: spark.createDataFrame(pd.DataFrame({"a": [1]})).alias("t"),
    ],
)
@pytest.mark.parametrize(
    "then",
    [
        lambda df, first: df,
        lambda df, first: df.select("*", F.rand(1).alias("r"), F.current_user()).filter(f"{first} > 3"),
        lambda df, first: df.filter(F.rand(1) > 0.5).withColumn("two", F.lit(2)).selectExpr("two", first),
        lambda df, first: df.repartition(2).select(first, F.rand(1).alias("r"), F.lit(2)).select("r", first),
        lambda df, first: df.join(df.withColumn("n", F.expr("uuid()")), first, "left").drop(first),
        lambda df, first: df.crossJoin(df.select(F.rand(1).alias("r"))).filter("r < 0.5"),
        lambda df, first: df.withColumn("r", F.rand(1)).alias("a").join(df.alias("b"), F.expr("r > 0.5")),
        lambda df, first: df.select("*", F.input_file_name()).select(F.struct("*").alias("s"), "*"),
        lambda df, first: df.select("*", F.expr("(SELECT max(id) FROM range(3))").alias("most")),
    ],
)
def test_some_columns_are_proved_as_in_the_whole_plan(spark, files, made, then):
    df = made(spark, files)
    df = then(df, df.columns[0])
    for anew in (None, "a stream"):
        check_some_columns(df, anew=anew)


STEPS = {
    "new": lambda df, at: df.withColumn(f"n{at}", F.col(df.columns[0])),
    "drawn": lambda df, at: df.withColumn(f"n{at}", F.rand(1)),
    "by place": lambda df, at: df.withColumn(f"n{at}", F.monotonically_increasing_id()),
    "fewer": lambda df, at: df.select(*df.columns[at % 2 :], F.lit(at).alias(f"n{at}")),
    "turned": lambda df, at: df.select(*reversed(df.columns)),
    "filter": lambda df, at: df.filter(F.col(df.columns[at % len(df.columns)]).isNotNull()),
    "by chance": lambda df, at: df.filter(F.rand(1) < 0.9),
    "alias": lambda df, at: df.alias(f"t{at}"),
    "join": lambda df, at: df.crossJoin(df.select(F.lit(1).alias(f"n{at}"))),
    "of drawn": lambda df, at: df.join(df.select(F.rand(1).alias(f"n{at}")), F.col(f"n{at}") > 0.5, "left"),
    "semi": lambda df, at: df.join(df.select(F.rand(1).alias(f"n{at}")), F.col(f"n{at}") > 0.5, "semi"),
    "sort": lambda df, at: df.sort(*df.columns),
    "limit": lambda df, at: df.limit(20),
    "shuffle": lambda df, at: df.repartition(2, df.columns[-1]),
    "deal": lambda df, at: df.repartition(2),
    "sample": lambda df, at: df.sample(0.5, seed=1),
    "distinct": lambda df, at: df.distinct(),
    "keep one": lambda df, at: df.dropDuplicates([df.columns[0]]),
    "aggregate": lambda df, at: df.groupBy(df.columns[0]).agg(F.max(df.columns[-1]).alias(f"n{at}")),
    "aggregates": lambda df, at: df.groupBy(df.columns[-1]).agg(
        F.max(df.columns[0]).alias(f"i{at}" if df.columns[-1] == "id" else "id"),
        (F.count("*") * F.rand(1)).alias(f"n{at}"),
        F.first(df.columns[-1]).alias(f"f{at}"),
        F.collect_list(df.columns[0]).alias(f"c{at}"),
    ),
    "by drawn keys": lambda df, at: df.groupBy((F.rand(1) > 0.5).alias(f"n{at}")).agg(
        F.max(df.columns[0]).alias(f"m{at}")
    ),
    "union": lambda df, at: df.union(df),
    "subquery": lambda df, at: df.withColumn(f"n{at}", F.expr("(SELECT max(id) FROM range(3))")),
}


@hypothesis.given(steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=8))
@hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_some_columns_of_any_query_are_proved_as_in_its_whole_plan(spark, steps):
    df = spark.range(40).select("id", (F.col("id") % 3).alias("key"), F.lit("s").alias("s"))
    for at, step in enumerate(steps):
        df = STEPS[step](df, at)
    check_some_columns(df)


def test_columns_that_nobody_asks_for_are_not_written_down(spark, rows, tmp_path, monkeypatch):
    texts = []
    prove = Proof.of
    monkeypatch.setattr(Proof, "of", lambda proof, plan: texts.extend(plan.texts) or prove(proof, plan))
    wide = rows.select("*", *(F.expr(f"id + {at}").alias(f"c{at}") for at in range(100)))
    wide.write.parquet(str(tmp_path / "rows"))
    df = spark.read.parquet(str(tmp_path / "rows")).alias("t").filter("c1 > 1")
    df = df.join(df.select("id", (F.col("c2") + 1).alias("more")), "id").withColumn("c3", F.col("c4"))
    assert proved(df, [0]).columns == {0: None}
    named = set(re.findall(r'"name":"(\w+)"', "".join(texts)))
    assert named == {"id", "c1"}


@pytest.mark.parametrize(
    ("most", "computed"),
    [
        (70, lambda df: df),
        (175, lambda df: df.join(df.select("id", F.lit(1).alias("n")), "id").filter("c1 > 1")),
        (80, lambda df: df.groupBy("id").agg(*(F.max(name).alias(name) for name in df.columns[1:]))),
    ],
)
def test_the_proof_takes_as_many_calls_for_many_columns_as_for_few(spark, monkeypatch, most, computed):
    def of(columns):
        return computed(spark.range(9).select("*", *(F.lit(at).alias(f"c{at}") for at in range(columns))))

    frames = [of(2), of(3), of(300)]
    counts = Calls(spark, monkeypatch)
    made = []
    for df in frames:
        before = counts.made
        query.Query(df).steadiness  # noqa: B018  it is worked out when it is asked for
        made.append(counts.made - before)
    # the first one fills caches
    assert made[1] == made[2] < most


def test_a_column_is_proved_when_it_is_asked_for(rows, monkeypatch):
    wide = rows.repartition(2).select(
        F.monotonically_increasing_id().alias("first"),
        "*",
        *(F.lit(at).alias(f"c{at}") for at in range(200)),
        F.rand(1),
    )
    found, asked = query.Query(wide), []
    prove = type(found.session).steadiness

    def asking(self, df, places, *rest):
        asked.append(set(places))
        return prove(self, df, places, *rest)

    monkeypatch.setattr(type(found.session), "steadiness", asking)
    assert found.identity == [name for name in wide.columns[1:] if name != "x"][:32]  # floats stay out
    assert list(map(len, asked)) == [32, 64]
    with pytest.raises(ValueError, match=r"^row_id must name .* depends on rand"):
        found.refuse_unsteady_id(wide.columns[1:])
    assert not found.are_steady(["first"])
    assert len(found.reasons()) == len(wide.columns)
    assert list(map(len, asked)) == [32, 64, len(wide.columns)]
