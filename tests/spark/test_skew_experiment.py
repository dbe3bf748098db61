"""In the experiment on skew in Spark, all ways of an operation compute the same; its figures are right."""

import pytest
from frames import skewed
from pyspark.sql import DataFrame

from keysplit_experiments.measured.spark_skew.figures import Figures, compared, measured, middle
from keysplit_experiments.measured.spark_skew.operations import OPERATIONS

pytestmark = pytest.mark.newest


@pytest.fixture(scope="module")
def df(spark):
    rows = [(key, i, i * 7919 % 11) for i, key in enumerate(skewed(["a", "b", "c", "d"], 300))]
    return spark.createDataFrame(rows, "key string, id long, value long").repartition(4, "id")


def found(spark, result, path):
    if not isinstance(result, DataFrame):
        result.parquet(str(path))
        result = spark.read.parquet(str(path)).select("key", "id", "value")
    return sorted(map(repr, result.select(*sorted(result.columns)).collect()))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_all_ways_compute_the_same(spark, df, operation, tmp_path):
    ways = OPERATIONS[operation].ways(df, 4)
    plain, *others = (found(spark, way(df), tmp_path / name) for name, way in ways.items())
    assert plain
    assert others == [plain] * (len(ways) - 1)
    assert set(ways) >= {"plain", "keysplit", "kept"}


def test_figures_are_relative_to_those_of_plain_spark():
    base = Figures(wall_s=2.0, cpu_s=4.0, slowest=9.0, shuffled=100, memory=0, input=50)
    relative = Figures(1.0, 3.0, 3.0, 150, 7, 5, "place").over(base)
    assert relative.row() == "place | 0.50 | 0.75 | 3.0 | 1.50 | - | 0.10"
    assert middle([Figures(1.0), Figures(9.0), Figures(2.0)]).wall_s == 2.0


def test_what_a_run_shuffles_is_measured(spark, df):
    figures = measured(spark, lambda rows: rows.repartition(4, "key"), df.repartition(2))
    assert figures.wall_s > 0
    assert figures.cpu_s > 0
    assert figures.shuffled > 0
    assert 0 < figures.input <= figures.shuffled
    assert measured(spark, lambda rows: rows, spark.range(9)).shuffled == 0


def test_ways_are_run_in_turn(spark, df):
    ran = []
    ways = {name: lambda rows, name=name: ran.append(name) or rows.limit(1) for name in ("plain", "other")}
    (first, figures), _ = compared(spark, df, ways, 2)
    assert (first, figures.wall_s) == ("plain", 1.0)
    assert ran == ["plain", "other"] * 2
