"""Write the golden bytes of what is stored: `python tests/golden/store.py`.

Snapshots of routers, pickles of groupings and routers, and saved sketches. Rows are only ever added, for a
version that has none yet: what is there was written by the version that it names, and must be read for ever.
"""

import base64
import json
import pickle
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import keysplit as ks

HERE = Path(__file__).parent
FOLDER = HERE / "stored"
KEYS = [
    "a",
    "żółć",
    b"\xff\0",
    None,
    7,
    -1,
    2**64 - 1,
    Decimal("1.5"),
    date(2024, 2, 29),
    datetime(2024, 2, 29, 12, tzinfo=UTC),
    True,
]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def decoded(text: str) -> bytes:
    return base64.b64decode(text)


def version_of(data: bytes) -> int:
    """The version that the first line of a snapshot or a saved sketch names."""
    found = re.match(rb"keysplit (?:router|sketch)(?: \w+)? (\d+)\n", data)
    assert found
    return int(found[1])


def routers(rows: list[dict[str, Any]], make: Any) -> list[dict[str, Any]]:
    """Snapshots in the middle of the golden routings, and how their routers go on."""
    known = {(row["grouping"], row["version"]) for row in rows}
    added = []
    for routing in json.loads((HERE / "routings.json").read_text(encoding="utf-8")):
        name, parameters, source = routing["grouping"], routing["parameters"], routing["source"]
        if parameters["workers"] > 50:
            continue
        if "steps" in routing:
            steps = routing["steps"]
        else:
            weights = routing["weights"] or [None] * len(routing["keys"])
            cut = [(routing["keys"][part], weights[part]) for part in (slice(0, 40), slice(40, None))]
            steps = [
                ["route", {"keys": keys, "weights": some if some[0] is not None else None}]
                for keys, some in cut
            ]
        router = ks.grouping(name, **parameters).router(source=source)
        make.play(steps[: len(steps) // 2], router, router.route)
        data, version = router.snapshot(), version_of(router.snapshot())
        if (name, version) not in known:
            rest = steps[len(steps) // 2 :]
            workers = make.play(rest, router, router.route)
            about = {"grouping": name, "version": version, "parameters": parameters, "source": source}
            added.append(
                {**about, "snapshot": encoded(data), "steps": rest, "workers": [int(at) for at in workers]}
            )
    return rows + added


def pickles(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Pickles of groupings and of routers that have sent a few messages."""
    current = getattr(ks.groupings.base, "PICKLE_VERSION", 1)
    known = {(row["grouping"], row["version"]) for row in rows}
    added = []
    for name in ks.GROUPINGS:
        if (name, current) in known:
            continue
        params = ks.grouping(name, workers=7, seed=3)
        router = params.router(source=2)
        router.route(list(range(20)))
        about = {"grouping": name, "version": current}
        stored = {"params": encoded(pickle.dumps(params, 4)), "router": encoded(pickle.dumps(router, 4))}
        added.append({**about, **stored, "workers": router.route(list(range(20))).tolist()})
    return rows + added


def sketches(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Saved sketches of keys of every kind, with weights and without."""
    known = {row["version"] for row in rows}
    added = []
    for weights in (None, [0.25 + at for at in range(len(KEYS))]):
        sketch = ks.SpaceSaving(capacity=len(KEYS))
        sketch.update([7, 7, None, "a"])
        sketch.update(KEYS, weights)
        data = sketch.to_bytes()
        if version_of(data) not in known:
            added.append({"version": version_of(data), "bytes": encoded(data), "top": repr(sketch.top(20))})
    return rows + added


def main() -> None:
    import make

    FOLDER.mkdir(exist_ok=True)
    for name, add in {
        "routers": lambda rows: routers(rows, make),
        "pickles": pickles,
        "sketches": sketches,
    }.items():
        path = FOLDER / f"{name}.json"
        rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        path.write_text(make.as_text(add(rows)), encoding="utf-8")


if __name__ == "__main__":
    main()
