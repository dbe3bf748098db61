"""How the benchmarks measure and report.

The clock is the thread's CPU time. Each round of a benchmark is preceded by a round of its reference, so that
a busy machine disturbs both equally. Compare ratios, never the times of two runs.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any

import numpy as np
import pytest

import keysplit as ks

KEYS = 100_000
MESSAGES = 1_000_000
RESULTS = Path(__file__).parent.parent / "target" / "python-benchmarks.json"
RECORDS = pytest.StashKey[list["Record"]]()


@dataclass
class Record:
    """Medians of one benchmark and of its reference, in nanoseconds per key."""

    name: str
    exponent: float
    door: str
    ns: float
    reference_ns: float


@cache
def zipf(exponent: float) -> np.ndarray:
    return ks.streams.zipf(exponent, KEYS, MESSAGES, seed=1)


@pytest.fixture
def measure(benchmark: Any, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Time a function against a reference on the same messages; return the function's result."""

    def run(
        function: Callable[[], Any],
        reference: Callable[[], Any],
        *,
        name: str,
        exponent: float,
        door: str,
        messages: int = MESSAGES,
        rounds: int = 15,
    ) -> Any:
        times = []

        def time_reference() -> None:
            begin = thread_time()
            reference()
            times.append(thread_time() - begin)

        answer = benchmark.pedantic(function, setup=time_reference, rounds=rounds, warmup_rounds=1)
        if benchmark.stats is not None:
            ns, reference_ns = (
                seconds / messages * 1e9 for seconds in (benchmark.stats.stats.median, median(times[1:]))
            )
            request.config.stash[RECORDS].append(Record(name, exponent, door, ns, reference_ns))
        return answer

    return run


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RECORDS] = []


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    records = config.stash[RECORDS]
    if not records:
        return
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([asdict(record) for record in records], indent=1), encoding="utf-8")
    write = terminalreporter.write_line
    terminalreporter.section("through Python, by ratio to the call of key grouping on the same keys")
    write(f"{'':24}{'keys':>14}{'z':>6}{'ns per key':>11}{'ratio':>8}")
    for record in records:
        if record.door != "pure Python":
            ratio = record.ns / record.reference_ns
            write(f"{record.name:24}{record.door:>14}{record.exponent:>6}{record.ns:>11.1f}{ratio:>8.2f}")
    terminalreporter.section(
        "how many times as fast as plain Python, on the same 100,000 messages with new routers"
    )
    write(f"{'':38}{'z':>6}{'factor':>11}")
    for record in records:
        if record.door == "pure Python":
            write(f"{record.name:38}{record.exponent:>6}{record.ns / record.reference_ns:>11.0f}")
