"""`streaming.join`: joins of a stream with a table or another stream that split hot keys."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from pyspark.sql import Column, DataFrame

from keysplit.plan import Plan
from keysplit.spark import jvm
from keysplit.spark.checks import by_name, key_names, refuse_other_frames, type_name
from keysplit.spark.costs import joins_by_broadcast
from keysplit.spark.frame import Columns, analysed
from keysplit.spark.identity import Query
from keysplit.spark.join.arguments import How, condition_of, key_types_of, kind_of, split_of
from keysplit.spark.join.columns import joining_of
from keysplit.spark.join.place import Copied, by_worker
from keysplit.spark.join.sides import Sides
from keysplit.spark.jvm import Setting, is_connect
from keysplit.spark.names import quoted
from keysplit.spark.request import Request, check_way
from keysplit.spark.strategy import Way, reason_for_plain, took
from keysplit.spark.streaming.adapt import Adapt
from keysplit.spark.streaming.by_state import by_state
from keysplit.spark.streaming.current import with_workers
from keysplit.spark.streaming.placing import StreamRequest, adapting, built, check

_SCHEMA_CHECK = "spark.sql.streaming.stateStore.stateSchemaCheck"
# Spark's kinds of joins with a table, by the streaming side.
_WITH_A_TABLE = {"left": ("inner", "left", "semi", "anti"), "right": ("inner", "right")}
_ONCE = "rows of the side that is not split are copied to several workers, and each copy would be returned"


@by_name
def join(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str],
    how: How = "inner",
    *,
    plan: Plan | Adapt,
    condition: Column | str | None = None,
    split: Literal["left", "right"] | None = None,
    way: Literal["plain", "place"] | None = None,
) -> DataFrame:
    """Compute `left.join(right, on, how)` for one or two streams, with hot keys split.

    Rows, columns, their order and types equal those of the plain join, with each key column once. Columns of
    both frames can be selected from the result: `left["k"]`, `right["k"]`. All this holds in every
    micro-batch, after failures and restarts, and for late rows, which Spark drops in the same way.

    - A stream and a table: the stream is split. The plan sends each of the stream's rows to one worker; the
        table's rows go to all workers of their key. No state is kept between micro-batches, so a different
        plan at a restart, or an `Adapt`, does not change the result.
    - Two streams: a row of the side that is split goes to one worker, rows of the other side go to all
      workers of their key, and each worker's state is in the state partition with the worker's number, modulo
      the number of state partitions. The plan determines where the state is, so **a query must keep its
      plan**: from a checkpoint with a different plan or `split`, the query fails in its first micro-batch,
      before it writes anything. Spark's error on the state's schema then names
      `keysplit_must_have_the_plan_of_its_checkpoint`.

    If Spark broadcasts the table or splitting does not help, Spark's own join is used; `explain` says so.

    Args:
        left: a DataFrame, streaming if `right` is not.
        right: another DataFrame. Declare watermarks on both streams first if Spark requires them.
        on: a column, or a list of columns, that both sides have with the same types; integers may differ in
            width.
        how: with a table: inner, left, semi or anti if the left side is streaming, inner or right if the
            right side is. For two streams: inner, left or semi if the left side is split, inner or right if
            the right side is. In any of Spark's spellings.
        plan: a plan of the keys of the side that is split, which `kss.plan` made from a batch of its rows;
            for a stream and a table, an `Adapt` is allowed, too: its plan changes while the stream runs.
        condition: for two streams, a condition in addition to equal keys: usually the range of times in which
            rows match, such as `F.expr("shown <= clicked AND clicked <= shown + INTERVAL 1 HOUR")`, or the
            same with `left["shown"]` and `right["clicked"]`; a string is SQL. Outer and semi joins of two
            streams need a condition, or a watermark among the keys. On Connect only inner joins take one.
        split: the side to split, "left" or "right". If omitted, the only stream is split; of two streams,
            "right" in a right join, otherwise "left". Of two streams, split the stream with the hot keys.
        way: "plain" for Spark's own join, "place" to use the plan even if Spark's own join is as good; if
            omitted, keysplit chooses.

    Returns:
        The rows of the join. Write them in append mode.

    Raises:
        TypeError: as in `streaming.route`; if `on` or `condition` has the wrong type, or the key types of the
            sides differ.
        ValueError: as in `streaming.route`; if `how` or `split` has a value that is not allowed; if no side
            is streaming; for two streams, if `plan` is an `Adapt`, or if Spark's check of the state's schema
            is off; with a table, if there is a condition.

    Source:
        "Practical Skew Handling in Parallel Joins" (DeWitt, Naughton, Schneider, Seshadri, VLDB 1992): the
        subset-replicate technique.

    Deviations:
        DeWitt et al. split ranges of a table's sorted keys, found by a sample. Here a plan splits keys by
        shares of their rows, and a stream's state keeps the rows that may still match.

    Example:
        >>> named = kss.streaming.join(events, words, "word", "left", plan=plan)  # doctest: +SKIP
    """
    kind = kind_of(how)
    sides = {"left": left, "right": right}
    for side, df in sides.items():
        refuse_other_frames(df, side)
    streaming = [side for side, df in sides.items() if df.isStreaming]
    hot = _split(split, kind, streaming)
    two = len(streaming) == 2
    where = condition_of(condition)
    if where is not None and not two:
        raise ValueError(
            "condition must be None in a join of a stream and a table, got a column: filter the table or the "
            "result"
        )
    if where is not None and kind != "inner" and is_connect(left):
        raise ValueError(
            f"condition must be None in a {kind} join of two streams on Spark Connect, got {condition!r}: "
            "add a time window to the keys instead"
        )
    if two and (plan is None or isinstance(plan, Adapt)):
        raise ValueError(
            "plan must be a Plan in a join of two streams, because a change of plan cannot move state, got "
            f"{type_name(plan)}: kss.plan makes a plan from a batch of the split side's rows"
        )
    check_way(way, ("plain", "place"))
    names = [quoted(name) for name in key_names(on, "on")]
    columns = {side: Columns(df) for side, df in sides.items()}
    types = key_types_of(names, columns)
    request = replace(check(sides[hot], names, plan), way=way)
    if two:
        _refuse_unchecked_state(request.query.setting)
    plain = analysed(left.join(right, key_names(on), kind))
    joining = joining_of(plain, left, right, key_names(on), where)
    if where is not None:
        plain = analysed(joining.result(joining.join(joining.left, joining.right, kind), ()))
    reason = _reason_for_plain(request, plain, two)
    if reason is not None:
        return took(plain, Way("plain", reason))
    worker, *own = (
        columns["left"].free(name, columns["right"])
        for name in (request.worker_column, *(f"{request.worker_column}_{end}" for end in ("there", "found")))
    )
    other = "left" if hot == "right" else "right"

    def build(request: StreamRequest) -> DataFrame:
        df = joining.left if hot == "left" else joining.right
        both = Sides(
            request=replace(request, df=df),
            query=Query(sides[other]),
            joining=joining,
            hot=hot,
            kind=kind,
            types=types[other],
            own=own,
        )
        return by_state(both) if two else by_worker(both, _placing(request))

    return built(replace(request, worker_column=worker), build)


def _split(split: object, kind: str, streaming: Sequence[str]) -> str:
    """Return the side that is split; raise ValueError if this kind of join would not be exact."""
    if not streaming:
        raise ValueError("left or right must be streaming, got two batches: kss.join joins them")
    if len(streaming) == 1:
        (hot,) = streaming
        if split not in (None, hot):
            raise ValueError(f"split must be {hot!r}, the streaming side, or None, got {split!r}")
        if kind not in _WITH_A_TABLE[hot]:
            kinds = ", ".join(_WITH_A_TABLE[hot])
            raise ValueError(
                f"how must be one of {kinds} if only the {hot} side is streaming, because Spark supports no "
                f"other kinds, got {kind!r}"
            )
        return hot
    if kind == "anti":
        raise ValueError(
            "how must be inner, left, right or semi in a join of two streams, because Spark has no anti "
            "join of streams, got 'anti'"
        )
    if kind == "full":
        raise ValueError(
            f"how must be inner, left, right or semi in a join of two streams, got 'full': {_ONCE}"
        )
    hot = split_of(split, kind)
    if kind in ("left", "right") and hot != kind:
        raise ValueError(f"split must be {kind!r} in a {kind} join of two streams, got {hot!r}: {_ONCE}")
    return hot


def _refuse_unchecked_state(setting: Setting) -> None:
    if (setting(_SCHEMA_CHECK) or "").lower() == "false":
        raise ValueError(
            f"{_SCHEMA_CHECK} must be true for a join of two streams, got false: this check rejects state "
            "written under a different plan, in which rows would not be found"
        )


def _placing(request: StreamRequest) -> Callable[[Request], tuple[DataFrame, Copied]] | None:
    """Return the function that places rows by a changing plan; None for a frozen plan."""
    if request.adapt is None:
        return None

    def placing(request: Request) -> tuple[DataFrame, Copied]:
        assert isinstance(request, StreamRequest)
        rows, ask = adapting(request)
        return rows, lambda others, key: with_workers(others, key, ask)

    return placing


def _reason_for_plain(request: StreamRequest, plain: DataFrame, two: bool) -> str | None:
    if request.way is not None:
        return "as way='plain' requires" if request.way == "plain" else None
    if two:
        assert request.plan is not None
        # independent of this session's slots, so that a restart on another machine finds the same state
        return reason_for_plain(request.plan, None)
    if joins_by_broadcast(plain):
        return "Spark broadcasts the table whole, and shuffles nothing"
    if request.plan is None or request.adapt is not None:  # the plan may change
        return None
    return reason_for_plain(request.plan, jvm.slots(plain))
