"""Write the golden vectors, from the models alone: `python tests/golden/make.py`.

A change to what this writes is a breaking change and stands in the changelog under "Routing changes".
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SEEDS = [0, 1, 42, 2**63, 2**64 - 1]

# (kind, key as text); a kind says how to read the text.
KEYS = [
    *[
        ("integer", str(value))
        for value in [0, 1, 2, -1, 42, 255, 10**9, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
    ],
    *[("integer", str(value)) for value in [2**63, 2**64 - 1]],
    *[
        ("string", value)
        for value in ["", "a", "b", "key", "keysplit", "żółć", "東京", "🂡", "a\0b", "x" * 300]
    ],
    *[("string", "y" * length) for length in [3, 4, 8, 9, 16, 17, 128, 129, 240, 241]],
    *[("binary", value.hex()) for value in [b"", b"a", b"b", b"\0", b"\xff\xfe", bytes(range(256))]],
    ("null", ""),
    *[
        ("decimal", value)
        for value in ["0.00", "1.50", "-1.5", "0.1", "12345678901234567890.5", "100", "1e30"]
    ],
    *[("decimal", value) for value in ["18446744073709551616", "-9223372036854775809", "1e-20", "1e75"]],
]

STREAM = [i * i % 17 if i % 3 else i * 7 % 5 for i in range(64)]
WEIGHTS = [i % 4 / 2 for i in range(64)]
COMMON = [
    ({"workers": 10, "seed": 0}, 0),
    ({"workers": 50, "seed": 42}, 3),
    ({"workers": 65_536, "seed": 2**64 - 1}, 2**32 - 1),
]
# Small parameters, so that the special rules fire within the stream.
MORE: dict[str, list[dict[str, Any]]] = {
    "ring": [{"workers": 10, "virtual_nodes": 1}],
    "bounded_ring": [
        {"workers": 10, "virtual_nodes": 3, "epsilon": 0.5},
        {"workers": 3, "virtual_nodes": 7, "epsilon": 1e-9},
    ],
    "power_of_random": [{"workers": 5, "epsilon": 0.5}, {"workers": 3, "epsilon": 1e-9}],
    "consistent": [
        {"workers": 5, "virtual_workers": 2, "epsilon": 0.5},
        {"workers": 3, "virtual_workers": 1, "epsilon": 1e-9},
    ],
    "fish": [
        {
            "workers": 10,
            "epoch_messages": 7,
            "decay": 0.5,
            "sketch_capacity": 4,
            "interval_s": 0.01,
            "virtual_nodes": 3,
        },
        {"workers": 16, "threshold": 0.1, "epoch_messages": 20, "interval_s": 2.0, "messages_per_s": 2.0},
        {"workers": 5, "epoch_messages": 10, "decay": 0.0},
    ],
    "flexd": [
        {
            "workers": 5,
            "segment_messages": 16,
            "threshold": 0.1,
            "growth": 1.1,
            "table_keys": 2,
            "clean_interval_s": 0.01,
        },
        {"workers": 3, "segment_messages": 10, "sketch_capacity": 3},
    ],
    "dynamic_key": [
        {
            "workers": 5,
            "expected_keys": 10,
            "warm_up_s": 0.01,
            "teenage_interval_s": 0.005,
            "old_interval_s": 0.01,
        },
        {
            "workers": 10,
            "expected_keys": 4,
            "warm_up_s": 1.0,
            "teenage_interval_s": 1.0,
            "old_interval_s": 3.0,
            "check_interval_s": 2.0,
            "messages_per_s": 2.0,
        },
    ],
    "distribution_aware": [
        {"workers": 5, "learning_messages": 20, "buckets": 4},
        {"workers": 10, "learning_messages": 32, "threshold": 0.2},
    ],
    "pstream": [
        {"workers": 5, "coins": 0, "most_coins": 3, "decay": 0.2},
        {"workers": 10, "coins": 1, "most_coins": 4, "decay": 0.05, "filter_counters": 16},
    ],
    "dalton": [
        {"workers": 5, "interval_messages": 10, "exploration": 0.5},
        {"workers": 10, "interval_messages": 16, "learning_rate": 0.5, "exploration": 0.2, "max_split": 3},
    ],
    "partial_key": [{"workers": 10, "choices": 5}, {"workers": 5, "choices": 4, "distinct": True}],
    "round_robin": [
        {"workers": 10, "threshold": 0.2, "sketch_capacity": 4},
        {"workers": 3, "distinct": True},
    ],
    "w_choices": [{"workers": 10, "threshold": 0.2, "sketch_capacity": 4}, {"workers": 3, "distinct": True}],
    "d_choices": [
        {"workers": 10, "threshold": 0.2, "sketch_capacity": 4},
        {"workers": 8, "distinct": True, "tolerance": 0.05},
        {"workers": 40, "threshold": 0.05, "tolerance": 0.01},
    ],
}

# A method of a router and its arguments.
Step = tuple[str, dict[str, Any]]


def route(quarter: int, **more: Any) -> Step:
    return "route", {"keys": STREAM[16 * quarter : 16 * quarter + 16], **more}


def observe(**feedback: Any) -> Step:
    return "observe", feedback


def remove(worker: int) -> Step:
    return "remove_worker", {"worker": worker}


ADD: Step = ("add_worker", {})
COME_AND_GO = [route(0), remove(1), route(1), ADD, ADD, route(2), remove(3), remove(0), route(3)]
# Times, feedback and workers that come and go, between quarters of the stream.
STEPS: dict[str, list[tuple[dict[str, Any], list[Step]]]] = {
    "ring": [({"workers": 5, "virtual_nodes": 3}, COME_AND_GO)],
    "bounded_ring": [({"workers": 5, "virtual_nodes": 3, "epsilon": 0.5}, COME_AND_GO)],
    "consistent": [
        (
            {"workers": 3, "virtual_workers": 3, "epsilon": 0.5},
            [
                route(0),
                observe(now=1.0, busy=[0, 2], idle=[1]),
                observe(now=1.5, idle=[0]),
                route(1),
                observe(now=2.0, busy=[2, 0], idle=[1]),
                route(2, now=3.0),
                observe(busy=[1], idle=[0]),
                route(3),
                observe(now=4.0, busy=[2, 0], idle=[1]),
                route(0),
                observe(now=5.0, busy=[2], idle=[1]),
                route(1),
                observe(now=6.0, idle=[1]),
                route(2),
            ],
        )
    ],
    "fish": [
        (
            {
                "workers": 4,
                "epoch_messages": 20,
                "decay": 0.5,
                "threshold": 0.1,
                "interval_s": 2.0,
                "messages_per_s": 8.0,
            },
            [
                observe(now=-3.0, service_time_s=[1.0, 2.0, 1.0, 0.5]),
                route(0),
                remove(2),
                route(1, now=0.5),
                observe(service_time_s=[0.5, 0.125, 1.0, 0.25]),
                ADD,
                route(2),
                observe(now=4.0),
                route(3),
            ],
        )
    ],
    "flexd": [
        (
            {
                "workers": 5,
                "segment_messages": 8,
                "threshold": 0.1,
                "growth": 1.25,
                "table_keys": 6,
                "clean_interval_s": 10.0,
            },
            [
                route(0),
                observe(loads=[5.0, 0.0, 3.0, 9.0, 1.0]),
                route(1),
                observe(loads=[0.0, 20.0, 0.0, 0.5, 0.0]),
                route(2, now=10.0),
                route(3, now=15.0),
            ],
        )
    ],
    "dynamic_key": [
        (
            {
                "workers": 30,
                "expected_keys": 20,
                "warm_up_s": 3.0,
                "teenage_interval_s": 1.0,
                "old_interval_s": 2.0,
            },
            [
                observe(now=-20.0),
                route(0, now=-18.5),
                route(1, now=-17.5),
                route(2, now=-16.5),
                route(3, now=-11.0),
                route(0),
            ],
        )
    ],
}


def read_key(kind: str, text: str) -> Any:
    """The Python object that a golden key stands for."""
    readers = {
        "integer": int,
        "string": str,
        "binary": bytes.fromhex,
        "null": lambda _: None,
        "decimal": Decimal,
    }
    return readers[kind](text)


def hashes() -> list[dict[str, Any]]:
    from reference.hashing import hash_key

    return [
        {
            "kind": kind,
            "key": text,
            "hashes": {str(seed): f"0x{hash_key(read_key(kind, text), seed):016x}" for seed in SEEDS},
        }
        for kind, text in KEYS
    ]


def routings() -> list[dict[str, Any]]:
    from reference import MODELS

    rows = []
    for name in sorted(MODELS):
        settings = [*COMMON, *[(params, 0) for params in MORE.get(name, [])]]
        for params, source in settings:
            for weights in (None, WEIGHTS):
                model = MODELS[name](source=source, **params)
                workers = model.route_batch(STREAM, weights)
                rows.append(
                    {
                        "grouping": name,
                        "parameters": params,
                        "source": source,
                        "keys": STREAM,
                        "weights": weights,
                        "workers": workers,
                    }
                )
        for params, steps in STEPS.get(name, []):
            model = MODELS[name](**params)
            workers = play(steps, model, model.route_batch)
            rows.append(
                {"grouping": name, "parameters": params, "source": 0, "steps": steps, "workers": workers}
            )
    return rows


def play(steps: Sequence[Step], router: Any, route: Callable[..., Iterable[int]]) -> list[int]:
    """Every answer of a router, or a model, that goes through these steps."""
    workers: list[int] = []
    for method, arguments in steps:
        if method == "route":
            workers.extend(route(**arguments))
        else:
            getattr(router, method)(**arguments)
    return workers


def as_text(rows: list[dict[str, Any]]) -> str:
    """One row a line, so that a change shows as the lines it changes."""
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    (HERE / "hashes.json").write_text(as_text(hashes()), encoding="utf-8")
    (HERE / "routings.json").write_text(as_text(routings()), encoding="utf-8")
