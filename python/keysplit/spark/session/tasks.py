"""What a task knows of the query it belongs to."""

from pyspark import TaskContext

# Set by Spark in the thread that runs a query; tasks get a copy.
QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


def streaming_query() -> str:
    """Return the id of the streaming query of this task: it stays when the query starts again.

    Raises:
        RuntimeError: if the task belongs to no streaming query.
    """
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(QUERY)
    if query is None:
        raise RuntimeError("this task must belong to a streaming query")
    return str(query)
