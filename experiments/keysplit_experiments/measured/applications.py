"""What the groupings cost the programs in examples/applications: a table in Markdown for each.

usage: scripts/with-env python -m keysplit_experiments.measured.applications
           [--only NAME...] [--examples FOLDER] [--docs docs/applications]

Spark routes the messages of a program by its key to 16 workers. The messages lie in five files, which take
them in turn; each is a source with its own router (`kss.online.route`).

- *relative imbalance*: how far the busiest worker exceeds its fair share of the messages, in per cent of that
  share.
- *most keys*: the distinct keys that a worker holds, which is its state, at most.
- *replication*: the mean number of workers per key.
- *merged*: the partial results that the merge receives if each worker sends on what it has after each tenth
  of the stream, over those of hash grouping, which sends one per key and tenth.
"""

import argparse
import os
import runpy
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss

WORKERS, SOURCES, PERIODS = 16, 5, 10
GROUPINGS = {
    "hash": "key",
    "PKG": "partial_key",
    "D-Choices": "d_choices",
    "W-Choices": "w_choices",
    "FISH": "fish",
    "FlexD": "flexd",
    "CG": "consistent",
}
EXAMPLES = Path(__file__).resolve().parents[3] / "examples/applications"
HEAD = "| grouping | relative imbalance | most keys | replication | merged |\n|---|---:|---:|---:|---:|"


@dataclass(frozen=True)
class Costs:
    """What a grouping costs.

    Args:
        imbalance: the messages of the busiest worker beyond its fair share, over that share.
        most_keys: the largest number of distinct keys of a worker.
        replication: the mean number of workers per key.
        partials: the partial results that all workers send on in all periods.
    """

    imbalance: float
    most_keys: int
    replication: float
    partials: int

    def row(self, name: str, hashed: "Costs") -> str:
        """Return the line of a table, relative to the costs of hash grouping."""
        merged = self.partials / hashed.partials
        return (
            f"| {name} | {self.imbalance:.1%} | {self.most_keys:,} | {self.replication:.2f} | {merged:.2f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", help="the names of some programs")
    parser.add_argument("--examples", type=Path, default=EXAMPLES, help="the folder of the programs")
    parser.add_argument("--docs", type=Path, help="a folder of pages; the table of each program is replaced")
    arguments = parser.parse_args()
    names = arguments.only or sorted(path.stem for path in arguments.examples.glob("*.py"))
    paths = [arguments.examples / f"{name}.py" for name in names]
    if not paths or not all(map(Path.exists, paths)):
        parser.error(f"--examples must hold {', '.join(names) or 'programs'}, got {arguments.examples}")
    try:
        programs = {path.stem: loaded(path) for path in paths}
    except ImportError as error:
        parser.error(str(error))
    pages = {name: arguments.docs / f"{name}.md" for name in names} if arguments.docs else {}
    for name, page in pages.items():
        replaced(page.read_text(), name, [])  # fails before anything runs
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = session()
    for name, program in programs.items():
        with tempfile.TemporaryDirectory() as folder:
            lines = []
            for line in table(spark, name, program, Path(folder)):
                print(line, flush=True)
                lines.append(line)
        if page := pages.get(name):
            page.write_text(replaced(page.read_text(), name, lines))
    spark.stop()


def loaded(program: Path) -> dict[str, Any]:
    """Return what a program defines.

    Raises:
        ImportError: If it needs scikit-learn, which is missing.
    """
    try:
        return runpy.run_path(str(program))
    except ModuleNotFoundError as error:
        if error.name != "sklearn":
            raise
        raise ImportError(f"{program.name} needs scikit-learn: pip install scikit-learn") from error


def table(spark: SparkSession, name: str, program: dict[str, Any], folder: Path) -> Iterator[str]:
    """Yield the lines of a program's table."""
    key = program["KEY"]
    rows = in_sources(program["messages"](spark).select("id", key), folder / "messages").cache()
    messages, keys = rows.count(), rows.select(key).distinct().count()
    yield f"{name}: {messages:,} messages of {keys:,} keys.\n"
    yield HEAD
    found = {label: costs(rows, key, grouping) for label, grouping in GROUPINGS.items()}
    for label, each in found.items():
        yield each.row(label, found["hash"])
    rows.unpersist()


def in_sources(messages: DataFrame, folder: Path) -> DataFrame:
    """Number messages in the order of their ids, and write those of each source into a file of its own.

    Spark reads each file as one partition.
    """
    number = F.row_number().over(Window.orderBy("id")) - 1
    numbered = messages.withColumn("number", number).drop("id")
    rows = numbered.withColumn("source", F.col("number") % SOURCES)
    rows.sortWithinPartitions("source", "number").write.partitionBy("source").parquet(str(folder))
    rows = messages.sparkSession.read.parquet(str(folder))
    if rows.rdd.getNumPartitions() != SOURCES:
        raise RuntimeError(f"expected {SOURCES} partitions, got {rows.rdd.getNumPartitions()}")
    return rows


def costs(rows: DataFrame, key: str, grouping: str) -> Costs:
    """Route messages on Spark and count what each worker gets."""
    period = F.floor(F.col("number") * PERIODS / rows.count()).alias("period")
    routed = kss.online.route(rows, key, ks.grouping(grouping, workers=WORKERS))
    found = routed.groupBy("worker", F.col(key).alias("key"), period).agg(F.count("*").alias("messages"))
    return costs_of(found.toPandas())


def costs_of(found: pd.DataFrame) -> Costs:
    """Return what a grouping costs, by the number of messages of each worker, key and period."""
    loads = found.groupby("worker")["messages"].sum()
    pairs = found[["worker", "key"]].drop_duplicates()
    held = pairs.groupby("worker").size()
    return Costs(
        imbalance=loads.max() * WORKERS / loads.sum() - 1,
        most_keys=int(held.max()),
        replication=len(pairs) / found["key"].nunique(dropna=False),
        partials=len(found),
    )


def replaced(page: str, name: str, lines: list[str]) -> str:
    """Return a page with another table between its marks for a program."""
    start, end = f"<!-- applications {name} -->\n", f"<!-- end of {name} -->"
    before, _, rest = page.partition(start)
    _, mark, after = rest.partition(end)
    if not mark:
        raise ValueError(f"the page must have the lines {start.strip()} and {end}")
    return before + start + "\n" + "\n".join(lines) + "\n\n" + end + after


def session() -> SparkSession:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.files.minPartitionNum", SOURCES)  # a file, a partition
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    main()
