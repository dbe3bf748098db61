"""Workers come and go while messages are routed and feedback arrives."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import keysplit as ks
from keysplit.streams import zipf
from parameters import parameters
from reference import MODELS
from test_differential import FIRST_TIMES, LATEST, OTHER_LOADS, SERVICE_TIMES_S, SOURCES, WAITS, WEIGHTS

ELASTIC = sorted(name for name, grouping in ks.GROUPINGS.items() if grouping.elastic)
FEW_WORKERS = st.one_of(st.integers(1, 8), st.sampled_from([20, 50]))
KEYS = np.arange(3000)


def skewed(exponent: float, messages: int, seed: int) -> list[int]:
    shares = [1 / rank**exponent for rank in range(1, 13)]
    return random.Random(seed).choices(range(12), shares, k=messages)


STREAMS = st.one_of(
    st.lists(st.integers(0, 6), max_size=60),
    st.builds(skewed, st.sampled_from([0.7, 1.4, 2.0]), st.integers(0, 60), st.integers(0, 2**32)),
)


def new(name: str, workers: int = 10, **params: Any) -> ks.Router:
    return ks.grouping(name, workers=workers, **params).router()


class Machine(RuleBasedStateMachine):
    """A router and its model, through anything that may happen to them."""

    name: str

    @initialize(data=st.data(), workers=FEW_WORKERS, source=SOURCES, now=FIRST_TIMES)
    def start(self, data: st.DataObject, workers: int, source: int, now: float) -> None:
        params = data.draw(parameters(self.name)) | {"workers": workers}
        self.params = ks.grouping(self.name, **params)
        self.source = source
        self.model = MODELS[self.name](source=source, **params)
        self.router = self.params.router(source=source)
        self.now = now

    def later(self, wait: float | None) -> float | None:
        if wait is None:
            return None
        self.now = min(self.now + wait, LATEST)
        return self.now

    @rule(
        keys=STREAMS,
        weights=st.none() | WEIGHTS,
        wait=st.none() | WAITS,
    )
    def route(self, keys: list[int], weights: list[float] | None, wait: float | None) -> None:
        if weights is not None:
            weights = [weights[i % len(weights)] for i in range(len(keys))]
        now = self.later(wait)
        expected = self.model.route_batch(keys, weights, now)
        assert self.router.route(keys, weights=weights, now=now).tolist() == expected

    @rule(wait=WAITS)
    def route_nothing(self, wait: float) -> None:
        self.route([], None, wait)

    @rule(data=st.data(), wait=st.none() | WAITS)
    def observe(self, data: st.DataObject, wait: float | None) -> None:
        numbers = len(self.model.loads)
        workers = st.lists(st.sampled_from(self.model.present), max_size=4)
        told = data.draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "busy": workers,
                    "idle": workers,
                    "service_time_s": SERVICE_TIMES_S
                    | st.lists(SERVICE_TIMES_S, min_size=numbers, max_size=numbers),
                    "loads": st.lists(OTHER_LOADS, min_size=numbers, max_size=numbers),
                },
            )
        )
        now = self.later(wait)
        self.model.observe(now=now, **told)
        self.router.observe(now=now, **told)

    @precondition(lambda self: self.params.elastic)
    @rule()
    def add_worker(self) -> None:
        assert self.router.add_worker() == self.model.add_worker()

    @precondition(lambda self: self.params.elastic)
    @rule(data=st.data())
    def remove_worker(self, data: st.DataObject) -> None:
        worker = data.draw(st.integers(0, len(self.model.loads)))
        if worker in self.model.present and self.model.workers > 1:
            self.model.remove_worker(worker)
            self.router.remove_worker(worker)
        else:
            before = self.router.snapshot()
            with pytest.raises(ValueError, match=r"^worker must "):
                self.router.remove_worker(worker)
            assert self.router.snapshot() == before

    @rule()
    def restore(self) -> None:
        snapshot = self.router.snapshot()
        self.router = self.params.router(source=self.source, snapshot=snapshot)
        assert self.router.snapshot() == snapshot

    @rule(key=st.integers(0, 9))
    def ask(self, key: int) -> None:
        assert self.router.candidates(key).tolist() == self.model.candidates(key)

    @invariant()
    def same(self) -> None:
        assert self.router.workers == self.model.workers
        assert self.router.worker_numbers.tolist() == self.model.present
        assert self.router.loads.tolist() == self.model.loads


@pytest.mark.parametrize("name", sorted(MODELS))
def test_router_equals_model(name: str) -> None:
    run_state_machine_as_test(type(f"{name}_machine", (Machine,), {"name": name}))


@pytest.mark.parametrize("name", ELASTIC)
def test_long_stream(name: str) -> None:
    """Workers come and go all the time, between messages that are routed the same way for long."""
    rng = np.random.default_rng(31)
    keys = zipf(1.4, 200, 12_000, seed=32)
    model = MODELS[name](workers=20, seed=33)
    router = ks.grouping(name, workers=20, seed=33).router()
    for part in np.split(keys, 120):
        assert router.route(part).tolist() == model.route_batch(part.tolist())
        if rng.random() < 0.5:
            assert router.add_worker() == model.add_worker()
        else:
            worker = int(rng.choice(model.present))
            router.remove_worker(worker)
            model.remove_worker(worker)


# What joins and leaves


@pytest.mark.parametrize("name", ELASTIC)
def test_numbers_of_the_workers(name: str) -> None:
    router = new(name, workers=3)
    assert router.worker_numbers.dtype == np.uint32
    assert router.add_worker() == 3
    router.remove_worker(1)
    router.remove_worker(0)
    assert router.worker_numbers.tolist() == [2, 3]
    assert router.workers == 2
    assert set(router.route(KEYS).tolist()) == {2, 3}
    assert router.loads.tolist()[:2] == [0, 0]
    assert [router.add_worker() for _ in range(3)] == [0, 1, 4]
    assert router.worker_numbers.tolist() == [0, 1, 2, 3, 4]
    assert len(router.loads) == 5
    assert set(router.route(KEYS).tolist()) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("name", ELASTIC)
def test_loads_outlive_a_worker(name: str) -> None:
    router = new(name, workers=3)
    sent = np.bincount(router.route(KEYS), minlength=3)
    router.remove_worker(1)
    assert router.loads.tolist() == sent.tolist()
    sent += np.bincount(router.route(KEYS), minlength=3)
    router.add_worker()
    sent += np.bincount(router.route(KEYS), minlength=3)
    assert router.loads.tolist() == sent.tolist()


@pytest.mark.parametrize("name", ELASTIC)
def test_what_is_refused_changes_nothing(name: str) -> None:
    router = new(name)
    router.route(KEYS)
    router.remove_worker(4)
    before = router.snapshot()
    for absent in [4, 10, -1, 2**32, 2**70]:
        with pytest.raises(ValueError, match=f"^worker must be .*, got {absent}$"):
            router.remove_worker(absent)
    for wrong in ["a", None, 1.0, [1]]:
        with pytest.raises(TypeError, match="worker"):
            router.remove_worker(wrong)
    with pytest.raises(TypeError):
        router.add_worker(3)
    assert router.snapshot() == before


@pytest.mark.parametrize("name", ELASTIC)
def test_the_last_worker_stays(name: str) -> None:
    router = new(name, workers=2)
    router.remove_worker(0)
    router.route(KEYS)
    before = router.snapshot()
    with pytest.raises(ValueError, match=r"^worker must .*, got 1$"):
        router.remove_worker(1)
    assert router.snapshot() == before
    assert not (router.route(KEYS) != 1).any()


@pytest.mark.parametrize("name", ELASTIC)
def test_no_more_than_the_most_workers(name: str) -> None:
    router = new(name, workers=65_536, virtual_nodes=1)
    before = router.snapshot()
    with pytest.raises(ValueError, match="65536"):
        router.add_worker()
    assert router.snapshot() == before
    router.remove_worker(77)
    assert router.add_worker() == 77


# The ring


def changed_keys(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    return np.flatnonzero(before != after)


@pytest.mark.parametrize(("workers", "virtual_nodes"), [(2, 1), (2, 100), (10, 3), (10, 100), (50, 20)])
def test_a_worker_that_leaves_moves_only_its_keys(workers: int, virtual_nodes: int) -> None:
    before = new("ring", workers, virtual_nodes=virtual_nodes).route(KEYS)
    for worker in range(workers):
        router = new("ring", workers, virtual_nodes=virtual_nodes)
        router.remove_worker(worker)
        after = router.route(KEYS)
        assert changed_keys(before, after).tolist() == np.flatnonzero(before == worker).tolist()
        assert router.add_worker() == worker
        assert router.route(KEYS).tolist() == before.tolist()


@pytest.mark.parametrize(("workers", "virtual_nodes"), [(1, 1), (2, 100), (10, 3), (10, 100), (50, 20)])
def test_a_worker_that_joins_takes_only_what_it_wins(workers: int, virtual_nodes: int) -> None:
    router = new("ring", workers, virtual_nodes=virtual_nodes)
    before = router.route(KEYS)
    for joined in range(workers, workers + 5):
        assert router.add_worker() == joined
        after = router.route(KEYS)
        assert changed_keys(before, after).tolist() == np.flatnonzero(after == joined).tolist()
        assert after.tolist() == new("ring", joined + 1, virtual_nodes=virtual_nodes).route(KEYS).tolist()
        before = after


def test_the_order_of_the_changes_does_not_matter() -> None:
    first, second = (new("ring", workers=12) for _ in range(2))
    for worker in [3, 7, 11]:
        first.remove_worker(worker)
    for worker in [11, 3, 7]:
        second.remove_worker(worker)
    assert first.route(KEYS).tolist() == second.route(KEYS).tolist()


@pytest.mark.parametrize("virtual_nodes", [1, 5, 100])
def test_the_keys_of_a_worker_that_leaves_spread(virtual_nodes: int) -> None:
    router = new("ring", workers=20, virtual_nodes=virtual_nodes)
    before = router.route(KEYS)
    router.remove_worker(0)
    heirs = set(router.route(KEYS)[before == 0].tolist())
    assert 1 <= len(heirs) <= virtual_nodes
    assert len(heirs) > 10 or virtual_nodes < 100


def test_candidates_of_fish_move_only_where_they_must() -> None:
    """A key of the tail has the next two workers of the ring; one that is not among them changes nothing."""
    router = new("fish", threshold=1.0)
    router.route(KEYS)
    before = [router.candidates(key).tolist() for key in KEYS[:300].tolist()]
    assert {len(two) for two in before} == {2}
    router.remove_worker(5)
    for key, two in enumerate(before):
        left = [worker for worker in two if worker != 5]
        after = router.candidates(key).tolist()
        assert len(after) == 2
        assert after[: len(left)] == left
    router.add_worker()
    assert [router.candidates(key).tolist() for key in KEYS[:300].tolist()] == before


# The ring with bounded loads


def test_bounded_ring_gives_nothing_to_an_absent_worker_when_nobody_is_free() -> None:
    """An epsilon lost in rounding and equal loads: a message without weight finds nobody below capacity."""
    params = {"workers": 5, "epsilon": 1e-17, "seed": 28}
    model = MODELS["bounded_ring"](**params)
    router = ks.grouping("bounded_ring", **params).router()
    for worker in [0, 2]:
        model.remove_worker(worker)
        router.remove_worker(worker)
        for weights in ([1.0] * 12, [0.0] * 7, [1.0] * 12, [0.0, 0.0]):
            keys = list(range(len(weights)))
            assert router.route(keys, weights=weights).tolist() == model.route_batch(keys, weights)
