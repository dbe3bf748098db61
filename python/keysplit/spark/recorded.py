"""The stages, tasks and plans of a classic session, from its event log or its status store.

The store has no accumulators of tasks. But its text on an operator's metrics names the stage and the task
with the largest value, so it shows which stage an operator ran in.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from keysplit.spark.jvm import (
    JvmError,
    is_connect,
    is_session,
    is_stopped,
    items,
    java_class,
    java_context,
    java_session,
    settle,
)

_LARGEST = re.compile(
    r"([\d.,]+ [A-Za-z]+) \([^()]*, ([\d.,]+ [A-Za-z]+) \(stage (\d+)\.(\d+): task (\d+)\)\)"
)
# These write only full blocks, so the log of a running session lacks its last stages.
_IN_BLOCKS = ("lz4", "lzf")


# Spark's units of sizes, in bytes.
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


@dataclass(frozen=True)
class RecordedExecution:
    """A recorded SQL execution; times are milliseconds since 1970."""

    id: int
    root: int | None
    description: str
    start_ms: int
    end_ms: int | None
    stages: frozenset[int]
    conf: Mapping[str, str]


class Records:
    """The recorded stages, tasks and plans of a session.

    Raises:
        TypeError: if `spark` is not a session.
        ValueError: if the session is of Spark Connect, or has been stopped.
    """

    def __init__(self, spark: Any) -> None:
        if is_connect(spark) and is_session(spark):
            raise ValueError(
                "spark must be a classic session, got a Spark Connect session, which exposes no task "
                "metrics: set spark.eventLog.enabled=true on the server, and pass the log to "
                "keysplit.diagnose(path) or `keysplit diagnose PATH`"
            )
        if not isinstance(spark, SparkSession):
            raise TypeError(f"spark must be a SparkSession, got {type(spark).__name__}")
        if is_stopped(spark):
            raise ValueError("spark must be a session that is running, got a stopped session")
        self._spark = spark
        self._context = spark.sparkContext
        settle(spark)
        self._store = java_context(self._spark).statusStore()
        self._mapper = java_class("com.fasterxml.jackson.databind.ObjectMapper")()
        self._mapper.registerModule(java_class("com.fasterxml.jackson.module.scala.DefaultScalaModule")())

    def event_log(self) -> str | None:
        """Return the path of the session's event log; None without one, or if its codec delays the end."""
        logger = java_context(self._spark).eventLogger()
        codec = self._context.getConf().get("spark.eventLog.compression.codec", "zstd")
        if not logger.isDefined() or codec in _IN_BLOCKS:
            return None
        with suppress(JvmError):
            return str(logger.get().logWriter().logPath())
        return None

    def application(self) -> dict[str, Any]:
        """Return the name, id, version, start and now in milliseconds, and settings."""
        return {
            "name": self._context.appName,
            "id": self._context.applicationId,
            "version": self._context.version,
            "start_ms": int(java_context(self._spark).startTime()),
            "now_ms": int(java_class("java.lang.System").currentTimeMillis()),
            "conf": dict(self._context.getConf().getAll()),
        }

    def executors(self) -> list[dict[str, Any]]:
        """Return the live executors, in the form of Spark's REST API."""
        found: list[dict[str, Any]] = self._read(self._store.executorList(True))
        return found

    def stages(self) -> list[dict[str, Any]]:
        """Return the stages, in the form of Spark's REST API."""
        gateway: Any = self._context._gateway
        quantiles = gateway.new_array(gateway.jvm.double, 0)
        found: list[dict[str, Any]] = self._read(self._store.stageList(None, False, False, quantiles, None))
        return found

    def tasks(self, stage: int, attempt: int) -> list[dict[str, Any]]:
        """Return the tasks of a stage, in the form of Spark's REST API."""
        found: list[dict[str, Any]] = self._read(self._store.taskList(stage, attempt, 2**31 - 1))
        return found

    def executions(self) -> Iterator[RecordedExecution]:
        """Return the recorded SQL executions."""
        store = java_session(self._spark).sharedState().statusStore()
        for each in items(store.executionsList()):
            conf = self._read(each.modifiedConfigs())
            if conf is None:  # Spark has dropped it already, or has not reported its start
                continue
            ended = each.completionTime()
            yield RecordedExecution(
                id=int(each.executionId()),
                root=_root_of(each),
                description=str(each.description()),
                start_ms=int(each.submissionTime()),
                end_ms=int(ended.get().getTime()) if ended.isDefined() else None,
                stages=frozenset(map(int, self._read(each.stages()))),
                conf=conf,
            )

    def plan(self, execution: int) -> dict[str, Any]:
        """Return the plan of an execution, in the form of event logs."""
        graph = java_session(self._spark).sharedState().statusStore().planGraph(execution)
        edges: dict[int, list[int]] = {}
        for edge in items(graph.edges()):
            edges.setdefault(int(edge.toId()), []).append(int(edge.fromId()))
        nodes = {int(node.id()): node for node in items(graph.allNodes())}
        children = {child for some in edges.values() for child in some}

        def read(id_: int) -> dict[str, Any]:
            node = nodes[id_]
            return {
                "nodeName": str(node.name()),
                "simpleString": str(node.desc()),
                "metrics": [
                    {"name": str(each.name()), "accumulatorId": int(each.accumulatorId())}
                    for each in items(node.metrics())
                ],
                "children": [read(child) for child in edges.get(id_, ())],
            }

        # clusters of generated code have neither edges nor operators
        roots = [
            id_
            for id_, node in nodes.items()
            if id_ not in children and not node.name().startswith("WholeStageCodegen")
        ]
        tops = [read(id_) for id_ in sorted(roots)]
        return tops[0] if len(tops) == 1 else {"nodeName": "", "children": tops}

    def largest(self, execution: int) -> dict[int, tuple[int, int, float, float]]:
        """Return for each accumulator the stage and task with the largest value, that value, and the sum.

        Accumulators with only a sum, or filled by a single task, are omitted.
        """
        store = java_session(self._spark).sharedState().statusStore()
        found = {}
        for id_, text in self._read(store.executionMetrics(execution)).items():
            match = _LARGEST.search(text)
            if match is not None:
                found[int(id_)] = (int(match[3]), int(match[5]), _size(match[2]), _size(match[1]))
        return found

    def _read(self, value: Any) -> Any:
        return json.loads(self._mapper.writeValueAsString(value))


def _size(text: str) -> float:
    number, _, unit = text.partition(" ")
    return float(number.replace(",", "")) * _UNITS.get(unit, 0)


def _root_of(execution: Any) -> int | None:
    root: Mapping[str, Any] | Any = execution.rootExecutionId()
    return int(root) if isinstance(root, int) else None
