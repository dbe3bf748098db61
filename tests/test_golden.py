"""Hashes and routings that must never change."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import keysplit as ks

GOLDEN = Path(__file__).parent / "golden"
spec = importlib.util.spec_from_file_location("golden_make", GOLDEN / "make.py")
make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make)

HASHES = json.loads((GOLDEN / "hashes.json").read_text(encoding="utf-8"))
ROUTINGS = json.loads((GOLDEN / "routings.json").read_text(encoding="utf-8"))


def as_keys(kind: str, text: str) -> Any:
    """One key, in the form in which `hash_keys` takes its kind."""
    key = make.read_key(kind, text)
    if kind != "decimal":
        return [key]
    scale = -key.as_tuple().exponent
    return pa.array([key], pa.decimal256(76, max(scale, 0)))


@pytest.mark.parametrize("row", HASHES, ids=lambda row: f"{row['kind']} {row['key'][:20]!a}")
def test_hashes(row: dict[str, Any]) -> None:
    for seed, expected in row["hashes"].items():
        found = ks.hash_keys(as_keys(row["kind"], row["key"]), seed=int(seed))
        assert [f"0x{value:016x}" for value in found.tolist()] == [expected]


@pytest.mark.parametrize(
    "row",
    ROUTINGS,
    ids=lambda row: " ".join(
        [row["grouping"], str(row["parameters"]), *(part for part in ("weights", "steps") if row.get(part))]
    ),
)
def test_routings(row: dict[str, Any]) -> None:
    router = ks.grouping(row["grouping"], **row["parameters"]).router(source=row["source"])
    batch = {"keys": row.get("keys"), "weights": row.get("weights")}
    assert make.play(row.get("steps", [("route", batch)]), router, router.route) == row["workers"]


def test_models_still_make_them() -> None:
    assert make.as_text(make.hashes()) == (GOLDEN / "hashes.json").read_text(encoding="utf-8")
    assert make.as_text(make.routings()) == (GOLDEN / "routings.json").read_text(encoding="utf-8")


def test_every_grouping_is_there() -> None:
    assert {row["grouping"] for row in ROUTINGS} == set(ks.GROUPINGS)
