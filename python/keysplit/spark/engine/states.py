"""The state of routers between the micro-batches of a stream: one per source, written by its task.

A folder with files `source-P-batch-B`: the state of the router of partition P after micro-batch B. A task of
a batch begins with the newest state of its partition before that batch, however often the batch is attempted,
and replaces only the state after it.
"""

import base64
import re
from collections.abc import Callable
from typing import Any

from pyspark import TaskContext

from keysplit.plans import files
from keysplit.spark.session.tasks import BATCH

# States of a source that are kept: Spark attempts only the last batch again.
_KEPT = 3
_NAME = re.compile(r"source-(\d+)-batch-(\d+)")


def router_of_task(params: Any, folder: str | None) -> tuple[Any, Callable[[], None]]:
    """Return the router of the task in which this runs, and what is to be called once it has routed all rows.

    Args:
        params: the grouping.
        folder: where the states of a stream are; None for a batch, which begins anew.

    Raises:
        OSError: if a state cannot be read.
        ValueError: if it is of another grouping, or damaged.
    """
    context = TaskContext.get()
    assert context is not None
    source = context.partitionId()
    if folder is None:
        return params.router(source=source), lambda: None
    batch = int(context.getLocalProperty(BATCH) or 0)
    found = sorted(_batches(folder, source))
    before = [each for each in found if each < batch]
    router = params.router(source=source, snapshot=_read(folder, source, before[-1]) if before else None)

    def leave() -> None:
        files.write(_path(folder, source, batch), base64.b64encode(router.snapshot()).decode())
        for each in before[: 1 - _KEPT]:
            files.delete(_path(folder, source, each))

    return router, leave


def _batches(folder: str, source: int) -> list[int]:
    names = map(_NAME.fullmatch, files.names(folder))
    return [int(name[2]) for name in names if name and int(name[1]) == source]


def _read(folder: str, source: int, batch: int) -> bytes:
    return base64.b64decode(files.read(_path(folder, source, batch)))


def _path(folder: str, source: int, batch: int) -> str:
    return f"{folder.rstrip('/')}/source-{source}-batch-{batch}"
