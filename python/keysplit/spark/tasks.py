"""The streaming query and micro-batch of a task."""

from pyspark import TaskContext

# Spark sets these in the thread of a query; tasks get a copy.
QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"

ASKING = "keysplit_asks_"
"""The prefix of the names of driver functions that a stream asks for its plan."""


def streaming_query() -> str:
    """Return the id of this task's streaming query, which does not change when the query restarts.

    Raises:
        RuntimeError: if the task belongs to no streaming query.
    """
    return _of_query(QUERY)


def micro_batch() -> int:
    """Return the number of this task's micro-batch, which is the same for all attempts at a batch.

    Raises:
        RuntimeError: if the task belongs to no streaming query.
    """
    return int(_of_query(BATCH))


def _of_query(name: str) -> str:
    context = TaskContext.get()
    value = None if context is None else context.getLocalProperty(name)
    if value is None:
        raise RuntimeError(
            f"this task must belong to a streaming query, got no {name}: in foreachBatch, start threads as "
            "pyspark.InheritableThread, because other threads do not inherit this property"
        )
    return str(value)
