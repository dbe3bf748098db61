"""What would help, in words and as a line to paste."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from keysplit.diagnosis.operators import Gathering, is_whole
from keysplit.diagnosis.plan import is_column, literal_name

_BY_KEYS = ("join", "python group", "stateful stream", "write", "repartition")  # a line names their keys
_HOTTER = 1.5  # a side is the one to split if its hot task reads so many times what the other side's does


class Advice(NamedTuple):
    """What to do: in words, the first sentence of a verdict, and as a line to paste."""

    action: str
    line: str | None


def advise(gathering: Gathering, *, stream: bool, workers: int, rows: Sequence[float], ours: bool) -> Advice:
    """Say what helps where the slowest task has more rows to work on.

    Args:
        gathering: what gathers the rows.
        stream: whether it is a batch of a stream.
        workers: the tasks of the stage.
        rows: for each side of a join, the rows that the slowest task reads.
        ours: whether keysplit has placed the rows.
    """
    kind, detail = gathering.kind, gathering.detail
    by = f" by {', '.join(gathering.columns)}" if gathering.columns else ""
    if detail == "merged":
        return Advice(
            "return fewer rows from the first function of kss.apply: the second one gets all of a key in one "
            "task",
            None,
        )
    if ours and detail != "whole":
        return Advice(
            "make a new plan: keysplit has placed these rows, and its plan no longer fits "
            "(kss.drift(plan, df) says how far)",
            None,
        )
    names = (*gathering.columns, *gathering.right)
    is_plain = all(map(is_column, names)) and len(set(gathering.right)) == len(gathering.right)
    if not is_plain and kind in _BY_KEYS and detail != "cogroup":
        return Advice(f"split the hot keys of the {kind}{by}: make columns of its keys first", None)
    key = _key(gathering.columns)
    options = f', workers={workers}, adapt="auto"' if stream else f", workers={workers}"
    if kind == "join" and not (gathering.node is not None and is_whole(gathering.node)):
        return Advice(
            f"split the hot keys of the join{by} with kss.join, and write its condition on other columns "
            "apart, in an inner join as a filter of the result",
            None,
        )
    if kind == "join":
        function = "kss.streaming.join" if stream else "kss.join"
        return _split(f"the join{by}", _join(function, gathering, rows, options))
    if kind == "stateful stream" and gathering.detail == "join":
        frozen = f", plan=kss.plan(history, {key}, {workers})"
        if gathering.node is None or not is_whole(gathering.node):
            frozen = f", condition=condition{frozen}"
        return _split(f"the join of streams{by}", _join("kss.streaming.join", gathering, rows, frozen))
    if kind == "stateful stream":
        return _of_state(gathering, by, options)
    if kind == "python group" and detail != "cogroup":
        function = "kss.streaming.apply" if stream else "kss.apply"
        if detail == "finished":  # it was called so, and found that little is to be gained
            options += ", force=True"
        line = f"{function}(df, {key}, partial, merge, schema{options})"
        return _split(f"the Python function{by}, if its work can be done in parts", line)
    if kind == "python group":
        return Advice(
            f"split the hot keys{by} by hand: of a cogroup the function needs both sides' rows of a key, and "
            "nothing of keysplit's cuts them",
            None,
        )
    if kind == "window":
        return Advice(
            f"no split helps: a window{by} needs all rows of a key in one task. Aggregate before it, or "
            "partition it by more columns",
            None,
        )
    if kind == "aggregate" and detail == "collects":
        return Advice(
            f"collect less per key: a list, a percentile or a distinct count{by} is finished in one task per "
            "key, however its rows are split",
            None,
        )
    if kind == "aggregate":
        return Advice(
            f"no split helps: the aggregate{by} combines its rows before the shuffle. What follows it in the "
            "same stage takes the time: put df.repartition(n) between",
            None,
        )
    if kind == "write":
        function = "kss.streaming.write" if stream else "kss.write"
        written = _key(tuple(map(literal_name, gathering.columns)))  # as in partitionBy
        end = "start" if stream else gathering.how
        return _split(f"the write{by}", f"{function}(df, {written}{options}).{end}(path)")
    if kind == "repartition":
        function = "kss.streaming.repartition" if stream else "kss.repartition"
        return _split(
            f"the repartition{by}, if nothing after it needs whole keys", f"{function}(df, {key}{options})"
        )
    if kind == "rebalance":
        return Advice(
            "lower spark.sql.adaptive.advisoryPartitionSizeInBytes: adaptive execution splits the partitions "
            f"of a REBALANCE hint{by} that are larger",
            None,
        )
    if kind == "scan" and detail == "cache":
        return Advice("spread the rows before caching them: df.repartition(n).cache()", None)
    if kind == "scan":
        return Advice(
            "spread the input: write its files smaller, or in a format that can be cut (no gzip), or put "
            "df.repartition(n) after reading",
            None,
        )
    if detail == "sort":
        return Advice("sort by more columns: rows that are equal in the order go to one task", None)
    return Advice(f"look at the keys of this stage{by}: one task has most of the rows", None)


def _split(what: str, line: str) -> Advice:
    return Advice(f"split the hot keys of {what}", line)


def _of_state(gathering: Gathering, by: str, options: str) -> Advice:
    key = _key(gathering.columns)
    if gathering.detail == "collects":
        line = f"kss.streaming.aggregate(df, {key}, *columns, window=window, split_state=True{options})"
        return _split(f"the state{by} (lists and sets in append mode)", line)
    if gathering.detail == "group":
        line = f"kss.streaming.apply(df, {key}, partial, merge, schema{options})"
        return _split(f"the function{by}, if its work can be done in parts", line)
    if gathering.detail == "combines":
        return Advice(
            f"no split helps: the aggregate{by} combines its rows before the shuffle. What follows it in the "
            "same stage takes the time",
            None,
        )
    return Advice(f"no split helps: all rows{by} that may be equal must meet in one task", None)


def _join(function: str, gathering: Gathering, rows: Sequence[float], last: str) -> str:
    left, right, options = "left", "right", ""
    if gathering.right and gathering.right != gathering.columns:
        pairs = dict(zip(gathering.right, gathering.columns, strict=False))
        renamed = {literal_name(old): literal_name(new) for old, new in pairs.items() if old != new}
        if len(renamed) == 1:
            old, new = next(iter(renamed.items()))
            right = f"right.withColumnRenamed({_quote(old)}, {_quote(new)})"
        else:
            listed = ", ".join(f"{_quote(old)}: {_quote(new)}" for old, new in renamed.items())
            right = f"right.withColumnsRenamed({{{listed}}})"
    if gathering.how != "inner":
        options += f", how={_quote(gathering.how)}"
    default = 1 if gathering.how == "right" else 0
    if len(rows) == 2 and rows[1 - default] > _HOTTER * rows[default]:
        side = ("right", "left")[default]
        if gathering.how in ("inner", "full") or (gathering.how, side) in (
            ("left", "left"),
            ("right", "right"),
        ):
            options += f", split={_quote(side)}"
    return f"{function}({left}, {right}, on={_key(gathering.columns)}{options}{last})"


def _key(columns: tuple[str, ...]) -> str:
    if len(columns) == 1:
        return _quote(columns[0])
    return f"[{', '.join(map(_quote, columns))}]" if columns else "key"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
