"""A decision tree that learns from a stream: histograms of features, on workers, merged to find splits.

A message is one feature of one example. Its key is the triplet (leaf, feature, class). A worker keeps a
histogram of at most 16 bins for each triplet that it gets. Those of a triplet are merged, and the merged ones
say how to split the leaves. The algorithm is that of "A Streaming Parallel Decision Tree Algorithm"
(Ben-Haim and Tom-Tov, JMLR 2010), which shuffles examples. "Load Balancing for Skewed Streams on
Heterogeneous Cluster" (Nasir et al., 2017, section 8.1) has it as an application. To route by the triplet is
an idea of this program.

Run it with `python examples/applications/decision_tree.py [FOLDER]`. It needs `pip install '.[spark]'
scikit-learn` and Java 17. Stop it and start it again with the same folder: the stream goes on where it was.
"""

import json
import os
import sys
import tempfile
from bisect import bisect_right
from itertools import accumulate, chain, pairwise
from math import sqrt
from pathlib import Path

import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeClassifier

from keysplit import spark as kss

KEY = "triplet"
WORKERS, BINS, DEPTH = 8, 16, 3
BATCHES = 2  # micro-batches per level of the tree
PARTS = "triplet string, bins array<array<double>>"

Bins = list[list[float]]  # of each bin: its centre, its number of points, the least and the largest of them
Tree = dict[
    int, tuple[int, float, list[int]]
]  # feature, threshold and classes below; node n has 2n and 2n + 1


def shrunk(bins: Bins) -> Bins:
    """Merge the two closest bins until there are few enough (procedures 1 and 2 of the paper)."""
    bins = sorted(bins)
    while len(bins) > 1:
        gap, at = min((right[0] - left[0], at) for at, (left, right) in enumerate(pairwise(bins)))
        if gap > 0 and len(bins) <= BINS:
            break
        (p, m, low, high), (q, n, lower, higher) = bins[at : at + 2]
        bins[at : at + 2] = [[p + (q - p) * n / (m + n), m + n, min(low, lower), max(high, higher)]]
    return bins


def padded(bins: Bins) -> tuple[list[float], list[float], list[float]]:
    """Return centres, points of each, and points below each; at the ends the least and the largest point."""
    centres = [min(low for *_, low, _ in bins), *(p for p, *_ in bins), max(high for *_, high in bins)]
    counts = [0.0, *(m for _, m, *_ in bins), 0.0]
    return centres, counts, [0.0, *accumulate((m + n) / 2 for m, n in pairwise(counts))]


def rank(bins: Bins, value: float) -> float:
    """Estimate the number of points up to a value (procedure 3, sum)."""
    centres, counts, below = padded(bins)
    if value < centres[0] or value >= centres[-1]:
        return 0.0 if value < centres[0] else below[-1]
    i = bisect_right(centres, value) - 1
    part = (value - centres[i]) / (centres[i + 1] - centres[i])
    return below[i] + (2 * counts[i] + (counts[i + 1] - counts[i]) * part) / 2 * part


def uniform(bins: Bins, parts: int) -> list[float]:
    """Estimate the values that cut the points into equal parts (procedure 4)."""
    centres, counts, below = padded(bins)
    cuts = []
    for wanted in (below[-1] * part / parts for part in range(1, parts)):
        i = bisect_right(below, wanted) - 1
        more = wanted - below[i]
        root = sqrt(max(0.0, counts[i] ** 2 + 2 * (counts[i + 1] - counts[i]) * more))
        cuts.append(centres[i] + (centres[i + 1] - centres[i]) * (more and 2 * more / (counts[i] + root)))
    return cuts


def limits(bins: Bins, value: float) -> tuple[float, float]:
    """Return bounds of the true rank: bins that end up to the value, and those that begin there."""
    return sum(m for _, m, _, high in bins if high <= value), sum(m for _, m, low, _ in bins if low <= value)


def histogram(rows: pd.DataFrame) -> pd.DataFrame:
    """Make the histogram of a triplet on one worker, point by point, in an order that any run has."""
    bins: Bins = []
    for value in rows.sort_values("id")["value"]:
        bins = shrunk([*bins, [value, 1.0, value, value]])
    return pd.DataFrame({KEY: rows[KEY].iloc[:1], "bins": [bins]})


def merged(parts: pd.DataFrame) -> pd.DataFrame:
    """Merge the histograms of a triplet from all workers."""
    bins = shrunk([list(each) for each in chain.from_iterable(parts["bins"])])
    return pd.DataFrame({KEY: parts[KEY].iloc[:1], "bins": [bins]})


def histograms(rows: DataFrame) -> dict[str, Bins]:
    """Make the histograms of all triplets: on workers, then merged. `way` splits even few rows."""
    plan = kss.plan(rows, KEY, WORKERS, grouping="partial_key", row_id="id")
    found = kss.apply(rows, KEY, histogram, PARTS, merge=merged, plan=plan, way="place")
    return {row[KEY]: [list(each) for each in row["bins"]] for row in found.collect()}


def impurity(counts: list[float]) -> float:
    """Return Gini's impurity, times the number of points."""
    total = sum(counts)
    return total - sum(n * n for n in counts) / total if total else 0.0


def grown(tree: Tree, found: dict[str, Bins]) -> Tree:
    """Split each leaf that has several classes where merged histograms say that it pays most."""
    leaves: dict[int, dict[int, dict[int, Bins]]] = {}
    for triplet, bins in found.items():
        leaf, feature, label = map(int, triplet.split("/"))
        leaves.setdefault(leaf, {}).setdefault(feature, {})[label] = bins
    for leaf, features in leaves.items():
        splits = []
        for feature, classes in features.items():
            totals = [sum(m for _, m, *_ in classes.get(label, [])) for label in range(2)]
            for value in uniform(shrunk(list(chain(*classes.values()))), BINS) if min(totals) else []:
                left = [rank(classes[label], value) for label in range(2)]
                right = [total - n for total, n in zip(totals, left, strict=True)]
                labels = [int(side[1] > side[0]) for side in (left, right)]
                splits.append((impurity(left) + impurity(right), feature, value, labels))
        if splits:
            _, feature, value, labels = min(splits)
            tree = tree | {leaf: (feature, value, labels)}
    return tree


def leaf_of(tree: Tree, node: int = 1) -> Column:
    """Return the leaf of an example, as a column."""
    if node not in tree:
        return F.lit(node)
    feature, value, _ = tree[node]
    left, right = leaf_of(tree, 2 * node), leaf_of(tree, 2 * node + 1)
    return F.when(F.col("features")[feature] <= value, left).otherwise(right)


def predicted(tree: Tree, features: list[float]) -> int:
    """Return the class of an example."""
    node, label = 1, 0
    while node in tree:
        feature, value, labels = tree[node]
        right = features[feature] > value
        node, label = 2 * node + right, labels[right]
    return label


def examples() -> pd.DataFrame:
    """Read scikit-learn's set "breast cancer": 569 tumours with 30 measures each, benign (1) or not (0)."""
    measures, labels = load_breast_cancer(return_X_y=True)
    return pd.DataFrame({"example": range(len(labels)), "label": labels, "features": measures.tolist()})


def known(spark: SparkSession) -> DataFrame:
    """Return the examples to learn from: three in four."""
    return spark.createDataFrame(examples().query("example % 4 != 3"))


def split(rows: DataFrame, tree: Tree) -> DataFrame:
    """Split examples into messages, a feature each."""
    rows = rows.select(
        "example", "label", leaf_of(tree).alias("leaf"), F.posexplode("features").alias("at", "value")
    )
    triplet = F.concat_ws("/", "leaf", "at", "label").alias(KEY)
    return rows.select((F.col("example") * 100 + F.col("at")).alias("id"), triplet, "value")


def messages(spark: SparkSession) -> DataFrame:
    """Return the messages for the root of a tree."""
    return split(known(spark), {})


def batch(spark: SparkSession) -> list[tuple[Tree, dict[str, Bins]]]:
    """Grow a tree level by level: each time the tree so far and the histograms of its leaves."""
    levels, tree = [], {}
    for _ in range(DEPTH):
        levels.append((tree, histograms(split(known(spark), tree))))
        tree = grown(*levels[-1])
    return levels


def plain(rows: DataFrame, tree: Tree) -> dict[str, list[float]]:
    """Return the sorted values of each triplet, with plain Spark."""
    lists = split(rows, tree).groupBy(KEY).agg(F.sort_array(F.collect_list("value")).alias("values"))
    return {row[KEY]: row["values"] for row in lists.collect()}


def stored(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the examples of each level of the stream, which are those of the first run with a folder."""
    return spark.read.parquet(*(str(folder / f"input/{number}.parquet") for number in range(BATCHES)))


def stream(spark: SparkSession, folder: Path) -> list[tuple[Tree, dict[str, Bins]]]:
    """Grow a tree from a stream that brings the examples once per level; the folder has all models."""
    if not (folder / "input").exists():
        (folder / "new").mkdir(parents=True, exist_ok=True)
        rows = known(spark).toPandas()
        for number in range(DEPTH * BATCHES):
            file = folder / f"new/{number}.parquet"
            rows[rows["example"] % BATCHES == number % BATCHES].to_parquet(file, index=False)
            os.utime(file, (number, number))  # a stream reads the oldest file first
        (folder / "new").rename(folder / "input")

    def model(number: int) -> tuple[Tree, dict[str, Bins]]:
        """Read the tree and the histograms of its leaves after a micro-batch."""
        tree, found = json.loads((folder / f"model-{number}.json").read_text())
        return {int(node): tuple(split) for node, split in tree.items()}, found

    def learn(rows: DataFrame, number: int) -> None:
        """Go on from the batch before. A retry starts from there, too, and replaces what was written."""
        tree, found = model(number - 1) if number else ({}, {})
        if number and number % BATCHES == 0:
            tree, found = grown(tree, found), {}
        for triplet, bins in histograms(split(rows, tree)).items():
            found[triplet] = shrunk([*found.get(triplet, []), *bins])
        (folder / "new.json").write_text(json.dumps([tree, found]))
        (folder / "new.json").rename(folder / f"model-{number}.json")

    source = spark.readStream.schema("example long, label long, features array<double>")
    rows = source.option("maxFilesPerTrigger", 1).parquet(str(folder / "input"))
    writer = rows.writeStream.foreachBatch(learn).trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
    return [model(level * BATCHES + BATCHES - 1) for level in range(DEPTH)]


def main(spark: SparkSession, folder: Path) -> None:
    learned, asked = (examples().query(f"example % 4 {sign} 3") for sign in ("!=", "=="))
    theirs = DecisionTreeClassifier(max_depth=DEPTH, random_state=0)
    theirs.fit(learned["features"].tolist(), learned["label"])
    print(f"scikit-learn's accuracy: {theirs.score(asked['features'].tolist(), asked['label']):.3f}")
    runs = {"batch": batch(spark), "stream": stream(spark, folder)}
    inputs = {"batch": known(spark), "stream": stored(spark, folder)}
    for name, levels in runs.items():
        counted, bounded = True, True
        print(f"\n{name}: level, histograms, points; rank error: mean, largest, largest bound")
        for level, (tree, found) in enumerate(levels):
            exact = plain(inputs[name], tree)
            counts = {triplet: sum(m for _, m, *_ in bins) for triplet, bins in found.items()}
            counted &= counts == {triplet: len(values) for triplet, values in exact.items()}
            errors, bounds = [], []
            for triplet, values in exact.items():
                for value in set(values):
                    estimate, true = rank(found[triplet], value), bisect_right(values, value)
                    least, most = limits(found[triplet], value)
                    bounded &= least <= true <= most
                    errors.append(abs(estimate - true))
                    bounds.append(max(most - estimate, estimate - least))
            mean = sum(errors) / len(errors)
            print(
                f"{level:5}{len(found):12}{sum(counts.values()):8.0f}"
                f"{mean:22.2f}{max(errors):9.1f}{max(bounds):9.1f}"
            )
        tree = grown(*levels[-1])
        right = [predicted(tree, each) for each in asked["features"]] == asked["label"]
        print(f"accuracy of the tree: {right.mean():.3f}, with {len(tree)} splits")
        print(f"equal to plain Spark's counts of each triplet, {name}:", counted)
        print(f"equal to plain Spark's ranks within the bound, {name}:", bounded)


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable  # executors need the driver's interpreter
    session = (
        SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as temporary:
        main(session, Path(sys.argv[1] if len(sys.argv) > 1 else temporary))
    session.stop()
