"""The effect of adaptive execution on a stage that waits, or why there was no effect."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from keysplit.diagnosis.operators import Gathering, above, between, is_explicit, sides
from keysplit.diagnosis.plan import Fragment, Operator
from keysplit.diagnosis.settings import read_number
from keysplit.diagnosis.text import format_bytes

_THRESHOLD = "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes"
_FACTOR = "spark.sql.adaptive.skewJoin.skewedPartitionFactor"
_REBALANCED = "spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled"
_ADVISED = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
_ENABLED, _SKEW_JOIN = "spark.sql.adaptive.enabled", "spark.sql.adaptive.skewJoin.enabled"
_FORCE = "spark.sql.adaptive.forceOptimizeSkewedJoin"
_BLOCKS = "spark.shuffle.accurateBlockSkewedFactor"
_MANY = 2_000  # partitions, above which Spark keeps only averages of block sizes
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def explain_adaptive(
    gathering: Gathering,
    fragment: Fragment | None,
    conf: Mapping[str, str],
    read: Sequence[tuple[float, float]],
) -> tuple[str, str]:
    """Describe the effect of adaptive execution, or why it did not help.

    Args:
        gathering: the operator that gathers the rows.
        fragment: the operators that the tasks run.
        conf: the settings.
        read: per side of a join, the bytes that the slowest task read, and the mean of the other tasks.

    Returns:
        A sentence without its full stop, empty if there is no shuffle to split; and the setting that would
        make adaptive execution split the join, empty if there is none.
    """
    if fragment is None or not fragment.inputs:
        return "", ""
    if gathering.kind == "stateful stream":
        return "Adaptive execution never splits the partitions of a stateful stream", ""
    why, setting = "", ""
    if gathering.kind == "join" and gathering.node is not None:
        why, setting = _of_join(gathering, gathering.node, fragment, conf, read)
    if conf.get(_ENABLED, "true") == "false":
        return f"Adaptive execution is off ({_ENABLED})", setting
    if gathering.kind in ("write", "repartition"):
        return "Adaptive execution leaves an explicit repartition as it is", ""
    if gathering.kind == "rebalance":
        if conf.get(_REBALANCED, "true") == "false":
            return f"Adaptive execution splits no rebalanced partition ({_REBALANCED} is off)", ""
        advised = conf.get(_ADVISED, "64MB")
        return f"Adaptive execution splits rebalanced partitions above {_ADVISED} ({advised})", ""
    return f"Adaptive execution {why or 'splits joins only'}", setting


def _of_join(
    gathering: Gathering,
    join: Operator,
    fragment: Fragment,
    conf: Mapping[str, str],
    read: Sequence[tuple[float, float]],
) -> tuple[str, str]:
    is_off = conf.get(_SKEW_JOIN, "true") == "false"
    off = f"splits no join ({_SKEW_JOIN} is off)"
    if why := _against(gathering, join, fragment, conf, read):
        return off if is_off else why, ""
    name = above(fragment, join)
    settings = [each for each in (_ENABLED, _SKEW_JOIN) if conf.get(each, "true") == "false"]
    settings += [_FORCE] if name else []
    setting = ", ".join(f"{each}=true" for each in settings) if read else ""
    if is_off:
        return off, setting
    if name:
        needed = f"that would need another shuffle for {name} ({_FORCE})"
        return f"did not split it: {needed}", "" if conf.get(_FORCE) == "true" else setting
    partitions = max((each.partitions for each in fragment.inputs), default=0)
    if read and partitions > _MANY and read_number(conf, _BLOCKS, -1) <= 0:
        return (
            f"did not split it: above {_MANY:,} partitions it sees average sizes, unless {_BLOCKS} is set",
            ", ".join(filter(None, [f"{_BLOCKS}=5", setting])),
        )
    return "did not split it: it cannot cut finer than what one task upstream wrote", setting


def _against(
    gathering: Gathering,
    join: Operator,
    fragment: Fragment,
    conf: Mapping[str, str],
    read: Sequence[tuple[float, float]],
) -> str:
    """Return why adaptive execution cannot split a join under any setting; empty if unknown."""
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
    if not read:
        return ""
    size, others = read[hot]
    threshold = read_size(conf.get(_THRESHOLD, "256MB"))
    factor = read_number(conf, _FACTOR, 5)
    if size <= threshold:
        return (
            f"did not split it: it weighs bytes, not rows, and the partition has {format_bytes(size)}, not "
            f"more than {_THRESHOLD} ({format_bytes(threshold)})"
        )
    if size <= factor * others:
        return (
            f"did not split it: the partition has {format_bytes(size)}, not more than {_FACTOR} ({factor:g}) "
            f"times the others ({format_bytes(others)})"
        )
    return ""


def read_size(text: str) -> float:
    """Return a setting's size in bytes, for instance from 256MB, 64m, 1000b or 1000."""
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)i?b?\s*", text.lower())
    return float(int(match[1]) * _UNITS[match[2]]) if match else 0.0
