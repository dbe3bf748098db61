"""Find the operator of a stage that gathers the rows of a key, and its key columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from keysplit.diagnosis.plan import Fragment, Operator, column_name, column_names

_JOINS = ("SortMergeJoin", "ShuffledHashJoin")
_STATEFUL = (
    *("StateStoreSave", "StateStoreRestore", "SessionWindowStateStore", "StreamingSymmetricHashJoin"),
    *(
        "FlatMapGroupsWithState",
        "FlatMapGroupsInPandasWithState",
        "TransformWithState",
        "StreamingDeduplicate",
    ),
)
_COGROUPS = ("FlatMapCoGroupsIn", "CoGroup")
_GROUPS = ("FlatMapGroupsIn", "AggregateInPandas", "ArrowAggregate", "MapGroups")
_WINDOWS, _LIMIT = ("Window", "ArrowWindow"), "WindowGroupLimit"
_COLLECTS = ("ObjectHashAggregate", "SortAggregate")
_COMBINES = ("HashAggregate",)
_SCANS = ("Scan", "FileScan", "BatchScan", "InMemoryTableScan", "Range", "LocalTableScan", "MicroBatchScan")
_COLUMNAR = re.compile(r"\bScan (?:parquet|orc)\b|\b(?:Parquet|Orc)Scan\b|\bFormat: (?:Parquet|ORC)\b", re.I)
_WRITES = ("WriteFiles", "Execute Insert", "OverwriteBy", "AppendData", "WriteToDataSource", "ReplaceData")
_KEYED = (*_STATEFUL, *_COGROUPS, *_GROUPS, *_WINDOWS, *_COLLECTS, *_COMBINES)
_JOIN_TYPES = re.compile(r"\b(Inner|Cross|LeftOuter|RightOuter|FullOuter|LeftSemi|LeftAnti|ExistenceJoin)\b")
_WHOLE_JOIN = re.compile(
    r"\w+(\(skew=true\))? \[.*\], \[.*\], (Inner|Cross|LeftOuter|RightOuter|FullOuter|LeftSemi|LeftAnti)"
    r"(, Build(Left|Right))?(, false)?"
)
_MAPS = ("MapIn", "PythonMapIn")
# The functions of `kss.apply` over sorted rows, and other signs of a keysplit plan: the function that routes,
# the table of workers by the first bits of a hash, the cells of a grid.
_SLICES = re.compile(r"!?\w+ keysplit_(whole|finished|in_parts|merged)\(")
_OURS = ("keysplit", "_keysplit")
_PLACES = re.compile(
    r"\bkeysplit_\w+\(|\[cast\(\(?shiftrightunsigned\((?:[^()]|\([^()]*\))*, \d+\)(?: & 63\))? as int\)\]"
    r"| THEN sequence\(\(?pmod\("
)
# Operators that name their keys do so first: `Window [...], [k#1]`, `HashAggregate(keys=[k#1], ...`.
_STARTS_WITH_LIST = re.compile(r"!?\w+(?: |\(keys?=)\[")
# The columns of a partitioned write, and its format: `..., false, [k#1], Parquet, [path=...`.
_FOLDERS = re.compile(r"(?:true|false), \[([^\[\]]*#\d+L?)\], (Parquet|ORC|CSV|JSON|Text)\b")
_ORDERED = re.compile(r" (?:ASC|DESC) NULLS (?:FIRST|LAST)$")


@dataclass(frozen=True)
class Gathering:
    """An operator that gathers the rows of each key in one task.

    Attributes:
        kind: as in `Finding.operator`.
        detail: the variant of the kind: an aggregate "combines" before the shuffle or "collects"; a Python
            "group" or "cogroup"; Python on sorted rows: of a "whole" key, of a key "finished" or put
            "in_parts" by `kss.apply`, or of its "merged" parts; a stream's "join", "deduplicate", "group",
            "combines" or "collects"; a scan of a "cache" or of "files"; a "sort"; a "window", or the "limit"
            to the first rows per key.
        node: the operator; None for a stage without a plan.
        columns: the columns of the key; for a join, the left side's.
        right: for a join, the key columns of the right side.
        how: for a join, the type as in `kss.join`; for a write, the format.
        windows: for a window, all windows of the stage, in the order in which they run.
    """

    kind: str
    detail: str
    node: Operator | None
    columns: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    how: str = "inner"
    windows: tuple[Operator, ...] = ()

    @property
    def what(self) -> str:
        """The kind with its columns, in a few words."""
        return f"{self.kind} by {', '.join(self.columns)}" if self.columns else self.kind

    @property
    def is_columnar(self) -> bool:
        """Whether the operator scans Parquet or ORC: Spark splits such files regardless of compression."""
        return self.node is not None and _COLUMNAR.search(f"{self.node.name} {self.node.text}") is not None


def find_gathering(fragment: Fragment | None, *, writes: bool) -> Gathering:
    """Return the operator that gathers the rows of a key in a stage.

    Args:
        fragment: the operators that the stage's tasks run; None if unknown.
        writes: whether the stage's tasks write files.
    """
    if fragment is None:
        return Gathering("other", "", None)
    if not fragment.inputs:
        scan = fragment.first(*_SCANS)
        cached = scan is not None and scan.is_cache
        return Gathering("scan", "cache" if cached else "files", scan or fragment.root)
    stateful = fragment.first(*_STATEFUL)
    if stateful is not None:
        return _stateful(fragment, stateful)
    for each in fragment.operators:
        if each.name.startswith(_JOINS):
            left, right = [*each.lists, (), ()][:2]
            return Gathering("join", "join", each, _known(left), _known(right), how_of(each))
        if each.name.startswith(_COGROUPS):
            return Gathering("python group", "cogroup", each, _columns(each, fragment))
        if each.name.startswith(_GROUPS):
            return Gathering("python group", "group", each, _columns(each, fragment))
        if each.name.startswith(_WINDOWS) and not each.text.endswith(", Partial"):
            detail = "limit" if each.name.startswith(_LIMIT) else "window"
            return Gathering("window", detail, each, _columns(each, fragment), windows=_windows(fragment))
        if each.name.startswith(_COLLECTS) and "partial_" not in each.text:
            return Gathering("aggregate", "collects", each, _columns(each, fragment))
    by_hand = [each for each in fragment.inputs if is_explicit(each)]
    if (sorted_rows := _over_sorted_rows(fragment, by_hand)) is not None:
        return sorted_rows
    if by_hand:
        return _repartitioned(fragment, by_hand[0], writes)
    rebalanced = next((each for each in fragment.inputs if "REBALANCE_PARTITIONS_BY" in each.text), None)
    if rebalanced is not None:
        return Gathering("rebalance", "hint", rebalanced, rebalanced.partitioning)
    combined = fragment.first(*_COMBINES)
    if combined is not None and combined.lists and combined.lists[0]:
        return Gathering("aggregate", "combines", combined, _columns(combined, fragment))
    if any("rangepartitioning(" in each.text for each in fragment.inputs):
        return Gathering("other", "sort", fragment.first("Sort") or fragment.root)
    columns = next((each.partitioning for each in fragment.inputs if each.partitioning), ())
    return Gathering("other", "", fragment.root, columns)


def _windows(fragment: Fragment) -> tuple[Operator, ...]:
    found = (each for each in fragment.operators if each.name.startswith(_WINDOWS))
    return tuple(each for each in found if not each.name.startswith(_LIMIT))


def how_of(join: Operator) -> str:
    """Return the type of a join as in `kss.join`."""
    found = _JOIN_TYPES.search(join.text.rsplit("]", 1)[-1]) or _JOIN_TYPES.search(join.text)
    names = {
        "LeftOuter": "left",
        "RightOuter": "right",
        "FullOuter": "full",
        "LeftSemi": "semi",
        "LeftAnti": "anti",
    }
    return names.get(found[1], "inner") if found else "inner"


def is_whole(join: Operator) -> bool:
    """Whether a join is described by its type and its keys: it has no condition, and all keys are named."""
    text = join.text
    if join.name.startswith("StreamingSymmetricHashJoin"):
        return "full = null" in text or "full = None" in text
    return _WHOLE_JOIN.fullmatch(text) is not None and " more fields" not in text


def is_explicit(shuffle: Operator) -> bool:
    """Whether the user requested the shuffle, by `repartition`."""
    return "REPARTITION_BY" in shuffle.text and bool(shuffle.partitioning)


def is_placed_by_keysplit(fragment: Fragment | None) -> bool:
    """Whether a keysplit plan has placed the rows that the tasks read."""
    shuffles = () if fragment is None else fragment.inputs
    if any(column.startswith(_OURS) for each in shuffles for column in each.partitioning):
        return True
    return any(_PLACES.search(each.text) for shuffle in shuffles for each in _before(shuffle))


def _before(operator: Operator) -> Iterator[Operator]:
    """Return the operators upstream of an operator in its stage, or in the stage that fills its cache."""
    for child in operator.children:
        if not child.is_exchange:
            yield child
            yield from _before(child)


def between(fragment: Fragment, join: Operator) -> str:
    """Return the name of an operator between a shuffle and the join; empty if there are only sorts."""
    waiting = list(join.children)
    while waiting:
        each = waiting.pop()
        if each.is_exchange:
            continue
        if not each.name.startswith(("Sort", "AQEShuffleRead", "CustomShuffleReader")) or not each.children:
            return each.name
        waiting += each.children
    return ""


def above(fragment: Fragment, join: Operator) -> str:
    """Return a downstream operator in the same stage that gathers the join's result by key; empty if none."""
    after = fragment.operators[fragment.operators.index(join) + 1 :]
    gathers = (*_JOINS, *_KEYED)
    return next(
        (each.name for each in after if each.name.startswith(gathers) and "partial_" not in each.text), ""
    )


def sides(join: Operator) -> list[list[Operator]]:
    """Return the shuffles that each side of a join reads."""
    found = []
    for child in join.children:
        waiting, inside = [child], []
        while waiting:
            each = waiting.pop()
            if each.is_exchange:
                inside.append(each)
            else:
                waiting += each.children
        found.append(inside)
    return found


def _stateful(fragment: Fragment, node: Operator) -> Gathering:
    columns = next((each.partitioning for each in fragment.inputs if each.partitioning), ())
    columns = tuple(
        each for each in columns if each != "window" and not each.startswith(("window(", "window."))
    )
    if node.name.startswith("StreamingSymmetricHashJoin"):
        left, right = [*node.lists, (), ()][:2]
        return Gathering("stateful stream", "join", node, _known(left), _known(right), how_of(node))
    if node.name.startswith("StreamingDeduplicate"):
        return Gathering("stateful stream", "deduplicate", node, columns)
    if node.name.startswith(("StateStore", "SessionWindow")):
        collects = fragment.first(*_COLLECTS) is not None
        return Gathering("stateful stream", "collects" if collects else "combines", node, columns)
    return Gathering("stateful stream", "group", node, columns)


def _over_sorted_rows(fragment: Fragment, by_hand: Sequence[Operator]) -> Gathering | None:
    """Return the Python function that gets sorted rows, key after key; None if there is none."""
    for each in fragment.operators:
        if not each.name.startswith(_MAPS):
            continue
        sort = next((of for of in _before(each) if of.name.startswith("Sort")), None)
        order = () if sort is None else tuple(_ORDERED.sub("", of) for of in sort.lists[0])
        shuffled = next((of.partitioning for of in by_hand if set(of.partitioning) <= set(order)), ())
        if called := _SLICES.match(each.text):
            columns = () if called[1] == "merged" else shuffled or tuple(map(column_name, order))
            return Gathering("python group", called[1], each, columns)
        if shuffled:
            return Gathering("python group", "whole", each, shuffled)
    return None


def _repartitioned(fragment: Fragment, shuffle: Operator, writes: bool) -> Gathering:
    write = next((each for each in reversed(fragment.operators) if each.name.startswith(_WRITES)), None)
    found = _FOLDERS.search(write.text) if write is not None and writes else None
    folders = () if found is None else column_names(found[1])
    if found is not None and set(shuffle.partitioning) <= set(folders):
        return Gathering("write", "write", write, folders, how=found[2].lower())
    return Gathering("repartition", "repartition", shuffle, shuffle.partitioning)


def _columns(operator: Operator, fragment: Fragment) -> tuple[str, ...]:
    """Return the columns by which an operator groups; if it names none, the shuffle's columns."""
    if all("SinglePartition" in each.text for each in fragment.inputs):
        return ()
    lists = operator.lists if _STARTS_WITH_LIST.match(operator.text) else []
    if operator.name.startswith(_WINDOWS):
        # Spark shows no empty list: after the functions only the order may be left.
        limits = operator.name.startswith(_LIMIT)
        lists = [each for each in lists[not limits :] if not any(map(_ORDERED.search, each))]
    shuffled = next((each.partitioning for each in fragment.inputs if each.partitioning), ())
    return (_known(lists[0]) if lists else ()) or shuffled


def _known(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Mark Spark's note that it omitted some columns: the note is not a column."""
    return tuple(re.sub(r"^\.\.\. \d+ more fields$", r"(\g<0>)", each) for each in columns)
