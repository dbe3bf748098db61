"""Deployments on Spark: messages go where the simulator says, totals are exact, slow workers get less.

Each test runs a program of this file in a process of its own: the Spark session of an emulated cluster is
like no other.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import keysplit as ks
from keysplit_experiments.harness import registry
from keysplit_experiments.harness.experiment import Scale
from keysplit_experiments.harness.inputs import Inputs

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

SOURCES, WORKERS, SERVICE_TIME_S = 2, 8, 0.002
SLOWLY_S = 0.02
"""Where workers are measured: more than tasks take to start on a busy machine."""

SPEEDS = [0.3, *([1.0] * (WORKERS - 1))]
BATCHES, PER_BATCH = 6, 800
FOLLOWED = 10
"""The batches of a plan that follows: it leaves out the first ones and asks for repeated evidence."""

FEWER = {2: WORKERS - 2, 4: WORKERS}
DEPLOYMENTS = [f"deployments/{name}" for name in ("d_choices", "consistent", "fish", "flexd")]
SEGMENT = ["d_choices", "shuffle"]
TINY = Scale("tiny", 800)


def keys_of(messages: int) -> pa.Array:
    numbers = ks.streams.zipf(1.4, keys=500, messages=messages, seed=1)
    return pa.array([f"word {number}" for number in numbers])


def params_of(grouping: str) -> ks.Grouping:
    return ks.grouping(grouping, workers=WORKERS, seed=3)


def tried(name: str) -> dict[str, Any]:
    """The cell of a deployment that is tried."""
    return list(registry.deployments()[name].cells(TINY))[1]


# programs


def a_segment(grouping: str = "partial_key") -> dict[str, Any]:
    from keysplit_experiments.deployments.engine import segment

    common: dict[str, Any] = {"sources": SOURCES, "service_time_s": SERVICE_TIME_S}
    return segment.run(params_of(grouping), keys_of(2_000), **common)


def segments() -> dict[str, Any]:
    from keysplit_experiments.deployments.engine import segment
    from keysplit_experiments.deployments.engine.session import session

    found: dict[str, Any] = {name: a_segment(name) for name in SEGMENT}
    numbers = ks.streams.zipf(1.4, 500, 1_001, 1)
    common: dict[str, Any] = {"sources": SOURCES, "service_time_s": SERVICE_TIME_S}
    found["numbers"] = segment.run(params_of("shuffle"), numbers, speeds=SPEEDS, **common)
    # each deployment runs in a thread of its own
    other = Thread(target=lambda: found.update(slots=session(3).sparkContext.defaultParallelism))
    other.start()
    other.join()
    return found


def a_stream(
    grouping: str, service_time_s: float = SERVICE_TIME_S, *, batches: int = BATCHES, **more: Any
) -> dict[str, Any]:
    from keysplit_experiments.deployments.engine import stream

    common: dict[str, Any] = {"sources": SOURCES, "batches": batches, "service_time_s": service_time_s}
    return stream.run(params_of(grouping), keys_of(batches * PER_BATCH), **common, **more)


def online() -> dict[str, Any]:
    return a_stream("partial_key")


def measured() -> dict[str, Any]:
    return a_stream("consistent", SLOWLY_S, batches=FOLLOWED, follow=True, speeds=SPEEDS)


def elastic() -> dict[str, Any]:
    return a_stream("fish", SLOWLY_S, follow=True, present=FEWER)


def deployments() -> dict[str, Any]:
    return {name: registry.deployments()[name].measure(Inputs(), **tried(name)) for name in DEPLOYMENTS}


PROGRAMS: dict[str, Callable[[], dict[str, Any]]] = {
    each.__name__: each for each in (a_segment, segments, online, measured, elastic, deployments)
}


def ran(program: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run a program in a process of its own."""
    command = [sys.executable, __file__, program.__name__]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# tests


def goes_where_the_simulator_says(found: dict[str, Any], grouping: str) -> None:
    simulated = ks.simulate(params_of(grouping), keys_of(2_000), sources=SOURCES)
    assert found["loads"] == simulated.loads.tolist()
    assert found["replication"] == pytest.approx(simulated.replication)
    assert found["simulated_balance"] == pytest.approx(1 + simulated.relative_imbalance)
    assert found["balance"] == pytest.approx(found["simulated_balance"], rel=0.15)
    # the workers start together, so the last message is finished when the busiest worker has slept for all
    busiest_s = simulated.loads.max() * SERVICE_TIME_S
    assert busiest_s <= found["duration_s"] < busiest_s + 1


def test_each_source_routes_its_part_of_a_segment() -> None:
    goes_where_the_simulator_says(ran(a_segment), "partial_key")


@pytest.mark.slow
def test_segments_of_words_and_of_numbers() -> None:
    found = ran(segments)
    for name in SEGMENT:
        goes_where_the_simulator_says(found[name], name)
    numbers = found["numbers"]
    assert sum(numbers["loads"]) == numbers["messages"] == 1_001
    # shuffle grouping gives the slow worker as many as any other, and it takes 1/0.3 as long
    work_s = np.array(numbers["loads"]) * SERVICE_TIME_S / SPEEDS
    assert numbers["simulated_balance"] == pytest.approx(work_s.max() / work_s.mean())
    assert numbers["balance"] == pytest.approx(numbers["simulated_balance"], rel=0.15)
    # another number of workers takes another session
    assert found["slots"] == 3


@pytest.mark.slow
def test_routers_go_on_from_micro_batch_to_micro_batch() -> None:
    found, keys = ran(online), keys_of(BATCHES * PER_BATCH)
    first, whole = (
        ks.simulate(params_of("partial_key"), part, sources=SOURCES)
        for part in (keys[: len(keys) // 2], keys)
    )
    assert found["loads"] == (whole.loads - first.loads).tolist()
    assert found["replication"] == pytest.approx(whole.replication)
    assert found["present"] == [WORKERS] * BATCHES
    # of each micro-batch, how long each worker slept for its messages
    measured_s = np.sum(found["busy_s"][BATCHES // 2 :], axis=0)
    assert measured_s == pytest.approx(np.array(found["loads"]) * SERVICE_TIME_S, rel=0.3)
    assert found["balance"] == pytest.approx(measured_s.max() / measured_s.mean(), rel=0.01)
    # to the wait in the queue comes that for the micro-batch
    assert found["whole_p50_latency_s"] > found["p50_latency_s"]
    assert found["whole_per_s"] < found["throughput_per_s"]


@pytest.mark.slow
def test_a_plan_that_follows_gives_a_slow_worker_less() -> None:
    found = ran(measured)
    loads = found["loads"]
    assert sum(loads) == FOLLOWED // 2 * PER_BATCH
    assert loads[0] < 0.7 * np.mean(loads[1:])
    assert found["balance"] < found["balances"][0]
    assert found["by_plan"]


@pytest.mark.slow
def test_workers_leave_and_come_back_in_the_micro_batch_that_is_told() -> None:
    found = ran(elastic)
    leave, come_back = FEWER
    busy_s, balances = np.array(found["busy_s"]), found["balances"]
    assert found["present"] == [WORKERS] * leave + [WORKERS - 2] * (come_back - leave) + [WORKERS] * (
        BATCHES - come_back
    )
    leaving = busy_s[:, -2:]
    assert leaving[:leave].min() > 0
    assert (leaving[leave:come_back] == 0).all()
    assert leaving[come_back:].min() > 0
    assert busy_s[:, :-2].min() > 0
    # its plan of the messages before is followed: hashing alone is far worse
    assert max(balances[leave:]) < 1.5 < balances[0]
    assert "simulated_balance" not in found


@pytest.mark.slow
def test_a_cell_of_each_deployment() -> None:
    found = ran(deployments)
    for name in DEPLOYMENTS:
        cell, figures = tried(name), found[name]
        # a stream of micro-batches is measured in its second half
        part = 2 if cell.get("batches") else 1
        assert figures["messages"] == sum(figures["loads"]) == cell["messages"] // part
        for balance in (figures["balance"], figures["simulated_balance"]):
            assert 1 <= balance <= len(figures["loads"])
        assert set(figures) >= {"memory_mb", "took_s", "throughput_per_s", "p99_latency_s"}


if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]]()))
