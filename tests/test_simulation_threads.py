"""The number of threads changes no figure of a simulation."""

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keysplit as ks
from keysplit import _core, runs

NAMES = sorted(ks.GROUPINGS)
MANY = 20_000
"""Messages enough for several threads: see LEAST in rust/core/src/simulate/tracking.rs."""
TIMED: dict[str, Any] = {"service_time_s": 0.01, "arrival_rate_per_s": 400.0, "feedback_interval_s": 0.5}


def params(name: str, workers: int, seed: int = 0) -> ks.Grouping:
    short = {"segment_messages": 37} if name == "flexd" else {}
    return ks.grouping(name, workers=workers, seed=seed, **short)


def assert_equal(one: ks.SimulationResult, other: ks.SimulationResult) -> None:
    for field in fields(one):
        np.testing.assert_equal(getattr(one, field.name), getattr(other, field.name), field.name)


def assert_threads_change_nothing(simulate: Callable[[int], ks.SimulationResult]) -> None:
    alone = simulate(1)
    for threads in (2, 3, 5):
        assert_equal(simulate(threads), alone)


@pytest.mark.parametrize("name", NAMES)
def test_a_fixed_stream(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ks.streams.zipf(1.1, keys=5000, messages=300_000, seed=2)  # more than is held at a time
    weights = np.random.default_rng(3).integers(0, 40, len(keys)) / 7
    for sources, workers, some in ((5, 20, weights), (1, 100, None), (7, 300, None)):
        grouping = params(name, workers)
        assert_threads_change_nothing(
            lambda threads: ks.simulate(grouping, keys, sources=sources, weights=some, threads=threads)  # noqa: B023
        )
    monkeypatch.setattr(runs, "MOST_KEYS", 1000)
    assert_threads_change_nothing(
        lambda threads: ks.simulate(params(name, 20), keys, sources=3, threads=threads)
    )


@pytest.mark.parametrize("name", NAMES)
def test_threads_that_change(name: str) -> None:
    keys = ks.streams.zipf(1.1, keys=5000, messages=60_000, seed=4)
    whole = {"segment_messages": 10_000} if name == "flexd" else {}

    def report(*threads: int) -> dict[str, Any]:
        options = {"sources": 2, "samples": 10, "messages": len(keys)}
        simulation = _core.Simulation(name, {"workers": 10, "seed": 0, **whole}, options)
        for part, some in zip(np.split(keys, [33_333, 45_000]), threads, strict=True):
            simulation.add(part, None, some)
        return simulation.finish()

    alone = report(1, 1, 1)
    for threads in ((2, 1, 2), (1, 2, 1), (3, 2, 1)):
        np.testing.assert_equal(report(*threads), alone)


@pytest.mark.parametrize("name", NAMES)
def test_a_drawn_stream_in_chunks(name: str) -> None:
    for messages in (None, 50_000):
        assert_threads_change_nothing(
            lambda threads: ks.simulate(
                params(name, 10),
                ks.streams.zipf_chunks(1.4, 1000, 50_000, 7),
                sources=4,
                messages=messages,  # noqa: B023
                threads=threads,
            )
        )


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8, deadline=None)
@given(
    exponent=st.floats(0, 2),
    keys=st.integers(1, 3000),
    messages=st.integers(0, 2 * MANY),
    sources=st.integers(1, 9),
    workers=st.integers(1, 200),
    samples=st.sampled_from([0, 1, 100, 3000]),
    cut=st.integers(0, MANY),
    known=st.booleans(),
    seed=st.integers(0, 9),
)
def test_drawn_streams(
    name: str,
    exponent: float,
    keys: int,
    messages: int,
    sources: int,
    workers: int,
    samples: int,
    cut: int,
    known: bool,
    seed: int,
) -> None:
    stream = ks.streams.zipf(exponent, keys, messages, seed)
    elastic = ks.GROUPINGS[name].elastic
    options: dict[str, Any] = {
        "sources": sources,
        "samples": samples,
        "messages": messages if known else None,
        "events": [ks.AddWorker(messages // 2), ks.RemoveWorker(messages // 2 + 5, 0)] if elastic else [],
    }
    assert_threads_change_nothing(
        lambda threads: ks.simulate(
            params(name, workers, seed), iter([stream[:cut], stream[cut:]]), threads=threads, **options
        )
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_timing_model(name: str) -> None:
    keys = ks.streams.zipf(1.2, keys=300, messages=MANY, seed=4)
    alone = ks.simulate(params(name, 5), keys, sources=3, threads=1, **TIMED)
    assert_equal(ks.simulate(params(name, 5), keys, sources=3, threads=3, **TIMED), alone)


@pytest.mark.parametrize("form", ["column", "chunks"])
def test_comparisons_and_profiles(form: str) -> None:
    keys = ks.streams.zipf(1.4, keys=1000, messages=2 * MANY, seed=5)

    def stream() -> Iterator[Any]:
        yield keys[:100]
        yield keys[100:]

    def compare(threads: int) -> list[ks.SimulationResult]:
        return ks.compare(
            keys if form == "column" else stream, 10, ["key", "d_choices", "flexd"], threads=threads
        )

    alone = compare(1)
    for threads in (2, 3, 8):
        for one, other in zip(compare(threads), alone, strict=True):
            assert_equal(one, other)
    profiles = [ks.profile(keys, workers=20, threads=threads).to_dict() for threads in (1, 5)]
    assert profiles[0] == profiles[1]


@pytest.mark.parametrize(
    ("threads", "exception", "message"),
    [
        (0, ValueError, "threads must be in 1..=256, got 0"),
        (257, ValueError, "threads must be in 1..=256, got 257"),
        (1.5, TypeError, "threads must be an integer in 1..=256, got 1.5"),
        (True, TypeError, "threads must be an integer in 1..=256, got True"),
    ],
)
def test_wrong_threads_are_named(threads: Any, exception: type[Exception], message: str) -> None:
    for call in (
        lambda: ks.simulate(ks.KeyGrouping(workers=2), [1], threads=threads),
        lambda: ks.compare([1], 2, ["key"], threads=threads),
        lambda: ks.profile([1], 2, threads=threads),
    ):
        with pytest.raises(exception) as error:
            call()
        assert str(error.value) == message
