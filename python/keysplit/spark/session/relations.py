"""Proves on Spark Connect which columns have the same values when tasks are retried, from the client's plan.

The client knows names and no types: a column is known by its name, and what hangs on its type is decided by
the types of the result. Relations and functions that are not in a list here count against a column.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from keysplit.spark.aggregates import BY_NAME
from keysplit.spark.names import in_sql
from keysplit.spark.session import reading
from keysplit.spark.session.interface import Steadiness

# Steady if the column comes out of the query as it is, and is of a type of which equal values are one value.
_OF_EQUAL = "one of several equal values, of a type that keysplit does not know"
_SUM = "a sum of numbers, of a type that keysplit does not know"
# Spark may have made text of it, where the other side has text: steady if it is no text, as above.
_MERGED = "one of several equal values, in a union or join, of a type that keysplit does not know"
_BY_TYPE = (_OF_EQUAL, _SUM, _MERGED)
_EXACT = (ByteType, ShortType, IntegerType, LongType, DecimalType, DateType, TimestampType)
_MOST_DIGITS = 38
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
_OPERATORS = frozenset(
    (
        "!",
        "%",
        "&",
        "*",
        "+",
        "-",
        "/",
        "<",
        "<=",
        "<=>",
        "=",
        "==",
        ">",
        ">=",
        "^",
        "and",
        "in",
        "isnotnull",
        "isnull",
        "negative",
        "not",
        "or",
        "positive",
        "substr",
        "substring",
        "when",
        "|",
        "~",
        "like",
        "rlike",
    )
)
_BY_CLOCK = frozenset(("curtime", "current_time", "now"))
_BY_ORDER = frozenset(
    (
        "monotonically_increasing_id",
        "rand",
        "randn",
        "random",
        "randstr",
        "shuffle",
        "spark_partition_id",
        "uniform",
        "uuid",
    )
)
# Names of PySpark's that run other functions, or are no functions of rows.
_OTHERS = frozenset(
    (
        "aes_encrypt",
        "kll_sketch_merge_bigint",
        "kll_sketch_merge_double",
        "kll_sketch_merge_float",
        "call_function",
        "call_udf",
        "expr",
        "java_method",
        "reflect",
        "try_reflect",
        "udf",
        "udtf",
        "arrow_udf",
        "arrow_udtf",
        "pandas_udf",
        "unwrap_udt",
        "broadcast",
        # where there are functions of Python, Spark reads ahead of them
        "input_file_block_length",
        "input_file_block_start",
        "input_file_name",
    )
)
_AGGREGATES = frozenset(
    ("approx_count_distinct", "bool_and", "bool_or", "count", "count_if", "every", "some")
)
_AGGREGATES_BY_TYPE = frozenset(("bit_and", "bit_or", "bit_xor", "max", "min", "sum"))
_WINDOWS = frozenset(
    (
        "any_value",
        "counter_diff",
        "cume_dist",
        "dense_rank",
        "first",
        "first_value",
        "lag",
        "last",
        "last_value",
        "lead",
        "nth_value",
        "ntile",
        "percent_rank",
        "rank",
        "row_number",
    )
)


# Makes as many rows as its argument says.
_GENERATORS = frozenset(
    (
        "explode",
        "explode_outer",
        "inline",
        "inline_outer",
        "json_tuple",
        "posexplode",
        "posexplode_outer",
        "stack",
        "variant_explode",
        "variant_explode_outer",
    )
)
# A part of a column's name: in backticks, or bare.
_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


@dataclass(frozen=True)
class _Rows:
    """What is known of the rows of a relation."""

    known: dict[str, str | None] = field(default_factory=dict)
    """Why values of a column may differ, by its name in small letters; None if they do not."""
    rest: str | None = None
    """The same for all other columns."""
    rows: str | None = None
    order: str | None = None

    def of(self, name: str) -> str | None:
        """Return why values of a column, or of a field of one, may differ."""
        parts = [(quoted or bare).replace("``", "`").lower() for quoted, bare in _PART.findall(name)]
        # Which of them is the column, and which an alias or a field, only the server knows.
        return _worst(*(self.known.get(part, self.rest) for part in parts)) if parts else self.any()

    def any(self) -> str | None:
        """Return why values of any column may differ."""
        return _worst(self.rest, *self.known.values())


class Proof:
    """Goes through a plan of the client."""

    def __init__(
        self,
        trusted: frozenset[str],
        anew: str | None = None,
        setting: reading.Setting = lambda name: None,
    ) -> None:
        self._trusted, self._anew = trusted, anew
        self._functions: set[str] = set()
        self._again: str | None = None
        self._setting = setting
        self._steady_names = frozenset(name.lower() for name in F.__all__) | _OPERATORS

    def of(self, plan: Any, schema: StructType) -> Steadiness:
        """Return what is proved of the columns of a plan whose result has these columns."""
        try:
            found = self._relation(plan)
        except RecursionError:
            found = _unknown("a query plan that keysplit cannot read")
        columns = tuple(_by_type(found.of(in_sql(each.name)), each.dataType) for each in schema.fields)
        return Steadiness(found.rows, columns, found.order, frozenset(self._functions), self._again)

    def _relation(self, relation: Any) -> _Rows:
        kind = relation.WhichOneof("rel_type")
        body: Any = getattr(relation, kind) if kind else None
        if kind in _PASSING:
            return self._relation(body.input)
        method = getattr(self, f"_{kind}", None)
        if method is None:
            return _unknown(f"the relation {kind}, which keysplit does not know")
        found: _Rows = method(body)
        return found

    def _range(self, body: Any) -> _Rows:
        return _Rows(order=self._anew)

    _local_relation = _cached_local_relation = _chunked_cached_local_relation = _range

    def _read(self, body: Any) -> _Rows:
        formats = {"avro", "csv", "delta", "iceberg", "json", "orc", "parquet", "text", "xml", "rate"}
        if body.is_streaming:  # a batch may read to the end, which moves
            formats.add("kafka")
        if body.WhichOneof("read_type") == "data_source" and body.data_source.format.lower() in formats:
            options = {name.lower(): value for name, value in body.data_source.options.items()}
            self._again = self._again or self._why_again(body.data_source, options)
            why = reading.left_out(options, self._setting)
            if self._anew and not body.is_streaming:
                why = f"a table beside the stream, which may have changed downstream of {self._anew}"
            return _Rows({}, why, why, why or self._anew)
        return _unknown("a table or view, of which Spark Connect's client does not know how it is made")

    def _why_again(self, source: Any, options: Mapping[str, str]) -> str | None:
        """Return why another query that reads files may see other rows, as it reads other columns."""
        if source.format.lower() not in reading.TEXT:
            return None
        schema = source.schema.lower()
        return reading.malformed(options, self._setting, lambda name: name in schema if schema else None)

    def _project(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        known: dict[str, str | None] = {}
        rest = None
        for each in body.expressions:
            name, why = self._name(each), self._value(each, child)
            if each.unresolved_star.unparsed_target:  # it may be of a struct
                rest = _worst(rest, _within(child.any()))
            elif each.WhichOneof("expr_type") in ("unresolved_star", "unresolved_regex"):
                known, rest = {**child.known, **known}, _worst(rest, child.rest)
            elif name is None:
                rest = _worst(rest, why)
            else:
                known[name] = _worst(known.get(name), why)
        return replace(child, known=known, rest=rest, rows=self._left(body.expressions, child))

    def _with_columns(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        if any(len(each.name) != 1 for each in body.aliases):
            return _unknown("a column with several names")
        found = ((each.name[0], self._value(each.expr, child)) for each in body.aliases)
        rows = self._left([each.expr for each in body.aliases], child)
        return replace(_with_more(child, found), rows=rows)

    def _with_columns_renamed(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        old = dict(body.rename_columns_map) | {each.col_name: each.new_col_name for each in body.renames}
        return _with_more(child, ((new, child.of(in_sql(name))) for name, new in old.items()))

    def _to_df(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        return replace(child, known={}, rest=child.any())

    def _fill_na(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        known = {name: _within(why) for name, why in child.known.items()}
        return replace(child, known=known, rest=_within(child.rest))

    _replace = _to_schema = _fill_na

    def _drop_na(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        return replace(child, rows=child.rows or _of_rows(child.any()))

    def _drop(self, body: Any) -> _Rows:
        # A column of that name may still be there: what is known of it stays.
        return self._relation(body.input)

    def _filter(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        return replace(child, rows=child.rows or self._inside(body.condition, child))

    def _join(self, body: Any) -> _Rows:
        left, right = self._relation(body.left), self._relation(body.right)
        both = _both(left, right)
        condition = self._inside(body.join_condition, both) if body.HasField("join_condition") else None
        using = _of_rows(_worst(*(both.of(in_sql(name)) for name in body.using_columns)))
        both = _merging(both) if body.using_columns else both
        return replace(both, rows=both.rows or condition or using, order="a join")

    def _set_op(self, body: Any) -> _Rows:
        left, right = self._relation(body.left_input), self._relation(body.right_input)
        why = _merged(_worst(left.any(), right.any()))
        union = body.set_op_type == body.SET_OP_TYPE_UNION
        rows = left.rows or right.rows or (None if union else _of_rows(why))
        order = left.order or right.order if union and body.is_all else "a set operation"
        return _Rows({}, why or (None if union and body.is_all else _MERGED), rows, order)

    def _sort(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        # Values decide in which partition a row is.
        why = _of_rows(_worst(*(self._value(each.child, child) for each in body.order)))
        return replace(child, order="a sort", rows=child.rows or (why if body.is_global else None))

    def _hint(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        return child if body.name.lower() in _JOIN_HINTS else _dealt(child)

    def _limit(self, body: Any) -> _Rows:
        return _chosen(self._relation(body.input), "a limit, an offset or a tail")

    _offset = _tail = _limit

    def _sample(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        return _chosen(child, f"a sample downstream of {child.order}") if child.order else child

    def _repartition(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        return _dealt(child) if body.shuffle else child

    def _repartition_by_expression(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        why = next(filter(None, (self._inside(each, child) for each in body.partition_exprs)), None)
        return replace(child, order="a shuffle (repartition)", rows=child.rows or why)

    def _deduplicate(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        if body.all_columns_as_keys:
            rows = child.rows or _of_rows(child.any())
            return _Rows({}, child.any() or _OF_EQUAL, rows, "a distinct")
        known: dict[str, str | None] = {
            name.lower(): child.of(in_sql(name)) or _OF_EQUAL for name in body.column_names
        }
        why = _of_rows(_worst(*known.values()))
        return _Rows(
            known, "dropDuplicates, which keeps one of several rows", child.rows or why, "a distinct"
        )

    def _aggregate(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        if body.HasField("pivot"):
            return replace(_unknown("a pivot"), rows=child.rows)
        known: dict[str, str | None] = {}
        rest, lost = None, None
        for each in body.grouping_expressions:
            why = self._value(each, child)
            lost = _worst(lost, why)
            name = self._name(each)
            if name is None:
                rest = _worst(rest, why or _OF_EQUAL)
            else:
                known[name] = why or _OF_EQUAL
        for each in body.aggregate_expressions:
            why, name = self._aggregated(each, child), self._name(each)
            if name is None:
                rest = _worst(rest, why)
            elif name not in known or each.WhichOneof("expr_type") != "unresolved_attribute":
                known[name] = _worst(known.get(name), why)
        return _Rows(known, rest, child.rows or _of_rows(lost), "a groupBy")

    def _map_partitions(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        why = self._function(body.func) or child.rows or child.any()
        return _Rows({}, why, why, child.order)

    def _group_map(self, body: Any) -> _Rows:
        return replace(self._map_partitions(body), order="a shuffle (applyInPandas)")

    def _name(self, expression: Any) -> str | None:
        """Return the name of the column that an expression makes, None if the server gives it one."""
        kind = expression.WhichOneof("expr_type")
        if kind == "alias" and len(expression.alias.name) == 1:
            return str(expression.alias.name[0]).lower()
        if kind == "unresolved_attribute":
            text = expression.unresolved_attribute.unparsed_identifier
            return str(text.split(".")[-1].strip("`").lower()) if text.count("`") <= 2 else None
        return None

    def _value(self, expression: Any, child: _Rows) -> str | None:
        """Return why an expression that stands for a column may differ; a column alone stays what it is."""
        kind = expression.WhichOneof("expr_type")
        if kind == "alias":
            return self._value(expression.alias.expr, child)
        if kind == "unresolved_attribute":
            return child.of(expression.unresolved_attribute.unparsed_identifier)
        return self._inside(expression, child)

    def _inside(self, expression: Any, child: _Rows) -> str | None:
        """Return why the value of an expression may differ when a task is retried, None if it does not."""
        kind = expression.WhichOneof("expr_type")
        body: Any = getattr(expression, kind) if kind else None
        if kind in ("literal", "unresolved_named_lambda_variable"):
            return None
        if kind == "unresolved_attribute":
            why = child.of(body.unparsed_identifier)
            return _within(why)
        if kind in ("unresolved_star", "unresolved_regex"):
            return _within(child.any())
        if kind == "unresolved_function":
            return self._called(body, child)
        if kind == "common_inline_user_defined_function":
            return self._function(body) or self._all(body.arguments, child)
        inner = {
            "alias": lambda: [body.expr],
            "cast": lambda: [body.expr],
            "sort_order": lambda: [body.child],
            "lambda_function": lambda: [body.function],
            "unresolved_extract_value": lambda: [body.child, body.extraction],
            "update_fields": lambda: [body.struct_expression, body.value_expression][
                : 1 + body.HasField("value_expression")
            ],
            "named_argument_expression": lambda: [body.value],
            "direct_shuffle_partition_id": lambda: [body.child],
        }.get(kind)
        if inner is None:
            return {
                "expression_string": "a text of SQL, which only the server reads",
                "window": "a window function",
            }.get(kind, f"the expression {kind}, which keysplit does not know")
        return self._all(inner(), child)

    def _called(self, body: Any, child: _Rows) -> str | None:
        name = body.function_name.lower()
        if body.is_user_defined_function:
            return self._function(body) or self._all(body.arguments, child)
        if name in _BY_ORDER:
            return (child.order and f"{name} downstream of {child.order}") or self._all(body.arguments, child)
        if self._anew and name in _BY_CLOCK:
            return f"{name} downstream of {self._anew}"
        if name in BY_NAME:
            return f"the aggregate {name}, which may depend on the order of rows"
        if name in _OTHERS or name in _WINDOWS or name not in self._steady_names:
            return f"the function {name}, which keysplit does not know"
        return self._all(body.arguments, child)

    def _left(self, expressions: Iterable[Any], child: _Rows) -> str | None:
        """Return why there may be other rows of a child when these expressions are made of them."""
        found = [child.rows]
        for each in (node for expression in expressions for node in _messages(expression)):
            if each.DESCRIPTOR.name == "Window":
                found += [_of_rows(self._value(by, child)) for by in each.partition_spec]
            elif each.DESCRIPTOR.name == "UnresolvedFunction" and each.function_name.lower() in _GENERATORS:
                found += [_of_rows(self._value(argument, child)) for argument in each.arguments]
        return next(filter(None, found), None)

    def _aggregated(self, expression: Any, child: _Rows) -> str | None:
        kind = expression.WhichOneof("expr_type")
        if kind == "alias":
            return self._aggregated(expression.alias.expr, child)
        if kind == "unresolved_attribute":
            return child.of(expression.unresolved_attribute.unparsed_identifier) or _OF_EQUAL
        if kind != "unresolved_function":
            return "an aggregate, which may depend on the order of rows"
        body = expression.unresolved_function
        name = body.function_name.lower()
        if name not in _AGGREGATES and name not in _AGGREGATES_BY_TYPE:
            return f"the aggregate {name}, which may depend on the order of rows"
        starred = [each for each in body.arguments if each.WhichOneof("expr_type") != "unresolved_star"]
        why = child.rows or self._all(starred, child)
        return why or (None if name in _AGGREGATES else _SUM if name == "sum" else _OF_EQUAL)

    def _function(self, body: Any) -> str | None:
        name = body.function_name
        self._functions.add(name)
        return None if name in self._trusted else f"the function {name!r}, which is not trusted"

    def _all(self, expressions: Iterable[Any], child: _Rows) -> str | None:
        return next(filter(None, (self._inside(each, child) for each in expressions)), None)


def _by_type(why: str | None, type_: DataType) -> str | None:
    # Spark 4 made collations: StringType() has none of its own.
    exact = isinstance(type_, _EXACT) or (isinstance(type_, StringType) and type_ == StringType())
    if why == _MERGED and isinstance(type_, StringType):
        return why
    if why == _SUM and isinstance(type_, DecimalType) and type_.precision == _MOST_DIGITS:
        return "a sum of decimals, which gives null if it overflows in the order of the rows"
    return None if why in _BY_TYPE and exact else why


def _worst(*reasons: str | None) -> str | None:
    """Return the reason of several that no type of the result takes back, if there is one."""
    found = [each for each in reasons if each is not None]
    return min(found, key=lambda why: (why in _BY_TYPE, why == _OF_EQUAL, why == _SUM), default=None)


def _of_rows(why: str | None) -> str | None:
    """Return why there may be other groups of equal values."""
    return None if why in (_OF_EQUAL, _MERGED) else why


def _merged(why: str | None) -> str | None:
    """Return why values may differ that Spark may have cast to a type of both sides."""
    return _MERGED if why == _OF_EQUAL else _within(why)


def _merging(both: _Rows) -> _Rows:
    known = {name: _merged(why) for name, why in both.known.items()}
    return replace(both, known=known, rest=_merged(both.rest))


def _within(why: str | None) -> str | None:
    """Return why an expression of a column may differ, whatever the type of the result."""
    return f"an expression of {why}" if why in _BY_TYPE else why


def _with_more(child: _Rows, columns: Iterable[tuple[str, str | None]]) -> _Rows:
    # A column of the name may stay beside the new one where the session minds the case of letters.
    known = dict(child.known)
    for name, why in columns:
        known[name.lower()] = _worst(known.get(name.lower()), why)
    return replace(child, known=known)


def _both(left: _Rows, right: _Rows) -> _Rows:
    names = {*left.known, *right.known}
    known = {name: _worst(left.of(in_sql(name)), right.of(in_sql(name))) for name in names}
    return _Rows(known, _worst(left.rest, right.rest), left.rows or right.rows, left.order or right.order)


def _dealt(child: _Rows) -> _Rows:
    """Return rows that are dealt out to partitions in turn, which Spark does in an order of their values."""
    why = child.any()
    rows = child.rows or (why and f"a repartition without columns of rows with {why}")
    return replace(child, order="a shuffle (repartition)", rows=rows)


def _messages(message: Any) -> Iterator[Any]:
    """Yield a message of the client's plan, and all in it."""
    yield message
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None and not descriptor.message_type.GetOptions().map_entry:
            repeated = not hasattr(value, "ListFields")
            for each in value if repeated else [value]:
                yield from _messages(each)


def _chosen(child: _Rows, what: str) -> _Rows:
    return replace(child, rows=child.rows or f"{what} without a total order", order=child.order or what)


def _unknown(why: str) -> _Rows:
    return _Rows({}, why, why, why)
