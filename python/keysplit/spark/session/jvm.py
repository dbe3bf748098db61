"""Small steps in the JVM that several parts take."""

from typing import Any

from pyspark import SparkContext


def jvm() -> Any:
    """Return the JVM of the running session."""
    return SparkContext._active_spark_context._jvm


def items(sequence: Any) -> list[Any]:
    """Return what is in a sequence of Scala."""
    return [sequence.apply(at) for at in range(sequence.size())]


def kind_of(value: Any) -> str:
    """Return the name of a value's class, without the package."""
    return str(value.getClass().getSimpleName())
