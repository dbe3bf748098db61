"""Streams of few batches, what queries on them put out in each, and by which plans."""

import json
import os
from collections import defaultdict

from keysplit.plan import Plan


class Files:
    """A folder that rows arrive in: a file is a batch."""

    def __init__(self, spark, path, schema):
        self.spark, self.path, self.schema = spark, path, schema
        path.mkdir()

    def add(self, rows):
        number = len(list(self.path.iterdir()))
        name = self.path / f"{number:03}.json"
        name.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
        os.utime(name, (1_000_000 + number,) * 2)  # a stream takes the oldest file first

    def batch(self):
        return self.spark.read.schema(self.schema).json(str(self.path))

    def stream(self, watermark=None):
        reader = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        rows = reader.json(str(self.path))
        return rows.withWatermark("at", watermark) if watermark else rows


class Outputs:
    """Queries side by side, and the rows that each has put out, by batch."""

    def __init__(self, folder):
        self.folder, self.rows, self.queries = folder, defaultdict(dict), {}

    def start(self, name, result, mode="append"):
        def put(df, batch):
            self.rows[name][batch] = rows_of(df)

        writer = result.writeStream.foreachBatch(put).outputMode(mode).trigger(availableNow=True)
        self.queries[name] = writer.option("checkpointLocation", str(self.folder / name)).start()

    def run(self, results, mode="append"):
        """Run queries to the end of their input; return the rows of each, by batch."""
        for name, result in results.items():
            self.start(name, result, mode)
        for query in self.queries.values():
            query.awaitTermination()
        self.queries.clear()
        return {name: dict(self.rows[name]) for name in results}


def rows_of(df):
    """Return the rows in one order, and the lists in them, too."""
    return sorted(
        repr([sorted(cell, key=repr) if isinstance(cell, list) else cell for cell in row])
        for row in df.collect()
    )


def versions_of(log):
    """Return the plans of a plan log, and which of them each micro-batch has used."""
    plans = {int(each.stem.removeprefix("plan-")): Plan.load(each) for each in log.glob("plan-*.json")}
    return plans, versions_of_batches(log)


def versions_of_batches(log):
    return {int(each.stem[6:]): json.loads(each.read_text())["plan"] for each in log.glob("batch-*.json")}
