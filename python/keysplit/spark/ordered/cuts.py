"""Cuts of the order: values at which the rows of a hot key are divided, compared as Spark sorts."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keysplit.plan import Cut, FrequentKey, KeyCuts, OrderColumn, Plan
from keysplit.spark.few_rows import rows_of
from keysplit.spark.names import in_sql
from keysplit.spark.ordered.calls import Order, Unsplit

# Rows of hot keys that are sampled for each range, and in all at most.
_ROWS_PER_RANGE, _MOST_ROWS = 100, 100_000
# How many sampled rows before and after a cut the rows next to it are counted to.
_NEAR = (1, 4, 16, 64)
# How often the first of some steps of a search may stand in the last one, were they put together.
_LARGEST_STEPS = 500
# Cuts stand in the query: bytes that one may have.
_LONGEST = 1000
# How a value is written as text, and read again; others are written by a cast.
_TEXTS: dict[type[T.DataType], tuple[str, str]] = {
    T.StringType: (f"hex(substring(CAST({{}} AS BINARY), 1, {_LONGEST + 1}))", "CAST(X'{}' AS STRING)"),
    T.BinaryType: (f"hex(substring({{}}, 1, {_LONGEST + 1}))", "X'{}'"),
    T.DateType: ("CAST(unix_date({}) AS STRING)", "date_from_unix_date({})"),
    T.TimestampType: ("CAST(unix_micros({}) AS STRING)", "timestamp_micros({}L)"),
}
_CAST = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.DecimalType,
    T.FloatType,
    T.DoubleType,
    T.TimestampNTZType,
)


@dataclass(frozen=True)
class Ranges:
    """The parts of a hot key's order; their numbers continue from key to key.

    Attributes:
        key: the key.
        cuts: the cuts, as Spark sorts them. A part begins at each of them, another one comes before them all.
        starts: the first part of each range; the first of these is the first part of the key.
        workers: the worker of each range.
    """

    key: FrequentKey
    cuts: tuple[Cut, ...]
    starts: tuple[int, ...]
    workers: tuple[int, ...]

    @property
    def first(self) -> int:
        """Its first part."""
        return self.starts[0]

    @property
    def end(self) -> int:
        """The first part after its own."""
        return self.first + len(self.cuts) + 1


def uncut_type(types: Sequence[T.DataType]) -> str | None:
    """Return the first type of order columns whose values cannot be cuts, None if there is none."""
    for type_ in types:
        known = isinstance(type_, (*_CAST, T.BinaryType, T.DateType, T.TimestampType))
        if not known and type_ != T.StringType():
            return str(type_.simpleString())
    return None


def columns_of(order: Sequence[Order], types: Sequence[T.DataType]) -> tuple[OrderColumn, ...]:
    """Return an order in the form that plans store."""
    return tuple(OrderColumn(*each, type_.simpleString()) for each, type_ in zip(order, types, strict=True))


def ranges_of(
    rows: DataFrame,
    hash_column: str,
    order: Sequence[Order],
    types: Sequence[T.DataType],
    keys: Sequence[FrequentKey],
    *,
    near: bool,
    plan: Plan | None = None,
) -> list[Ranges]:
    """Cut the order of hot keys.

    Args:
        rows: the rows.
        hash_column: the column with the hashes of their keys.
        order: the order.
        types: the types of its columns.
        keys: the hot keys.
        near: whether to keep the extra cuts near the ends of ranges, for frames that reach over them.
        plan: the plan of the keys: no rows are sampled if it has cuts of this order.
    """
    stored = None if plan is None else plan.order
    known: dict[int, KeyCuts] = {}
    if stored is not None and stored.columns == columns_of(order, types):
        known = {each.hash: each for each in stored.keys}
    if any(each.hash not in known for each in keys):
        known = {each.hash: each for each in sampled(rows, hash_column, order, types, keys, plan)}
    ranges, part = [], 0
    for key in keys:
        ranges.append(_ranges(key, known[key.hash], part, near=near))
        part = ranges[-1].end
    return ranges


def sampled(
    rows: DataFrame,
    hash_column: str,
    order: Sequence[Order],
    types: Sequence[T.DataType],
    keys: Sequence[FrequentKey],
    plan: Plan | None,
) -> list[KeyCuts]:
    """Sample the order of hot keys, and cut it; arguments as in `ranges_of`."""
    if not keys:
        return []
    is_hot = of_keys(hash_column, keys)
    few = rows.select(hash_column, *(in_sql(each.name) for each in order))
    wanted = min(_MOST_ROWS, _ROWS_PER_RANGE * sum(len(each.workers) for each in keys))
    # few rows are read whole: a sample of them may have none of a range
    part = min(1.0, wanted / max(1.0, _rows_of(keys, plan, few.filter(is_hot))))
    few = few.sample(part, seed=0) if part < 1.0 else few
    few = few.filter(is_hot)
    texts = [_written(each, type_) for each, type_ in zip(order, types, strict=True)]
    names = [f"{hash_column}_{at}" for at in range(len(order))]
    few = few.select("*", *(F.expr(text).alias(name) for text, name in zip(texts, names, strict=True)))
    found: dict[int, list[Cut]] = {}
    for row in _sorted(few, hash_column, order).select(hash_column, *names).collect():
        found.setdefault(row[0], []).append(tuple(row[1:]))
    cuts = [_cuts(key, found.get(key.hash, [])) for key in keys]
    if any(len(text or "") > 2 * _LONGEST for each in cuts for cut in each.cuts for text in cut):
        raise Unsplit(f"an order column has values of more than {_LONGEST:,} bytes")
    return cuts


def _rows_of(keys: Sequence[FrequentKey], plan: Plan | None, rows: DataFrame) -> float:
    """Return roughly how many rows the hot keys have; they are counted if the plan knows only weights."""
    count = sum(each.count for each in keys)
    if plan is None:
        return count
    known = rows_of(plan)
    return rows.count() if known is None else known * count / plan.total


def _sorted(rows: DataFrame, hash_column: str, order: Sequence[Order]) -> DataFrame:
    # one partition: a sort of several would sample the rows in a job of its own
    return rows.repartition(1).sortWithinPartitions(F.col(hash_column), *map(sort_of, order))


def sort_of(order: Order) -> Column:
    """Return an order column with its direction and nulls, for a sort."""
    column = F.col(in_sql(order.name))
    if order.ascending:
        return column.asc_nulls_first() if order.nulls_first else column.asc_nulls_last()
    return column.desc_nulls_first() if order.nulls_first else column.desc_nulls_last()


def _cuts(key: FrequentKey, sample: Sequence[Cut]) -> KeyCuts:
    """Return the values where the ranges of a key begin, and some before and after each of them."""
    begins: dict[Cut, int] = {}
    for at, cut in enumerate(sample):
        begins.setdefault(cut, at)
    places, count = list(begins.values())[1:], len(sample)
    starts = [places[at] for at in _nearest(places, (share * count for share in _inner(key)))]
    kept = set(starts)
    for before, at, after in zip([0, *starts], starts, [*starts[1:], count], strict=False):
        near = [at - step for step in _NEAR if at - step > before]
        near += [at + step for step in _NEAR if at + step < after]
        kept |= {places[max(bisect_right(places, each) - 1, 0)] for each in near}
    cuts = sorted(kept)
    return KeyCuts(key.hash, tuple(at / count for at in cuts), tuple(sample[at] for at in cuts))


def _ranges(key: FrequentKey, cuts: KeyCuts, first: int, *, near: bool) -> Ranges:
    chosen = _nearest(cuts.places, _inner(key))
    kept = range(len(cuts.cuts)) if near else sorted(set(chosen))
    parts = {at: first + 1 + part for part, at in enumerate(kept)}
    starts, workers = [first], [key.workers[0]]
    for at, worker in zip(chosen, key.workers[1:], strict=False):
        if parts[at] == starts[-1]:  # a value has more than a range
            workers[-1] = worker
        else:
            starts.append(parts[at])
            workers.append(worker)
    return Ranges(key, tuple(cuts.cuts[at] for at in kept), tuple(starts), tuple(workers))


def _inner(key: FrequentKey) -> list[float]:
    """Return for each range but the first the share of the key's rows that come before it."""
    return list(accumulate(key.shares))[:-1]


def _nearest(places: Sequence[float], wanted: Iterable[float]) -> list[int]:
    """Return for each number the index of the nearest place; an empty list if there are no places."""
    found = []
    for each in wanted if places else ():
        at = bisect_right(places, each)
        found.append(min((max(at - 1, 0), min(at, len(places) - 1)), key=lambda at: abs(places[at] - each)))
    return found


def _written(order: Order, type_: T.DataType) -> str:
    """Return SQL that writes the values of an order column as text."""
    form, _ = _TEXTS.get(type(type_), ("CAST({} AS STRING)", ""))
    return form.format(in_sql(order.name))


def _read(text: str | None, type_: T.DataType) -> str:
    """Return SQL for the value that a text stands for."""
    if text is None:
        return f"CAST(NULL AS {type_.simpleString()})"
    form = _TEXTS.get(type(type_), ("", f"CAST('{{}}' AS {type_.simpleString()})"))[1]
    return form.format(text)


def of_keys(hash_column: str, keys: Sequence[FrequentKey]) -> str:
    """Return an SQL condition: the row's key is one of these keys."""
    return f"{in_sql(hash_column)} IN ({', '.join(f'{each.hash}L' for each in keys)})" if keys else "false"


def with_part(
    rows: DataFrame,
    hash_column: str,
    order: Sequence[Order],
    types: Sequence[T.DataType],
    ranges: Sequence[Ranges],
    part: str,
) -> DataFrame:
    """Add the part that each row is in, INT; -1 for those of other keys.

    The cuts are searched in steps, each a projection, because one expression for all steps would be too large
    to compile. Each step mentions the previous step several times, and Spark merges some projections, or
    follows them when it looks for partitions to prune. So a generator stands after every few steps: Spark
    passes nothing across it. Callers must not filter by the part in a form that Spark can push down: the
    filter would repeat the steps.
    """
    if not ranges:
        return rows.select("*", F.lit(-1).alias(part))
    key, cuts = f"{part}_key", [f"{part}_cuts_{at}" for at in range(len(order))]
    hashes = f"CAST(split('{','.join(str(each.key.hash) for each in ranges)}', ',') AS ARRAY<BIGINT>)"
    all_cuts = [cut for each in ranges for cut in each.cuts]
    arrays = [
        F.expr(f"CAST(array({', '.join(_read(cut[at], type_) for cut in all_cuts)}) AS {_array(type_)})")
        for at, type_ in enumerate(types)
    ]
    rows = rows.select(
        "*",
        F.expr(f"CAST(array_position({hashes}, {in_sql(hash_column)}) - 1 AS INT)").alias(key),
        *(array.alias(name) for array, name in zip(arrays, cuts, strict=True)),
    )
    ends = list(accumulate(len(each.cuts) for each in ranges))
    has_nulls = [any(cut[at] is None for cut in all_cuts) for at in range(len(order))]
    rows, size = rows.withColumn(part, F.expr(looked_up([0, *ends[:-1]], key))), 1
    for bit in reversed(range(max(len(each.cuts) for each in ranges).bit_length())):
        next_ = f"{part} + {1 << bit}"
        after = _is_after(order, [f"get({name}, {next_} - 1)" for name in cuts], has_nulls)
        step = f"IF({next_} <= {looked_up(ends, key)} AND {after}, {next_}, {part})"
        size *= step.count(f"{part} + ") + 1
        if size > _LARGEST_STEPS:
            rows, size = rows.withColumn(part, F.expr(f"explode_outer(array({part}))")), 1
        rows = rows.withColumn(part, F.expr(step))
    return rows.withColumn(part, F.expr(f"IF({key} < 0, -1, {part} + {key})")).drop(key, *cuts)


def looked_up(numbers: Sequence[int], at: str) -> str:
    """Return SQL for the number at a position, null outside the array; the array is one literal."""
    return f"get(CAST(split('{','.join(map(str, numbers))}', ',') AS ARRAY<INT>), {at})"


def _array(type_: T.DataType) -> str:
    return f"ARRAY<{type_.simpleString()}>"


def _is_after(order: Sequence[Order], values: Sequence[str], has_nulls: Sequence[bool]) -> str:
    """Return an SQL condition: the row sorts at or after a cut with these `values`."""
    found = ""
    for each, value, may_be_null in reversed(list(zip(order, values, has_nulls, strict=True))):
        name = in_sql(each.name)
        if found:
            strictly = _compared(each, name, value, "", may_be_null)
            found = f"({strictly} OR ({name} <=> {value} AND {found}))"
        else:
            found = _compared(each, name, value, "=", may_be_null)
    return found


def _compared(order: Order, name: str, value: str, equal: str, may_be_null: bool) -> str:
    """Return an SQL condition: a value sorts after that of a cut, or, with "=", is equal to it."""
    sign = ">" if order.ascending else "<"
    found = f"coalesce({name} {sign}{equal} {value}, {'false' if order.nulls_first else 'true'})"
    if not may_be_null:
        return found
    if order.nulls_first:
        of_null = "true" if equal else f"{name} IS NOT NULL"
    else:
        of_null = f"{name} IS NULL" if equal else "false"
    return f"IF({value} IS NULL, {of_null}, {found})"
