"""A stream on an emulated cluster: a query of micro-batches that runs on while routers and plans learn."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import keysplit as ks
from keysplit_experiments.deployments.engine import reports, segment
from keysplit_experiments.deployments.engine.reports import Reports
from keysplit_experiments.deployments.engine.segment import (
    KEY,
    as_column,
    check_messages,
    plain_count,
    sql_type,
)
from keysplit_experiments.deployments.engine.session import memory_mb, session
from keysplit_experiments.harness import Figures

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

ID, PLACE = "id", "place"
UTILISATION, REPORTS_S = 0.8, 0.1


def run(
    params: ks.Grouping,
    keys: Any,
    *,
    sources: int,
    batches: int,
    service_time_s: float,
    speeds: Sequence[float] = (),
    follow: bool = False,
    present: Mapping[int, int] = MappingProxyType({}),
) -> Figures:
    """Send a stream from sources to workers, and measure the workers in its second half.

    A micro-batch has an equal part of the stream, in a partition per source. The workers of a micro-batch
    serve their queues and count keys; an aggregator adds up the counts. The next micro-batch follows as soon
    as all workers are done, so they are saturated.

    Args:
        params: The grouping.
        keys: The stream, as routers accept it.
        sources: Number of sources.
        batches: Number of micro-batches, at least 3.
        service_time_s: Seconds that a message takes a worker of speed 1.
        speeds: Relative speed of each worker; empty if all are 1.
        follow: Whether a plan follows the grouping, with the speeds of workers measured, instead of a router
            per source that routes each message and goes on from micro-batch to micro-batch.
        present: Number of workers from a micro-batch on, by its number, where a plan is followed. A plan of
            D-Choices for them is made of the micro-batch before, and published. The query goes on with
            D-Choices.

    Returns:
        Over the second half of the micro-batches, the figures of
        [`figures`][keysplit_experiments.deployments.engine.reports.figures], with latencies from the start
        of the workers of a micro-batch. Next to them: throughput and percentiles with all that Spark does
        between micro-batches counted in (`whole_per_s`, `whole_p50_latency_s`, ...), messages then arriving
        one by one while the micro-batch before is under way, and served in that order; of each micro-batch
        the number of workers (`present`), how long each of all was busy (`busy_s`), and the time of the
        busiest over the mean of those present (`balances`); of the whole stream the mean number of workers
        per key (`replication`); whether a plan is followed (`by_plan`); the simulator's balance and
        throughput (`simulated_balance`, `simulated_per_s`), unless plans are published: the simulator knows
        one grouping per stream; the memory in megabytes, and how long all took in seconds.

    Raises:
        ValueError: If there are too few micro-batches, or fewer messages than sources in each.
        RuntimeError: If the aggregator's totals are wrong.
    """
    column = as_column(keys)
    if batches < 3:
        raise ValueError(f"batches must be at least 3, got {batches}")
    check_messages(len(column), sources, batches)
    from keysplit import spark as kss
    from keysplit_experiments.deployments.engine.working import REPORT, Working

    began = time.time()
    spark = session(max(sources, params.workers))
    work = Working(KEY, service_time_s, tuple(speeds), tag=PLACE)
    totals: Counter[str] = Counter()
    pairs: set[tuple[int, str]] = set()
    stages: list[Reports] = []
    whole_s: list[NDArray[np.float64]] = []
    per_batch = len(column) // batches
    with tempfile.TemporaryDirectory(prefix="keysplit-deployment-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        write(column, folder / "in", sources, batches)
        schema = f"{KEY} {sql_type(column)}, {ID} bigint, {PLACE} double"
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", sources)
        placed = _routed(reader.parquet(str(folder / "in")), params, folder, follow)

        def serve(df: DataFrame, batch: int) -> None:
            found = df.mapInArrow(work, REPORT).toPandas()
            for worker, by_key, counts in zip(found["worker"], found["keys"], found["counts"], strict=True):
                totals.update(dict(zip(by_key, counts.tolist(), strict=True)))
                pairs.update((worker, key) for key in by_key)
            stages.append(reports.read(found, params.workers))
            start = stages[-1].start
            since = stages[-2].start if batch else start
            one_by_one = reports.read(found, params.workers, lambda places: since + places * (start - since))
            whole_s.append(one_by_one.latency_s)
            if batch + 1 in present:
                rows = spark.read.schema(schema).parquet(str(folder / "in" / f"{batch:05}-*.parquet"))
                plan = kss.plan(rows, KEY, present[batch + 1], row_id=ID, seed=params.seed)
                kss.streaming.publish(plan, spark.streams.active[0])

        writer = placed.writeStream.foreachBatch(serve).trigger(processingTime="0 seconds")
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        try:
            query.processAllAvailable()
            memory = memory_mb()
        finally:
            query.stop()
    reports.check(totals, plain_count(column[: len(column) // batches * batches]))
    half = batches // 2
    found = {
        **reports.figures(reports.joined(stages[half:])),
        **reports.percentiles(np.concatenate(whole_s[half:]), "whole_"),
        "whole_per_s": (batches - 1 - half) * per_batch / (stages[-1].start - stages[half].start),
        **by_batch([stage.busy_s for stage in stages], present),
        "replication": len(pairs) / len(totals),
        "by_plan": follow,
        "memory_mb": memory,
        "took_s": time.time() - began,
    }
    if not present:
        found |= simulated(
            params,
            column[: batches * per_batch],
            half * per_batch,
            sources=sources,
            service_time_s=service_time_s,
            speeds=speeds,
        )
    return found


def by_batch(busy_s: Sequence[NDArray[np.float64]], present: Mapping[int, int]) -> Figures:
    """Give of each micro-batch the number of workers, how long each was busy, and how balanced they were.

    Args:
        busy_s: Seconds that each worker was busy, present or not, by micro-batch.
        present: Number of workers from a micro-batch on, by its number; before, all are present.
    """
    numbers: list[int] = []
    for batch, each in enumerate(busy_s):
        numbers.append(present.get(batch, numbers[-1] if batch else len(each)))
    return {
        "present": numbers,
        "busy_s": [each.round(4).tolist() for each in busy_s],
        "balances": [
            float(each.max() * number / each.sum()) for each, number in zip(busy_s, numbers, strict=True)
        ],
    }


def simulated(
    params: ks.Grouping,
    keys: pa.Array,
    first: int,
    *,
    sources: int,
    service_time_s: float,
    speeds: Sequence[float],
) -> Figures:
    """Simulate the same stream in time, and give the balance and the throughput after the first messages.

    Messages arrive at 80 per cent of the rate that all workers together can serve; workers report to the
    sources ten times a second.
    """
    capacities = list(speeds) or [1.0] * params.workers
    rate_per_s = UTILISATION * sum(capacities) / service_time_s
    before, after = (
        ks.simulate(
            params,
            part,
            sources=sources,
            service_time_s=service_time_s,
            arrival_rate_per_s=rate_per_s,
            capacities=capacities,
            feedback_interval_s=REPORTS_S,
            samples=0,
        ).loads
        for part in (keys[:first], keys)
    )
    work_s = (after - before) * service_time_s / np.array(capacities)
    return {
        "simulated_balance": reports.balance(work_s),
        "simulated_per_s": float((len(keys) - first) / work_s.max()),
    }


def _routed(df: DataFrame, params: ks.Grouping, folder: Path, follow: bool) -> DataFrame:
    from keysplit import spark as kss

    if follow:
        adapt = kss.streaming.Adapt(grouping=params, row_id=ID, capacities="measured")
        return kss.streaming.repartition(df, KEY, plan=adapt)
    return kss.online.repartition(df, KEY, params, state=folder / "routers")


def write(keys: pa.Array, folder: Path, sources: int, batches: int) -> None:
    """Write the messages of each micro-batch and source to a file of its own.

    Args:
        keys: The stream; what does not fill a micro-batch at its end is left out.
        folder: Made here.
        sources: Number of sources, which get the messages in turn.
        batches: Number of micro-batches.
    """
    folder.mkdir()
    per_batch = len(keys) // batches
    for batch in range(batches):
        turns = [np.arange(source, per_batch, sources) for source in range(sources)]
        paths = [folder / f"{batch:05}-{source:05}.parquet" for source in range(sources)]
        segment.write([_messages(keys, batch * per_batch, per_batch, turn) for turn in turns], paths)
        for path in paths:
            os.utime(path, (batch, batch))  # a stream reads the oldest files first


def _messages(keys: pa.Array, first: int, per_batch: int, places: NDArray[np.int64]) -> pa.Table:
    ids = first + places
    return pa.table({KEY: keys.take(pa.array(ids)), ID: ids, PLACE: places / per_batch})
