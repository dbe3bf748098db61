"""The doors by which keys come in, and what the same keys give behind each of them."""

from collections.abc import Callable
from typing import Any

import numpy as np

import keysplit as ks
from reference.hashing import hash_key, onto

SEEDS = [0, 1, 2**63, 2**64 - 1]


def doors() -> list[Callable[[Any], Any]]:
    return [ks.hash_keys, ks.KeyGrouping(workers=3).router().route, ks.SpaceSaving(10).update]


def check(keys: Any, expected: list[Any]) -> None:
    """`keys` as a door gives them hash like the Python objects `expected`, wherever keys are taken."""
    for seed in SEEDS:
        hashes = ks.hash_keys(keys, seed=seed)
        assert hashes.dtype == np.uint64
        assert hashes.shape == (len(expected),)
        assert hashes.tolist() == [hash_key(key, seed) for key in expected]
    router = ks.KeyGrouping(workers=1000, seed=3).router()
    assert router.route(keys).tolist() == [onto(hash_key(key, 3) >> 32, 1000) for key in expected]
    sketch = ks.SpaceSaving(100)
    sketch.update(keys)
    assert sketch.total == len(expected)
    for key in expected:
        # Decimals and timestamps are no single keys here; their hashes are compared above.
        if key is None or type(key) in (int, bool, str, bytes):
            assert sketch.estimate(key) == (sum(hash_key(key) == hash_key(other) for other in expected), 0)
