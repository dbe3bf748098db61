"""Keys counted exactly, by `groupBy`."""

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from keysplit.spark.counting.counted import Counted, bad_weight, sum_of, write_texts

# The most keys that a bucket brings along.
_MOST_OF_BUCKET = 16


def count(
    rows: DataFrame, share: float, bits: int, types: list[DataType], most_candidates: int, weighted: bool
) -> Counted:
    """Count the rows of each key exactly, with no Python on the executors.

    One pass is enough if few keys are frequent. If a bucket may have more frequent keys than the first pass
    returned for it, a second pass reads all frequent keys.

    Args:
        rows: the columns `hash`, `key` and `weight`.
        share: the share of the weight at which a key counts as frequent.
        bits: how many bits of the hash give the bucket.
        types: the types of the key columns.
        most_candidates: the largest number of keys that the driver may receive with the buckets.
        weighted: whether any `weight` may differ from 1.

    Returns:
        All frequent keys, and perhaps others.

    Raises:
        ValueError: if a weight is null, negative or not finite, or if their sum is not finite.
    """
    counted = rows.groupBy("hash").agg(
        F.sum("weight").alias("count"),
        F.min("weight").alias("least"),
        F.max("weight").alias("most"),
        F.sum(F.col("weight").isNull().cast("int")).alias("nulls"),
        F.first("key").alias("key"),
    )
    most = min(_MOST_OF_BUCKET, max(1, most_candidates >> bits))
    heaviest = F.slice(
        F.sort_array(F.collect_list(F.struct("count", "hash", "key", "most")), asc=False), 1, most
    )
    found = (
        counted.groupBy(F.shiftrightunsigned("hash", 64 - bits).alias("bucket"))
        .agg(
            F.sum("count").alias("weight"),
            F.min("least").alias("least"),
            F.sum("nulls").alias("nulls"),
            F.count("*").alias("groups"),
            heaviest.alias("keys"),
        )
        .withColumn("keys", F.transform("keys", lambda each: _candidate(each, types)))
        .collect()
    )
    # also true for NaN
    for row in found:
        if row.nulls or not row.least >= 0:
            raise bad_weight("null" if row.nulls else f"{row.least:g}")
    buckets = np.zeros(2**bits)
    buckets[[row.bucket for row in found]] = [row.weight for row in found]
    groups = np.zeros(2**bits)
    groups[[row.bucket for row in found]] = [row.groups for row in found]
    least = share * sum_of(buckets)
    if any(len(row["keys"]) == most and row["keys"][-1]["count"] >= least for row in found):
        each = F.struct("count", "hash", "key", "most")
        frequent = counted.filter(F.col("count") >= least).select(_candidate(each, types).alias("each"))
        candidates = [row["each"] for row in frequent.collect()]
    else:
        candidates = [each for row in found for each in row["keys"]]
    return Counted(
        hashes=np.array([each["hash"] for each in candidates], np.int64),
        counts=np.array([each["count"] for each in candidates], np.float64),
        errors=np.zeros(len(candidates)),
        buckets=buckets,
        texts={each["hash"]: each["texts"] for each in candidates},
        groups=groups,
        heaviest=np.array([each["most"] for each in candidates], np.float64) if weighted else None,
    )


def _candidate(each: Column, types: list[DataType]) -> Column:
    return F.struct(
        each.getField("count").alias("count"),
        each.getField("hash").alias("hash"),
        each.getField("most").alias("most"),
        write_texts(each.getField("key"), types).alias("texts"),
    )
