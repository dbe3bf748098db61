"""Proves on Spark Connect which columns have the same values when tasks are retried, from the client's plan.

The client knows names and no types: a column is known by its name, and what hangs on its type is decided by
the types of the result. Relations and functions that are not in a list count against a column.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql.types import StructField

from keysplit.spark.identity import reading
from keysplit.spark.jvm import Setting
from oracle.interface import Steadiness
from oracle.relations.expressions import Expressions
from oracle.relations.rows import (
    MERGED,
    OF_EQUAL,
    Rows,
    by_type,
    chosen,
    dealt,
    hiding,
    merged,
    merging,
    of_both,
    of_rows,
    unknown,
    with_hidden,
    within,
    worst,
)

_PASSING = frozenset(("collect_metrics", "subquery_alias", "with_watermark"))
_ONE_OF_SEVERAL = "dropDuplicates, which keeps one of several rows"
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
        setting: Setting = lambda name: None,
        twice: bool = False,
    ) -> None:
        self._anew, self._setting = anew, setting
        self._order = anew or ("a source that may put its rows into other partitions" if twice else None)
        sensitive = (setting("spark.sql.caseSensitive") or "").lower() == "true"
        self._fold: Callable[[str], str] = str if sensitive else str.lower
        self._expressions = Expressions(trusted, anew, self._fold)
        self._again: str | None = None

    def of(self, plan: Any, fields: Mapping[int, StructField]) -> Steadiness:
        """Return what is proved of a plan, and of the columns of its result at these places."""
        try:
            found = self._relation(plan)
        except RecursionError:
            found = unknown("a query plan that keysplit cannot read")
        columns = {
            at: by_type(found.known.get(self._fold(each.name), found.rest), each.dataType)
            for at, each in fields.items()
        }
        return Steadiness(
            found.rows, columns, found.order, frozenset(self._expressions.functions), self._again
        )

    def _relation(self, relation: Any) -> Rows:
        kind = relation.WhichOneof("rel_type")
        body: Any = getattr(relation, kind) if kind else None
        method = self._below if kind in _PASSING else getattr(self, f"_{kind}", None)
        found: Rows = (
            unknown(f"the relation {kind}, which keysplit does not know") if method is None else method(body)
        )
        self._expressions.relations[relation.common.plan_id] = found
        return found

    def _below(self, body: Any) -> Rows:
        return self._relation(body.input)

    def _range(self, body: Any) -> Rows:
        return Rows(order=self._order)

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
            return Rows({}, why, why, why or self._order)
        return unknown("a table or view, of which Spark Connect's client does not know how it is made")

    def _why_again(self, source: Any, options: Mapping[str, str]) -> str | None:
        """Return why another query that reads files may see other rows, as it reads other columns."""
        if source.format.lower() not in reading.TEXT:
            return None
        schema = source.schema.lower()
        return reading.malformed(options, self._setting, lambda name: name in schema if schema else None)

    def _project(self, body: Any) -> Rows:
        child = seen = self._relation(body.input)
        known: dict[str, str | None] = {}
        all_: dict[str, str | None] = {}
        rest: str | None = None
        hidden: Mapping[str | None, str | None] = hiding(child)
        for each in body.expressions:
            name, why = self._expressions.name(each), self._expressions.value(each, seen)
            seen = self._seen(seen, each, why)
            if each.WhichOneof("expr_type") == "unresolved_star" and each.unresolved_star.unparsed_target:
                rest = worst(rest, within(child.any()))  # it may be of a struct
            elif each.WhichOneof("expr_type") in ("unresolved_star", "unresolved_regex"):
                all_, rest, hidden = child.known, worst(rest, child.rest), child.hidden
            elif name is None:
                rest = worst(rest, why)
            else:
                known[name] = worst(known.get(name), why)
        # columns of a star may have the names of others
        known = {name: worst(known.get(name), all_.get(name)) for name in {*known, *all_}}
        rows = self._expressions.left(body.expressions, seen)
        return _shown(replace(child, known=known, rest=rest, rows=rows, hidden=hidden))

    def _with_columns(self, body: Any) -> Rows:
        child = seen = self._relation(body.input)
        if any(len(each.name) != 1 for each in body.aliases):
            return unknown("a column with several names")
        new: dict[str, str | None] = {}
        for each in body.aliases:
            name, why = self._fold(each.name[0]), self._expressions.value(each.expr, seen)
            new[name], seen = why, seen if why is None else with_hidden(seen, name, why)
        rows = self._expressions.left([each.expr for each in body.aliases], seen)
        return _shown(replace(child, known={**child.known, **new}, rows=rows))

    def _with_columns_renamed(self, body: Any) -> Rows:
        found = self._relation(body.input)
        pairs = [
            *body.rename_columns_map.items(),
            *((each.col_name, each.new_col_name) for each in body.renames),
        ]
        pairs = [(self._fold(old), self._fold(new)) for old, new in pairs]
        if body.rename_columns_map and not {old for old, _ in pairs}.isdisjoint(new for _, new in pairs):
            return unknown("columns that are renamed more than once")  # in which order is not known
        for old, new in pairs:
            why = found.known.get(old, found.rest)
            known = {name: of for name, of in found.known.items() if name != old}
            known[new] = worst(known.get(new), why)
            found = with_hidden(replace(found, known=known), old, why)
        return found

    def _to_df(self, body: Any) -> Rows:
        child = self._relation(body.input)
        return replace(child, known={}, rest=child.any(), hidden=hiding(child))

    def _fill_na(self, body: Any) -> Rows:
        child = self._relation(body.input)
        known = {name: within(why) for name, why in child.known.items()}
        return replace(child, known=known, rest=within(child.rest))

    _replace = _fill_na

    def _to_schema(self, body: Any) -> Rows:
        return with_hidden(self._fill_na(body), None, None)

    def _drop_na(self, body: Any) -> Rows:
        child = self._relation(body.input)
        return replace(child, rows=child.rows or of_rows(child.any()))

    def _drop(self, body: Any) -> Rows:
        found = self._relation(body.input)
        for name in map(self._fold, body.column_names):
            known = {each: why for each, why in found.known.items() if each != name}
            found = with_hidden(replace(found, known=known), name, found.known.get(name, found.rest))
        # There may be others of the name of a column of a relation: what is known of it stays.
        return with_hidden(found, None, None) if body.columns else found

    def _filter(self, body: Any) -> Rows:
        child = self._relation(body.input)
        return replace(child, rows=child.rows or self._expressions.inside(body.condition, child))

    def _join(self, body: Any) -> Rows:
        left, right = self._relation(body.left), self._relation(body.right)
        both = of_both(left, right)
        has_condition = body.HasField("join_condition")
        condition = self._expressions.inside(body.join_condition, both) if has_condition else None
        using = of_rows(worst(*(both.known.get(self._fold(name), both.rest) for name in body.using_columns)))
        both = merging(both) if body.using_columns else both
        return replace(both, rows=both.rows or condition or using, order="a join")

    def _set_op(self, body: Any) -> Rows:
        left, right = self._relation(body.left_input), self._relation(body.right_input)
        why = merged(worst(left.any(), right.any()))
        union = body.set_op_type == body.SET_OP_TYPE_UNION
        rows = left.rows or right.rows or (None if union else of_rows(why))
        order = left.order or right.order if union and body.is_all else "a set operation"
        why = why or (None if union and body.is_all else MERGED)
        return Rows({}, why, rows, order, of_both(left, right).hidden)

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
            every = child.any() or OF_EQUAL
            known: dict[str, str | None] = dict.fromkeys(child.known, every)
            hidden = dict.fromkeys(child.hidden, _ONE_OF_SEVERAL)
            return Rows(known, every, rows, "a distinct", hidden)
        known = {
            name: child.known.get(name, child.rest) or OF_EQUAL for name in map(self._fold, body.column_names)
        }
        why = of_rows(worst(*known.values()))
        return Rows(known, _ONE_OF_SEVERAL, child.rows or why, "a distinct")

    def _aggregate(self, body: Any) -> Rows:
        child = self._relation(body.input)
        if body.HasField("pivot"):
            return replace(unknown("a pivot"), rows=child.rows)
        known: dict[str, str | None] = {}
        rest, lost, seen = None, None, child
        # Spark also finds an aggregate by its name in a key, and what stands before an aggregate.
        for each in body.aggregate_expressions:
            seen = self._seen(seen, each, self._expressions.aggregated(each, child, seen))
        for each in body.grouping_expressions:
            why = self._expressions.value(each, seen)
            lost = worst(lost, why)
            name = self._expressions.name(each)
            seen = self._seen(seen, each, why)
            if name is None:
                rest = worst(rest, why or OF_EQUAL)
            else:
                known[name] = why or OF_EQUAL
        for each in body.aggregate_expressions:
            why, name = self._expressions.aggregated(each, child, seen), self._expressions.name(each)
            if name is None:
                rest = worst(rest, why)
            elif name not in known or each.WhichOneof("expr_type") != "unresolved_attribute":
                known[name] = worst(known.get(name), why)
        return Rows(known, rest, child.rows or of_rows(lost), "a groupBy", hiding(child))

    def _seen(self, seen: Rows, expression: Any, why: str | None) -> Rows:
        """Return rows with what an expression makes: others of the same operator may name it."""
        columns = ("unresolved_attribute", "unresolved_star", "unresolved_regex")
        if why is None or expression.WhichOneof("expr_type") in columns:
            return seen
        return with_hidden(seen, self._expressions.named(expression), why)

    def _map_partitions(self, body: Any) -> Rows:
        child = self._relation(body.input)
        why = self._expressions.function(body.func) or child.rows or child.any()
        return Rows({}, why, why, child.order)

    def _group_map(self, body: Any) -> Rows:
        return replace(self._map_partitions(body), order="a shuffle (applyInPandas)")


def _shown(found: Rows) -> Rows:
    """Return rows of which no column hides another one of its name."""
    return replace(found, hidden={name: why for name, why in found.hidden.items() if name not in found.known})
