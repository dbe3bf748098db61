"""The parameters of every grouping, as hypothesis draws them: small, so that the special rules fire."""

from dataclasses import fields
from typing import Any

from hypothesis import strategies as st

import keysplit as ks

SEEDS = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))
WORKERS = st.one_of(st.sampled_from([1, 2, 3, 5, 10, 50, 64, 100, 1000]), st.integers(1, 40))
THRESHOLDS = st.one_of(st.none(), st.sampled_from([0.01, 0.1, 0.3, 0.5, 1.0]), st.floats(0.001, 1.0))
CAPACITIES = st.one_of(st.none(), st.integers(1, 20))
EPSILONS = st.one_of(st.just(1e-17), st.sampled_from([0.01, 0.1, 0.5, 1.0, 1000.0]), st.floats(1e-9, 2.0))
VIRTUAL_NODES = st.one_of(st.integers(1, 10), st.just(100))
MESSAGES_PER_S = st.sampled_from([1000.0, 1.0, 0.1, 7.0, 1e6])
INTERVALS = st.sampled_from([1.0, 10.0, 0.1, 0.003, 1e-6, 1e9])

# Parameter -> what it is drawn from; "name.parameter" where a grouping has another range.
STRATEGIES: dict[str, st.SearchStrategy[Any]] = {
    "buckets": st.one_of(st.none(), st.integers(1, 60)),
    "check_interval_s": st.one_of(st.just(0.0), INTERVALS),
    "choices": st.integers(1, 6),
    "clean_interval_s": INTERVALS,
    "coins": st.integers(0, 3),
    "deviations": st.sampled_from([0.0, 0.1, 1.0, 3.0, 20.0]),
    "distinct": st.booleans(),
    "epoch_messages": st.one_of(st.integers(1, 40), st.just(1000)),
    "epsilon": EPSILONS,
    "expected_keys": st.one_of(st.integers(1, 30), st.just(100)),
    "exploration": st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]),
    "filter_counters": st.one_of(st.integers(1, 20), st.just(16_384)),
    "fish.decay": st.sampled_from([0.0, -0.0, 0.2, 0.5, 0.9, 1.0]),
    "fish.sketch_capacity": st.one_of(st.integers(1, 20), st.just(1000)),
    "growth": st.sampled_from([1.0001, 1.1, 1.5, 1e6]),
    "interval_messages": st.one_of(st.integers(1, 40), st.just(10_000)),
    "interval_s": INTERVALS,
    "learning_messages": st.one_of(st.integers(1, 60), st.just(10_000)),
    "learning_rate": st.sampled_from([0.1, 0.5, 1.0]),
    "max_split": st.integers(1, 8),
    "messages_per_s": MESSAGES_PER_S,
    "most_coins": st.sampled_from([3, 4, 8, 16, 60]),
    "old_interval_s": INTERVALS,
    "pstream.decay": st.sampled_from([0.01, 0.1, 0.3, 0.6, 1.0]),
    "segment_messages": st.one_of(st.integers(1, 40), st.just(10_000)),
    "sketch_capacity": CAPACITIES,
    "slot_s": INTERVALS,
    "table_keys": st.one_of(st.integers(1, 8), st.just(50_000)),
    "teenage_interval_s": INTERVALS,
    "threshold": THRESHOLDS,
    "tolerance": st.sampled_from([1e-4, 1e-8, 1e-2, 0.5]),
    "virtual_nodes": VIRTUAL_NODES,
    "virtual_workers": st.integers(1, 12),
    "warm_up_s": st.one_of(st.just(0.0), INTERVALS),
}


def parameters(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """The keyword arguments of a grouping."""
    own = [field.name for field in fields(ks.GROUPINGS[name]) if field.name not in ("workers", "seed")]
    drawn = {each: STRATEGIES.get(f"{name}.{each}", STRATEGIES.get(each)) for each in own}
    assert None not in drawn.values(), "a parameter of a new kind needs a line above"
    return st.fixed_dictionaries({"workers": WORKERS, "seed": SEEDS, **drawn})
