"""What a task knows of the query it belongs to."""

from pyspark import TaskContext

# Set by Spark in the thread that runs a query; tasks get a copy.
QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"

ASKING = "keysplit_asks_"
"""How the names of functions of the driver begin that a stream asks for its plan."""


def streaming_query() -> str:
    """Return the id of the streaming query of this task: it stays when the query starts again.

    Raises:
        RuntimeError: if the task belongs to no streaming query.
    """
    return _of_query(QUERY)


def micro_batch() -> int:
    """Return the number of the micro-batch of this task: attempts at one batch have the same.

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
            "pyspark.InheritableThread, others do not inherit it"
        )
    return str(value)
