"""The programs in examples/, the code in docs/spark.md and the docstrings' examples run."""

import doctest
import re
import runpy
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from keysplit import spark as kss

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "program", sorted((ROOT / "examples").glob("spark_*.py")), ids=lambda path: path.stem
)
def test_example(spark, capsys, program):
    runpy.run_path(str(program))["main"](spark)
    assert re.search(r"^equal to .*: True$", capsys.readouterr().out, re.MULTILINE)


def test_the_guide_s_code_runs_in_order(spark, tmp_path):
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / "spark.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert blocks
    names = {"spark": spark}
    for block in blocks:
        block = block.replace('"checkpoints"', repr(str(tmp_path)))
        exec(compile(block, "docs/spark.md", "exec"), names)


@pytest.mark.parametrize("function", kss.__all__)
def test_docstring(spark, function):
    """Run the example that plain doctest skips because it has no session."""
    df = spark.createDataFrame([("a", 1), ("b", 2), ("a", 3)], "word string, length int")
    names = {"spark": spark, "df": df, "F": F, "kss": kss}
    (test,) = doctest.DocTestFinder(recurse=False).find(getattr(kss, function), function, globs=names)
    assert test.examples
    for example in test.examples:
        example.options.pop(doctest.SKIP)
    assert doctest.DocTestRunner().run(test).failed == 0
