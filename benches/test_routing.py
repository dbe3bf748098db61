"""Every grouping called from Python, the hash and the sketch, compared with plain Python."""

from collections.abc import Callable
from functools import cache, partial
from time import thread_time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pure_python import LOOPS

import keysplit as ks
from conftest import KEYS, MESSAGES, zipf

WORKERS = 100
EXPONENTS = [1.0, 1.4]
STRINGS = ["key", "partial_key", "d_choices"]
"""The groupings measured with strings: a string costs the same in all, its hash."""
PURE = 100_000

pytestmark = pytest.mark.benchmark(timer=thread_time, min_rounds=1)


@cache
def keys_of(door: str, exponent: float) -> Any:
    keys = zipf(exponent)
    if door == "NumPy int64":
        return keys
    if door == "Arrow int64":
        return pa.array(keys)
    return pa.array([f"key number {key}" for key in range(KEYS)]).take(pa.array(keys))


CASES = [(name, door) for door in ("NumPy int64", "Arrow int64") for name in ks.GROUPINGS] + [
    (name, "Arrow string") for name in STRINGS
]


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize(("name", "door"), CASES)
def test_route(measure: Callable[..., Any], name: str, door: str, exponent: float) -> None:
    keys = keys_of(door, exponent)
    router = ks.grouping(name, workers=WORKERS).router()
    key_grouping = ks.KeyGrouping(workers=WORKERS).router()
    workers = measure(
        partial(router.route, keys),
        partial(key_grouping.route, keys),
        name=name,
        exponent=exponent,
        door=door,
    )
    assert workers.shape == (MESSAGES,)
    assert router.loads.sum() % MESSAGES == 0
    assert router.loads.sum() > 0


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("door", ["NumPy int64", "Arrow int64", "Arrow string"])
def test_hash_keys(measure: Callable[..., Any], door: str, exponent: float) -> None:
    keys = keys_of(door, exponent)
    key_grouping = ks.KeyGrouping(workers=WORKERS).router()
    hashes = measure(
        partial(ks.hash_keys, keys),
        partial(key_grouping.route, keys),
        name="hash_keys",
        exponent=exponent,
        door=door,
    )
    assert len(np.unique(hashes)) == len(np.unique(zipf(exponent)))


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_space_saving(measure: Callable[..., Any], exponent: float) -> None:
    keys = zipf(exponent)
    sketch = ks.SpaceSaving(1000)
    key_grouping = ks.KeyGrouping(workers=WORKERS).router()
    measure(
        partial(sketch.update, keys),
        partial(key_grouping.route, keys),
        name="space_saving_1000",
        exponent=exponent,
        door="NumPy int64",
    )
    assert sketch.top(1)[0][0] == 0


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("label", LOOPS)
def test_plain_python(measure: Callable[..., Any], label: str, exponent: float) -> None:
    """A new router and a new loop, both on the first messages of the stream."""
    keys = zipf(exponent)[:PURE]
    loop, name, workers = LOOPS[label]
    params = ks.grouping(name, workers=workers)
    chosen = measure(
        partial(loop, keys.tolist(), workers),
        lambda: params.router().route(keys),
        name=label,
        exponent=exponent,
        door="pure Python",
        messages=PURE,
        rounds=5,
    )
    ours = ks.metrics.imbalance(np.bincount(params.router().route(keys), minlength=workers))
    plain = ks.metrics.imbalance(np.bincount(chosen, minlength=workers))
    assert plain == pytest.approx(ours, rel=0.5, abs=0.02)
