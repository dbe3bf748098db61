"""Write the golden vectors, from the models alone: `python tests/golden/make.py`.

A change to what this writes is a breaking change and stands in the changelog under "Routing changes".
"""

import json
import sys
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
MORE: dict[str, list[dict[str, Any]]] = {
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
                workers = [
                    model.route(key, weight) for key, weight in zip(STREAM, weights or [1] * 64, strict=True)
                ]
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
    return rows


def as_text(rows: list[dict[str, Any]]) -> str:
    """One row a line, so that a change shows as the lines it changes."""
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    (HERE / "hashes.json").write_text(as_text(hashes()), encoding="utf-8")
    (HERE / "routings.json").write_text(as_text(routings()), encoding="utf-8")
