"""Find the deterministic columns of a query on Spark Connect from the client's relations.

Columns of a source count, and so do the results of known functions applied to them. The client identifies
columns by name, so a column counts only if its relation lists the name. If a filter, sort or join uses a
column that does not count, all rows are uncertain. Results of relations and functions that are not listed
here do not count.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from keysplit.spark.identity import reading
from keysplit.spark.identity.known import ByChance, Determinism, names_in
from keysplit.spark.jvm import Setting, relation_of, schema_of_relation
from keysplit.spark.names import parts_of

FUNCTIONS = names_in(
    """
    ! % & * + - / < <= <=> = == > >= ^ abs add_months and array array_contains array_distinct ascii between
    bround cbrt ceil ceiling coalesce concat concat_ws contains date_add date_format date_sub date_trunc
    datediff day dayofmonth dayofweek dayofyear div endswith exp floor from_json get_json_object greatest
    hash hour if ifnull in initcap instr isnan isnotnull isnull last_day least length like ln log log10 log2
    lower lpad ltrim make_date map md5 minute mod month months_between named_struct nanvl negative next_day
    not nullif nvl nvl2 or pmod positive pow power quarter regexp_extract regexp_replace repeat replace
    reverse rint rlike round rpad rtrim second sha1 sha2 shiftleft shiftright signum size split split_part
    sqrt startswith struct substr substring timestamp_micros timestamp_millis timestamp_seconds to_date
    to_json to_timestamp translate trim trunc unix_date unix_micros unix_millis unix_seconds unix_timestamp
    upper weekday weekofyear when xxhash64 year | ~
    """
)
_BY_CHANCE = names_in(
    """
    monotonically_increasing_id rand randn random randstr shuffle spark_partition_id uniform uuid
    """
)
_GENERATORS = names_in("explode explode_outer posexplode posexplode_outer")
_READING_TIMES = names_in("to_date to_timestamp unix_timestamp")
# Expressions of one row that depend only on their inputs, and the fields of these.
_MADE_OF = {
    "alias": ("expr",),
    "cast": ("expr",),
    "direct_shuffle_partition_id": ("child",),
    "sort_order": ("child",),
    "unresolved_extract_value": ("child", "extraction"),
}
_PASSING = names_in("collect_metrics fill_na replace subquery_alias with_watermark")
_LOCAL = names_in("cached_local_relation chunked_cached_local_relation local_relation range")
_FORMATS = names_in("avro csv delta iceberg json orc parquet rate text xml")
_JOIN_HINTS = names_in(
    """
    broadcast broadcastjoin mapjoin merge mergejoin shuffle_hash shuffle_merge shuffle_replicate_nl
    """
)
_NOT_FOUND = "a column that the client does not find"
_COLLATED = "a column of collated strings"


@dataclass(frozen=True)
class _Rows:
    """What is known about the rows of a relation."""

    columns: Mapping[str, str | None] = field(default_factory=dict)
    """Why the values of each listed column may differ, by name; None if the column counts."""
    rows: str | None = None
    order: str | None = None
    more: bool = False
    """Whether there are columns that are not listed."""
    twice: frozenset[str] = frozenset()
    """Names shared by two columns."""

    def any(self) -> str | None:
        """Return why values of any column may differ."""
        return _NOT_FOUND if self.more else next(filter(None, self.columns.values()), None)


def determinism(df: DataFrame, trusted: frozenset[str], anew: str | None, setting: Setting) -> Determinism:
    """Return which rows and columns of a Connect DataFrame are deterministic; arguments as in `Walk`."""
    walk = Walk(trusted, anew, setting, partial(schema_of_relation, df.sparkSession))
    return walk.of(relation_of(df), df.columns)


class Walk:
    """A walk over the relations of a query.

    Args:
        trusted: names of the user's functions that the user guarantees to be deterministic.
        anew: what plans the query again for each attempt, such as a stream; None if only tasks are retried.
        setting: reads settings of the session.
        schema: requests the schema of a relation from the server.
    """

    def __init__(
        self,
        trusted: frozenset[str],
        anew: str | None,
        setting: Setting,
        schema: Callable[[Any], StructType],
    ) -> None:
        self._trusted, self._anew, self._setting, self._schema = trusted, anew, setting, schema
        sensitive = (setting("spark.sql.caseSensitive") or "").lower() == "true"
        self._fold: Callable[[str], str] = str if sensitive else str.lower
        self._functions: set[str] = set()
        self._again: str | None = None
        # by number in the plan
        self._relations: dict[int, _Rows] = {}

    def of(self, plan: Any, names: Iterable[str]) -> Determinism:
        """Return what is known about a plan with these column names."""
        try:
            found = self._relation(plan)
        except (PySparkException, RecursionError):
            found = _unknown("a query plan that keysplit cannot read")
        missing = found.rows or _NOT_FOUND
        columns = [found.columns.get(self._fold(name), missing) for name in names]
        return Determinism(found.rows, columns, found.order, frozenset(self._functions), self._again)

    def _relation(self, relation: Any) -> _Rows:
        kind = relation.WhichOneof("rel_type") or "none"
        body: Any = getattr(relation, kind, None)
        if kind in _LOCAL:
            found = self._source(relation, None)
        elif kind == "read":
            found = self._source(relation, self._why_of_files(body))
        elif kind in _PASSING:
            found = self._relation(body.input)
        else:
            method = getattr(self, f"_{kind}", None)
            known = _unknown(f"the relation {kind}, which keysplit does not know on Spark Connect")
            found = known if method is None else method(body)
        self._relations[relation.common.plan_id] = found
        return found

    def _source(self, relation: Any, why: str | None) -> _Rows:
        if why is not None:
            return _unknown(why)
        fields = self._schema(relation).fields
        listed = [
            (self._fold(each.name), _COLLATED if " collate " in each.dataType.simpleString() else None)
            for each in fields
        ]
        return replace(_listing(listed), order=self._anew)

    def _why_of_files(self, body: Any) -> str | None:
        # a batch may read up to the end of a topic, which changes
        formats = _FORMATS | {"kafka"} if body.is_streaming else _FORMATS
        if body.WhichOneof("read_type") != "data_source" or body.data_source.format.lower() not in formats:
            return "a table or view, of which Spark Connect's client does not know how it is made"
        source = body.data_source
        options = {name.lower(): value for name, value in source.options.items()}
        if source.format.lower() in reading.TEXT:
            schema = source.schema.lower()
            again = reading.malformed(options, self._setting, lambda name: name in schema if schema else None)
            self._again = self._again or again
        if self._anew and not body.is_streaming:
            return f"a table joined to the stream, which may have changed downstream of {self._anew}"
        return reading.left_out(options, self._setting) or reading.lost(options)

    def _project(self, body: Any) -> _Rows:
        child = seen = self._relation(body.input)
        listed: list[tuple[str, str | None]] = []
        more = False
        for each in body.expressions:
            name, star = self._name(each), self._star(each, child)
            if star is not None:
                listed += star.columns.items()
                listed += ((name, star.columns[name]) for name in star.twice)
                more = more or star.more
            elif name is None:  # Spark may call it in any way
                more = True
            else:
                why = self._value(each, seen)
                listed.append((name, why))
                seen = _with_alias(seen, name, why)
        made = _listing(listed)
        rows = child.rows or _first(self._rows_of(each, seen) for each in body.expressions)
        return replace(child, columns=made.columns, twice=made.twice, more=more, rows=rows)

    def _star(self, expression: Any, child: _Rows) -> _Rows | None:
        """Return the columns of a star; None if the client cannot resolve the star."""
        if expression.WhichOneof("expr_type") != "unresolved_star":
            return None
        star = expression.unresolved_star
        if star.unparsed_target:  # it may be a struct's
            return None
        if not star.HasField("plan_id"):
            return child
        of = self._relations.get(star.plan_id, _unknown(_NOT_FOUND))
        columns = {name: _worst(why, child.columns.get(name, _NOT_FOUND)) for name, why in of.columns.items()}
        return replace(of, columns=columns)

    def _with_columns(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        if any(len(each.name) != 1 for each in body.aliases):
            return _unknown("a column with several names")
        new, seen = {}, child
        for each in body.aliases:
            name = self._fold(each.name[0])
            new[name] = self._value(each.expr, seen)
            seen = _with_alias(seen, name, new[name])
        rows = child.rows or _first(self._rows_of(each.expr, seen) for each in body.aliases)
        return replace(child, columns={**child.columns, **new}, rows=rows)

    def _with_columns_renamed(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        renames = [(each.col_name, each.new_col_name) for each in body.renames]
        renames += body.rename_columns_map.items()
        new = {self._fold(old): self._fold(name) for old, name in renames}
        if len(new) != len(renames) or not new.keys().isdisjoint(new.values()):
            return _unknown("columns that are renamed more than once")  # in unknown order
        listed = [(new.get(name, name), why) for name, why in child.columns.items()]
        made = _listing([*listed, *((new.get(name, name), child.columns[name]) for name in child.twice)])
        return replace(child, columns=made.columns, twice=made.twice)

    def _to_df(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        named = _listing((self._fold(name), child.any()) for name in body.column_names)
        return replace(named, rows=child.rows, order=child.order)

    def _drop(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        gone = set(map(self._fold, body.column_names))
        for each in body.columns:
            name = self._name(each)
            if name is None:
                return replace(child, columns={}, twice=frozenset(), more=True)
            # if both sides have the name, one column remains after a drop
            if not (name in child.twice and each.unresolved_attribute.HasField("plan_id")):
                gone.add(name)
        columns = {name: why for name, why in child.columns.items() if name not in gone}
        return replace(child, columns=columns, twice=frozenset())

    def _filter(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        return replace(child, rows=child.rows or self._value(body.condition, child))

    def _drop_na(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        return replace(child, rows=child.rows or child.any())

    def _join(self, body: Any) -> _Rows:
        left, right = self._relation(body.left), self._relation(body.right)
        semi = body.join_type in (body.JOIN_TYPE_LEFT_SEMI, body.JOIN_TYPE_LEFT_ANTI)
        both = _listing([*left.columns.items(), *right.columns.items()])
        more, rows = left.more or right.more, left.rows or right.rows
        using = set(map(self._fold, body.using_columns))
        if body.HasField("join_condition"):
            rows = rows or self._value(body.join_condition, replace(both, order="a join"))
        # a side that does not list a key may have another column with its name
        keys = {
            name: _worst(left.columns.get(name, _NOT_FOUND), right.columns.get(name, _NOT_FOUND))
            for name in using
        }
        rows = rows or _first(keys.values())
        if semi:
            return replace(left, rows=rows, order="a join")
        twice = (both.twice - using) | left.twice | right.twice
        return _Rows({**both.columns, **keys}, rows, "a join", more, twice)

    def _set_op(self, body: Any) -> _Rows:
        if body.set_op_type != body.SET_OP_TYPE_UNION or not body.is_all:
            return _unknown("a set operation")
        left, right = self._relation(body.left_input), self._relation(body.right_input)
        why = right.any()  # columns are matched by position
        columns = {name: _worst(own, why) for name, own in left.columns.items()}
        rows, order = left.rows or right.rows, left.order or right.order
        return _Rows(columns, rows, order, left.more or body.by_name, left.twice)

    def _sort(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        # Values determine the partition of a row, and a number may be a column's.
        why = self._all((each.child for each in body.order), child)
        if any(each.child.WhichOneof("expr_type") == "literal" for each in body.order):
            why = why or "the number of a column"
        return replace(child, order="a sort", rows=child.rows or why)

    def _hint(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        return child if body.name.lower() in _JOIN_HINTS else _dealt(child)

    def _limit(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        why = "a limit, an offset or a sample"
        return replace(child, rows=child.rows or why, order=child.order or why)

    _offset = _tail = _sample = _limit

    def _repartition(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        return _dealt(child) if body.shuffle else child

    def _repartition_by_expression(self, body: Any) -> _Rows:
        child = self._relation(body.input)
        why = self._all(body.partition_exprs, child)
        return replace(child, order="a shuffle (repartition)", rows=child.rows or why)

    def _name(self, expression: Any) -> str | None:
        """Return the name of an expression's column; None if the server chooses the name."""
        kind = expression.WhichOneof("expr_type")
        if kind == "alias" and len(expression.alias.name) == 1:
            return self._fold(expression.alias.name[0])
        if kind == "unresolved_attribute":
            # a struct's field has its own name
            return next(reversed(self._parts(expression.unresolved_attribute)), None)
        return None

    def _parts(self, attribute: Any) -> list[str]:
        return list(map(self._fold, parts_of(attribute.unparsed_identifier)))

    def _column(self, attribute: Any, child: _Rows) -> str | None:
        parts = self._parts(attribute)
        if len(parts) != 1:  # a field, or a column with the alias of its rows: only the server knows
            return _NOT_FOUND
        why = child.columns.get(parts[0], _NOT_FOUND)
        if not attribute.HasField("plan_id"):
            return why
        # that relation's column, as the rows may have another one with this name
        of = self._relations.get(attribute.plan_id)
        return _worst(why, _NOT_FOUND if of is None else of.columns.get(parts[0], _NOT_FOUND))

    def _value(self, expression: Any, child: _Rows) -> str | None:
        """Return why an expression's value may differ when a task is retried; None if it counts."""
        kind = expression.WhichOneof("expr_type")
        body: Any = getattr(expression, kind) if kind else None
        if kind == "literal":
            return None
        if kind == "unresolved_attribute":
            return self._column(body, child)
        if kind == "common_inline_user_defined_function":
            return _worst(self._function(body), self._all(body.arguments, child))
        if kind == "unresolved_function":
            return self._called(body, child)
        if kind == "cast" and (self._anew or "collat" in str(body).lower()):
            return "a cast, of which only the server knows what it reads"
        if kind in _MADE_OF:
            return self._all((getattr(body, each) for each in _MADE_OF[kind]), child)
        if kind == "expression_string":
            return "a text of SQL, which only the server reads"
        return "a window" if kind == "window" else f"the expression {kind}, which keysplit does not know"

    def _called(self, body: Any, child: _Rows) -> str | None:
        name = body.function_name.lower()
        if body.is_user_defined_function:
            return _worst(self._function(body), self._all(body.arguments, child))
        if name in _BY_CHANCE:
            return ByChance(f"{name} downstream of {child.order}") if child.order else name
        if name not in FUNCTIONS | _GENERATORS or (self._anew and name in _READING_TIMES):
            return f"the function {name}, which keysplit does not know"
        return self._all(body.arguments, child)

    def _function(self, body: Any) -> str | None:
        """Return why the results of a user's function may differ; None if the function is trusted."""
        name = body.function_name
        self._functions.add(name)
        if name in self._trusted:
            return None
        why = f"the function {name!r}, which is not trusted"
        return why if getattr(body, "deterministic", True) else ByChance(why)

    def _all(self, expressions: Iterable[Any], child: _Rows) -> str | None:
        return _first([self._value(each, child) for each in expressions])

    def _rows_of(self, expression: Any, child: _Rows) -> str | None:
        """Return why projecting an expression, which may return several rows, may give different rows."""
        why = self._value(expression, child)
        kind = expression.WhichOneof("expr_type")
        if why is None or kind in ("unresolved_attribute", "unresolved_star"):
            return None
        body: Any = getattr(expression, kind)
        if kind == "window":
            return self._all(body.partition_spec, child)
        if kind in _MADE_OF:
            return _first(self._rows_of(getattr(body, each), child) for each in _MADE_OF[kind])
        is_function = kind == "common_inline_user_defined_function" or (
            kind == "unresolved_function"
            and (body.is_user_defined_function or body.function_name.lower() in FUNCTIONS | _BY_CHANCE)
        )
        return _first(self._rows_of(each, child) for each in body.arguments) if is_function else why


def _listing(listed: Iterable[tuple[str, str | None]]) -> _Rows:
    """Return rows with these column names; a duplicate name counts if both columns do."""
    columns: dict[str, str | None] = {}
    twice = set()
    for name, why in listed:
        if name in columns:
            twice.add(name)
        columns[name] = _worst(columns.get(name), why)
    return _Rows(columns, twice=frozenset(twice))


def _with_alias(seen: _Rows, name: str, why: str | None) -> _Rows:
    """Return the rows as seen by expressions that follow the definition of a column in the same operator."""
    if why is None or name not in seen.columns:
        return seen
    return replace(seen, columns={**seen.columns, name: why})


def _worst(*reasons: str | None) -> str | None:
    return next(filter(None, reasons), None)


def _first(reasons: Iterable[str | None]) -> str | None:
    return next(filter(None, reasons), None)


def _dealt(child: _Rows) -> _Rows:
    """Return rows distributed to partitions in turn, which Spark does in the order of their values."""
    why = child.any()
    rows = child.rows or (why and f"a repartition without columns of rows with {why}")
    return replace(child, order="a shuffle (repartition)", rows=rows)


def _unknown(why: str) -> _Rows:
    """Return rows about which nothing is known."""
    return _Rows({}, why, why, True)
