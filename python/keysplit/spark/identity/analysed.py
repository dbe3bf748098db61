"""Find the deterministic columns of a classic query by one walk over its analysed plan.

A column counts only if all its sources, operators and functions are listed here. If a filter, join or sort
uses a column that does not count, all rows are uncertain. Reasons are noun phrases.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from keysplit.spark.identity.known import ByChance, Determinism, Node, names_in, tree_of
from keysplit.spark.identity.sources import Sources
from keysplit.spark.jvm import PACKAGE, JvmError, plan_of
from keysplit.spark.tasks import ASKING

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical."
_HIVE = "org.apache.spark.sql.catalyst.catalog.HiveTableRelation"


FUNCTIONS = names_in(
    """
    Abs Acos Add AddMonths Alias And ArrayAggregate ArrayAppend ArrayCompact ArrayContains ArrayDistinct
    ArrayExcept ArrayExists ArrayFilter ArrayForAll ArrayInsert ArrayIntersect ArrayJoin ArrayMax ArrayMin
    ArrayPosition ArrayPrepend ArrayRemove ArrayRepeat ArraySize ArraySort ArraysOverlap ArraysZip
    ArrayTransform ArrayUnion Ascii Asin Atan Atan2 AtLeastNNonNulls Base64 Between Bin BitLength BitwiseAnd
    BitwiseNot BitwiseOr BitwiseXor BRound CaseWhen Cast Cbrt Ceil CheckOverflow Chr Coalesce Collate
    CommonExpressionDef CommonExpressionRef Concat ConcatWs Contains Conv Cos Crc32 CreateArray CreateMap
    CreateNamedStruct CsvToStructs CurrentBatchTimestamp CurrentCatalog CurrentDatabase CurrentDate
    CurrentRow$ CurrentTimestamp CurrentTimeZone CurrentUser DateAdd DateAddInterval DateAddYMInterval
    DateDiff DateFormatClass DateFromUnixDate DateSub DatetimeSub DayName DayOfMonth DayOfWeek DayOfYear
    Decode DirectShufflePartitionID Divide ElementAt Elt Encode EndsWith EqualNull EqualNullSafe EqualTo Exp
    Explode Extract FindInSet Flatten Floor FormatNumber FormatString FromUnixTime FromUTCTimestamp
    GeneratorOuter Get GetArrayItem GetArrayStructFields GetJsonObject GetMapValue GetStructField
    GetTimestamp GreaterThan GreaterThanOrEqual Greatest Hex Hour If ILike In InitCap Inline InSet InSubquery
    IntegralDivide IsNaN IsNotNull IsNull JsonToStructs JsonTuple KnownFloatingPointNormalized KnownNotNull
    KnownNullable LambdaFunction LastDay Least Left Length LessThan LessThanOrEqual Levenshtein Like LikeAll
    LikeAny Literal LocalTimestamp Log Log10 Log2 Lower MakeDate MakeDTInterval MakeInterval MakeTimestamp
    MakeYMInterval MapConcat MapContainsKey MapEntries MapFilter MapFromArrays MapFromEntries MapKeys
    MapValues MapZipWith Mask Md5 MicrosToTimestamp MillisToTimestamp Minute Month MonthsBetween Multiply
    Murmur3Hash NamedLambdaVariable NaNvl NextDay Not NullIf NullIfResult NullIfZero Nvl Nvl2 OctetLength Or
    OuterReference Overlay ParseJson ParseToDate ParseToTimestamp ParseUrl Pi Pmod PosExplode Pow
    PreciseTimestampConversion PromotePrecision Quarter RegExpCount RegExpExtract RegExpExtractAll
    RegExpReplace Remainder ResolvedCollation Reverse Right Rint RLike Round Second SecondsToTimestamp
    Sequence Sha1 Sha2 ShiftLeft ShiftRight ShiftRightUnsigned Signum Sin Size Slice SortArray SortOrder
    SoundEx SpecifiedWindowFrame SplitPart SQLScalarFunction Sqrt Stack StartsWith StringInstr StringLocate
    StringLPad StringRepeat StringReplace StringRPad StringSpace StringSplit StringSplitSQL StringToMap
    StringTranslate StringTrim StringTrimBoth StringTrimLeft StringTrimRight StructsToCsv StructsToJson
    Substring SubstringIndex Subtract SubtractDates SubtractTimestamps Tan TimeAdd TimestampAdd
    TimestampAddInterval TimestampAddYMInterval TimestampDiff ToCharacter ToDegrees ToNumber ToRadians
    ToUnixTimestamp ToUTCTimestamp TransformKeys TransformValues TruncDate TruncTimestamp TryAdd TryDivide
    TypedNullLiteral
    TryElementAt TryEval TryMultiply TrySubtract TryToNumber TypeOf UnaryMinus UnaryPositive UnBase64
    UnboundedFollowing$ UnboundedPreceding$ Unhex UnixDate UnixMicros UnixMillis UnixSeconds UnixTimestamp
    UnscaledValue UpCast UpdateFields Upper UrlDecode UrlEncode VariableReference VariantGet WeekDay
    WeekOfYear WindowSpecDefinition With WithField XxHash64 Year ZeroIfNull ZipWith
    """
)
"""Catalyst's expressions that depend only on their inputs, or on what stays the same while a job runs."""

BY_CHANCE = names_in(
    """
    InputFileBlockLength InputFileBlockStart InputFileName MonotonicallyIncreasingID Rand Randn RandStr
    Shuffle SparkPartitionID Uniform Uuid
    """
)
"""Expressions that Catalyst itself marks as nondeterministic: they depend on a row's position."""

# Window functions with equal results for equal rows.
_RANKS = names_in("CumeDist DenseRank PercentRank Rank")
# Times from the driver's clock, which each attempt at a micro-batch reads again.
_BY_CLOCK = names_in("CurrentTime Now")
_READING_TIMES = names_in("Cast ParseToDate ParseToTimestamp")
_TIMES = names_in("CurrentBatchTimestamp CurrentDate CurrentTimestamp LocalTimestamp")
# The beginning of a text with a date: a year, alone or with a month.
_DATE = re.compile(r"\s*[+-]?\d{4,7}(-|\s*$)")
_SUBQUERIES = names_in("Exists ListQuery ScalarSubquery")
_UDFS = names_in("PythonUDAF PythonUDF ScalaAggregator ScalaUDAF ScalaUDF")
# Fields with the name of a user's function.
_UDF_NAMES = ("name", "udfName", "aggregatorName", "udafName")

_PASSING = names_in(
    """
    CollectMetrics EventTimeWatermark ResolvedHint Subquery SubqueryAlias UpdateEventTimeWatermarkColumn
    View
    """
)
_OVER_ROWS = names_in(
    """
    FlatMapCoGroupsInArrow FlatMapCoGroupsInPandas FlatMapGroupsInArrow FlatMapGroupsInPandas MapInArrow
    MapInPandas PythonMapInArrow
    """
)
_JOINS = names_in("Inner Cross LeftOuter RightOuter FullOuter LeftSemi LeftAnti")
# A micro-batch with only these operators depends on no state and has no shuffle.
_STATELESS = _PASSING | names_in(
    "Expand Filter Generate MapInArrow MapInPandas Project PythonMapInArrow Union"
)
# Leaves that a retried micro-batch reads unchanged: the stream itself, and local rows.
_FIXED = ("Streaming", "LocalRelation", "LogicalRDD", "Range")
# Types in which equal values are identical, and decimals.
_EXACT = names_in("binary boolean byte date integer long short string timestamp timestamp_ntz")

_Nodes = list[dict[str, Any]]


def determinism(df: DataFrame, trusted: frozenset[str], anew: str | None) -> Determinism:
    """Return which rows and columns of a classic DataFrame are deterministic; arguments as in `Walk`."""
    plan = plan_of(df)
    try:
        walk = Walk(Sources(df.sparkSession, plan), trusted, anew)
        return walk.of(str(plan.toJSON()), len(df.columns))
    except JvmError:  # a very deep expression overflows Spark's stack
        return unreadable()


@dataclass(frozen=True)
class _Rows:
    """What is known about the rows that an operator returns."""

    output: list[int]
    """The ids of the operator's columns, in order."""
    columns: Mapping[int, str | None]
    """For each column why its values may differ; None if it counts."""
    rows: str | None = None
    """Why the rows may differ, whatever their values."""
    order: str | None = None
    """Why the rows may come in a different order."""

    def any(self) -> str | None:
        """Return why any column of a row may differ."""
        return _first(self.columns[each] for each in self.output)


class Walk:
    """A walk over an analysed plan.

    Args:
        leaves: the leaves of the plan.
        trusted: names of the user's functions that the user guarantees to be deterministic.
        anew: what plans the query again for each attempt, such as a stream; None if only tasks are retried.
    """

    def __init__(self, leaves: Sources, trusted: frozenset[str], anew: str | None = None) -> None:
        self._leaves, self._trusted, self._anew = leaves, trusted, anew
        self._functions: set[str] = set()
        self._again: str | None = None
        self._ctes: dict[int, _Rows] = {}
        self._collated = self._has_subqueries = False

    def of(self, text: str, width: int) -> Determinism:
        """Return what is known about a plan with this many columns, given as Spark's JSON."""
        # The order of rows decides which of several equal collated strings represents a group.
        self._collated = "collat" in text.lower()
        self._has_subqueries = any(f'.{each}"' in text for each in _SUBQUERIES)
        try:
            found = self._plan(tree_of(json.loads(text)), {})
        except (LookupError, TypeError, ValueError, RecursionError):
            return unreadable(self._functions)
        columns = [found.columns[each] for each in found.output]
        if len(columns) != width:  # an unknown operator may return more rows
            columns = [found.rows or "a column that keysplit cannot find"] * width
        return Determinism(found.rows, columns, found.order, frozenset(self._functions), self._again)

    def _plan(self, root: Node, outer: Mapping[int, str | None]) -> _Rows:
        done: list[_Rows] = []
        for node in _after_children(root):
            first = len(done) - len(node.children)
            below = done[first:]
            del done[first:]
            done.append(self._operator(node, below, outer) if below else self._leaf(node))
        return done[0]

    def _operator(self, node: Node, below: list[_Rows], outer: Mapping[int, str | None]) -> _Rows:
        name = node.name if node.kind == _LOGICAL + node.name else ""
        merged = {each: why for child in below for each, why in child.columns.items()}
        seen = replace(below[0], columns={**outer, **merged}, rows=_first(each.rows for each in below))
        if outer or (self._has_subqueries and _has_subquery(node.fields)):
            # Spark may turn them into joins, upstream of all expressions of the operator or downstream of it.
            below = [replace(each, order=each.order or "a subquery") for each in below]
            found = self._made(node, name, below, seen)
            return replace(found, order=found.order or "a subquery")
        return self._made(node, name, below, seen)

    def _made(self, node: Node, name: str, below: list[_Rows], seen: _Rows) -> _Rows:
        if name in _PASSING:
            return below[0]
        if name in _OVER_ROWS:
            why = self._why(node.fields["functionExpr"], seen)
            why = why or _first(each for child in below for each in (child.rows, child.any()))
            return _of_output(_ids(node.fields["output"]), why, "a function over rows")
        method = getattr(self, f"_{name}", None) if name else None
        if method is None:
            why = f"the operator {node.name}, which keysplit does not know"
            known = node.fields.get("output")
            return _of_output(_ids(known) if known else [at for each in below for at in each.output], why)
        found: _Rows = method(node.fields, below, seen)
        return found

    def _leaf(self, node: Node) -> _Rows:
        if node.kind == _LOGICAL + "OneRowRelation":
            return _Rows([], {}, order=self._anew)
        if node.kind == _LOGICAL + "CTERelationRef":
            return self._cte(node.fields)
        parts = ("dataCols", "partitionCols") if node.kind == _HIVE else ("output",)
        attributes = [each for part in parts for each in node.fields[part]]
        output = _ids(attributes)
        behind = self._leaves.behind(node, output)
        if behind is not None:
            return self._micro_batch(*behind, output)
        why = self._leaves.of(node, output)
        self._again = self._again or self._leaves.again(node, output)
        is_fixed = node.name.startswith(_FIXED) and not self._leaves.is_checkpoint(node, output)
        if self._anew and why is None and not is_fixed:
            why = f"a table joined to the stream, which may have changed downstream of {self._anew}"
        columns = dict.fromkeys(output, why)
        if self._anew and why is None:  # Spark may cut files into other blocks
            blocks = [each[0]["exprId"]["id"] for each in attributes if _is_of_blocks(each[0])]
            columns |= dict.fromkeys(blocks, f"a block of a file downstream of {self._anew}")
        return _Rows(output, columns, why, why or self._anew)

    def _micro_batch(self, text: str, leaves: Sources, output: list[int]) -> _Rows:
        """Return what is known about the rows of `foreachBatch`, which Spark passes as an RDD."""
        root = tree_of(json.loads(text))
        root = root.children[0] if root.name == "WriteToMicroBatchDataSourceV1" else root
        for each in _after_children(root):
            if each.children and each.name not in _STATELESS:
                return _of_output(output, f"the operator {each.name} in the stream")
        if "collat" in text.lower():
            return _of_output(output, "collated strings in the stream")
        walk = Walk(leaves, self._trusted)
        walk._functions = self._functions
        found = walk._plan(root, {})
        return _renamed(found, output)

    def _cte(self, fields: Mapping[str, Any]) -> _Rows:
        output, found = _ids(fields["output"]), self._ctes.get(fields["cteId"])
        if found is None or len(found.output) != len(output) or fields.get("recursive"):
            return _of_output(output, "a recursive query")
        # Spark computes a nondeterministic one once, and deals its rows out.
        why = None if self._leaves.is_deterministic else found.any()
        rows = found.rows or (why and f"a common table expression of rows with {why}")
        return replace(_renamed(found, output), rows=rows, order="a common table expression")

    def _WithCTE(self, fields: Mapping[str, Any], below: list[_Rows], seen: _Rows) -> _Rows:
        plan: int = fields["plan"]
        return below[plan]

    def _CTERelationDef(self, fields: Mapping[str, Any], below: list[_Rows], seen: _Rows) -> _Rows:
        self._ctes[fields["id"]] = below[0]
        return below[0]

    def _Project(self, fields: Mapping[str, Any], below: list[_Rows], seen: _Rows) -> _Rows:
        return self._named(fields["projectList"], below[0], seen)

    def _Filter(self, fields: Mapping[str, Any], below: list[_Rows], seen: _Rows) -> _Rows:
        return replace(below[0], rows=below[0].rows or self._why(fields["condition"], seen))

    def _Join(self, fields: Mapping[str, Any], below: list[_Rows], seen: _Rows) -> _Rows:
        left, right = below
        kind = fields["joinType"]
        kind = str(kind.get("object") or kind.get("product-class")).rpartition(".")[2].rstrip("$")
        if kind not in _JOINS:
            return _of_output(
                [*left.output, *right.output], f"a join of kind {kind}, which keysplit does not know"
            )
        condition = self._why(fields["condition"], seen) if fields.get("condition") else None
        output = left.output if kind in ("LeftSemi", "LeftAnti") else [*left.output, *right.output]
        return _Rows(output, {**left.columns, **right.columns}, seen.rows or condition, "a join")

    def _Union(self, fields: Mapping[str, Any], below: list[_Rows], seen: _Rows) -> _Rows:
        first = below[0].output
        columns = {
            number: _first(each.columns[each.output[at]] for each in below) for at, number in enumerate(first)
        }
        return _Rows(first, columns, seen.rows, _first(each.order for each in below))

    def _Intersect(self, fields: Mapping[str, Any], below: list[_Rows], seen: _Rows) -> _Rows:
        rows = seen.rows or _first(each.any() for each in below)
        return replace(below[0], columns=self._one_of_equal(below[0]), rows=rows, order="a set operation")

    _Except = _Distinct = _Intersect

    def _Aggregate(self, fields: Mapping[str, Any], below: list[_Rows], seen: _Rows) -> _Rows:
        keys = fields["groupingExpressions"]
        whys = [self._why(key, seen) for key in keys]
        equal = "collated strings, one of several that are equal" if self._collated else None
        plain = {_id(key[0]): why or equal for key, why in zip(keys, whys, strict=True) if _is_column(key)}
        texts = {_text(key): why or equal for key, why in zip(keys, whys, strict=True)}
        # Spark shows only the key columns of the rows: all others are inside aggregates.
        inside = replace(seen, columns=dict.fromkeys(seen.columns, "an aggregate") | plain, order="a groupBy")
        columns = {}
        for each in fields["aggregateExpressions"]:
            made = each[1:] if _kind(each[0]) == "Alias" else each
            text, why = _text(made), self._why(made, inside)
            columns[_id(each[0])] = texts.get(text, why)
        return _Rows(list(columns), columns, seen.rows or _first(whys), "a groupBy")

    def _Deduplicate(self, fields: Mapping[str, Any], below: list[_Rows], seen: _Rows) -> _Rows:
        child, keys = below[0], fields["keys"]
        kept = {_id(key[0]) for key in keys if _is_column(key) and _is_exact(key[0]["dataType"])}
        lost = "dropDuplicates, which keeps one of several rows"
        columns = {each: why if each in kept else why or lost for each, why in child.columns.items()}
        return replace(
            child, columns=columns, rows=child.rows or self._any(keys, seen), order="a dropDuplicates"
        )

    _DeduplicateWithinWatermark = _Deduplicate

    def _Window(self, fields: Mapping[str, Any], below: list[_Rows], seen: _Rows) -> _Rows:
        child, new = below[0], {}
        for each in fields["windowExpressions"]:
            _, window, function, *rest = each
            ranks = _kind(window) == "WindowExpression" and _kind(function) in _RANKS
            why = self._why(rest, seen)
            other = f"the window function {_kind(function)}, which may depend on the order of rows"
            new[_id(each[0])] = seen.rows or why if ranks else other
        rows = child.rows or self._any(fields["partitionSpec"], seen)
        return _Rows([*child.output, *new], {**child.columns, **new}, rows, "a window")

    def _Generate(self, fields: Mapping[str, Any], below: list[_Rows], seen: _Rows) -> _Rows:
        child, new = below[0], _ids(fields["generatorOutput"])
        if fields["unrequiredChildIndex"]:
            raise LookupError("an optimised plan")
        why = self._why(fields["generator"], seen)
        columns = {**child.columns, **dict.fromkeys(new, why)}
        return replace(child, output=[*child.output, *new], columns=columns, rows=child.rows or why)

    def _Expand(self, fields: Mapping[str, Any], below: list[_Rows], seen: _Rows) -> _Rows:
        child, output, lists = below[0], _ids(fields["output"]), fields["projections"]
        if lists is None:  # those of unpivot are not written down
            return replace(
                child, output=output, columns={at: child.columns.get(at, "an unpivot") for at in output}
            )
        columns = {number: self._any((each[at] for each in lists), seen) for at, number in enumerate(output)}
        return replace(child, output=output, columns=columns)

    def _Sort(self, fields: Mapping[str, Any], below: list[_Rows], seen: _Rows) -> _Rows:
        child, keys = below[0], [each[1:] for each in fields["order"]]
        if fields["global"]:  # values determine the partition of a row
            child = replace(child, rows=child.rows or self._any(keys, seen))
        by = {_id(key[0]) for key in keys if _is_column(key) and _is_exact(key[0]["dataType"])}
        # Rows that are equal in such a sort are equal.
        is_total = not child.rows and not child.any() and by.issuperset(child.output)
        return replace(child, order=self._anew if is_total else "a sort")

    def _GlobalLimit(self, fields: Mapping[str, Any], below: list[_Rows], seen: _Rows) -> _Rows:
        why = "a limit or an offset"
        return replace(below[0], rows=below[0].rows or why, order=below[0].order or why)

    _LocalLimit = _Offset = _Tail = _GlobalLimit

    def _Sample(self, fields: Mapping[str, Any], below: list[_Rows], seen: _Rows) -> _Rows:
        child = below[0]
        self._again = self._again or "a sample, which depends on the order of rows"
        return replace(child, rows=child.rows or (child.order and f"a sample downstream of {child.order}"))

    def _Repartition(self, fields: Mapping[str, Any], below: list[_Rows], seen: _Rows) -> _Rows:
        return self._dealt(below[0]) if fields["shuffle"] else below[0]

    def _RepartitionByExpression(self, fields: Mapping[str, Any], below: list[_Rows], seen: _Rows) -> _Rows:
        child, by = below[0], fields["partitionExpressions"]
        if not by:
            return self._dealt(child)
        return replace(child, rows=child.rows or self._any(by, seen), order="a shuffle (repartition)")

    _RebalancePartitions = _RepartitionByExpression

    def _dealt(self, child: _Rows) -> _Rows:
        """Return rows distributed in turn, which Spark does in the order of their values."""
        why = child.any()
        rows = child.rows or (why and f"a repartition without columns of rows with {why}")
        return replace(child, rows=rows, order="a shuffle (repartition)")

    def _named(self, expressions: list[_Nodes], child: _Rows, seen: _Rows) -> _Rows:
        columns = {_id(each[0]): self._why(each, seen) for each in expressions}
        return replace(child, output=[_id(each[0]) for each in expressions], columns=columns)

    def _one_of_equal(self, child: _Rows) -> Mapping[int, str | None]:
        if not self._collated:  # Spark unifies equal floats
            return child.columns
        equal = "collated strings, one of several that are equal"
        return {each: why or equal for each, why in child.columns.items()}

    def _any(self, expressions: Iterable[_Nodes], seen: _Rows) -> str | None:
        return _first([self._why(each, seen) for each in expressions])

    def _why(self, nodes: _Nodes, seen: _Rows) -> str | None:
        """Return why an expression's value may differ when a task is retried; None if it counts."""
        # All nodes are visited, to know all functions of the user.
        return _first([self._why_of(nodes, at, seen) for at in range(len(nodes))])

    def _why_of(self, nodes: _Nodes, at: int, seen: _Rows) -> str | None:
        """Return why a node of an expression does not count, whatever its inputs."""
        fields = nodes[at]
        name = _kind(fields)
        if name == "AttributeReference":
            return seen.columns.get(_id(fields), "a column that keysplit cannot find")
        if name == "OuterReference":
            return self._why(fields["e"], seen)
        short = fields["class"].rpartition(".")[2]
        if short in _UDFS:
            return self._function(fields, short)
        if name in _SUBQUERIES:
            found = self._plan(tree_of(fields["plan"]), seen.columns)
            return found.rows or found.any()
        if name in BY_CHANCE:
            called = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
            return ByChance(f"{called} downstream of {seen.order}") if seen.order else called
        if self._anew and (name in _BY_CLOCK or (name in _READING_TIMES and _may_read_clock(nodes, at))):
            return f"a time of the clock downstream of {self._anew}"
        if name in FUNCTIONS or name in _BY_CLOCK:
            return None
        if name == "AggregateExpression":
            return "an aggregate"
        return f"the expression {short}, which keysplit does not know"

    def _function(self, fields: Mapping[str, Any], kind: str) -> str | None:
        """Return why a user's function is not deterministic; None if it is trusted."""
        name = next((found for each in _UDF_NAMES if isinstance(found := fields.get(each), str)), kind)
        if name.startswith(ASKING):
            return "a plan that changes while the stream runs"
        self._functions.add(name)
        if name in self._trusted:
            return None
        why = f"the {'Python ' if kind.startswith('Python') else ''}function {name!r}, which is not trusted"
        return ByChance(why) if fields.get("udfDeterministic") is False else why


def unreadable(functions: Iterable[str] = ()) -> Determinism:
    """Return the result for an unreadable plan with these user functions."""
    why = "a query plan that keysplit cannot read"
    return Determinism(why, None, why, frozenset(functions))


def _kind(fields: Mapping[str, Any]) -> str:
    """Return the class of an expression of Spark's own; "" for any other."""
    kind: str = fields["class"]
    name = kind.rpartition(".")[2]
    return name if kind.startswith(PACKAGE) or kind == _SQL_FUNCTION else ""


_SQL_FUNCTION = "org.apache.spark.sql.catalyst.analysis.SQLScalarFunction"


def _id(fields: Mapping[str, Any]) -> int:
    """Return the number of a named expression."""
    return int(fields["exprId"]["id"])


def _ids(attributes: list[_Nodes]) -> list[int]:
    if any(len(each) != 1 for each in attributes):
        raise LookupError("the columns of an operator cannot be read")
    return [_id(each) for (each,) in attributes]


def _is_column(nodes: _Nodes) -> bool:
    return len(nodes) == 1 and _kind(nodes[0]) == "AttributeReference"


def _is_exact(type_: Any) -> bool:
    return isinstance(type_, str) and (type_ in _EXACT or type_.startswith("decimal"))


def _text(nodes: _Nodes) -> str:
    """Return a text that is the same for equal expressions."""
    unlike = ("qualifier", "nullable", "metadata")
    return json.dumps([{key: each[key] for key in sorted(each) if key not in unlike} for each in nodes])


def _is_of_blocks(attribute: Mapping[str, Any]) -> bool:
    """Return whether a column may be a row's position in its file: Spark does not mark hidden columns."""
    return attribute.get("name") == "_metadata" or "file_block_" in json.dumps(attribute.get("dataType"))


def _may_read_clock(nodes: _Nodes, at: int) -> bool:
    """Return whether a cast reads a constant text such as 'now' or '12:30', which depends on the clock."""
    end, missing = at, 1
    while missing:
        missing += nodes[end]["num-children"] - 1
        end += 1
    inside = nodes[at + 1 : end]
    if _kind(nodes[at]) == "Cast" and not re.search("date|time", str(nodes[at].get("dataType"))):
        return False
    if any(_kind(each) in ("AttributeReference", "NamedLambdaVariable") for each in inside):
        return False
    first = inside[0]  # a time already, or a cast of its own
    if _kind(first) in _TIMES or (_kind(first) == "Cast" and not str(first["dataType"]).startswith("string")):
        return False
    if len(inside) == 1 and _kind(inside[0]) == "Literal":
        text = inside[0].get("value")
        is_text = str(inside[0].get("dataType")).startswith("string")
        return is_text and text is not None and not _DATE.match(text)
    return True


def _has_subquery(value: Any) -> bool:
    """Return whether the expressions in an operator's JSON have a subquery."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting.extend(each)
        elif isinstance(each, Mapping):
            if str(each.get("class")).rpartition(".")[2] in _SUBQUERIES:
                return True
            waiting.extend(part for part in each.values() if isinstance(part, list | Mapping))
    return False


def _of_output(output: list[int], why: str | None, order: str | None = None) -> _Rows:
    return _Rows(output, dict.fromkeys(output, why), why, order or why)


def _renamed(found: _Rows, output: list[int]) -> _Rows:
    columns = {to: found.columns[from_] for to, from_ in zip(output, found.output, strict=True)}
    return replace(found, output=output, columns=columns)


def _first(found: Iterable[str | None]) -> str | None:
    return next((each for each in found if each is not None), None)


def _after_children(root: Node) -> Iterator[Node]:
    """Yield the nodes of a tree, each after its children."""
    waiting = [(root, False)]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            yield node
        else:
            waiting.append((node, True))
            waiting.extend((child, False) for child in reversed(node.children))
