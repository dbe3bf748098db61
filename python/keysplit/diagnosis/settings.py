"""Spark's own settings: settings that would help a stage that waits, and unknown settings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from keysplit.diagnosis.operators import Gathering
from keysplit.diagnosis.plan import Fragment

_ADAPTIVE, _SHUFFLE = "spark.sql.adaptive.", "spark.sql.shuffle."
SPREAD_NULLS = f"{_SHUFFLE}spreadNullJoinKeys.enabled"
_LEAST_DROP = 2.0  # a limit before the shuffle helps if the slowest task has this multiple of its rows
WINDOW_LIMIT = "spark.sql.optimizer.windowGroupLimitThreshold"
_OLDEST, _NEWEST = (3, 5), (4, 3)  # the versions whose settings are known
# All settings of Spark 3.5 to 4.3 under these two prefixes, with the version that introduced each.
_KNOWN = {
    **{
        _ADAPTIVE + name: (3, 5)
        for name in [
            "enabled",
            "forceApply",
            "logLevel",
            "advisoryPartitionSizeInBytes",
            "fetchShuffleBlocksInBatch",
            "shuffle.targetPostShuffleInputSize",
            "coalescePartitions.enabled",
            "coalescePartitions.parallelismFirst",
            "coalescePartitions.minPartitionSize",
            "coalescePartitions.minPartitionNum",
            "coalescePartitions.initialPartitionNum",
            "localShuffleReader.enabled",
            "skewJoin.enabled",
            "skewJoin.skewedPartitionFactor",
            "skewJoin.skewedPartitionThresholdInBytes",
            "nonEmptyPartitionRatioForBroadcastJoin",
            "optimizer.excludedRules",
            "autoBroadcastJoinThreshold",
            "maxShuffledHashJoinLocalMapThreshold",
            "optimizeSkewsInRebalancePartitions.enabled",
            "rebalancePartitionsSmallPartitionFactor",
            "forceOptimizeSkewedJoin",
            "customCostEvaluatorClass",
            "applyFinalStageShuffleOptimizations",
        ]
    },
    f"{_ADAPTIVE}streaming.stateless.enabled": (4, 1),
    f"{_ADAPTIVE}coalescePartitions.maxReducerPartitionsPerTask": (4, 3),
    f"{_ADAPTIVE}convertSortMergeJoinToShuffledHashJoin.enabled": (4, 3),
    f"{_ADAPTIVE}convertSortMergeJoinToShuffledHashJoin.lookThroughOperators.enabled": (4, 3),
    f"{_ADAPTIVE}convertSortMergeJoinToShuffledHashJoin.minWideningFactor": (4, 3),
    f"{_ADAPTIVE}costEvaluator.countLocalSort.enabled": (4, 3),
    f"{_SHUFFLE}partitions": (3, 5),
    f"{_SHUFFLE}orderIndependentChecksum.enabled": (4, 1),
    f"{_SHUFFLE}orderIndependentChecksum.enableFullRetryOnMismatch": (4, 1),
    f"{_SHUFFLE}orderIndependentChecksum.enableQueryLevelRollbackOnMismatch": (4, 2),
    SPREAD_NULLS: (4, 3),
}
# Spark's own: other products add settings.
_RELEASE = re.compile(r"(\d+)\.(\d+)\.\d+(?:-SNAPSHOT)?")
_RANK = re.compile(
    r"\b(?:row_number|rank|dense_rank)\([^()]*\) windowspecdefinition\(.*?\)\) AS ([^,\[\]]+#\d+)"
)


def is_read(name: str) -> bool:
    """Whether a setting matters for a stage that waits."""
    return name.startswith((_ADAPTIVE, _SHUFFLE, "spark.shuffle.accurateBlock")) or name == WINDOW_LIMIT


def list_unknown(names: Iterable[str], version: str) -> list[str]:
    """Return a note for each setting that has no effect because this Spark does not know it."""
    release = _RELEASE.fullmatch(version)
    if release is None or not _OLDEST <= (found := (int(release[1]), int(release[2]))) <= _NEWEST:
        return []
    short = f"{release[1]}.{release[2]}"
    notes = []
    for name in sorted({name for name in names if name.startswith((_ADAPTIVE, _SHUFFLE))}):
        since = _KNOWN.get(name)
        if since is None:
            near = get_close_matches(name, _KNOWN, 1)
            meant = f": did you mean {near[0]}?" if near else ""
            notes.append(f"{name} has no effect, no Spark knows this setting{meant}")
        elif since > found:
            notes.append(f"{name} has no effect in Spark {short}: it came with Spark {since[0]}.{since[1]}")
    return notes


def read_number(conf: Mapping[str, str], name: str, default: float) -> float:
    """Return a numeric setting; the default if it is missing or not a number."""
    try:
        found = float(conf.get(name, default))
    except ValueError:
        return default
    return found if math.isfinite(found) else default


def knows(version: str, name: str = "") -> bool:
    """Whether a version of Spark, 3.5 or newer, knows a setting."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) >= _KNOWN.get(name, (3, 5))


def spreads_nulls(gathering: Gathering, hot: str, conf: Mapping[str, str], version: str) -> bool:
    """Whether `SPREAD_NULLS` would make Spark spread the rows with a null key, if null is the hot key.

    Args:
        gathering: the operator that gathers the rows.
        hot: the side with the hot keys.
        conf: the settings.
        version: Spark's version.
    """
    kept = {"left": ("left",), "anti": ("left",), "right": ("right",), "full": ("left", "right")}
    if gathering.kind != "join" or hot not in kept.get(gathering.how, ()) or gathering.node is None:
        return False  # all others drop null keys before they shuffle
    keys, side = (gathering.columns, 0) if hot == "left" else (gathering.right or gathering.columns, 1)
    texts = [each.text for each in gathering.node.children[side].all]
    never = all(any(f"isnotnull({key}#" in text for text in texts) for key in keys)
    return not never and knows(version, SPREAD_NULLS) and conf.get(SPREAD_NULLS) != "true"


def limit_of_window(
    gathering: Gathering, fragment: Fragment, conf: Mapping[str, str], rows: float
) -> tuple[str, str]:
    """Return the setting that makes Spark drop a window's rows before the shuffle, and why this helps.

    Spark drops rows for `rank() <= k` and similar filters, up to a threshold of k, unless another function of
    the window needs later rows.

    Args:
        gathering: the operator that gathers the rows.
        fragment: the operators that the tasks run.
        conf: the settings.
        rows: the rows that the slowest task reads.
    """
    text = "" if gathering.node is None else gathering.node.text
    if gathering.kind != "window" or "unboundedfollowing" in text or not gathering.columns:
        return "", ""
    for name in _RANK.findall(text):
        for each in fragment.operators:
            found = re.search(re.escape(name) + r"L? (<=|<|=) (\d+)\b", each.text)
            if not each.name.startswith("Filter") or found is None:
                continue
            limit = int(found[2]) - (found[1] == "<")
            threshold = read_number(conf, WINDOW_LIMIT, 1000)
            if threshold < limit and _LEAST_DROP * limit <= rows:  # each upstream task keeps so many
                why = f"Spark then keeps {limit:,} rows of a key in each task before the shuffle"
                return f"{WINDOW_LIMIT}={limit}", f"{why}: it does so up to {threshold:,.0f}"
    return "", ""
