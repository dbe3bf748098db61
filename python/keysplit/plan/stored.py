"""The stored form of a plan: JSON with a version.

A plan is written in the oldest version that can hold it, so that older versions of keysplit can read it.
Every version stays readable. docs/plans.md lists the fields.
"""

import base64
import json
import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from keysplit._core import __version__
from keysplit.groupings import GROUPINGS
from keysplit.plan.order import KeyCuts, OrderColumn, OrderCuts
from keysplit.plan.parameters import PLANS
from keysplit.plan.placement import speeds_of
from keysplit.plan.summary import Sample, bucket_bits
from keysplit.plan.tables import FrequentKey

FORMAT = "keysplit plan"
_FIRST = ("grouping", "key", "key_types", "total", "head", "tail", "buckets", "capacities")
_THIRD = (*_FIRST, "row_id", "sample", "group_weight")
_FOURTH = (*_THIRD, "weighted")
_FIFTH = (*_FOURTH, "heaviest")
_SIXTH = (*_FIFTH, "trust")
FIELDS = {
    1: _FIRST,
    2: (*_FIRST, "row_id"),
    3: _THIRD,
    4: _FOURTH,
    5: _FIFTH,
    6: _SIXTH,
    7: (*_SIXTH, "order"),
}
"""The fields of a plan in each version of the stored form."""
VERSION = max(FIELDS)


def write(plan: Mapping[str, Any]) -> str:
    """Return the fields of a plan as JSON.

    Args:
        plan: the fields of a `Plan`, by name.

    Returns:
        The JSON, in the oldest version with all fields whose value is not None, 0, False or empty.
    """
    version = min(
        version
        for version, known in FIELDS.items()
        if all(value in (None, 0, ()) for name, value in plan.items() if name not in known)
    )
    grouping, sample, order = plan["grouping"], plan["sample"], plan["order"]
    data = {
        **plan,
        "grouping": {"name": grouping.name, **asdict(grouping)},
        "head": [asdict(each) for each in plan["head"]],
        "tail": _pack(plan["tail"].astype("<u4")),
        "buckets": _pack(plan["buckets"].astype("<f8")),
        "sample": None if sample is None else asdict(sample),
        "order": None if order is None else _signed(asdict(order)),
    }
    stored = {name: data[name] for name in FIELDS[version]}
    return json.dumps({"format": FORMAT, "version": version, **stored}, ensure_ascii=False)


def read(text: str) -> dict[str, Any]:
    """Return the fields of a plan written by `write` of this or an older keysplit.

    Parameters of the grouping that are missing get their defaults.

    Args:
        text: JSON.

    Returns:
        The fields of a `Plan`, by name.

    Raises:
        ValueError: if `text` is not a plan, is damaged, or needs a newer keysplit.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ValueError(f"text must be a plan as JSON, got {text[:40]!r}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"text must be a plan that keysplit wrote, got {text[:40]!r}")
    version = data.get("version")
    if type(version) is not int or version < 1:
        raise ValueError(f"version of the plan must be in 1..={VERSION}, got {version!r}")
    if version > VERSION:
        raise _newer(f"version {version}")
    _refuse_unknown("field", set(data) - {"format", "version"}, FIELDS[version])
    try:
        plan = _fields(data)
        sound = _is_sound(plan)
    except _NewerError as error:
        raise ValueError(str(error)) from None
    except (AttributeError, KeyError, TypeError, ValueError, zlib.error) as error:
        raise ValueError(f"plan is damaged: {type(error).__name__}: {error}") from error
    if not sound:
        raise ValueError("plan is damaged: its keys, workers, shares or buckets do not fit its grouping")
    return plan


class _NewerError(ValueError):
    """A plan needs a newer keysplit."""


def _newer(what: str) -> ValueError:
    return _NewerError(
        f"plan must be one that keysplit {__version__} knows, got {what}, which a newer keysplit wrote: "
        "install a newer keysplit"
    )


def _refuse_unknown(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in sorted(set(names) - set(known)):
        raise _newer(f"the {kind} {name!r}")


def _fields(data: dict[str, Any]) -> dict[str, Any]:
    params = dict(data["grouping"])
    name = params.pop("name")
    # A plan that changes with a stream may have any grouping.
    known = {**GROUPINGS, **PLANS}
    _refuse_unknown("grouping", [name], known)
    grouping = known[name]
    _refuse_unknown(f"parameter of {name}", params, [field.name for field in fields(grouping)])
    capacities, row_id, heaviest = data["capacities"], data.get("row_id"), data.get("heaviest")
    order = data.get("order")
    return {
        "grouping": grouping(**params),
        "key": tuple(data["key"]),
        "key_types": tuple(data["key_types"]),
        "total": float(data["total"]),
        "head": tuple(_frequent(each) for each in data["head"]),
        "tail": _unpack(data["tail"], "<u4").astype(np.uint32),
        "buckets": _unpack(data["buckets"], "<f8").astype(np.float64),
        "capacities": None if capacities is None else tuple(map(float, capacities)),
        "row_id": None if row_id is None else tuple(row_id),
        "sample": None if data.get("sample") is None else _sample(data["sample"]),
        "group_weight": float(data.get("group_weight", 0.0)),
        "weighted": data.get("weighted", False),
        "heaviest": None if heaviest is None else tuple(map(float, heaviest)),
        "trust": tuple(data.get("trust", ())),
        "order": None if order is None else _order(order),
    }


def _sample(data: dict[str, Any]) -> Sample:
    _refuse_unknown("field of a sample", data, [field.name for field in fields(Sample)])
    return Sample(
        int(data["rows"]), float(data["fraction"]), float(data["effective"]), float(data["confidence"])
    )


def _frequent(data: dict[str, Any]) -> FrequentKey:
    if not isinstance(data["key"], list):
        raise TypeError(f"a key must be a list of values, one per key column, got {data['key']!r:.60}")
    key = FrequentKey(
        tuple(data["key"]),
        int(data["hash"]),
        float(data["count"]),
        float(data["error"]),
        tuple(map(int, data["workers"])),
        tuple(map(float, data["shares"])),
    )
    _refuse_unknown("field of a key", data, [field.name for field in fields(FrequentKey)])
    return key


def _signed(order: dict[str, Any]) -> dict[str, Any]:
    """Add a checksum: windows are wrong if cuts are not in the order, which only Spark can tell."""
    return {**order, "crc32": zlib.crc32(json.dumps(order, sort_keys=True).encode())}


def _order(data: dict[str, Any]) -> OrderCuts:
    order = {name: value for name, value in data.items() if name != "crc32"}
    if _signed(order) != data:
        raise ValueError("the cuts of its order do not have their checksum")
    _refuse_unknown("field of an order", order, [field.name for field in fields(OrderCuts)])
    columns = tuple(OrderColumn(**each) for each in order["columns"])
    keys = (
        KeyCuts(int(each["hash"]), tuple(map(float, each["places"])), tuple(map(tuple, each["cuts"])))
        for each in order["keys"]
    )
    return OrderCuts(columns, tuple(keys))


def _is_sound(plan: dict[str, Any]) -> bool:
    n, head, tail, buckets = plan["grouping"].workers, plan["head"], plan["tail"], plan["buckets"]
    row_id, capacities, sample = plan["row_id"], plan["capacities"], plan["sample"]
    heaviest, order = plan["heaviest"], plan["order"]
    return (
        len(tail) == len(buckets) == 2 ** bucket_bits(n)
        and bool((tail < n).all())
        and bool(np.isfinite(buckets).all())
        and len({each.hash for each in head}) == len(head)
        and all(
            -(2**63) <= each.hash < 2**63
            and len(each.workers) == len(each.shares) == len(set(each.workers)) > 0
            and all(0 <= worker < n for worker in each.workers)
            and all(share > 0 for share in each.shares)
            and abs(sum(each.shares) - 1) < 1e-6
            and 0 <= each.count < math.inf
            and 0 <= each.error < math.inf
            and all(part is None or isinstance(part, str) for part in each.key)
            for each in head
        )
        and (0 < plan["total"] < math.inf or (plan["total"] == 0 and not head))
        and all(isinstance(name, str) for name in plan["key"])
        and len(plan["key"]) == len(plan["key_types"]) > 0
        and (capacities is None or len(speeds_of(capacities, n)) == n)
        and (sample is None or (0 < sample.confidence < 1 and sample.effective >= 0))
        and 0 <= plan["group_weight"] < math.inf
        and isinstance(plan["weighted"], bool)
        and (heaviest is None or len(heaviest) == len(head))
        and all(isinstance(name, str) for name in plan["trust"])
        and all(0 <= row < math.inf for row in heaviest or ())
        and (order is None or order.is_sound)
        and (row_id is None or (len(row_id) > 0 and all(isinstance(name, str) for name in row_id)))
    )


def _pack(numbers: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(numbers.tobytes())).decode()


def _unpack(text: str, type_: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text, validate=True)), type_)
