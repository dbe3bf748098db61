"""The demo as a stream: the keys that are frequent change, and the plan follows them."""

import importlib.util
import os
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 4_000
HOT_FOR = 12
WORKERS = 8
TRIGGER_S = 1
# A plan has seen the new keys from so many batches after a change on.
LEARNED = 2


@dataclass(frozen=True, kw_only=True)
class Drift:
    """What a stream whose keys change went through.

    Args:
        rows: rows per micro-batch.
        hashed: the load of the busiest worker in each micro-batch over its fair share, by hash: at least.
        split: the same by the plan that adapts.
        changes: the micro-batches in which other keys are frequent than in the one before.
        versions: the versions of the plan.
        equal: whether each row has arrived once.
    """

    rows: int
    hashed: list[float]
    split: list[float]
    changes: list[int]
    versions: int
    equal: bool

    @property
    def learned(self) -> list[int]:
        """The micro-batches whose keys a plan has seen before."""
        starts = [0, *self.changes]
        return [
            at for at in range(len(self.split)) if at - max(each for each in starts if each <= at) >= LEARNED
        ]

    @property
    def hashed_mean(self) -> float:
        """The mean of `hashed`."""
        return float(np.mean(self.hashed))

    @property
    def split_mean(self) -> float:
        """The mean of `split` over micro-batches whose keys a plan has seen; over all if there are none."""
        return float(np.mean([self.split[at] for at in self.learned] or self.split))


def measure(
    spark: "SparkSession",
    keys: pa.ChunkedArray,
    batches: int,
    step: Callable[[str], AbstractContextManager[None]],
) -> Drift | None:
    """Send keys through a stream, the frequent ones changing every few micro-batches.

    Args:
        spark: the session.
        keys: keys in order of arrival; they are repeated as often as needed.
        batches: the number of micro-batches; none if 0.
        step: shows what is being done.

    Returns:
        What was measured, None without micro-batches.
    """
    if not batches:
        return None
    from pyspark.sql import functions as F

    from keysplit import spark as kss

    with tempfile.TemporaryDirectory(prefix="keysplit-drift-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        expected = _write(keys, batches, folder / "in")
        schema = "key string, id bigint"
        rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        routed = kss.streaming.route(rows, "key", workers=WORKERS, adapt="auto", row_id="id")
        writer = routed.writeStream.format("parquet").trigger(processingTime=f"{TRIGGER_S} seconds")
        writer = writer.option("checkpointLocation", str(folder / "checkpoint")).queryName("keysplit demo")
        query = writer.start(str(folder / "out"))
        try:
            port = 0 if importlib.util.find_spec("prometheus_client") else None
            with kss.streaming.observe(query, port=port) as observer:
                live = f", live at {observer.url}" if observer.url else ""
                with step(f"routing a stream whose keys drift, {batches} micro-batches{live}"):
                    query.processAllAvailable()
                    query.stop()
                    observer.wait(60)
                history = observer.history()
        finally:
            query.stop()
        counts = (
            spark.read.parquet(str(folder / "out"))
            .groupBy("key")
            .agg(F.count("*").alias("rows"), F.count_distinct("id").alias("ids"))
        )
        found = {row.key: row.rows if row.rows == row.ids else -1 for row in counts.collect()}
    history = history[history["input_rows"] > 0]
    return Drift(
        rows=ROWS,
        hashed=history["hash_busiest"].tolist(),
        split=history["busiest"].tolist(),
        changes=list(range(HOT_FOR, batches, HOT_FOR)),
        versions=int(history["version"].nunique()),
        equal=found == expected,
    )


def _write(keys: pa.ChunkedArray, batches: int, folder: Path) -> dict[str | None, int]:
    """Write a file per micro-batch, in each phase with other keys; return the rows of each key."""
    folder.mkdir()
    codes = keys.combine_chunks().dictionary_encode()
    names = [str(each) for each in codes.dictionary.to_pylist()]
    # by rank: the most frequent key is 0; null is a key like others
    found = np.where(codes.indices.is_null(), len(names), codes.indices.fill_null(0).to_numpy())
    names.append("none")
    counts = np.bincount(found, minlength=len(names))
    rank = np.empty(len(names), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(names))
    ranks, used = rank[found], max(int((counts > 0).sum()), 1)
    by_rank = np.array(names)[np.argsort(rank)]
    total: dict[str | None, int] = {}
    for batch in range(batches):
        ids = np.arange(batch * ROWS, (batch + 1) * ROWS)
        drawn = by_rank[(ranks[ids % len(ranks)] + batch // HOT_FOR) % used]
        path = folder / f"{batch:05}.parquet"
        pq.write_table(pa.table({"key": pa.array(drawn.tolist(), pa.string()), "id": ids}), path)
        os.utime(path, (batch, batch))  # a stream reads the oldest file first
        for key, rows in zip(*np.unique(drawn, return_counts=True), strict=True):
            total[str(key)] = total.get(str(key), 0) + int(rows)
    return total
