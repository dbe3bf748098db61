"""In the experiment on skew in Spark, all ways of an operation compute the same; its figures are right."""

import pytest
from frames import skewed

from keysplit_experiments.measured import spark_skew as skew


@pytest.fixture(scope="module")
def df(spark):
    rows = [(key, i, i * 7919 % 11) for i, key in enumerate(skewed(["a", "b", "c", "d"], 300))]
    return spark.createDataFrame(rows, "key string, id long, value long")


def found(result):
    rows = [[sorted(cell) if isinstance(cell, list) else cell for cell in row] for row in result.collect()]
    columns = sorted(range(len(result.columns)), key=lambda at: result.columns[at])
    named = result.columns and not any("(" in name or name == "ids" for name in result.columns)
    return sorted(repr([row[at] for at in columns] if named else row) for row in rows)


@pytest.mark.parametrize("operation", ["apply", "list", "percentile", "join, wide rows", "join, many rows"])
def test_all_ways_compute_the_same(df, operation):
    plain, *others = (found(way(df)) for way in skew.OPERATIONS[operation].values())
    assert plain
    assert others == [plain, plain]


def test_figures_are_told_over_those_of_plain_spark():
    base = skew.Figures(wall_s=2.0, slowest=9.0, shuffled=100, memory=0, input=50)
    assert skew.Figures(1.0, 3.0, 150, 7, 5).over(base) == ["0.50", "1.50", "-", "0.10"]


def test_what_a_run_shuffles_is_measured(spark, df):
    figures = skew.measured(spark, lambda rows: rows.repartition(4, "key"), df)
    assert figures.wall_s > 0
    assert figures.shuffled > 0
    assert 0 < figures.input <= figures.shuffled
    assert skew.measured(spark, lambda rows: rows, df).shuffled == 0
