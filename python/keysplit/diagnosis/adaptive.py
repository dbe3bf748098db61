"""What adaptive execution did about a stage that waits, or why it did nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from keysplit.diagnosis.operators import Gathering, above, between, is_explicit, sides
from keysplit.diagnosis.plan import Fragment
from keysplit.diagnosis.text import format_bytes

_THRESHOLD = "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes"
_FACTOR = "spark.sql.adaptive.skewJoin.skewedPartitionFactor"
_REBALANCED = "spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled"
_ADVISED = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def explain_adaptive(
    gathering: Gathering,
    fragment: Fragment | None,
    conf: Mapping[str, str],
    read: Sequence[tuple[float, float]],
) -> str:
    """Say what adaptive execution did, or why it did not help.

    Args:
        gathering: what gathers the rows.
        fragment: what the tasks run.
        conf: the settings.
        read: for each side of a join the bytes that the slowest task read, and the mean of the others.

    Returns:
        A sentence without its full stop; empty where there is no shuffle to split.
    """
    if fragment is None or not fragment.inputs:
        return ""
    if gathering.kind == "stateful stream":
        return "Adaptive execution never splits the partitions of a stateful stream"
    if conf.get("spark.sql.adaptive.enabled", "true") == "false":
        return "Adaptive execution is off (spark.sql.adaptive.enabled)"
    if gathering.kind in ("write", "repartition"):
        return "Adaptive execution leaves an explicit repartition as it is"
    if gathering.kind == "rebalance":
        if conf.get(_REBALANCED, "true") == "false":
            return f"Adaptive execution splits no rebalanced partition ({_REBALANCED} is off)"
        return (
            f"Adaptive execution splits rebalanced partitions above {_ADVISED} ({conf.get(_ADVISED, '64MB')})"
        )
    if gathering.kind != "join" or gathering.node is None:
        return "Adaptive execution splits joins only"
    return f"Adaptive execution {_of_join(gathering, fragment, conf, read)}"


def _of_join(
    gathering: Gathering, fragment: Fragment, conf: Mapping[str, str], read: Sequence[tuple[float, float]]
) -> str:
    join = gathering.node
    assert join is not None
    if conf.get("spark.sql.adaptive.skewJoin.enabled", "true") == "false":
        return "splits no join (spark.sql.adaptive.skewJoin.enabled is off)"
    if any(each.name.startswith("AQEShuffleRead") and "skewed" in each.text for each in fragment.operators):
        return "split the join, but not into equal parts"
    if gathering.how == "full":
        return "cannot split a full outer join"
    hot = max(range(len(read)), key=lambda side: read[side][0], default=0)
    one_side = {"left": 0, "semi": 0, "anti": 0, "right": 1}.get(gathering.how)
    if one_side is not None and hot != one_side:
        return f"cannot split the {('left', 'right')[hot]} side of this join ({gathering.how})"
    if name := between(fragment, join):
        return f"splits a join only directly after its shuffles, and here is {name} between"
    if any(is_explicit(each) for side in sides(join) for each in side):
        return "leaves an explicit repartition as it is"
    if name := above(fragment, join):
        needed = f"would need another shuffle for {name} (spark.sql.adaptive.forceOptimizeSkewedJoin)"
    else:
        needed = "cannot cut finer than what one task upstream wrote"
    if not read:
        return f"did not split it: that {needed}" if name else f"did not split it: it {needed}"
    size, others = read[hot]
    threshold = read_size(conf.get(_THRESHOLD, "256MB"))
    factor = float(conf.get(_FACTOR, "5.0"))
    if size <= threshold:
        return (
            f"did not split it: the partition has {format_bytes(size)}, not more than {_THRESHOLD} "
            f"({format_bytes(threshold)})"
        )
    if size <= factor * others:
        return (
            f"did not split it: the partition has {format_bytes(size)}, not more than {_FACTOR} ({factor:g}) "
            f"times the others ({format_bytes(others)})"
        )
    return f"did not split it: that {needed}" if name else f"did not split it: it {needed}"


def read_size(text: str) -> float:
    """Return the bytes of a setting: 256MB, 64m, 1000b, 1000."""
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)i?b?\s*", text.lower())
    return float(int(match[1]) * _UNITS[match[2]]) if match else 0.0
