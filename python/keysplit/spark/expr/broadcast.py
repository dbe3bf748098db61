"""The tables of a large plan as the small side of a broadcast join, which each executor gets once.

A row of the table covers 64 buckets: their workers, and their frequent keys with their cells. Each chunk
number occurs once, so a left join keeps each row exactly once, and the worker still depends only on the row
and the plan. The tables are local rows of the driver, so no job reads them.
"""

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keysplit.plan import Plan, bucket_of
from keysplit.spark.expr.packed import Lookup, runs_of
from keysplit.spark.jvm import local_rows
from keysplit.spark.names import free_names, in_sql

_CHUNK_BITS = 6
"""A chunk has 2**6 buckets."""


def lookup(df: DataFrame, plan: Plan, key: str, cells: np.ndarray | None) -> Lookup:
    """Join the tables of a plan to the rows.

    Args:
        df: the rows.
        plan: the plan.
        key: the name of the column with the hash of a row's key.
        cells: as in `literals.lookup`.

    Returns:
        As in `literals.lookup`.
    """
    own, bits = in_sql(key), len(plan.tail).bit_length() - 1
    columns = _chunks(plan, bits, cells)
    names = dict(zip(columns, free_names(df, key, columns), strict=True))
    table = pa.table({names[each]: column for each, column in columns.items()})
    chunk, tail, hashes, runs, found = (
        in_sql(names.get(each, each)) for each in ("chunk", "tail", "hashes", "runs", "cells")
    )
    same = f"shiftrightunsigned({own}, {64 - bits + _CHUNK_BITS}) = {chunk}"
    bucket = f"shiftrightunsigned({own}, {64 - bits}) & {2**_CHUNK_BITS - 1}"
    return Lookup(
        df.join(local_rows(df, table).hint("broadcast"), F.expr(same), "left"),
        f"get({tail}, CAST({bucket} AS INT))",
        f"get({runs}, CAST(array_position({hashes}, {own}) AS INT) - 1)" if plan.head else "",
        "" if cells is None else found,
        tuple(names.values()),
    )


def _chunks(plan: Plan, bits: int, cells: np.ndarray | None) -> dict[str, pa.Array]:
    size = 2 ** (bits - _CHUNK_BITS)
    columns = {
        "chunk": pa.array(np.arange(size)),
        "tail": _lists(np.full(size, 2**_CHUNK_BITS), plan.tail.astype(np.int32)),
    }
    if plan.head:
        tables = plan.tables
        chunks = bucket_of(tables.hashes, bits - _CHUNK_BITS)
        order = np.argsort(chunks, kind="stable")
        keys, lengths = np.bincount(chunks, minlength=size), tables.lengths[order].astype(np.int64)
        ends = np.cumsum(lengths)
        of_chunks = np.bincount(chunks, tables.lengths, minlength=size).astype(np.int64)
        starts = ends - lengths - np.repeat(np.cumsum(of_chunks) - of_chunks, keys)
        columns["hashes"] = _lists(keys, tables.hashes[order])
        first = tables.first[tables.starts[order]]
        columns["runs"] = _lists(keys, runs_of(starts, lengths, first))
        if cells is not None:
            places = np.arange(ends[-1]) + np.repeat(tables.starts[order] - (ends - lengths), lengths)
            columns["cells"] = _lists(of_chunks, cells[places])
    return columns


def _lists(lengths: np.ndarray, values: np.ndarray) -> pa.ListArray:
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(values))
