"""Deployments on Spark: messages go where the simulator says, totals are exact, slow workers get less.

All runs are those of one program, this file, in a process of its own: the Spark session of an emulated
cluster is like no other.
"""

import json
import subprocess
import sys
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

SOURCES, WORKERS, SERVICE_TIME_S = 2, 8, 0.001
SPEEDS = [0.3, *([1.0] * (WORKERS - 1))]
BATCHES, PER_BATCH = 6, 800
DEPLOYMENTS = [f"deployments/{name}" for name in ("d_choices", "consistent", "fish", "flexd")]
SEGMENT = ["partial_key", "d_choices", "shuffle"]
TINY = Scale("tiny", 800)


def keys_of(messages: int) -> pa.Array:
    numbers = ks.streams.zipf(1.4, keys=500, messages=messages, seed=1)
    return pa.array([f"word {number}" for number in numbers])


def params_of(grouping: str) -> ks.Grouping:
    return ks.grouping(grouping, workers=WORKERS, seed=3)


def tried(name: str) -> dict[str, Any]:
    """The cell of a deployment that is tried."""
    return list(registry.deployments()[name].cells(TINY))[1]


def program() -> dict[str, Any]:
    from keysplit_experiments.deployments.engine import segment, stream
    from keysplit_experiments.deployments.engine.session import session

    keys, common = keys_of(2_000), {"sources": SOURCES, "service_time_s": SERVICE_TIME_S}
    found: dict[str, Any] = {name: segment.run(params_of(name), keys, **common) for name in SEGMENT}
    found["numbers"] = segment.run(
        params_of("key"), ks.streams.zipf(1.4, 500, 1_001, 1), speeds=SPEEDS, **common
    )
    keys, common = keys_of(BATCHES * PER_BATCH), {**common, "batches": BATCHES}
    found["online"] = stream.run(params_of("partial_key"), keys, **common)
    slow = {**common, "service_time_s": 0.004, "speeds": SPEEDS}
    found["measured"] = stream.run(params_of("consistent"), keys, follow=True, **slow)
    found["fewer"] = stream.run(params_of("fish"), keys, follow=True, present={2: WORKERS - 2}, **common)
    for name in DEPLOYMENTS:
        found[name] = registry.deployments()[name].measure(Inputs(), **tried(name))
    # each deployment runs in a thread of its own
    other = Thread(target=lambda: found.update(slots=session(3).sparkContext.defaultParallelism))
    other.start()
    other.join()
    return found


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    ran = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr[-3_000:]
    result: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("name", SEGMENT)
def test_each_source_routes_its_part_of_a_segment(name: str, found: dict[str, Any]) -> None:
    simulated = ks.simulate(params_of(name), keys_of(2_000), sources=SOURCES)
    assert found[name]["loads"] == simulated.loads.tolist()
    assert found[name]["replication"] == pytest.approx(simulated.replication)
    assert found[name]["simulated_balance"] == pytest.approx(1 + simulated.relative_imbalance)
    # nobody works faster than the time per message allows
    assert found[name]["duration_s"] >= simulated.loads.max() * SERVICE_TIME_S
    assert found[name]["p50_latency_s"] <= found[name]["p99_latency_s"] <= found[name]["duration_s"]
    assert found[name]["memory_mb"] > 100


def test_a_slow_worker_takes_longer(found: dict[str, Any]) -> None:
    numbers = found["numbers"]
    assert sum(numbers["loads"]) == numbers["messages"] == 1_001
    assert numbers["duration_s"] >= numbers["loads"][0] * SERVICE_TIME_S / SPEEDS[0]
    work = np.array(numbers["loads"]) / SPEEDS
    assert numbers["simulated_balance"] == pytest.approx(work.max() / work.mean())


def test_routers_go_on_from_micro_batch_to_micro_batch(found: dict[str, Any]) -> None:
    keys = keys_of(BATCHES * PER_BATCH)
    first, whole = (
        ks.simulate(params_of("partial_key"), part, sources=SOURCES)
        for part in (keys[: len(keys) // 2], keys)
    )
    online = found["online"]
    assert online["loads"] == (whole.loads - first.loads).tolist()
    assert online["replication"] == pytest.approx(whole.replication)
    assert len(online["balances"]) == BATCHES
    # to the wait in the queue comes that for the micro-batch
    assert online["whole_p50_latency_s"] > online["p50_latency_s"]
    assert online["whole_per_s"] < online["throughput_per_s"]


def test_a_plan_that_follows_gives_a_slow_worker_less(found: dict[str, Any]) -> None:
    loads = found["measured"]["loads"]
    assert sum(loads) == BATCHES // 2 * PER_BATCH
    assert loads[0] < 0.7 * np.mean(loads[1:])
    assert found["measured"]["balance"] < found["measured"]["balances"][0]


def test_workers_that_have_left_get_nothing(found: dict[str, Any]) -> None:
    loads = found["fewer"]["loads"]
    assert loads[-2:] == [0, 0]
    assert min(loads[:-2]) > 0


def test_another_number_of_workers_takes_another_session(found: dict[str, Any]) -> None:
    assert found["slots"] == 3


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_cell_of_each_deployment(name: str, found: dict[str, Any]) -> None:
    cell, figures = tried(name), found[name]
    assert 0 < figures["messages"] <= cell["messages"]
    assert figures["balance"] >= 1
    assert figures["simulated_balance"] >= 1
    assert figures["took_s"] > 0


if __name__ == "__main__":
    print(json.dumps(program()))
