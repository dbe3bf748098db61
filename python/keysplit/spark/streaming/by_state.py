"""A join of two streams: the state of a hot key is spread over its workers."""

import hashlib
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from keysplit.plan import Plan
from keysplit.spark.expr.columns import with_workers
from keysplit.spark.join.sides import Sides
from keysplit.spark.names import in_sql
from keysplit.spark.route import routed
from keysplit.spark.streaming.slots import slot

# The version of the state's key. If it changes, increase it: then Spark rejects the old state.
_VERSION = 1
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
# Equal values of these types have equal hashes.
_EXACT = (
    *_WHOLE,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    TimestampNTZType,
    TimestampType,
)
_DECIMALS = [(precision, scale) for precision in range(1, 39) for scale in range(precision + 1)]
# This many of them hold 64 bits.
_GUARDS = 7


def by_state(sides: Sides) -> DataFrame:
    """Join two streams on the key and the slot of a worker.

    A row of the split side goes to one worker, a row of the other side to all workers of its key, so each
    pair of rows matches once. Key and slot give the state partition, whose number is the worker's.

    Args:
        sides: the sides of a join that does not keep rows of the side that is not split.
    """
    request, worker, slots = sides.request, sides.request.worker_column, sides.own[0]
    copies = sides.others.filter(f"NOT ({sides.null_key})")  # null keys match nothing
    copies = with_workers(copies.select("*", sides.others_hash.alias(worker)), sides.plan, worker)
    copies = copies.withColumn(worker, F.expr(f"explode_outer({in_sql(worker)})"))
    own = _slot(sides).alias(slots)
    rows, copies = (each.select("*", own) for each in (routed(request), copies))
    return sides.result(sides.join(rows, copies, sides.kind, also=slots))


def _slot(sides: Sides) -> Column:
    """Return the slot of a row, in a type that identifies the plan.

    The slot's value depends only on the key and the worker, on both sides. Before Spark reads the state, it
    compares the types of the state and of the query, so a query with a different plan fails.
    """
    worker, types = in_sql(sides.request.worker_column), _common(sides.request.key_types, sides.types)
    seed = F.lit(0)
    if all(map(_is_exact, types)):
        seed = F.hash(
            *(F.col(name).cast(type_) for name, type_ in zip(sides.request.keys, types, strict=True))
        )
    fields = ", ".join(
        f"{'keysplit_must_have_the_plan_of_its_checkpoint' if at == 0 else f'_{at}'}: {each}"
        for at, each in enumerate(_guards(sides.plan, sides.hot))
    )
    # Always empty, but Spark does not know that: it would not compare two literals.
    guard = f"CAST(IF({worker} < 0, array(NULL), array()) AS ARRAY<STRUCT<{fields}>>)"
    return F.struct(
        slot(seed, F.col(worker), sides.request.workers).alias("slot"), F.expr(guard).alias("plan")
    )


def _common(mine: Sequence[DataType], theirs: Sequence[DataType]) -> list[DataType]:
    """Return the types in which Spark compares the keys."""
    return [
        max(pair, key=lambda each: _WHOLE.index(type(each))) if isinstance(pair[0], _WHOLE) else pair[0]
        for pair in zip(mine, theirs, strict=True)
    ]


def _is_exact(type_: DataType) -> bool:
    if isinstance(type_, StructType):
        return all(_is_exact(each.dataType) for each in type_.fields)
    if isinstance(type_, ArrayType):
        return _is_exact(type_.elementType)
    return type_ == StringType() or isinstance(type_, _EXACT)  # a collated string is not StringType()


def _guards(plan: Plan, split: str) -> list[str]:
    """Return column types that depend on the plan and the split side, to reject other plans' state."""
    head = sorted((each.hash, sorted(each.workers)) for each in plan.head)
    text = repr((_VERSION, split, plan.workers, plan.grouping.seed, plan.key_types, head))
    digest = hashlib.sha256(text.encode() + plan.tail.astype("<u4").tobytes()).digest()
    number, found = int.from_bytes(digest[:8], "big"), []
    for _ in range(_GUARDS):
        number, at = divmod(number, len(_DECIMALS))
        found.append("DECIMAL({}, {})".format(*_DECIMALS[at]))
    return found
