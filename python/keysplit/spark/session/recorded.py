"""What a classic session remembers of its stages, tasks and plans: in its event log, or in its status store.

The store has no accumulators of tasks. Its texts of an operator's metrics name the stage and the task with
the largest value: that says which operators a stage ran.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from keysplit.spark.session import costs
from keysplit.spark.session.interface import RecordedExecution
from keysplit.spark.session.jvm import items, java_class, settle

_LARGEST = re.compile(
    r"([\d.,]+ [A-Za-z]+) \([^()]*, ([\d.,]+ [A-Za-z]+) \(stage (\d+)\.(\d+): task (\d+)\)\)"
)
# These write a block only when it is full, so the last stages of a running session are not in its log.
_IN_BLOCKS = ("lz4", "lzf")


class Recorded:
    """What a session remembers; this is a `keysplit.spark.session.Records`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._context = spark.sparkContext
        settle(spark)
        self._store = self._context._jsc.sc().statusStore()
        self._mapper = java_class("com.fasterxml.jackson.databind.ObjectMapper")()
        self._mapper.registerModule(java_class("com.fasterxml.jackson.module.scala.DefaultScalaModule")())

    def event_log(self) -> str | None:
        """Return where the session's own event log is, None if it writes none or keeps its end back."""
        logger = self._context._jsc.sc().eventLogger()
        codec = self._context.getConf().get("spark.eventLog.compression.codec", "zstd")
        if not logger.isDefined() or codec in _IN_BLOCKS:
            return None
        with suppress(Py4JError):
            return str(logger.get().logWriter().logPath())
        return None

    def application(self) -> dict[str, Any]:
        """Return the name, id, version, start in milliseconds, and settings."""
        return {
            "name": self._context.appName,
            "id": self._context.applicationId,
            "version": self._context.version,
            "start_ms": int(self._context._jsc.sc().startTime()),
            "now_ms": int(java_class("java.lang.System").currentTimeMillis()),
            "conf": dict(self._context.getConf().getAll()),
        }

    def executors(self) -> list[dict[str, Any]]:
        """Return the executors that are alive, as Spark's REST interface does."""
        found: list[dict[str, Any]] = self._read(self._store.executorList(True))
        return found

    def stages(self) -> list[dict[str, Any]]:
        """Return the stages, as Spark's REST interface does."""
        gateway: Any = self._context._gateway
        quantiles = gateway.new_array(gateway.jvm.double, 0)
        found: list[dict[str, Any]] = self._read(self._store.stageList(None, False, False, quantiles, None))
        return found

    def tasks(self, stage: int, attempt: int) -> list[dict[str, Any]]:
        """Return the tasks of a stage, as Spark's REST interface does."""
        found: list[dict[str, Any]] = self._read(self._store.taskList(stage, attempt, 2**31 - 1))
        return found

    def executions(self) -> Iterator[RecordedExecution]:
        """Return the executions of SQL that are remembered."""
        store = self._spark._jsparkSession.sharedState().statusStore()
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
        """Return the plan of an execution, as event logs hold it."""
        graph = self._spark._jsparkSession.sharedState().statusStore().planGraph(execution)
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

        # the clusters of generated code have no edges, and no operator of their own
        roots = [
            id_
            for id_, node in nodes.items()
            if id_ not in children and not node.name().startswith("WholeStageCodegen")
        ]
        tops = [read(id_) for id_ in sorted(roots)]
        return tops[0] if len(tops) == 1 else {"nodeName": "", "children": tops}

    def largest(self, execution: int) -> dict[int, tuple[int, int, float, float]]:
        """Return for each accumulator the stage and task with the largest value, that value, and the sum.

        Those of which Spark knows only the sum, or which one task filled, are left out.
        """
        store = self._spark._jsparkSession.sharedState().statusStore()
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
    return float(number.replace(",", "")) * costs.UNITS.get(unit, 0)


def _root_of(execution: Any) -> int | None:
    root: Mapping[str, Any] | Any = execution.rootExecutionId()
    return int(root) if isinstance(root, int) else None
