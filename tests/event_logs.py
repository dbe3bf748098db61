"""Events of a log, as Spark writes them, for jobs that are made up."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import keysplit as ks

MB = 1 << 20


def task(
    stage: int,
    index: int,
    start_s: float,
    seconds: float,
    *,
    records: int = 100,
    size: int = MB,
    host: str = "a",
    gc_s: float = 0.0,
    wait_s: float = 0.0,
    cpu_s: float = 0.0,
    updates: Iterable[tuple[int, int]] = (),
    reason: str = "Success",
    shuffle: bool = True,
) -> dict[str, Any]:
    read = {"Total Records Read": records, "Local Bytes Read": size, "Remote Bytes Read": 0}
    read["Fetch Wait Time"] = round(1000 * wait_s)
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Stage Attempt ID": 0,
        "Task End Reason": {"Reason": reason},
        "Task Info": {
            "Index": index,
            "Launch Time": round(1000 * start_s),
            "Executor ID": host,
            "Host": host,
            "Finish Time": round(1000 * (start_s + seconds)),
            "Killed": False,
            "Accumulables": [
                {"ID": id_, "Name": "x", "Update": str(by), "Value": "0"} for id_, by in updates
            ],
        },
        "Task Executor Metrics": {"JVMHeapMemory": 0},
        "Task Metrics": {
            "Executor Run Time": round(1000 * seconds),
            "Executor CPU Time": round(1e9 * cpu_s),
            "JVM GC Time": round(1000 * gc_s),
            "Peak Execution Memory": records * 10,
            "Memory Bytes Spilled": 0,
            **(
                {"Shuffle Read Metrics": read}
                if shuffle
                else {"Input Metrics": {"Records Read": records, "Bytes Read": size}}
            ),
        },
    }


def stage(
    id_: int, tasks: list[dict[str, Any]], totals: Iterable[tuple[int, int]] = (), query: int | None = 0
) -> Iterator[dict[str, Any]]:
    info = {
        "Stage ID": id_,
        "Stage Attempt ID": 0,
        "Stage Name": f"stage {id_}",
        "Number of Tasks": len(tasks),
    }
    properties = {} if query is None else {"spark.sql.execution.id": str(query)}
    yield {"Event": "SparkListenerStageSubmitted", "Stage Info": info, "Properties": properties}
    yield from tasks
    found = [{"ID": accumulator, "Name": "x", "Value": str(value)} for accumulator, value in totals]
    yield {"Event": "SparkListenerStageCompleted", "Stage Info": {**info, "Accumulables": found}}


def node(name: str, text: str = "", children: Iterable[Any] = (), **metrics: int) -> dict[str, Any]:
    listed = [{"name": key.replace("_", " "), "accumulatorId": id_} for key, id_ in metrics.items()]
    return {"nodeName": name, "simpleString": text or name, "children": list(children), "metrics": listed}


def query(plan: dict[str, Any], id_: int = 0, start_s: float = 0.0) -> dict[str, Any]:
    kind = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
    return {
        "Event": kind,
        "executionId": id_,
        "description": f"query {id_}",
        "time": round(1000 * start_s),
        "sparkPlanInfo": plan,
    }


def end(id_: int, at_s: float) -> dict[str, Any]:
    kind = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd"
    return {"Event": kind, "executionId": id_, "time": round(1000 * at_s)}


def application(
    *events: Any, cores: int = 8, end_s: float = 30.0, hosts: str = "a", **conf: str
) -> list[dict[str, Any]]:
    flat: list[dict[str, Any]] = []
    for each in events:
        flat += [each] if isinstance(each, dict) else list(each)
    return [
        {"Event": "SparkListenerLogStart", "Spark Version": "4.1.0"},
        {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": conf},
        {"Event": "SparkListenerApplicationStart", "App Name": "made up", "App ID": "app-1", "Timestamp": 0},
        *(
            {
                "Event": "SparkListenerExecutorAdded",
                "Executor ID": host,
                "Executor Info": {"Host": host, "Total Cores": cores // len(hosts)},
            }
            for host in hosts
        ),
        *flat,
        {"Event": "SparkListenerApplicationEnd", "Timestamp": round(1000 * end_s)},
    ]


def text_of(events: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in events)


def diagnosed(folder: Path, events: Iterable[dict[str, Any]]) -> ks.Diagnosis:
    path = folder / "app-1"
    path.write_bytes(text_of(events))
    return ks.diagnose(path)


GROUPS = node(
    "FlatMapGroupsInPandas",
    "FlatMapGroupsInPandas [user#1], f(user#1)#4, [user#5]",
    [
        node(
            "Exchange",
            "Exchange hashpartitioning(user#1, 8), ENSURE_REQUIREMENTS",
            [node("Scan", data=3)],
            records_read=1,
            local_bytes_read=2,
        )
    ],
)
READS = [(1, 800), (2, 8 * MB)]


def hot(**of_hot: Any) -> list[dict[str, Any]]:
    """Eight tasks, the last of which takes ten times as long."""
    return [
        *(task(1, at, 0, 1, updates=READS) for at in range(7)),
        task(1, 7, 0, 10, **{"updates": READS, **of_hot}),
    ]


def over(
    *operators: str, shuffle: str = "hashpartitioning(user#1, 8), ENSURE_REQUIREMENTS"
) -> dict[str, Any]:
    """Return a plan of operators by their texts, the last first, over a shuffle."""
    read = {"records_read": 1, "local_bytes_read": 2}
    plan = node("Exchange", f"Exchange {shuffle}", [node("Scan", data=3)], **read)
    for text in reversed(operators):
        plan = node(text.removeprefix("!").split(" ")[0].split("(keys=")[0], text, [plan])
    return plan
