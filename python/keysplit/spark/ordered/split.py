"""Place the rows of hot keys on workers by ranges of their order, and compute their windows there."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keysplit.spark.expr.columns import with_worker
from keysplit.spark.expr.hashes import plan_hash
from keysplit.spark.keys import key_hash, seeded_hash_in_sql
from keysplit.spark.names import in_sql, quoted
from keysplit.spark.ordered.calls import Call, Unsplit
from keysplit.spark.ordered.cuts import Ranges, looked_up, of_keys, ranges_of, uncut_type, with_part
from keysplit.spark.ordered.parse import frozen
from keysplit.spark.ordered.pieces import Names, Pieces, pieces_of
from keysplit.spark.ordered.summary import Slot, copies_of, slots_of, table_of
from keysplit.spark.place import placed_for_groups
from keysplit.spark.request import Request
from keysplit.text import format_count

# From this part of the hot keys' rows on, copying rows to other ranges costs more than splitting saves.
_MOST_COPIES = 0.5
# Make of the seed of a plan those of two other hashes.
_OTHER, _TIE = 0x6A09E667F3BCC908, 0xBB67AE8584CAA73B


def by_ranges(request: Request, calls: Sequence[Call], results: Sequence[str]) -> tuple[DataFrame, str]:
    """Compute the functions of one window that has an order.

    Args:
        request: the rows, which have a plan.
        calls: the functions.
        results: the names of their columns.

    Returns:
        The rows with these columns, and a text with the number of ranges.

    Raises:
        Unsplit: if the result would not be exact, or if splitting would not pay off and `request.way` is
            None.
    """
    plan = request.plan
    assert plan is not None
    own = prefix_of(request)
    names = Names(own, f"{own}_slot", [request.worker_column, *calls[0].spec.partition])
    reach = max(each.reach[0] for each in calls), max(each.reach[1] for each in calls)
    # where a row is seen by several ranges, all of them have to sort rows of equal order in one way
    tied = any(reach) or any(each.takes_an_end or any(each.seeks) for each in calls)
    names = replace(names, tie=f"{own}_tie" if tied else None)
    pieces = [pieces_of(call, f"{own}_{at}", names) for at, call in enumerate(calls)]
    _refuse_other_values(request, calls, pieces)
    return _Split(request, calls, pieces, names, reach).result(results)


def prefix_of(request: Request) -> str:
    """Return a prefix for added columns that no column of the rows begins with."""
    own = "w"
    while any(name.lower().startswith(own) for name in [*request.columns.names, request.worker_column]):
        own += "_"
    return own


def _refuse_other_values(request: Request, calls: Sequence[Call], pieces: Sequence[Pieces]) -> None:
    """Raise Unsplit if a column that is read twice may have other values the second time."""
    spec = calls[0].spec
    summed = (
        call for call, each in zip(calls, pieces, strict=True) if each.parts or each.end or each.present
    )
    columns = set(map(in_sql, request.columns.names))
    read = {argument for call in summed for argument in call.arguments if argument in columns}
    read |= {in_sql(name) for name in [*spec.partition, *(each.name for each in spec.order)]}
    reason = request.query.why_unrepeatable(sorted(read))
    if reason is not None:
        raise Unsplit(f"df is read twice, and its rows or values may differ the second time: {reason}")


class _Split:
    def __init__(
        self,
        request: Request,
        calls: Sequence[Call],
        pieces: Sequence[Pieces],
        names: Names,
        reach: tuple[int, int],
    ) -> None:
        self._request, self._calls, self._pieces, self._names = request, calls, pieces, names
        self._reach = reach
        assert request.plan is not None
        self._plan = request.plan
        self._keys = self._plan.split_keys
        self._order = calls[0].spec.order
        self._types = [request.columns.type_of("order", quoted(each.name)) for each in self._order]
        self._hash, self._part, self._home = (f"{names.own}_{end}" for end in ("hash", "part", "home"))

    def result(self, results: Sequence[str]) -> tuple[DataFrame, str]:
        """Return the rows with the results of all functions, and how many ranges were made, as text."""
        rows = self._request.df.select("*", plan_hash(self._request).alias(self._hash))
        uncut = uncut_type(self._types)
        if uncut is not None:
            raise Unsplit(f"order columns of type {uncut} cannot be cut into ranges")
        seeks = [each.seeks for each in self._calls]
        near = any(self._reach) or any(map(any, seeks))
        ranges = ranges_of(rows, self._hash, self._order, self._types, self._keys, near=near, plan=self._plan)
        if self._request.way is None and all(len(each.starts) == 1 for each in ranges):
            raise Unsplit("the hot keys have too few distinct order values")
        hot = self._in_parts(rows.filter(of_keys(self._hash, self._keys)), ranges)
        summary, counts, present = self._summary(hot, ranges)
        sought = {at: each for at, each in enumerate(seeks) if any(each)}
        needs = [(counts, self._reach), *((present[at], each) for at, each in sought.items())]
        slots = slots_of(ranges, needs)
        copied, idle = counts, "false"
        if len(sought) == len(seeks):  # no function needs a copy of a row where its argument is null
            copied = np.sum([present[at] for at in sought], axis=0)
            idle = " AND ".join(f"{self._pieces[at].present} IS NULL" for at in sought)
        copies, all_ = copies_of(slots, copied), int(counts.sum())
        if self._request.way is None and copies > _MOST_COPIES * all_:
            rows_ = f"{copies:,} rows, for {all_:,} rows of hot keys"
            raise Unsplit(f"frames are so wide that splitting would copy {rows_}")
        ends, end_values = self._ends(hot, ranges, counts, present)
        table = table_of(summary, self._part, slots, self._pieces, self._names, ends, end_values)
        found = self._windows(self._placed(self._in_parts(rows, ranges), slots, idle), table, results)
        return found, f"{format_count(len(slots), 'range')} of the order"

    def _in_parts(self, rows: DataFrame, ranges: Sequence[Ranges]) -> DataFrame:
        tie = [] if self._names.tie is None else [F.expr(self._tie()).alias(self._names.tie)]
        rows = rows.select("*", *tie) if tie else rows
        return with_part(rows, self._hash, self._order, self._types, ranges, self._part)

    def _tie(self) -> str:
        try:
            columns = self._request.query.identity
        except ValueError as error:
            raise Unsplit(f"rows with equal order values cannot be distinguished: {error}") from error
        return seeded_hash_in_sql(_TIE, [in_sql(each) for each in columns])

    def _summary(
        self, hot: DataFrame, ranges: Sequence[Ranges]
    ) -> tuple[DataFrame, np.ndarray, dict[int, np.ndarray]]:
        """Return a row per part with the partial results of all functions, and the row count of each part.

        The third value has, for each function that ignores nulls, the number of rows in each part whose
        argument is not null.
        """
        request, names = self._request, self._names
        other = f"{names.own}_other"
        second = key_hash(request.keys, request.key_types, request.params.seed ^ _OTHER)
        rows = hot.select("*", second.alias(other))
        bounds = {f"{names.own}_bound{at}": each.exact for at, each in enumerate(self._pieces) if each.exact}
        present = {at: f"count({each.present})" for at, each in enumerate(self._pieces) if each.present}
        partials = {
            names.rows: "count(1)",
            f"{other}_least": f"min({in_sql(other)})",
            f"{other}_most": f"max({in_sql(other)})",
            **{name: f"sum(abs(CAST({each[0]} AS DOUBLE)))" for name, each in bounds.items()},
            **{f"{names.own}_present{at}": sql for at, sql in present.items()},
            **{name: sql for each in self._pieces for name, sql in each.parts.items()},
        }
        found = rows.groupBy(self._part).agg(*(F.expr(sql).alias(name) for name, sql in partials.items()))
        if any(each.distinct for each in self._pieces):
            found = self._with_distinct(found, hot)
        found = frozen(found)
        checked = found.select(self._part, *list(partials)[: 3 + len(bounds) + len(present)]).collect()
        counts = np.zeros(ranges[-1].end if ranges else 0, np.int64)
        presents = {at: np.zeros_like(counts) for at in present}
        sums = dict.fromkeys(bounds, 0.0)
        hashes: dict[int, set[int]] = {}
        for part, count, least, most, *others in checked:
            counts[part] = count
            absolute = others[: len(bounds)]
            for at, value in zip(presents, others[len(bounds) :], strict=True):
                presents[at][part] = value
            key = bisect_right([each.first for each in ranges], part)
            hashes.setdefault(key, set()).update((least, most))
            for name, value in zip(sums, absolute, strict=True):
                sums[name] += value or 0.0
        if any(len(each) > 1 for each in hashes.values()):
            raise Unsplit("a hot key has the same hash as another key")
        for name, bound in bounds.items():
            assert bound is not None
            if not sums[name] <= bound[1]:
                raise Unsplit(f"the sum of {bound[0]} may overflow")
        return found, counts, presents

    def _with_distinct(self, found: DataFrame, hot: DataFrame) -> DataFrame:
        """Add how many different order values each part has."""
        columns = [quoted(each.name) for each in self._order]
        values = hot.select(self._part, *columns).distinct()
        numbers = [f"{self._names.own}_{at}" for at, each in enumerate(self._pieces) if each.distinct]
        again = f"{self._part}_again"
        counted = values.groupBy(F.col(self._part).alias(again))
        counted = counted.agg(*(F.count("*").alias(name) for name in numbers))
        joined = frozen(found).join(frozen(counted), F.expr(f"{in_sql(self._part)} = {in_sql(again)}"))
        return joined.drop(again)

    def _ends(
        self,
        hot: DataFrame,
        ranges: Sequence[Ranges],
        counts: np.ndarray,
        present: Mapping[int, np.ndarray],
    ) -> tuple[DataFrame | None, dict[str, tuple[str, str]]]:
        """Return the rows of hot keys that single values are taken from, and aggregates that take them."""
        wanted: dict[int, list[tuple[int, int]]] = {}
        for at, piece in enumerate(self._pieces):
            if piece.end is not None:
                found = (_place(each, present.get(at, counts), piece.end) for each in ranges)
                wanted[at] = [each for each in found if each is not None]
        if not wanted:
            return None, {}
        own, part = self._names.own, in_sql(self._part)
        numbers = f"{own}_number"
        parts = ", ".join(sorted({str(place) for each in wanted.values() for place, _ in each})) or "-1"
        order = ", ".join([*(each.sql for each in self._order), in_sql(f"{own}_tie")])
        # Spark pushes no filter below a column that is not deterministic, and this one needs it
        near = f"IF({in_sql(numbers)} >= 0, {part} IN ({parts}), false)"
        few = hot.select("*", F.monotonically_increasing_id().alias(numbers)).filter(near)
        numbered, is_wanted = {}, {}
        for at, places in wanted.items():
            argument, value, number = self._calls[at].arguments[0], f"{own}_{at}", numbers
            among, is_one = part, "("
            if at in present:  # the rows where it is not null have numbers of their own
                number, among = f"{numbers}_{at}", f"{part}, {argument} IS NULL"
                is_one = f"({in_sql(value)} IS NOT NULL AND "
            numbered[number] = f"row_number() OVER (PARTITION BY {among} ORDER BY {order})"
            numbered[value] = argument
            rows = (f"{is_one}{part} = {place} AND {number} = {row})" for place, row in places)
            is_wanted[at] = " OR ".join(rows) or "false"
        ends = few.select(part, *(F.expr(sql).alias(name) for name, sql in numbered.items()))
        values = {
            f"{own}_{at}": (
                f"first({in_sql(f'{own}_{at}')}) FILTER (WHERE ({condition}){{}})",
                self._pieces[at].end_side,
            )
            for at, condition in is_wanted.items()
        }
        return frozen(ends.filter(" OR ".join(is_wanted.values()))), values

    def _placed(self, rows: DataFrame, slots: Sequence[Slot], idle: str) -> DataFrame:
        """Send each row to its worker, and copy it to other ranges that need it, unless it is `idle`."""
        request, part, home, slot = self._request, self._part, self._home, self._names.slot
        homes = [at for at, each in enumerate(slots) for _ in range(each.first, each.end)]
        in_home = f"IF({part} < 0, -1, {looked_up(homes, part)})" if slots else "-1"
        rows = rows.select("*", F.expr(in_home).alias(home))
        copied = [[str(each)] for each in homes]
        for at, each in enumerate(slots):
            for other in [*range(each.low, each.first), *range(each.end, each.high)]:
                copied[other].append(str(at))
        if any(len(each) > 1 for each in copied):
            texts = "|".join(",".join(each) if len(each) > 1 else "" for each in copied)
            text = f"get(split('{texts}', '[|]'), {part})"
            stays = f"{part} < 0 OR {text} = '' OR ({idle})"
            lists = f"IF({stays}, array({home}), CAST(split({text}, ',') AS ARRAY<INT>))"
            # not `explode`: Spark would make a filter from it
            rows = rows.withColumn(slot, F.expr(f"explode_outer({lists})"))
        else:
            rows = rows.withColumn(slot, F.expr(home))
        worker = request.worker_column
        rare = F.expr(f"CASE WHEN {part} < 0 THEN {in_sql(self._hash)} END")
        rows = with_worker(rows, self._plan, rare, None, worker)
        if slots:
            theirs = looked_up([each.worker for each in slots], slot)
            rows = rows.withColumn(worker, F.expr(f"IF({slot} < 0, {in_sql(worker)}, {theirs})"))
        return placed_for_groups(rows, worker, request.workers)

    def _windows(self, rows: DataFrame, table: DataFrame, results: Sequence[str]) -> DataFrame:
        for by in ("by_row", "by_value"):  # Spark finds the rows sorted for the second
            windows = {name: sql for each in self._pieces for name, sql in getattr(each, by).items()}
            rows = rows.select("*", *(F.expr(sql).alias(name) for name, sql in windows.items()))
        slot, there = self._names.slot, f"{self._names.slot}_there"
        # not "=": Spark would make a filter by the home from it, and from that one a filter by the part
        rows = rows.filter(f"{slot} <=> {self._home}")
        table = table.withColumnRenamed(slot, there)
        joined = rows.join(F.broadcast(table), F.expr(f"{slot} = {there}"), "left")
        columns = [F.col(in_sql(name)) for name in self._request.columns.names if name]
        values = (F.expr(each.value).alias(name) for name, each in zip(results, self._pieces, strict=True))
        return joined.select(*columns, *values)


def _place(ranges: Ranges, counts: np.ndarray, number: int) -> tuple[int, int] | None:
    """Return the part of a key's row, and the row's number in it; `number` is from 1 on, -1 for the last."""
    rows = counts[ranges.first : ranges.end]
    if number == -1:
        filled = np.flatnonzero(rows)
        return (ranges.first + int(filled[-1]), int(rows[filled[-1]])) if len(filled) else None
    until = np.cumsum(rows)
    at = int(np.searchsorted(until, number))
    if at == len(rows):
        return None
    return ranges.first + at, number - int(until[at] - rows[at])
