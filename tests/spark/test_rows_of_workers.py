"""The rows that each worker of a micro-batch got are counted in a sketch that is exact."""

import numpy as np
import pytest
from pyspark.sql import functions as F

from keysplit.spark.streaming import by_worker


@pytest.mark.parametrize("workers", [1, 3, 32, 4096, 4097, 65_536])
def test_the_rows_of_each_worker_are_counted_exactly(spark, workers):
    at = np.minimum(np.arange(4000) ** 2 % workers, workers - 1)
    df = spark.createDataFrame([(int(each),) for each in at], "`a ``b` int")
    sketch = df.agg(F.expr(by_worker.counting("a `b", workers))).first()[0]
    together = by_worker.workers_per_count(workers)
    assert -(-workers // together) <= by_worker.MOST_COUNTS
    expected = np.bincount(at // together, minlength=-(-workers // together))
    assert by_worker.counted(bytes(sketch), workers).tolist() == expected.tolist()


def test_no_two_workers_share_a_counter():
    for workers in (*range(1, 40), 4095):
        error, seed = by_worker._free_of_collisions(workers)
        assert error > 0
        assert seed >= 0


def test_another_sketch_is_refused(spark):
    other = spark.range(9).agg(F.expr("count_min_sketch(id, 0.1d, 0.9d, 1)")).first()[0]
    for wrong in (b"", bytes(other)):
        with pytest.raises(ValueError, match=r"^the counts of a run cannot be read: "):
            by_worker.counted(wrong, 4)
