"""The advice for a stage, in words and as a line to paste."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from keysplit.diagnosis.operators import Gathering, is_whole
from keysplit.diagnosis.plan import is_column, literal_name
from keysplit.diagnosis.windows import call_of, functions_of, if_split, why_whole

_BY_KEYS = ("join", "python group", "stateful stream", "write", "repartition")  # a line names their keys
_HOTTER = 1.5  # a side has the hot keys if its slow task's surplus is this multiple of the other's
_SLOTS = 2  # nor on up to this many slots
_DENSE = 8  # nor, below this many, windows with dense_rank
_WORTH = 2.5  # by default keysplit splits nothing if a worker has at most this many slots' share of the rows
# The sides that can be split: for two batches, a stream and a table, two streams.
_SIDES: dict[str, dict[str, tuple[str, ...]]] = {
    "kss.join": {
        **dict.fromkeys(("inner", "left", "right", "full"), ("left", "right")),
        **dict.fromkeys(("semi", "anti"), ("left",)),
    },
    "table": {"inner": ("left", "right"), "right": ("right",), "full": ()},
    "streams": {"inner": ("left", "right"), "right": ("right",), "full": (), "anti": ()},
}


class Advice(NamedTuple):
    """What to do.

    Attributes:
        action: the first line of a verdict.
        line: the line to paste; None if keysplit cannot help.
        why: the reasons, in sentences without the last full stop.
        sure: if rows are not the cause, how certain the cause is and why: the last line of a verdict.
    """

    action: str
    line: str | None
    why: str = ""
    sure: str = ""

    def after(self, setting: str, why: str = "") -> Advice:
        """Return advice that tries a Spark setting first."""
        rest = f"If that is not enough, {self.action}"
        whole = ". ".join(filter(None, [why, rest, self.why]))
        return self._replace(action=setting, why=whole)


class Slow(NamedTuple):
    """The slowest task of a stage, without its operators.

    Attributes:
        cause: as in `Finding.cause`.
        workers: the tasks of the stage.
        slots: how many of these tasks run at once.
        share: the task's share of the rows.
        excess: per side of a join, how many more rows the task reads than the average of the other tasks.
        stream: whether the task belongs to a batch of a stream.
        ours: whether a keysplit plan has placed the rows.
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
        """Whether keysplit would leave the rows to Spark's own hash by default."""
        return self.slots <= _SLOTS or (self.slots < self.workers and self.share * self.slots <= _WORTH)


def advise(gathering: Gathering, slow: Slow) -> Advice:
    """Return the advice if the slowest task has more rows to process.

    Args:
        gathering: the operator that gathers the rows.
        slow: the task.
    """
    stream, workers, ours = slow.stream, slow.workers, slow.ours
    kind, detail = gathering.kind, gathering.detail
    by = f" by {', '.join(gathering.columns)}" if gathering.columns else ""
    if detail == "merged":
        return Advice(
            "return fewer rows from the first function of kss.apply",
            None,
            "The second function gets all that the first one returned for a key, in one task",
        )
    if ours and detail != "whole":
        return Advice(
            "make a new plan: keysplit has placed these rows, and its plan no longer fits",
            None,
            "kss.drift(plan, df) says how far",
        )
    names = (*gathering.columns, *gathering.right)
    is_plain = all(map(is_column, names)) and len(set(gathering.right)) == len(gathering.right)
    if not is_plain and kind in _BY_KEYS and detail != "cogroup":
        return Advice(f"split the hot keys of the {kind}{by}: make columns of its keys first", None)
    key = _key(gathering.columns)
    options = f", plan=kss.streaming.Adapt({workers})" if stream else f", workers={workers}"
    if kind == "join" and not (gathering.node is not None and is_whole(gathering.node)):
        return Advice(
            f"split the hot keys of the join{by}, its condition on other columns apart",
            None,
            "kss.join takes equal keys: in an inner join, write the condition as a filter of the result",
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
            options += ', way="place"'
        line = f"{function}(df, {key}, partial, schema, merge=merge{options})"
        return _split(f"the Python function{by}, if parts can be merged", line)
    if kind == "python group":
        return Advice(
            f"split the hot keys{by} by hand: keysplit cannot help, it cuts no cogroup",
            None,
            "The function of a cogroup needs the rows that both sides have of a key",
        )
    if kind == "window":
        return _of_window(gathering, slow, f"the window{by}")
    if kind == "aggregate" and detail == "collects":
        return Advice(
            "collect less per key: keysplit cannot help, one task finishes each key",
            None,
            f"That holds for lists, percentiles and distinct counts{by}, however their rows are split",
        )
    if kind == "aggregate":
        return Advice(
            "put df.repartition(n) after the aggregate: keysplit cannot help",
            None,
            f"The aggregate{by} combines its rows before the shuffle. What follows in its stage takes long",
        )
    if kind == "write":
        function = "kss.streaming.write" if stream else "kss.write"
        written = _key(tuple(map(literal_name, gathering.columns)))  # as in partitionBy
        end = "start" if stream else gathering.how
        if stream:
            options = f', plan=kss.streaming.Adapt({workers}, grouping="cut_to_fit")'
        return _split(f"the write{by}", f"{function}(df, {written}{options}).{end}(path)")
    if kind == "repartition":
        function = "kss.streaming.repartition" if stream else "kss.repartition"
        return _split(f"the repartition{by}, if none must stay whole", f"{function}(df, {key}{options})")
    if kind == "rebalance":
        return Advice(
            "lower spark.sql.adaptive.advisoryPartitionSizeInBytes",
            None,
            f"Adaptive execution splits the partitions of a REBALANCE hint{by} that are larger",
        )
    if kind == "scan" and detail == "cache":
        return Advice("spread the rows before caching them: df.repartition(n).cache()", None)
    if kind == "scan":
        unzip = "" if gathering.is_columnar else "A gzip file cannot be split. "
        why = f"{unzip}df.repartition(n) goes directly after reading"
        return Advice("spread the input: smaller files, or df.repartition(n)", None, why)
    if detail == "sort":
        return Advice("sort by more columns: rows that are equal in the order go to one task", None)
    return Advice(f"look at the keys of this stage{by}: one task has most of the rows", None)


def _split(what: str, line: str) -> Advice:
    return Advice(f"split the hot keys of {what}", line)


def _of_window(gathering: Gathering, slow: Slow, what: str) -> Advice:
    if gathering.detail == "limit":
        return Advice(
            "keep fewer rows per key: keysplit cannot help",
            None,
            f"Before the shuffle for {what} Spark drops all rows of a key but the first ones in each task",
        )
    if reason := why_whole(gathering.windows):
        return Advice(
            "partition by more columns, or aggregate first: keysplit cannot help",
            None,
            f"All rows of a key go to one task for {what}, as {reason}",
        )
    functions = functions_of(gathering.windows)
    is_spared = slow.is_spared or (slow.slots < _DENSE and "dense_rank" in functions)
    options = f", workers={slow.workers}" + (', way="place"' if is_spared else "")
    line = call_of(gathering.windows, options)
    if line is None:
        why = "Cache the result of each, which the next one reads twice. Trust columns that it orders or sums"
        return Advice(f"split the hot keys of {what}, by a kss.window for each order", None, why)
    return _split(f"{what}{if_split(gathering.windows)}", line)


def _of_state(gathering: Gathering, by: str, options: str) -> Advice:
    key = _key(gathering.columns)
    if gathering.detail in ("collects", "group"):
        what = "function" if gathering.detail == "group" else "state"
        window = "" if gathering.detail == "group" else ", window=window"
        line = f"kss.streaming.apply(df, {key}, partial, schema, merge=merge{window}{options})"
        return _split(f"the {what}{by}, if parts can be merged", line)
    if gathering.detail == "combines":
        return Advice(
            "do less after the aggregate: keysplit cannot help",
            None,
            f"The aggregate{by} combines its rows before the shuffle. What follows in its stage takes long",
        )
    return Advice(
        "deduplicate by more columns: keysplit cannot help",
        None,
        f"All rows{by} that may be equal must meet in one task",
    )


def _of_join(gathering: Gathering, slow: Slow, of: str, what: str, last: str) -> Advice:
    """Return the advice on a join: how to split the side with the hot keys, or why that is impossible.

    Args:
        gathering: the join.
        slow: the slowest task of the join.
        of: the kind of the join's sides: a key of `_SIDES`.
        what: the join in words.
        last: the last arguments in the line to paste.
    """
    how, first = gathering.how, "right" if gathering.how == "right" else "left"
    hot = hot_side(gathering, slow.excess)
    if slow.cause != "matches" and not max(slow.excess, default=0):
        return Advice(
            f"split the hot keys of {what}, on the side that has them",
            None,
            "The log does not say how many rows of each side the task has read. kss.profile finds it",
        )
    if hot not in _SIDES[of].get(how, ("left",)):
        if of == "kss.join":
            keys = _key(gathering.right).strip("[]")
            return Advice(
                f"keep each key of the right side once: right.select({keys}).distinct()",
                None,
                f"keysplit cannot split the right side of {what}. More rows of a key there change nothing",
            )
        return Advice(
            f"split the {hot} side by hand: keysplit cannot help in {how} joins of streams",
            None,
            f"The hot keys of {what} are on the {hot} side, and only the other one can be split",
        )
    options = "" if how == "inner" else f", how={_quote(how)}"
    options += "" if hot == first else f", split={_quote(hot)}"
    if of == "kss.join" and slow.cause == "matches":
        # it does not have many rows: a plan that balances rows would not move them
        last += ', way="broadcast"'
    elif of == "kss.join" and slow.is_spared:
        last += ', way="place"'
    function = "kss.join" if of == "kss.join" else "kss.streaming.join"
    return _split(
        what, f"{function}(left, {_renamed(gathering)}, on={_key(gathering.columns)}{options}{last})"
    )


def hot_side(gathering: Gathering, excess: Sequence[float]) -> str:
    """Return the side of a join that has the hot keys, "left" or "right".

    Args:
        gathering: the join.
        excess: per side, how many more rows the slowest task reads than the average of the other tasks.
    """
    left, right = [*excess, 0.0, 0.0][:2]
    if gathering.how == "right":
        return "left" if left > _HOTTER * right else "right"
    return "right" if right > _HOTTER * left else "left"


def _renamed(gathering: Gathering) -> str:
    """Return the right side of a join, with its keys renamed as on the left side."""
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
