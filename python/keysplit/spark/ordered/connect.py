"""The windows in columns, read from the expressions that the client of Spark Connect sends.

Only the server can resolve these expressions, so windows are extracted only from expressions of known kinds.
One request then checks that the server can analyse the rewritten functions, and that the types of the results
stay the same.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keysplit.diagnosis.windows import KNOWN
from keysplit.spark import versions
from keysplit.spark.identity.relations import FUNCTIONS
from keysplit.spark.jvm import arrow, column_of_sent, relation_of, schema_of
from keysplit.spark.names import in_sql, parts_of
from keysplit.spark.ordered.calls import Call, Frame, Order, Spec, Unsplit, Windows

_OTHER_NAMES = {"first_value": "first", "last_value": "last"}
# Which argument is a number of rows, and which one says whether nulls are passed over.
_OFFSETS = {"ntile": 0, "nth_value": 1, "lag": 1, "lead": 1}
_NULLS = {"first": 1, "last": 1, "nth_value": 2}
# Literals that are written in SQL, as some arguments may not be columns; others become columns.
_LITERALS = {"boolean": "{}", "integer": "{}", "long": "{}L", "double": "CAST('{}' AS DOUBLE)"}
# Expressions of one row that are made of others, and the fields of these.
_MADE_OF = {"alias": ("expr",), "cast": ("expr",), "unresolved_extract_value": ("child", "extraction")}
# Types whose values come to the client and back as they are.
_KEPT = (
    *(T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType),
    *(T.DecimalType, T.BinaryType, T.DateType, T.TimestampType, T.TimestampNTZType),
)
# These only without a collation or other units.
_KEPT_AS_USUAL = (T.StringType(), T.DayTimeIntervalType())


def read(df: DataFrame, plain: DataFrame) -> Windows:
    """Read the windows of `plain`, which is `df.select("*", *columns)`; errors as in `windows_of`."""
    if not versions.takes_arrow_tables():
        raise Unsplit("the client of Spark Connect cannot send rows of all types before Spark 4.0")
    project = relation_of(plain).project
    fields = schema_of(plain).fields
    sent = list(project.expressions)[1:]
    if not sent:  # the client sends queries within a query first
        raise Unsplit("df or a column has a subquery, which keysplit does not read on Spark Connect")
    names, new = [field.name for field in fields[: -len(sent)]], fields[-len(sent) :]
    reader = _Reader(names, [field.name for field in new], project.input.common.plan_id)
    # the server chose the names of columns without an alias
    columns = [
        column_of_sent(reader.rest(each)).alias(field.name, metadata=field.metadata or None)
        for each, field in zip(sent, new, strict=True)
    ]
    if not reader.calls:
        raise Unsplit("columns have no window function over the rows of df")
    base, results = reader.base(df), reader.results

    def finish(rows: DataFrame) -> DataFrame:
        own = (F.col(in_sql(each)) for each in reader.names)
        named = (
            column if each == name else column.alias(name)
            for column, each, name in zip(own, reader.names, names, strict=True)
        )
        return rows.select(*named, *columns)

    given = (F.expr(call.plain).alias(name) for call, name in zip(reader.calls, results, strict=True))
    try:
        typed = schema_of(base.select("*", *given).select("*", *columns)).fields
    except AnalysisException as error:
        raise Unsplit("Spark cannot analyse the window functions without the other columns") from error
    if [each.dataType.simpleString() for each in typed[-len(new) :]] != [
        each.dataType.simpleString() for each in new
    ]:
        raise Unsplit("columns have other types if their window functions are computed separately")
    types = {in_sql(each.name): each.dataType for each in typed[: -len(new)]}
    calls = [
        replace(
            call, type=types[in_sql(name)], argument_types=tuple(types.get(each) for each in call.arguments)
        )
        for call, name in zip(reader.calls, results, strict=True)
    ]
    if any(" collate " in types[in_sql(key)].simpleString() for call in calls for key in call.spec.partition):
        raise Unsplit("a key is a collated string, which keysplit cannot hash on Spark Connect")
    return Windows(base, reader.columns, calls, results, finish)


def frozen(df: DataFrame) -> DataFrame:
    """Return the result of a query as a local DataFrame, like `parse.frozen`."""
    schema = schema_of(df)
    for each in schema.fields:
        if not isinstance(each.dataType, _KEPT) and each.dataType not in _KEPT_AS_USUAL:
            kind = each.dataType.simpleString()
            raise Unsplit(f"values of type {kind} cannot be kept exactly on Spark Connect")
    spark: Any = df.sparkSession
    kept: DataFrame = spark.createDataFrame(arrow(df), schema)
    return kept


class _Reader:
    """Extracts windows from expressions.

    Attributes:
        names: the names in the base of the columns of `df`; new ones if those in `df` are empty or equal.
        columns: the same for columns whose names are unique, by their names in `df`.
        calls: the functions, without types.
        results: the names of their results.
    """

    def __init__(self, names: Sequence[str], new: Sequence[str], plan_id: int) -> None:
        self._plan_id = plan_id
        self._prefix = "w"
        while any(name.lower().startswith(self._prefix) for name in (*names, *new)):
            self._prefix += "_"
        self._folded = Counter(name.lower() for name in names)
        self._is_renamed = "" in names or len(self._folded) < len(names)
        self.names = [f"{self._prefix}{at}" for at in range(len(names))] if self._is_renamed else names
        pairs = zip(names, self.names, strict=True)
        self.columns = {name: own for name, own in pairs if name and self._folded[name.lower()] == 1}
        self._arguments: dict[bytes, tuple[str, Any]] = {}
        self._results: dict[bytes, str] = {}
        self.calls: list[Call] = []

    @property
    def results(self) -> list[str]:
        return list(self._results.values())

    def base(self, df: DataFrame) -> DataFrame:
        """Return the rows of `df`, with a column for each argument, key and order that is an expression."""
        if not self._arguments and not self._is_renamed:
            return df
        given = [column_of_sent(each).alias(name) for name, each in self._arguments.values()]
        rows = df.select("*", *given)
        names = [name for name, _ in self._arguments.values()]
        return rows.toDF(*self.names, *names) if self._is_renamed else rows

    def rest(self, expression: Any) -> Any:
        """Return an expression in which its windows are replaced by columns with their results."""
        kind, body = _opened(expression)
        if kind == "literal":
            return expression
        if kind == "window":
            return _column_of(expression, self._result(expression))
        if kind == "unresolved_attribute":
            parts = parts_of(body.unparsed_identifier)
            if len(parts) == 1 and not body.HasField("plan_id") and parts[0].lower() not in self._folded:
                return expression  # another one of the new columns
            return _column_of(expression, self._column(expression))
        found = type(expression)()
        found.CopyFrom(expression)
        if kind in _MADE_OF and not (kind == "alias" and len(body.name) != 1):
            for each in _MADE_OF[kind]:
                getattr(getattr(found, kind), each).CopyFrom(self.rest(getattr(body, each)))
            return found
        name = body.function_name.lower() if kind == "unresolved_function" else ""
        if name not in FUNCTIONS or body.is_user_defined_function or body.is_distinct:
            raise _unknown(expression)
        del found.unresolved_function.arguments[:]
        found.unresolved_function.arguments.extend(map(self.rest, body.arguments))
        return found

    def _result(self, expression: Any) -> str:
        """Return the name of the result of a window."""
        found = self._results.get(_identity(expression))
        if found is None:
            self.calls.append(self._call(expression.window))
            found = f"{self._prefix}result{len(self.calls)}"
            self._results[_identity(expression)] = found
        return found

    def _column(self, expression: Any) -> str:
        """Return the name of an expression's column in the base; expressions get a column of their own."""
        kind, body = _opened(expression)
        if kind == "unresolved_attribute" and not body.is_metadata_column:
            parts = parts_of(body.unparsed_identifier)
            is_own = not body.HasField("plan_id") or body.plan_id == self._plan_id
            if len(parts) == 1 and is_own and parts[0] in self.columns:
                return self.columns[parts[0]]
        name = f"{self._prefix}argument{len(self._arguments)}"
        return self._arguments.setdefault(_identity(expression), (name, expression))[0]

    def _call(self, window: Any) -> Call:
        kind, function = _opened(window.window_function)
        if kind not in ("unresolved_function", "common_inline_user_defined_function"):
            raise _unknown(window.window_function)
        name = function.function_name.lower()
        name = _OTHER_NAMES.get(name, name)
        is_known = kind == "unresolved_function" and name in KNOWN
        if not is_known or function.is_user_defined_function or function.is_distinct:
            raise Unsplit(f"kss.window cannot split {name}: it is a UDF, has DISTINCT or is not supported")
        given = list(function.arguments)
        ignores_nulls = len(given) > _NULLS.get(name, len(given)) and _value(given.pop(), "boolean", name)
        arguments = tuple(self._argument(each, name) for each in given)
        return Call(
            function=name,
            arguments=arguments,
            argument_types=(),
            spec=Spec(
                tuple(map(self._column, window.partition_spec)), tuple(map(self._order, window.order_spec))
            ),
            frame=_frame(window, name),
            type=T.NullType(),
            offset=_value(given[_OFFSETS[name]], "integer", name) if name in _OFFSETS else 0,
            ignores_nulls=ignores_nulls,
        )

    def _argument(self, expression: Any, name: str) -> str:
        kind, body = _opened(expression)
        if name == "count" and kind == "unresolved_star" and not body.ListFields():
            return "1"
        if kind == "literal" and (form := _LITERALS.get(body.WhichOneof("literal_type"))):
            return form.format(str(getattr(body, body.WhichOneof("literal_type"))).lower())
        return in_sql(self._column(expression))

    def _order(self, order: Any) -> Order:
        return Order(
            self._column(order.child),
            ascending=order.direction == order.SORT_DIRECTION_ASCENDING,
            nulls_first=order.null_ordering == order.SORT_NULLS_FIRST,
        )


def _frame(window: Any, name: str) -> Frame:
    frame = window.frame_spec
    if not window.HasField("frame_spec"):
        return Frame(not window.order_spec, None, 0 if window.order_spec else None)
    rows = frame.frame_type == frame.FRAME_TYPE_ROW
    return Frame(rows, _bound(frame.lower, rows, name), _bound(frame.upper, rows, name))


def _bound(bound: Any, rows: bool, name: str) -> int | None:
    kind = bound.WhichOneof("boundary")
    if kind == "value" and not rows:
        raise Unsplit(f"the frame of {name} is a RANGE with an offset")
    return _value(bound.value, "integer", name) if kind == "value" else None if bound.unbounded else 0


def _value(expression: Any, kind: str, name: str) -> Any:
    """Return the value of a literal, which must be of this kind."""
    literal = expression.literal
    if literal.WhichOneof("literal_type") != kind:
        raise Unsplit(f"an argument of {name} must be a literal of type {kind}")
    return getattr(literal, kind)


def _opened(expression: Any) -> tuple[str, Any]:
    """Return the kind of an expression, and what it is made of."""
    kind = expression.WhichOneof("expr_type") or "of no kind"
    return kind, getattr(expression, kind, None)


def _column_of(expression: Any, name: str) -> Any:
    """Return the column with a name, as an expression of the same class."""
    found = type(expression)()
    found.unresolved_attribute.unparsed_identifier = in_sql(name)
    return found


def _unknown(expression: Any) -> Unsplit:
    kind, body = _opened(expression)
    if kind == "expression_string":
        return Unsplit("a column has an SQL string (F.expr), which only the Spark Connect server can parse")
    what = f"function {body.function_name}" if kind == "unresolved_function" else f"expression {kind}"
    return Unsplit(f"a column uses the {what}, which keysplit does not support on Spark Connect")


def _identity(expression: Any) -> bytes:
    """Return the same bytes for equal expressions, wherever the user wrote them."""
    found = type(expression)()
    found.CopyFrom(expression)
    _without_origin(found)
    text: bytes = found.SerializeToString(deterministic=True)
    return text


def _without_origin(message: Any) -> None:
    if "common" in message.DESCRIPTOR.fields_by_name:
        message.ClearField("common")
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if hasattr(value, "__len__") else (value,):
                _without_origin(each)
