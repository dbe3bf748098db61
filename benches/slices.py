"""What `kss.apply` adds to the user's own functions over groups: CPU time on an executor, without Spark.

Sorted rows of groups go through the code that cuts them, converts them, calls the functions and collects what
they return. The functions alone are called on frames that were made before. Both run in turn; a figure is the
median ratio of neighbouring runs. The functions are those of `measured/spark_skew`: a histogram of a group's
values, and the merge of two histograms.

usage: scripts/with-env python benches/slices.py [--rows 10000] [--repeats 9]
"""

import argparse
import gc
import time
from collections.abc import Callable, Iterable, Iterator
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from keysplit.spark.slices import Call, Places, finished, whole
from keysplit_experiments.measured.spark_skew.operations import counted, merged

SETTINGS = {
    "timezone": "UTC",
    "nullable_whole": False,
    "safe": True,
    "large_types": False,
    "by_name": True,
    "whole_to_decimal": False,
}
SCHEMA = StructType(
    [StructField("key", StringType()), StructField("value", LongType()), StructField("n", LongType())]
)
PLACES = Places(names=["key", "value", "id"], rows=[0, 1, 2], keys=[0], cuts=[0])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    gc.disable()  # it would walk through the frames that were made before
    partial, merge = (Call(function, False, SCHEMA, "pandas", SETTINGS) for function in (counted, merged))
    print("| rows per group | one function | two functions |\n|---:|---:|---:|")
    for per_group in (1, 10, 100):
        batches = sorted_rows(arguments.rows, per_group)
        frames = [frame for _, frame in pa.Table.from_batches(batches).to_pandas().groupby("key")]
        frames = [frame.reset_index(drop=True) for frame in frames]
        parts = [counted(frame) for frame in frames]
        one, two = [], []
        for _ in range(arguments.repeats):
            alone = cpu_s(lambda copies: each(counted, copies), copied(frames))
            again = cpu_s(lambda copies: each(merged, copies), copied(parts))
            one.append(cpu_s(lambda rows: drained(whole(rows, partial, PLACES)), iter(batches)) / alone)
            both = cpu_s(lambda rows: drained(finished(rows, partial, merge, PLACES)), iter(batches))
            two.append(both / (alone + again))
        print(f"| {per_group:,} | {median(one):.2f} | {median(two):.2f} |", flush=True)


def sorted_rows(rows: int, per_group: int) -> list[pa.RecordBatch]:
    keys = np.char.add("key-", np.char.zfill((np.arange(rows) // per_group).astype(str), 8))
    values = np.random.default_rng(1).integers(0, 1009, rows)
    table = pa.table({"key": keys, "value": values, "id": np.arange(rows)})
    return list(table.to_batches(max_chunksize=10_000))


def copied(frames: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return frames that no function has seen: pandas keeps the columns that it was asked for."""
    return [frame.copy() for frame in frames]


def each(function: Callable[[pd.DataFrame], pd.DataFrame], frames: Iterable[pd.DataFrame]) -> None:
    for frame in frames:
        function(frame)


def drained(batches: Iterator[pa.RecordBatch]) -> None:
    for _ in batches:
        pass


def cpu_s(run: Callable[[Any], None], argument: Any) -> float:
    start = time.process_time()
    run(argument)
    return time.process_time() - start


if __name__ == "__main__":
    main()
