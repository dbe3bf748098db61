"""What a run costs: time, CPU, bytes shuffled, and the slowest and largest task."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from statistics import median
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from keysplit import spark as kss
from keysplit_experiments.measured.processes import CpuClock, jvm_pid

REDUCERS = 32
Result: TypeAlias = DataFrame | DataFrameWriter
Way: TypeAlias = Callable[[DataFrame], Result]


@dataclass
class Figures:
    """Figures of one run, or of several relative to plain Spark's of the same round."""

    wall_s: float
    cpu_s: float = 0.0
    slowest: float = 0.0
    shuffled: float = 0
    memory: float = 0
    input: float = 0
    took: str = ""

    def over(self, base: "Figures") -> "Figures":
        """Return these relative to another run's, 0 where that has none; `slowest` and `took` stay."""

        def ratio(name: str) -> float:
            theirs = getattr(base, name)
            return getattr(self, name) / theirs if theirs else 0.0

        relative = {name: ratio(name) for name in ("wall_s", "cpu_s", "shuffled", "memory", "input")}
        return Figures(slowest=self.slowest, took=self.took, **relative)

    def row(self) -> str:
        """Return the figures as cells of a table, "-" where there is none."""
        ratios = (self.wall_s, self.cpu_s, self.shuffled, self.memory, self.input)
        wall, cpu, *rest = (f"{ratio:.2f}" if ratio else "-" for ratio in ratios)
        return " | ".join([self.took, wall, cpu, f"{self.slowest:.1f}", *rest])


def middle(runs: list[Figures]) -> Figures:
    """Return the median of each figure."""
    numbers = [each.name for each in fields(Figures) if each.name != "took"]
    return Figures(
        took=runs[-1].took, **{name: median(getattr(run, name) for run in runs) for name in numbers}
    )


def compared(
    spark: SparkSession, df: DataFrame, ways: dict[str, Way], rounds: int, reducers: int = REDUCERS
) -> Iterator[tuple[str, Figures]]:
    """Run all ways in turn, round after round; yield for each its medians relative to the first way's."""
    found: dict[str, list[Figures]] = {way: [] for way in ways}
    for _ in range(rounds):
        runs = {}
        for way, run in ways.items():
            # Spark keeps Python workers by their environment: no way gets those that another one has left
            spark.sparkContext.environment["KEYSPLIT_MEASURED_WAY"] = way
            runs[way] = measured(spark, run, df, reducers)
        base = next(iter(runs.values()))
        for way, figures in runs.items():
            found[way].append(figures.over(base))
    for way, relative in found.items():
        yield way, middle(relative)


def measured(spark: SparkSession, run: Way, df: DataFrame, reducers: int = REDUCERS) -> Figures:
    """Run one way, discard its rows, and return what that took."""
    context = spark.sparkContext
    jvm = jvm_pid(spark)
    group = f"run {time.time_ns()}"
    context.setJobGroup(group, group)
    start, cpu = time.monotonic(), CpuClock(jvm)
    result = run(df)
    finish(result)
    figures = Figures(time.monotonic() - start, cpu.stop(), took=_way(result))
    context.setLocalProperty("spark.jobGroup.id", None)
    tracker, store = context._jsc.statusTracker(), context._jsc.sc().statusStore()
    time.sleep(0.5)  # the listener that fills the store is late
    longest = 0
    for job in tracker.getJobIdsForGroup(group):
        for stage in tracker.getJobInfo(job).stageIds():
            tasks = store.taskList(stage, 0, 100_000)
            metrics = [_metrics(tasks.apply(i)) for i in range(tasks.size())]
            metrics = [each for each in metrics if each is not None]
            if not metrics:
                continue  # it was skipped
            figures.shuffled += sum(each.shuffleWriteMetrics().bytesWritten() for each in metrics)
            figures.memory = max(figures.memory, *(each.peakExecutionMemory() for each in metrics))
            times = [each.executorRunTime() for each in metrics]
            reads = [each.shuffleReadMetrics() for each in metrics]
            inputs = [each.localBytesRead() + each.remoteBytesRead() for each in reads]
            figures.input = max(figures.input, *inputs)
            if any(inputs) and max(times) > longest:
                longest = max(times)
                figures.slowest = longest * max(len(times), reducers) / max(sum(times), 1)
    return figures


def finish(result: Result) -> None:
    """Run a query to its last row, keep nothing."""
    if isinstance(result, DataFrame):
        result.write.format("noop").mode("overwrite").save()
        return
    folder = tempfile.mkdtemp(prefix="spark-skew-")
    try:
        result.mode("overwrite").parquet(folder)
    finally:
        shutil.rmtree(folder)


def _way(result: Result) -> str:
    try:
        return kss.explain(result).partition(":")[0]
    except TypeError:  # not keysplit's own
        return ""


def _metrics(task: Any) -> Any:
    found = task.taskMetrics()
    return found.get() if found.isDefined() else None
