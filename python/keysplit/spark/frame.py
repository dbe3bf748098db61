"""The columns of a DataFrame: their names and types."""

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructField, StructType

from keysplit.spark.checks import type_name
from keysplit.spark.identity import Query
from keysplit.spark.jvm import is_connect, schema_of
from keysplit.spark.names import Places, quoted


class Columns:
    """The columns of a DataFrame: their names and types, requested once.

    Attributes:
        df: the DataFrame.
        schema: its schema.
        fold: maps names that the session treats as equal to the same string.
    """

    def __init__(self, df: DataFrame, fold: Callable[[str], str] | None = None) -> None:
        self.df = df
        self.schema: StructType = schema_of(df)
        self.fold = Query(df).fold if fold is None else fold
        self._places = Places(list(map(self.fold, self.names)))

    @property
    def names(self) -> list[str]:
        """The names, in order."""
        return [field.name for field in self.schema.fields]

    def places(self, name: str) -> list[int]:
        """Return the positions of the columns with a name, as the session compares names."""
        return self._places.of(self.fold(name))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.fold(name) in self._places

    def free(self, name: str, *others: "str | Columns") -> str:
        """Return this name, with underscores appended until no column and none of `others` has it."""
        names = {self.fold(each) for each in others if isinstance(each, str)}
        columns = [self, *(each for each in others if not isinstance(each, str))]
        while self.fold(name) in names or any(name in each for each in columns):
            name += "_"
        return name

    def path(self, name: str) -> str:
        """Return a caller's name in a form that Spark can read.

        If Spark finds no column or field of this path, the name may itself contain dots or backticks; then it
        is read literally, as `join` and `partitionBy` always do.
        """
        if name not in self or quoted(name) == name:
            return name
        may_be_read = "`" in name or name.partition(".")[0] in self
        return name if may_be_read and self._parsed(name) else quoted(name)

    def type_of(self, argument: str, name: Any) -> DataType:
        """Return the type of the column or field that an argument names."""
        return self.field_of(argument, name).dataType

    def fields_of(self, argument: str, names: Sequence[str]) -> list[StructField]:
        """Return the columns or fields that an argument names, each once."""
        fields = [self.field_of(argument, name) for name in names]
        if len({self.fold(_without_backticks(self.path(name))) for name in names}) < len(names):
            raise ValueError(f"{argument} must name each column once, got {list(names)}")
        return fields

    def field_of(self, argument: str, name: Any) -> StructField:
        """Return the column or field that an argument names."""
        if not isinstance(name, str):
            raise TypeError(f"{argument} must be a column name, got {type_name(name)}")
        if not name:
            raise ValueError(f"{argument} must name a column, got '', which SQL cannot name")
        path = self.path(name)
        if path != "*" and "." not in path and "`" not in path:
            fields = [self.schema.fields[at] for at in self.places(name)]
        else:
            fields = self._parsed(path)
        if len(fields) != 1:
            raise ValueError(
                f"{argument} must name one column of the DataFrame, got {name!r}; it has {self.names}"
            )
        found: StructField = fields[0]
        return found

    def _parsed(self, name: str) -> list[Any]:
        """Let Spark parse a name with dots and backticks."""
        # It logs unknown names, so a name that no column begins is not passed on.
        plain = name.replace("`", "").lower()
        if not any(plain.startswith(column.replace("`", "").lower()) for column in self.names):
            return []
        try:
            return list(self.df.select(name).schema.fields)
        except AnalysisException:
            return []


def _without_backticks(name: str) -> str:
    """Return a name without its backticks, if the meaning stays the same."""
    bare = name.removeprefix("`").removesuffix("`")
    return name if "." in bare or "`" in bare else bare


def analysed(df: DataFrame) -> DataFrame:
    """Return the DataFrame after Spark has analysed its query; Spark Connect analyses only on request."""
    if is_connect(df):
        schema_of(df)
    return df
