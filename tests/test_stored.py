"""What older versions stored is still read, and what a newer one stored is refused in one line."""

import importlib.util
import json
import pickle
import zlib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import keysplit as ks

GOLDEN = Path(__file__).parent / "golden"


def _load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"golden_{name}", GOLDEN / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make, store = _load("make"), _load("store")
ROUTERS, PICKLES, SKETCHES = (
    json.loads((GOLDEN / "stored" / f"{name}.json").read_text(encoding="utf-8"))
    for name in ("routers", "pickles", "sketches")
)
NAMES = list(ks.GROUPINGS)
# Routers of these go on by the rule of today, from what the older rule has noted.
CHANGED = {("pstream", 1)}


def named(row: dict[str, Any]) -> str:
    return f"{row['grouping']} {row['version']} {row.get('parameters', '')}"


def line(error: pytest.ExceptionInfo[Exception]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def signed(body: bytes) -> bytes:
    return body + zlib.crc32(body).to_bytes(4, "little")


def counted(data: bytes) -> bytes:
    """Bytes after their number, as snapshots hold them."""
    number, length = b"", len(data)
    while length >= 128:
        number, length = number + bytes([length % 128 + 128]), length // 128
    return number + bytes([length]) + data


def without(snapshot: bytes, router: ks.Router, parameter: str) -> bytes:
    """A snapshot as it was before there was this parameter."""
    assert len(snapshot) > 4
    head, _, body = snapshot[:-4].partition(b"\n")
    start = body.index(b"{")
    text = body[start : body.index(b"}") + 1]
    assert body.startswith(counted(text))
    params = json.loads(text)
    del params[parameter]
    older = json.dumps(params, separators=(",", ":")).encode()
    return signed(head + b"\n" + counted(older) + body[start + len(text) :])


# Golden bytes


@pytest.mark.parametrize("row", ROUTERS, ids=named)
def test_routers_of_every_version_go_on(row: dict[str, Any]) -> None:
    params = ks.grouping(row["grouping"], **row["parameters"])
    router = params.router(source=row["source"], snapshot=store.decoded(row["snapshot"]))
    before = router.loads.sum()
    workers = make.play(row["steps"], router, router.route)
    assert workers == row["workers"] or (row["grouping"], row["version"]) in CHANGED
    assert len(workers) == len(row["workers"])
    assert router.loads.sum() > before > 0


@pytest.mark.parametrize("row", PICKLES, ids=named)
def test_pickles_of_every_version_load(row: dict[str, Any]) -> None:
    params = pickle.loads(store.decoded(row["params"]))
    # what FlexD and FISH took for hot before version 3
    meant = {"flexd": {"threshold": 1 / (5 * 7)}, "fish": {"deviations": 0.0}}
    former = meant.get(row["grouping"], {}) if row["version"] < 3 else {}
    assert params == ks.grouping(row["grouping"], workers=7, seed=3, **former)
    assert type(params) is ks.GROUPINGS[row["grouping"]]
    router = pickle.loads(store.decoded(row["router"]))
    workers = router.route(list(range(20))).tolist()
    assert workers == row["workers"] or (row["grouping"], row["version"]) in CHANGED


def test_flexd_keeps_its_former_threshold_through_newer_snapshots() -> None:
    row = next(row for row in ROUTERS if named(row) == "flexd 2 {'workers': 5, 'segment_messages': 20}")
    ((_, arguments),) = row["steps"]
    given, snapshot = row["parameters"], store.decoded(row["snapshot"])
    for params in (ks.FlexD(**given), ks.FlexD(**given, threshold=1 / (5 * 5))):
        router, workers = params.router(snapshot=snapshot), []
        for start in range(0, 64, 20):
            router = pickle.loads(pickle.dumps(params.router(snapshot=router.snapshot())))
            workers += router.route(arguments["keys"][start : start + 20]).tolist()
        assert workers == row["workers"]
    for divisor in (4, 20):
        with pytest.raises(ValueError, match="snapshot is of another set of parameters") as error:
            ks.FlexD(**given, threshold=1 / (divisor * 5)).router(snapshot=snapshot)
        line(error)


@pytest.mark.parametrize("row", SKETCHES, ids=lambda row: f"{row['version']} {row['top'][:20]}")
def test_sketches_of_every_version_load(row: dict[str, Any]) -> None:
    sketch = ks.SpaceSaving.from_bytes(store.decoded(row["bytes"]))
    assert repr(sketch.top(20)) == row["top"]


def test_all_present_versions_are_among_the_golden_bytes() -> None:
    for name, add in {"routers": store.routers, "pickles": store.pickles, "sketches": store.sketches}.items():
        rows = json.loads((GOLDEN / "stored" / f"{name}.json").read_text(encoding="utf-8"))
        known = add(rows, make) if name == "routers" else add(rows)
        assert known == rows, "run tests/golden/store.py"


# Parameters that are added


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_have_the_same_defaults(name: str) -> None:
    params = ks.grouping(name, workers=10)
    assert ks.Router(name, {"workers": 10}, source=0).snapshot() == params.router().snapshot()
    for field in fields(params):
        if field.name != "workers":
            given = {"workers": 10, **{field.name: getattr(params, field.name)}}
            assert ks.Router(name, given, source=0).snapshot() == params.router().snapshot()


@pytest.mark.parametrize("name", NAMES)
def test_snapshots_from_before_a_parameter_was_added_are_restored(name: str) -> None:
    params = ks.grouping(name, workers=10, seed=5)
    router = params.router(source=1)
    router.route(list(range(50)))
    for field in fields(params):
        if field.name in ("workers", "seed"):
            continue
        older = without(router.snapshot(), router, field.name)
        assert params.router(source=1, snapshot=older).snapshot() == router.snapshot()
    with pytest.raises(ValueError, match="snapshot is of another set of parameters") as error:
        params.router(source=1, snapshot=without(router.snapshot(), router, "seed"))
    line(error)


def test_a_snapshot_with_an_unknown_parameter_is_refused() -> None:
    router = ks.KeyGrouping(workers=3).router()
    newer = router.snapshot()[:-4].replace(b'"seed":0}', b'"sees":0}')
    with pytest.raises(ValueError, match=r"^snapshot must be of known parameters, got .*sees") as error:
        ks.KeyGrouping(workers=3).router(snapshot=signed(newer))
    line(error)


@pytest.mark.parametrize("name", NAMES)
def test_pickles_from_before_a_parameter_was_added_load(name: str) -> None:
    params = ks.grouping(name, workers=10, seed=5)
    function, (key, version, stored) = params.__reduce__()
    for field in fields(params):
        if field.name in ("workers", "seed"):
            continue
        fewer = {known: value for known, value in stored.items() if known != field.name}
        assert function(key, version, fewer) == params
        first = object.__new__(type(params))
        first.__setstate__(fewer)
        former = {"threshold": 1 / (5 * 10)} if name == "flexd" else {}
        former |= {"deviations": 0.0} if field.name == "deviations" else {}
        assert first == replace(params, **former)
    parts = ks.Router(name, {"workers": 10, "seed": 5}, 0, params.router().snapshot()).__reduce__()
    assert parts[0](*parts[1]).snapshot() == params.router().snapshot()


# Newer versions


@pytest.mark.parametrize("name", NAMES)
def test_newer_snapshots_are_refused_in_one_line(name: str) -> None:
    params = ks.grouping(name, workers=3)
    data = params.router().snapshot()
    version = store.version_of(data)
    ours, newer = f"router {name} {version}\n".encode(), f"router {name} 99\n".encode()
    assert ours in data
    with pytest.raises(ValueError, match=r"^snapshot must be of a router") as error:
        params.router(snapshot=signed(data[:-4].replace(ours, newer)))
    message = f"snapshot must be of a router {name} of version {version} at most, got 99: update keysplit"
    assert line(error) == message
    with pytest.raises(ValueError, match=r"^snapshot is of another grouping: key2, not ") as error:
        params.router(snapshot=signed(data[:-4].replace(ours, b"router key2 1\n")))


def test_newer_pickles_are_refused_in_one_line() -> None:
    function, (name, version, stored) = ks.KeyGrouping(workers=3).__reduce__()
    with pytest.raises(
        ValueError, match=r"^a pickle of key must be of version 3 at most, got 4: update"
    ) as error:
        function(name, version + 1, stored)
    line(error)


def test_newer_sketches_are_refused_in_one_line() -> None:
    sketch = ks.SpaceSaving(capacity=3)
    newer = sketch.to_bytes()[:-4].replace(b"keysplit sketch 1\n", b"keysplit sketch 2\n")
    with pytest.raises(
        ValueError, match=r"^data must be of a sketch of version 1 at most, got 2: update"
    ) as error:
        ks.SpaceSaving.from_bytes(signed(newer))
    line(error)


# Absurd numbers


@pytest.mark.parametrize("name", NAMES)
@given(changes=st.lists(st.tuples(st.integers(0, 2**16), st.binary(min_size=1, max_size=9)), max_size=3))
def test_changed_snapshots_are_refused_or_go_on(name: str, changes: list[tuple[int, bytes]]) -> None:
    params = ks.grouping(name, workers=5)
    router = params.router()
    router.route([1, 2, 1, 3] * 5)
    head, _, body = router.snapshot()[:-4].partition(b"\n")
    for place, new in changes:
        place %= len(body)
        body = body[:place] + new + body[place + len(new) :]
    error = ""
    try:
        restored = params.router(snapshot=signed(head + b"\n" + body))
    except ValueError as refused:
        error = str(refused)
    else:
        assert set(restored.route([1, 2, 3] * 9).tolist()) <= set(restored.worker_numbers.tolist())
        restored.candidates(1)
        restored.snapshot()
    assert "\n" not in error
