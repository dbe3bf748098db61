"""A naive Bayes classifier that learns from a stream: counters of words, split over workers and merged.

A message is a word of a document whose class is known, and its key is the word. Each worker counts its words
by class. A word may have counters on two workers; they are added up after each micro-batch. A document is
predicted before it is learned from. This is the running example of "Load Balancing for Skewed Streams on
Heterogeneous Cluster" (Nasir et al., 2017, section 3).

Run it with `python examples/applications/naive_bayes.py [FOLDER]`. It needs `pip install '.[spark]'
scikit-learn` and Java 17. Stop it and start it again with the same folder: the stream goes on where it was.
In a clone `scripts/texts` downloads 4,200 tweets that people have rated; without them documents are drawn.
"""

import io
import os
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB

import keysplit as ks
from keysplit import spark as kss

KEY = "word"
GROUPING = ks.PartialKeyGrouping(workers=8)
BATCHES = 6
ARCHIVE = Path(__file__).resolve().parents[2] / ".cache/texts/vaderSentiment-0.5.zip"
TWEETS = ARCHIVE.exists()


def documents() -> pd.DataFrame:
    """Read the tweets, or draw documents: a number, a text, and whether it is positive."""
    texts, positive = tweets() if TWEETS else drawn()
    return pd.DataFrame({"document": np.arange(len(texts)), "text": texts, "positive": positive})


def tweets() -> tuple[list[str], list[bool]]:
    """Read the tweets; a tweet is positive if the mean of its ratings is."""
    with zipfile.ZipFile(ARCHIVE) as package:
        inner = package.read("vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(inner)) as folder:
        file = folder.extractfile("hutto_ICWSM_2014/tweets_GroundTruth.txt")
        rows = [line.split("\t") for line in file.read().decode().splitlines()]
    return [text for _, _, text in rows], [float(mean) > 0 for _, mean, _ in rows]


def drawn() -> tuple[list[str], list[bool]]:
    """Draw 3,000 documents of 14 words by Zipf's law; a word in four hints at the class."""
    draw = np.random.default_rng(1)
    positive = draw.random(3_000) < 0.6
    words = ks.streams.zipf(1.1, 8_000, 3_000 * 14, seed=1).reshape(3_000, 14)
    words = np.where(draw.random(words.shape) < 0.25, words // 2 * 2 + positive[:, None], words)
    letters = np.array(list("abcdefghij"))
    spelled = [["".join(letters[list(map(int, str(word)))]) for word in row] for row in words]
    return [" ".join(row) for row in spelled], positive.tolist()


def words_of(spark: SparkSession, texts: pd.DataFrame) -> DataFrame:
    """Split texts into words. Each begins with the empty word, whose counters count the documents."""
    split = F.concat(F.array(F.lit("")), F.regexp_extract_all(F.lower("text"), F.lit("[a-z']+"), F.lit(0)))
    words = spark.createDataFrame(texts).select("document", "positive", F.posexplode(split).alias("at", KEY))
    return words.select((F.col("document") * 1_000 + F.col("at")).alias("id"), "document", "positive", KEY)


def messages(spark: SparkSession) -> DataFrame:
    """Return the words to learn from: those of four documents in five."""
    return words_of(spark, documents().query("document % 5 != 4"))


def unseen(spark: SparkSession) -> DataFrame:
    """Return the words of the other documents."""
    return words_of(spark, documents().query("document % 5 == 4"))


def predicted(words: DataFrame, model: DataFrame) -> DataFrame:
    """Predict each document: multinomial naive Bayes with Laplace's smoothing. New words say nothing."""
    totals = model.where("word != ''").agg(
        (F.sum("positive") + F.count("*")).alias("all_positive"),
        (F.sum("negative") + F.count("*")).alias("all_negative"),
    )
    prior = F.log("model.positive") - F.log("model.negative")
    of_positive = F.log((F.col("model.positive") + 1) / F.col("all_positive"))
    of_negative = F.log((F.col("model.negative") + 1) / F.col("all_negative"))
    odds = F.sum(F.when(F.col(KEY) == "", prior).otherwise(of_positive - of_negative))
    joined = words.select("document", KEY).join(model.alias("model"), KEY).crossJoin(totals)
    return joined.groupBy("document").agg((odds > 0).alias("predicted"))


def counted(words: DataFrame, *by: str) -> DataFrame:
    """Count the words by class."""
    positive, negative = F.count_if("positive"), F.count_if(~F.col("positive"))
    return words.groupBy(*by).agg(positive.alias("positive"), negative.alias("negative"))


def merged(counters: DataFrame) -> DataFrame:
    """Add up the counters of each word over its workers."""
    return counters.groupBy(KEY).agg(F.sum("positive").alias("positive"), F.sum("negative").alias("negative"))


def batch(spark: SparkSession) -> DataFrame:
    """Count the words on their workers, and merge."""
    placed = kss.online.repartition(messages(spark), KEY, GROUPING)
    return merged(counted(placed, "worker", KEY))


def plain(words: DataFrame) -> DataFrame:
    """Count the words with plain Spark."""
    return counted(words, KEY)


def write_input(rows: DataFrame, part: Column, folder: Path) -> None:
    """Write the messages as files, one for each micro-batch, unless they are there."""
    if (folder / "input").exists():
        return
    parts = rows.withColumn("part", part).coalesce(1).write.partitionBy("part")
    parts.mode("overwrite").parquet(str(folder / "new"))
    for number in range(BATCHES):
        for file in (folder / f"new/part={number}").glob("*.parquet"):
            os.utime(file, (number, number))  # a stream reads the oldest file first
    (folder / "new").rename(folder / "input")


def stored(spark: SparkSession, folder: Path) -> DataFrame:
    """Return all words of the stream, which are those of the first run with a folder."""
    return spark.read.parquet(str(folder / "input/part=*"))


def stream(spark: SparkSession, folder: Path) -> None:
    """Predict and learn from documents in micro-batches; leave predictions and models in the folder."""
    words, empty = messages(spark), spark.createDataFrame([], "word string, positive long, negative long")
    write_input(words, F.col("document") % BATCHES, folder)

    def learn(rows: DataFrame, number: int) -> None:
        """Predict with the model after the batch before, then count. A retry replaces what it wrote."""
        rows = rows.persist()
        before = spark.read.parquet(str(folder / f"model/batch={number - 1}")) if number else empty
        guesses = predicted(rows, before)
        guesses.write.mode("overwrite").parquet(str(folder / f"predictions/batch={number}"))
        counters = counted(rows, "worker", KEY).drop("worker")
        after = merged(before.unionByName(counters))
        after.write.mode("overwrite").parquet(str(folder / f"model/batch={number}"))
        rows.unpersist()

    source = spark.readStream.schema(words.schema).option("maxFilesPerTrigger", 1)
    rows = source.parquet(str(folder / "input/part=*"))
    placed = kss.online.repartition(rows, KEY, GROUPING, state=folder / "routers")
    writer = placed.writeStream.foreachBatch(learn).trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()


def classes(words: pd.DataFrame) -> pd.Series:
    """Return whether each document is positive."""
    return words.groupby("document")["positive"].first()


def scikit(learned: pd.DataFrame, asked: pd.DataFrame) -> pd.Series:
    """Predict documents with scikit-learn, from the words of others."""
    texts, others = (each.groupby("document")[KEY].agg(list) for each in (learned, asked))
    vectors = CountVectorizer(analyzer=lambda words: [word for word in words if word])
    model = MultinomialNB(alpha=1).fit(vectors.fit_transform(texts), classes(learned))
    return pd.Series(model.predict(vectors.transform(others)), others.index)


def main(spark: SparkSession, folder: Path) -> None:
    kind = "tweets" if TWEETS else "drawn documents; scripts/texts downloads tweets"
    print(f"{len(documents()):,} {kind}")
    asked = unseen(spark).toPandas()

    def equal(model: DataFrame, learned: pd.DataFrame) -> bool:
        """Compare what a model and scikit-learn's of the same words predict for the other documents."""
        found = predicted(unseen(spark), model).toPandas().set_index("document")["predicted"].sort_index()
        theirs, truth = scikit(learned, asked), classes(asked)[found.index]
        print(f"accuracy {(found == truth).mean():.4f}, scikit-learn's {(theirs == truth).mean():.4f}")
        return theirs.equals(found)

    print("equal to scikit-learn's predictions:", equal(batch(spark), messages(spark).toPandas()))
    stream(spark, folder)
    words = stored(spark, folder)
    known = words.toPandas()
    truth = classes(known)
    model = spark.read.parquet(str(folder / f"model/batch={BATCHES - 1}")).select(KEY, "positive", "negative")
    print("equal to scikit-learn's predictions, stream:", equal(model, known))
    print("equal to plain counts, stream:", sorted(model.collect()) == sorted(plain(words).collect()))
    guesses = spark.read.parquet(str(folder / "predictions")).toPandas().set_index("document").sort_index()
    same = []
    for number, group in guesses.groupby("batch"):
        accuracy = (group["predicted"] == truth[group.index]).mean()
        print(f"batch {number}: {len(group)} documents, accuracy before learning from them {accuracy:.3f}")
        later = guesses.index[guesses["batch"] >= number]
        before = known[~known["document"].isin(later)]
        same.append(group["predicted"].equals(scikit(before, known[known["document"].isin(group.index)])))
    print("equal to scikit-learn's predictions, batch by batch:", len(same) == BATCHES - 1 and all(same))


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable  # executors need the driver's interpreter
    session = (
        SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as temporary:
        main(session, Path(sys.argv[1] if len(sys.argv) > 1 else temporary))
    session.stop()
