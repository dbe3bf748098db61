"""The parameters of every grouping, as hypothesis draws them: small, so that the special rules fire."""

from typing import Any

from hypothesis import strategies as st

SEEDS = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))
WORKERS = st.one_of(st.sampled_from([1, 2, 3, 5, 10, 50, 64, 100, 1000]), st.integers(1, 40))
THRESHOLDS = st.one_of(st.none(), st.sampled_from([0.01, 0.1, 0.3, 0.5, 1.0]), st.floats(0.001, 1.0))
CAPACITIES = st.one_of(st.none(), st.integers(1, 20))
EPSILONS = st.one_of(st.just(1e-17), st.sampled_from([0.01, 0.1, 0.5, 1.0, 1000.0]), st.floats(1e-9, 2.0))
VIRTUAL_NODES = st.one_of(st.integers(1, 10), st.just(100))
MESSAGES_PER_S = st.sampled_from([1000.0, 1.0, 0.1, 7.0, 1e6])
INTERVALS = st.sampled_from([1.0, 10.0, 0.1, 0.003, 1e-6, 1e9])

HEAD = {"threshold": THRESHOLDS, "sketch_capacity": CAPACITIES, "distinct": st.booleans()}

# Registry name -> parameter -> what it is drawn from. `workers` and `seed` are drawn for all.
PARAMETERS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "bounded_ring": {"virtual_nodes": VIRTUAL_NODES, "epsilon": EPSILONS},
    "consistent": {
        "virtual_workers": st.integers(1, 12),
        "epsilon": EPSILONS,
        "slot_s": INTERVALS,
        "messages_per_s": MESSAGES_PER_S,
    },
    "d_choices": {**HEAD, "tolerance": st.sampled_from([1e-4, 1e-8, 1e-2, 0.5])},
    "dalton": {
        "interval_messages": st.one_of(st.integers(1, 40), st.just(10_000)),
        "learning_rate": st.sampled_from([0.1, 0.5, 1.0]),
        "exploration": st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]),
        "max_split": st.integers(1, 8),
    },
    "distribution_aware": {
        "learning_messages": st.one_of(st.integers(1, 60), st.just(10_000)),
        "threshold": THRESHOLDS,
        "buckets": st.one_of(st.none(), st.integers(1, 60)),
    },
    "dynamic_key": {
        "expected_keys": st.one_of(st.integers(1, 30), st.just(100)),
        "warm_up_s": st.one_of(st.just(0.0), INTERVALS),
        "teenage_interval_s": INTERVALS,
        "old_interval_s": INTERVALS,
        "check_interval_s": st.one_of(st.just(0.0), INTERVALS),
        "messages_per_s": MESSAGES_PER_S,
    },
    "fish": {
        "epoch_messages": st.one_of(st.integers(1, 40), st.just(1000)),
        "decay": st.sampled_from([0.0, -0.0, 0.2, 0.5, 0.9, 1.0]),
        "threshold": THRESHOLDS,
        "sketch_capacity": st.one_of(st.integers(1, 20), st.just(1000)),
        "interval_s": INTERVALS,
        "virtual_nodes": VIRTUAL_NODES,
        "messages_per_s": MESSAGES_PER_S,
    },
    "flexd": {
        "segment_messages": st.one_of(st.integers(1, 40), st.just(10_000)),
        "threshold": THRESHOLDS,
        "growth": st.sampled_from([1.0001, 1.1, 1.5, 1e6]),
        "sketch_capacity": CAPACITIES,
        "table_keys": st.one_of(st.integers(1, 8), st.just(50_000)),
        "clean_interval_s": INTERVALS,
        "messages_per_s": MESSAGES_PER_S,
    },
    "key": {},
    "partial_key": {"choices": st.integers(1, 6), "distinct": st.booleans()},
    "power_of_random": {"epsilon": EPSILONS},
    "power_of_two": {},
    "pstream": {
        "coins": st.integers(0, 3),
        "most_coins": st.sampled_from([3, 4, 8, 16, 60]),
        "decay": st.sampled_from([0.01, 0.1, 0.3, 0.6, 1.0]),
        "filter_counters": st.one_of(st.integers(1, 20), st.just(16_384)),
    },
    "ring": {"virtual_nodes": VIRTUAL_NODES},
    "round_robin": HEAD,
    "shuffle": {},
    "w_choices": HEAD,
}


def parameters(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """The keyword arguments of a grouping."""
    return st.fixed_dictionaries({"workers": WORKERS, "seed": SEEDS, **PARAMETERS[name]})
