"""The state of routers between the micro-batches of a stream: one per source, written by its task.

The file `QUERY/routes-COLUMN/source-P/batch-B` has the state of the router of partition P after micro-batch
B, for one worker column of one query. For a Kafka partition, P consists of the hash of the topic and the
partition number; otherwise P is the number of the task. Each attempt at a batch's task starts from the
partition's newest state before the batch, and replaces only the state after the batch.

If each machine had a different folder, routers would start from scratch without an error. So the driver
writes a marker file, `shared.txt`, which every task must find.
"""

import base64
import re
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

from pyspark import TaskContext

from keysplit import paths
from keysplit.spark.tasks import micro_batch, streaming_query

# States kept per source: Spark retries only the last batch.
_KEPT = 3
_NAME = re.compile(r"batch-(\d+)")


class Place(NamedTuple):
    """A Kafka partition: the hash of its topic, and its number."""

    topic: int
    partition: int


class States(NamedTuple):
    """The folder of states, and its marker."""

    folder: str
    mark: str


def states_in(folder: str) -> States:
    """Create the folder of states, and write the marker file unless it exists.

    Raises:
        OSError: if the folder or the marker cannot be written.
        ValueError: if pyarrow knows no file system for the URL.
    """
    paths.make_folder(folder, "state")
    path = _mark(folder)
    paths.create(path, uuid.uuid4().hex)
    return States(folder, paths.read(path))


def router_of_task(
    params: Any, states: States | None, worker_column: str, place: Place | None
) -> tuple[Any, Callable[[], None]]:
    """Return the router of the current task, and a function to call once it has routed all rows.

    Args:
        params: the grouping.
        states: the states of a stream; None for a batch, where routers start empty.
        worker_column: the column that the router fills: a query may have several routers per task.
        place: the Kafka partition that the task reads; None if there is none.

    Raises:
        OSError: if a state cannot be read.
        RuntimeError: if the task cannot find the existing states, or does not belong to a streaming query.
        ValueError: if a state is damaged, or is for a different grouping or different parameters.
    """
    context = TaskContext.get()
    assert context is not None
    source, name = context.partitionId(), f"source-{context.partitionId()}"
    if place is not None:
        source, name = place.partition, f"source-{place.topic & 2**64 - 1:016x}-{place.partition}"
    if states is None:
        return params.router(source=source), lambda: None
    batch = micro_batch()
    _refuse_other(states)
    folder = paths.extended(states.folder, f"/{streaming_query()}/{_routes(worker_column)}/{name}")
    found = _batches(folder)
    before = [each for each in found if each < batch]
    router = _restored(params, source, folder, before[-1]) if before else params.router(source=source)

    def leave() -> None:
        if not found:
            paths.make_folder(folder, "state")
        paths.write(_path(folder, batch), base64.b64encode(router.snapshot()).decode())
        for each in before[: 1 - _KEPT]:
            paths.delete(_path(folder, each))

    return router, leave


def _refuse_other(states: States) -> None:
    try:
        mark = paths.read(_mark(states.folder))
    except FileNotFoundError:
        mark = None
    if mark != states.mark:
        raise RuntimeError(
            f"state must be a folder that the driver and all executors share, got {states.folder!r}, but "
            "this executor cannot find the driver's marker file there: pass a URL, or a path on a shared "
            "file system"
        )


def _routes(worker_column: str) -> str:
    """Return a folder name that is unique per column; it has no %, which URLs decode."""
    return "routes-" + quote(worker_column, safe="").replace("%", "=")


def _batches(folder: str) -> list[int]:
    names = map(_NAME.fullmatch, paths.names(folder))
    return sorted(int(name[1]) for name in names if name)


def _restored(params: Any, source: int, folder: str, batch: int) -> Any:
    path = _path(folder, batch)
    try:
        return params.router(source=source, snapshot=base64.b64decode(paths.read(path)))
    except ValueError as error:
        raise ValueError(
            f"state must be of {type(params).__name__} for {params.workers} workers, like this query, got "
            f"{path}: {error}; start the query as before, or with a new state folder"
        ) from error


def _mark(folder: str) -> str:
    return paths.extended(folder, "/shared.txt")


def _path(folder: str, batch: int) -> str:
    return paths.extended(folder, f"/batch-{batch}")
