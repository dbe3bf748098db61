"""A plan as text: its description, and its differences from another plan."""

from collections.abc import Mapping
from typing import Any

from keysplit.plan.parameters import BALANCED
from keysplit.plan.summary import Sample
from keysplit.plan.tables import FrequentKey
from keysplit.text import format_count

_SHOWN_KEYS = 10
_NAMED_KEYS = 5
_TITLES = {
    "grouping": "grouping",
    "key": "key",
    "key_types": "key types",
    "total": "weight of all rows",
    "capacities": "capacities",
    "row_id": "row_id",
    "sample": "sample",
    "group_weight": "group_weight",
    "weighted": "weighted",
    "heaviest": "heaviest rows",
    "trust": "trust",
}


def describe(
    plan: Mapping[str, Any], busiest: float, bounds: tuple[float, float], heaviest_row: float
) -> str:
    """Return a plan in a few lines.

    Args:
        plan: the fields of a `Plan`, by name.
        busiest: the expected load of the busiest worker as a multiple of the mean.
        bounds: the bounds on `busiest`, with the confidence of the sample.
        heaviest_row: the load of a worker that gets only the heaviest row, as a multiple of the mean.

    Returns:
        The plan's parameters, expected loads and frequent keys.
    """
    grouping, head, total, sample = plan["grouping"], plan["head"], plan["total"], plan["sample"]
    keys = [
        f"  {each.text}: {each.count / total:.2%}{_error(sample, each.count / total)} of the weight, "
        f"{len(each.workers)} worker{'s' if len(each.workers) > 1 else ''}"
        for each in head[:_SHOWN_KEYS]
    ]
    if len(head) > _SHOWN_KEYS:
        keys.append(f"  ... and {len(head) - _SHOWN_KEYS} more")
    level = f"{busiest:.3f} times the mean" if total else "no rows"
    seen = f"a weight of {total:,.0f}"
    if plan["group_weight"]:
        seen += f", the start of a group being {plan['group_weight']:,g}"
    if sample is not None:
        seen = f"a sample of {sample.rows:,} rows ({sample.fraction:.2%}) for {seen}"
        if plan["heaviest"] is not None:  # the sample may miss a heavier row
            level = f"at least {level}"
        level += f", {bounds[0]:.3f} to {bounds[1]:.3f} with {sample.confidence:.0%} confidence"
    if heaviest_row > BALANCED:
        level += f", {heaviest_row:.3f} by one row alone"
    return "\n".join(
        [
            f"Plan {grouping.name} of {', '.join(plan['key'])} for "
            f"{format_count(grouping.workers, 'worker')}, seed {grouping.seed}",
            f"  made from {seen}",
            f"  expected load of the busiest worker: {level}",
            *([] if plan["order"] is None else [f"  ranges by {plan['order'].text}"]),
            f"  {len(head):,} frequent {'key' if len(head) == 1 else 'keys'}, "
            f"{len(plan['tail']):,} buckets of other keys",
            *keys,
        ]
    )


def _error(sample: Sample | None, share: float) -> str:
    return "" if sample is None else f" (±{sample.error_of(share):.2%})"


def compare(plan: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Describe in a few lines how two plans differ: parameters, frequent keys, buckets.

    Args:
        plan: the fields of a `Plan`, by name.
        other: the fields of the other plan.

    Returns:
        A line per difference.
    """
    lines = [
        f"{title}: {plan[name]!r}, the other has {other[name]!r}"
        for name, title in _TITLES.items()
        if plan[name] != other[name]
    ]
    if plan["order"] != other["order"]:
        text, its = (None if each["order"] is None else each["order"].text for each in (plan, other))
        lines.append(f"order: {text}, the other has {'different cuts' if text == its else its}")
    mine, theirs = ({each.hash: each for each in fields["head"]} for fields in (plan, other))
    lines += [
        f"{title}: {len(keys)} ({_names(keys)})"
        for title, keys in (
            ("frequent keys that only this plan has", [mine[h] for h in mine if h not in theirs]),
            ("frequent keys that only the other has", [theirs[h] for h in theirs if h not in mine]),
            (
                "frequent keys with other workers",
                [mine[h] for h in mine if h in theirs and mine[h].workers != theirs[h].workers],
            ),
        )
        if keys
    ]
    tail, others = plan["tail"], other["tail"]
    if len(tail) != len(others):
        lines.append(f"buckets: {len(tail)}, the other has {len(others)}")
    elif moved := int((tail != others).sum()):
        lines.append(f"buckets with another worker: {moved} of {len(tail)}")
    return "\n".join(lines) or "the plans are equal"


def _names(keys: list[FrequentKey]) -> str:
    return ", ".join(each.text for each in keys[:_NAMED_KEYS]) + (", ..." if len(keys) > _NAMED_KEYS else "")
