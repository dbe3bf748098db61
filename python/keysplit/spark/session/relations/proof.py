"""Proves on Spark Connect which columns have the same values when tasks are retried, from the client's plan.

The client knows names and no types: a column is known by its name, and what hangs on its type is decided by
the types of the result. Relations and functions that are not in a list count against a column.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql.types import StructField

from keysplit.spark.names import in_sql
from keysplit.spark.session import reading
from keysplit.spark.session.interface import Steadiness
from keysplit.spark.session.relations.expressions import Expressions
from keysplit.spark.session.relations.rows import (
    MERGED,
    OF_EQUAL,
    Rows,
    by_type,
    chosen,
    dealt,
    merged,
    merging,
    of_both,
    of_rows,
    unknown,
    with_more,
    within,
    worst,
)

_PASSING = frozenset(("collect_metrics", "subquery_alias", "with_watermark"))
_JOIN_HINTS = frozenset(
    (
        "broadcast",
        "broadcastjoin",
        "mapjoin",
        "merge",
        "mergejoin",
        "shuffle_hash",
        "shuffle_merge",
        "shuffle_replicate_nl",
    )
)


class Proof:
    """Goes through a plan of the client."""

    def __init__(
        self,
        trusted: frozenset[str],
        anew: str | None = None,
        setting: reading.Setting = lambda name: None,
    ) -> None:
        self._expressions = Expressions(trusted, anew)
        self._anew, self._setting = anew, setting
        self._again: str | None = None

    def of(self, plan: Any, fields: Mapping[int, StructField]) -> Steadiness:
        """Return what is proved of a plan, and of the columns of its result at these places."""
        try:
            found = self._relation(plan)
        except RecursionError:
            found = unknown("a query plan that keysplit cannot read")
        columns = {at: by_type(found.of(in_sql(each.name)), each.dataType) for at, each in fields.items()}
        return Steadiness(
            found.rows, columns, found.order, frozenset(self._expressions.functions), self._again
        )

    def _relation(self, relation: Any) -> Rows:
        kind = relation.WhichOneof("rel_type")
        body: Any = getattr(relation, kind) if kind else None
        if kind in _PASSING:
            return self._relation(body.input)
        method = getattr(self, f"_{kind}", None)
        if method is None:
            return unknown(f"the relation {kind}, which keysplit does not know")
        found: Rows = method(body)
        return found

    def _range(self, body: Any) -> Rows:
        return Rows(order=self._anew)

    _local_relation = _cached_local_relation = _chunked_cached_local_relation = _range

    def _read(self, body: Any) -> Rows:
        formats = {"avro", "csv", "delta", "iceberg", "json", "orc", "parquet", "text", "xml", "rate"}
        if body.is_streaming:  # a batch may read to the end, which moves
            formats.add("kafka")
        if body.WhichOneof("read_type") == "data_source" and body.data_source.format.lower() in formats:
            options = {name.lower(): value for name, value in body.data_source.options.items()}
            self._again = self._again or self._why_again(body.data_source, options)
            why = reading.left_out(options, self._setting)
            if self._anew and not body.is_streaming:
                why = f"a table beside the stream, which may have changed downstream of {self._anew}"
            return Rows({}, why, why, why or self._anew)
        return unknown("a table or view, of which Spark Connect's client does not know how it is made")

    def _why_again(self, source: Any, options: Mapping[str, str]) -> str | None:
        """Return why another query that reads files may see other rows, as it reads other columns."""
        if source.format.lower() not in reading.TEXT:
            return None
        schema = source.schema.lower()
        return reading.malformed(options, self._setting, lambda name: name in schema if schema else None)

    def _project(self, body: Any) -> Rows:
        child = self._relation(body.input)
        known: dict[str, str | None] = {}
        all_: dict[str, str | None] = {}
        rest = others = None
        for each in body.expressions:
            name, why = self._expressions.name(each), self._expressions.value(each, child)
            if each.unresolved_star.unparsed_target:  # it may be of a struct
                others = worst(others, within(child.any()))
            elif each.WhichOneof("expr_type") in ("unresolved_star", "unresolved_regex"):
                all_, others = child.known, worst(others, child.rest)
            elif name is None:
                rest = worst(rest, why)
            else:
                known[name] = worst(known.get(name), why)
        # columns of a star may have the names of others, also of those that are not known
        hidden = self._hidden(others)
        known = {name: worst(known.get(name), all_.get(name, hidden)) for name in {*known, *all_}}
        rest = worst(rest, others)
        return replace(child, known=known, rest=rest, rows=self._expressions.left(body.expressions, child))

    def _hidden(self, why: str | None) -> str | None:
        """Return why values of a column may differ that has another's name in other letters.

        Where the session does not mind their case, Spark knows no such column by its name.
        """
        sensitive = why is not None and (self._setting("spark.sql.caseSensitive") or "").lower() == "true"
        return why if sensitive else None

    def _with_columns(self, body: Any) -> Rows:
        child = self._relation(body.input)
        if any(len(each.name) != 1 for each in body.aliases):
            return unknown("a column with several names")
        found = ((each.name[0], self._expressions.value(each.expr, child)) for each in body.aliases)
        rows = self._expressions.left([each.expr for each in body.aliases], child)
        return replace(with_more(child, found, self._hidden(child.rest)), rows=rows)

    def _with_columns_renamed(self, body: Any) -> Rows:
        child = self._relation(body.input)
        old = dict(body.rename_columns_map) | {each.col_name: each.new_col_name for each in body.renames}
        found = ((new, child.of(in_sql(name))) for name, new in old.items())
        return with_more(child, found, self._hidden(child.rest))

    def _to_df(self, body: Any) -> Rows:
        child = self._relation(body.input)
        return replace(child, known={}, rest=child.any())

    def _fill_na(self, body: Any) -> Rows:
        child = self._relation(body.input)
        known = {name: within(why) for name, why in child.known.items()}
        return replace(child, known=known, rest=within(child.rest))

    _replace = _to_schema = _fill_na

    def _drop_na(self, body: Any) -> Rows:
        child = self._relation(body.input)
        return replace(child, rows=child.rows or of_rows(child.any()))

    def _drop(self, body: Any) -> Rows:
        # A column of that name may still be there: what is known of it stays.
        return self._relation(body.input)

    def _filter(self, body: Any) -> Rows:
        child = self._relation(body.input)
        return replace(child, rows=child.rows or self._expressions.inside(body.condition, child))

    def _join(self, body: Any) -> Rows:
        left, right = self._relation(body.left), self._relation(body.right)
        both = of_both(left, right)
        has_condition = body.HasField("join_condition")
        condition = self._expressions.inside(body.join_condition, both) if has_condition else None
        using = of_rows(worst(*(both.of(in_sql(name)) for name in body.using_columns)))
        both = merging(both) if body.using_columns else both
        return replace(both, rows=both.rows or condition or using, order="a join")

    def _set_op(self, body: Any) -> Rows:
        left, right = self._relation(body.left_input), self._relation(body.right_input)
        why = merged(worst(left.any(), right.any()))
        union = body.set_op_type == body.SET_OP_TYPE_UNION
        rows = left.rows or right.rows or (None if union else of_rows(why))
        order = left.order or right.order if union and body.is_all else "a set operation"
        return Rows({}, why or (None if union and body.is_all else MERGED), rows, order)

    def _sort(self, body: Any) -> Rows:
        child = self._relation(body.input)
        # Values decide in which partition a row is.
        why = of_rows(worst(*(self._expressions.value(each.child, child) for each in body.order)))
        return replace(child, order="a sort", rows=child.rows or (why if body.is_global else None))

    def _hint(self, body: Any) -> Rows:
        child = self._relation(body.input)
        return child if body.name.lower() in _JOIN_HINTS else dealt(child)

    def _limit(self, body: Any) -> Rows:
        return chosen(self._relation(body.input), "a limit, an offset or a tail")

    _offset = _tail = _limit

    def _sample(self, body: Any) -> Rows:
        child = self._relation(body.input)
        order = child.order or ("a sort" if body.deterministic_order else None)  # as randomSplit asks for
        return chosen(child, f"a sample downstream of {order}") if order else child

    def _repartition(self, body: Any) -> Rows:
        child = self._relation(body.input)
        return dealt(child) if body.shuffle else child

    def _repartition_by_expression(self, body: Any) -> Rows:
        child = self._relation(body.input)
        why = next(
            filter(None, (self._expressions.inside(each, child) for each in body.partition_exprs)), None
        )
        return replace(child, order="a shuffle (repartition)", rows=child.rows or why)

    def _deduplicate(self, body: Any) -> Rows:
        child = self._relation(body.input)
        if body.all_columns_as_keys:
            rows = child.rows or of_rows(child.any())
            return Rows({}, child.any() or OF_EQUAL, rows, "a distinct")
        known: dict[str, str | None] = {
            name.lower(): child.of(in_sql(name)) or OF_EQUAL for name in body.column_names
        }
        why = of_rows(worst(*known.values()))
        return Rows(known, "dropDuplicates, which keeps one of several rows", child.rows or why, "a distinct")

    def _aggregate(self, body: Any) -> Rows:
        child = self._relation(body.input)
        if body.HasField("pivot"):
            return replace(unknown("a pivot"), rows=child.rows)
        known: dict[str, str | None] = {}
        rest, lost = None, None
        for each in body.grouping_expressions:
            why = self._expressions.value(each, child)
            lost = worst(lost, why)
            name = self._expressions.name(each)
            if name is None:
                rest = worst(rest, why or OF_EQUAL)
            else:
                known[name] = why or OF_EQUAL
        for each in body.aggregate_expressions:
            why, name = self._expressions.aggregated(each, child), self._expressions.name(each)
            if name is None:
                rest = worst(rest, why)
            elif name not in known or each.WhichOneof("expr_type") != "unresolved_attribute":
                known[name] = worst(known.get(name), why)
        return Rows(known, rest, child.rows or of_rows(lost), "a groupBy")

    def _map_partitions(self, body: Any) -> Rows:
        child = self._relation(body.input)
        why = self._expressions.function(body.func) or child.rows or child.any()
        return Rows({}, why, why, child.order)

    def _group_map(self, body: Any) -> Rows:
        return replace(self._map_partitions(body), order="a shuffle (applyInPandas)")
