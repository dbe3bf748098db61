"""Why values of expressions may differ when a task is retried, as far as the client knows."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.sql import functions as F

from keysplit.spark.identity.known import ByChance
from keysplit.spark.names import parts_of
from oracle.aggregates import BY_NAME
from oracle.relations.functions import (
    AGGREGATES,
    AGGREGATES_BY_TYPE,
    BY_CLOCK,
    BY_ORDER,
    GENERATORS,
    OPERATORS,
    OTHERS,
    WINDOWS,
)
from oracle.relations.rows import (
    GENERATED,
    OF_EQUAL,
    SUM,
    Rows,
    of_rows,
    within,
    worst,
)

# Expressions that Spark calls by their text, which has brackets, unless they have an alias.
_CALLS = ("cast", "common_inline_user_defined_function", "unresolved_function", "window")
# Text of SQL that may have an alias in another place than at its end.
_UNREADABLE = re.compile(r"--|/\*|`|\bas\s*\(", re.IGNORECASE)
_LAST_WORD = re.compile(r"([^\W\d]\w*)\s*$")


class Expressions:
    """Reads expressions of the client's plan.

    Args:
        trusted: the names of functions of Python that are steady on the user's word.
        anew: what makes a query begin anew with another clock, None if nothing does.
        fold: makes names equal that the session takes for one.

    Attributes:
        functions: the names of all functions of the user that were read.
        relations: what is known of the relations that have been read, by their numbers in the plan.
    """

    def __init__(self, trusted: frozenset[str], anew: str | None, fold: Callable[[str], str]) -> None:
        self.functions: set[str] = set()
        self.relations: dict[int, Rows] = {}
        self._trusted, self._anew, self._fold = trusted, anew, fold
        self._steady_names = frozenset(name.lower() for name in F.__all__) | OPERATORS

    def name(self, expression: Any) -> str | None:
        """Return the name of the column that an expression makes, None if the server gives it one."""
        kind = expression.WhichOneof("expr_type")
        if kind == "alias" and len(expression.alias.name) == 1:
            return self._fold(expression.alias.name[0])
        if kind == "unresolved_attribute":
            # of a field of a struct, its own
            return next(reversed(self._parts(expression.unresolved_attribute)), None)
        return None

    def named(self, expression: Any) -> str | None:
        """Return by which name Spark finds what an expression makes in others of the same operator.

        Returns:
            `GENERATED` if Spark calls it after the expression, None if that may be any name.
        """
        kind, name = expression.WhichOneof("expr_type"), self.name(expression)
        if kind == "expression_string":
            # what ends in no word has no alias; one alias of several columns ends in brackets
            text = expression.expression_string.expression
            if _UNREADABLE.search(text):
                return None
            found = _LAST_WORD.search(text)
            return GENERATED if found is None else self._fold(found[1])
        is_call = kind in _CALLS
        if (
            kind == "unresolved_function"
            and expression.unresolved_function.function_name.lower() in GENERATORS
        ):
            is_call = False
        return GENERATED if is_call else name

    def _parts(self, attribute: Any) -> list[str]:
        return list(map(self._fold, parts_of(attribute.unparsed_identifier)))

    def _column(self, attribute: Any, child: Rows) -> str | None:
        """Return why values may differ of a column that an operator on top of these rows names."""
        parts = self._parts(attribute)
        found = child.of(parts)
        if not attribute.HasField("plan_id"):
            return found
        # Of that relation: the rows may have another column of the name.
        of = self.relations.get(attribute.plan_id)
        return worst(found, "a column that keysplit cannot find" if of is None else of.of(parts))

    def value(self, expression: Any, child: Rows) -> str | None:
        """Return why an expression that stands for a column may differ; a column alone stays what it is."""
        kind = expression.WhichOneof("expr_type")
        if kind == "alias":
            return self.value(expression.alias.expr, child)
        if kind == "unresolved_attribute":
            return self._column(expression.unresolved_attribute, child)
        return self.inside(expression, child)

    def inside(self, expression: Any, child: Rows) -> str | None:
        """Return why the value of an expression may differ when a task is retried, None if it does not."""
        kind = expression.WhichOneof("expr_type")
        body: Any = getattr(expression, kind) if kind else None
        if kind in ("literal", "unresolved_named_lambda_variable"):
            return None
        if kind == "unresolved_attribute":
            return within(self._column(body, child))
        if kind in ("unresolved_star", "unresolved_regex"):
            return within(child.any())
        if kind == "unresolved_function":
            return self._called(body, child)
        if kind == "common_inline_user_defined_function":
            return self.function(body) or self.all(body.arguments, child)
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
        return self.all(inner(), child)

    def _called(self, body: Any, child: Rows) -> str | None:
        name = body.function_name.lower()
        if body.is_user_defined_function:
            return self.function(body) or self.all(body.arguments, child)
        if name in BY_ORDER:
            why = child.order and ByChance(f"{name} downstream of {child.order}")
            return why or self.all(body.arguments, child)
        if self._anew and name in BY_CLOCK:
            return f"{name} downstream of {self._anew}"
        if name in BY_NAME:
            return f"the aggregate {name}, which may depend on the order of rows"
        if name in OTHERS or name in WINDOWS or name not in self._steady_names:
            return f"the function {name}, which keysplit does not know"
        return self.all(body.arguments, child)

    def left(self, expressions: Iterable[Any], child: Rows) -> str | None:
        """Return why there may be other rows of a child when these expressions are made of them."""
        found = [child.rows]
        for each in (node for expression in expressions for node in messages(expression)):
            if each.DESCRIPTOR.name == "Window":
                found += [of_rows(self.value(by, child)) for by in each.partition_spec]
            elif each.DESCRIPTOR.name == "UnresolvedFunction" and each.function_name.lower() in GENERATORS:
                found += [of_rows(self.value(argument, child)) for argument in each.arguments]
        return next(filter(None, found), None)

    def aggregated(self, expression: Any, child: Rows, seen: Rows) -> str | None:
        """Return why what a groupBy makes of an expression may differ, None if it does not.

        Args:
            expression: the expression.
            child: the rows, which aggregate functions see.
            seen: the rows with what others make, which Spark does not find inside of aggregate functions.
        """
        kind = expression.WhichOneof("expr_type")
        if kind == "alias":
            return self.aggregated(expression.alias.expr, child, seen)
        if kind == "unresolved_attribute":
            return self._column(expression.unresolved_attribute, seen) or OF_EQUAL
        if kind != "unresolved_function":
            return "an aggregate, which may depend on the order of rows"
        body = expression.unresolved_function
        name = body.function_name.lower()
        if name not in AGGREGATES and name not in AGGREGATES_BY_TYPE:
            return f"the aggregate {name}, which may depend on the order of rows"
        starred = [each for each in body.arguments if each.WhichOneof("expr_type") != "unresolved_star"]
        why = child.rows or self.all(starred, child)
        return why or (None if name in AGGREGATES else SUM if name == "sum" else OF_EQUAL)

    def function(self, body: Any) -> str | None:
        """Return why the results of a function of Python may differ, None if it is trusted."""
        name = body.function_name
        self.functions.add(name)
        if name in self._trusted:
            return None
        why = f"the function {name!r}, which is not trusted"
        return why if getattr(body, "deterministic", True) else ByChance(why)

    def all(self, expressions: Iterable[Any], child: Rows) -> str | None:
        """Return why the value of any of some expressions may differ, None if none does."""
        return next(filter(None, (self.inside(each, child) for each in expressions)), None)


def messages(message: Any) -> Iterator[Any]:
    """Yield a message of the client's plan, and all in it."""
    yield message
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None and not descriptor.message_type.GetOptions().map_entry:
            repeated = not hasattr(value, "ListFields")
            for each in value if repeated else [value]:
                yield from messages(each)
