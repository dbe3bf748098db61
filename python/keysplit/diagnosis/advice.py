"""What would help, in words and as a line to paste."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from keysplit.diagnosis.operators import Gathering, is_whole
from keysplit.diagnosis.plan import is_column, literal_name

_BY_KEYS = ("join", "python group", "stateful stream", "write", "repartition")  # a line names their keys
_HOTTER = 1.5  # a side has the hot keys if its slow task has so many times as many rows too many as the other
_SLOTS = 2  # nor on up to so many slots
_WORTH = 2.5  # keysplit splits nothing unasked for a worker with up to so many slots' share of the rows
# The sides that can be split: of two batches, of a stream and a table, of two streams.
_SIDES: dict[str, dict[str, tuple[str, ...]]] = {
    "kss.join": {
        **dict.fromkeys(("inner", "left", "right", "full"), ("left", "right")),
        **dict.fromkeys(("semi", "anti"), ("left",)),
    },
    "table": {"inner": ("left", "right"), "right": ("right",), "full": ()},
    "streams": {"inner": ("left", "right"), "right": ("right",), "full": (), "anti": ()},
}


class Advice(NamedTuple):
    """What to do: in words, the first sentence of a verdict, and as a line to paste."""

    action: str
    line: str | None


class Slow(NamedTuple):
    """What is known of the slowest task of a stage, besides what it runs.

    Attributes:
        cause: as `Finding.cause`.
        workers: the tasks of the stage.
        slots: how many of them run at once.
        share: its part of the rows.
        excess: for each side of a join, how many rows more it reads than others on average.
        stream: whether it is one of a batch of a stream.
        ours: whether a plan of keysplit has placed the rows.
    """

    cause: str
    workers: int
    slots: int
    share: float
    excess: Sequence[float]
    stream: bool
    ours: bool

    @property
    def is_spared(self) -> bool:
        """Whether keysplit would leave the rows to Spark's own hash unless it is told to split them."""
        return self.slots <= _SLOTS or (self.slots < self.workers and self.share * self.slots <= _WORTH)


def advise(gathering: Gathering, slow: Slow) -> Advice:
    """Say what helps where the slowest task has more rows to work on.

    Args:
        gathering: what gathers the rows.
        slow: the task.
    """
    stream, workers, ours = slow.stream, slow.workers, slow.ours
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
        return _of_join(gathering, slow, "table" if stream else "kss.join", f"the join{by}", options)
    if kind == "stateful stream" and gathering.detail == "join":
        frozen = f", plan=kss.plan(history, {key}, {workers})"
        if gathering.node is None or not is_whole(gathering.node):
            frozen = f", condition=condition{frozen}"
        return _of_join(gathering, slow, "streams", f"the join of streams{by}", frozen)
    if kind == "stateful stream":
        return _of_state(gathering, by, options)
    if kind == "python group" and detail != "cogroup":
        function = "kss.streaming.apply" if stream else "kss.apply"
        if not stream and (detail == "finished" or slow.is_spared):
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


def _of_join(gathering: Gathering, slow: Slow, of: str, what: str, last: str) -> Advice:
    """Return the advice on a join whose side with the hot keys can be split, or why it cannot.

    Args:
        gathering: the join.
        slow: its slowest task.
        of: of what it is: a key of `_SIDES`.
        what: it in words.
        last: the last arguments of the line.
    """
    how, first = gathering.how, "right" if gathering.how == "right" else "left"
    other = {"left": "right", "right": "left"}[first]
    excess = dict(zip(("left", "right"), slow.excess, strict=False))
    hot = first if excess.get(other, 0) <= _HOTTER * excess.get(first, 0) else other
    if slow.cause != "matches" and not max(slow.excess, default=0):
        return Advice(
            f"split the hot keys of {what}, on the side that has them: the log does not say which", None
        )
    if hot not in _SIDES[of].get(how, ("left",)):
        if of == "kss.join":
            keys = _key(gathering.right).strip("[]")
            return Advice(
                f"keep each key of the right side of {what} once, right.select({keys}).distinct(): in {how} "
                "joins more rows of a key change nothing, and keysplit splits the left side only",
                None,
            )
        return Advice(
            f"no split helps: the hot keys of {what} are on the {hot} side, which cannot be split in {how} "
            "joins of streams",
            None,
        )
    options = "" if how == "inner" else f", how={_quote(how)}"
    options += "" if hot == first else f", split={_quote(hot)}"
    if of == "kss.join" and slow.cause == "matches":
        # its rows are not many: a plan that balances rows would leave them where they are
        last += ', way="grid"' if how == "inner" else ", force=True"
    elif of == "kss.join" and slow.is_spared:
        last += ", force=True"
    function = "kss.join" if of == "kss.join" else "kss.streaming.join"
    return _split(
        what, f"{function}(left, {_renamed(gathering)}, on={_key(gathering.columns)}{options}{last})"
    )


def _renamed(gathering: Gathering) -> str:
    """Return the right side of a join with the names that the keys have on the left one."""
    pairs = zip(gathering.right, gathering.columns, strict=False)
    renamed = {literal_name(old): literal_name(new) for old, new in pairs if old != new}
    if len(renamed) > 1:
        listed = ", ".join(f"{_quote(old)}: {_quote(new)}" for old, new in renamed.items())
        return f"right.withColumnsRenamed({{{listed}}})"
    return "".join(
        ["right", *(f".withColumnRenamed({_quote(old)}, {_quote(new)})" for old, new in renamed.items())]
    )


def _key(columns: tuple[str, ...]) -> str:
    if len(columns) == 1:
        return _quote(columns[0])
    return f"[{', '.join(map(_quote, columns))}]" if columns else "key"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
