"""The programs in examples/, the code of the guides and the docstrings' examples run."""

import doctest
import re
import runpy
from pathlib import Path

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from keysplit import spark as kss

# Paths of the guides.
WRITTEN = re.compile(
    r'"((?:checkpoints?|events|placed|placed-checkpoint|totals|words-by-word|sales-by-country)["/])'
)
ROOT = Path(__file__).resolve().parents[2]

GUIDES = [
    *("spark.md", "streaming.md", "quickstart.md"),
    *sorted(f"guides/{path.name}" for path in (ROOT / "docs/guides").glob("*.md")),
]

pytestmark = pytest.mark.newest


@pytest.mark.parametrize(
    "program", sorted((ROOT / "examples").glob("spark_*.py")), ids=lambda path: path.stem
)
def test_example(spark, capsys, program):
    runpy.run_path(str(program))["main"](spark)
    assert re.search(r"^equal to .*: True$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.filterwarnings("ignore:rows of key")
@pytest.mark.parametrize("page", GUIDES)
def test_the_guide_s_code_runs_in_order(spark, tmp_path, monkeypatch, page):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.DOTALL | re.MULTILINE
    )
    assert blocks
    names = {"spark": spark}
    # Java takes relative paths from where it was started
    started = Path(spark.sparkContext._jvm.System.getProperty("user.dir"))
    before = set(started.iterdir())
    for block in blocks:
        block = WRITTEN.sub(rf'"{tmp_path}/\1', block)
        exec(compile(block, f"docs/{page}", "exec"), names)
    assert set(started.iterdir()) == before


DOCUMENTED = {name: getattr(kss, name) for name in kss.__all__ if name not in ("online", "streaming")}


@pytest.mark.filterwarnings("ignore:rows of key")
@pytest.mark.filterwarnings("ignore:one row weighs")
@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstring(spark, tmp_path, monkeypatch, name):
    """Run the example that plain doctest skips because it has no session."""
    monkeypatch.chdir(tmp_path)
    at = F.timestamp_seconds("length")
    df = spark.createDataFrame([("a", 1), ("b", 2), ("a", 3)], "word string, length int")
    names = {
        "spark": spark,
        "df": df.withColumn("country", F.col("word")),
        "events": df.withColumn("at", at),
        "orders": df.withColumn("customer", F.col("word")),
        "customers": df.select(F.col("word").alias("customer")).distinct(),
        "plan": kss.plan(df, "word", 8),
        "path": str(tmp_path / "written"),
        "F": F,
        "Window": Window,
        "kss": kss,
    }
    (test,) = doctest.DocTestFinder(recurse=False).find(DOCUMENTED[name], name, globs=names)
    assert test.examples
    for example in test.examples:
        example.options.pop(doctest.SKIP, None)
    assert doctest.DocTestRunner().run(test).failed == 0
