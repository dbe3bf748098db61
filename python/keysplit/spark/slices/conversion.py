"""Convert and check the arguments and results of functions over groups with PySpark's own code.

PySpark has these classes in every version, under different names. This file runs on the executors and is
pickled by value, so executors need no keysplit.
"""

from abc import ABC, abstractmethod
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructField, StructType
from pyspark.util import fail_on_stopiteration as fail_on_stopiteration

from keysplit.spark.jvm import Setting

SETTINGS = {
    "timezone": ("spark.sql.session.timeZone", "UTC"),
    "safe": ("spark.sql.execution.pandas.convertToArrowArraySafely", "false"),
    "by_name": ("spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName", "true"),
    "large_types": ("spark.sql.execution.arrow.useLargeVarTypes", "false"),
    "whole_to_decimal": ("spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled", "false"),
    "nullable_whole": ("spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype", "false"),
}
"""The settings that decide how functions see and return rows, and what they are where Spark has none."""


def settings_of(setting: Setting) -> dict[str, Any]:
    """Return the settings of a session for conversions: its time zone, and flags.

    Raises:
        ValueError: if keysplit may not read the session's time zone.
    """
    found = {name: (setting(asked), default) for name, (asked, default) in SETTINGS.items()}
    if found["timezone"][0] is None:  # every version has one
        raise ValueError(
            f"df must come from a session that can read {SETTINGS['timezone'][0]}, the time zone of the "
            "timestamps that functions receive: allow the session to read it"
        )
    values = {name: default if value is None else value for name, (value, default) in found.items()}
    return {name: value if name == "timezone" else value.lower() == "true" for name, value in values.items()}


def of_pandas(schema: StructType, settings: dict[str, Any]) -> Any:
    """Return the conversions of `applyInPandas`: `to_pandas`, `checked` and `to_arrow`.

    Args:
        schema: the columns that the function returns.
        settings: the settings of the session.
    """
    try:
        from pyspark.sql.conversion import ArrowBatchTransformer
    except ImportError:  # before Spark 4.2
        return _BySerializer(schema, settings)
    return _ByConversion(schema, settings, ArrowBatchTransformer)


class _InPandas(ABC):
    """The common part of all versions.

    Attributes:
        labels: the column labels of the last result that had any; the same object if still equal.
    """

    def __init__(self, schema: StructType, settings: dict[str, Any]) -> None:
        self._schema = schema
        self._settings = settings
        self.labels: Any = None

    def checked(self, result: Any) -> Any:
        """Return the function's result, or raise Spark's error if it does not fit the schema."""
        from pyspark.worker import verify_pandas_result

        known = type(result) is pd.DataFrame and self.labels is not None
        if not (known and self.labels.equals(result.columns)):
            by_name = self._settings["by_name"]
            verify_pandas_result(result, self._schema, by_name, truncate_return_schema=False)
            self.labels = result.columns if len(result.columns) else None
        return result

    def types(self) -> list[pa.DataType]:
        """Return the types of the columns of `to_arrow`."""
        return [field.type for field in self.to_arrow(pd.DataFrame()).schema]

    @abstractmethod
    def to_arrow(self, frame: pd.DataFrame, *, cast: bool = True) -> pa.RecordBatch:
        """Return the function's result as Arrow; with `cast`, in the schema's types."""


class _ByConversion(_InPandas):
    """From Spark 4.2 on."""

    def __init__(self, schema: StructType, settings: dict[str, Any], transformer: Any) -> None:
        super().__init__(schema, settings)
        self._transformer = transformer
        self._struct = StructType([StructField("_0", schema)])

    def to_pandas(self, table: pa.Table) -> list[pd.Series]:
        """Return the columns as a function sees them."""
        return self._transformer.to_pandas(  # type: ignore[no-any-return]
            table,
            timezone=self._settings["timezone"],
            prefer_int_ext_dtype=self._settings["nullable_whole"],
        )

    def to_arrow(self, frame: pd.DataFrame, *, cast: bool = True) -> pa.RecordBatch:
        """Return a checked result as Arrow; without `cast`, only where each value converts independently."""
        from pyspark.sql.conversion import PandasToArrowConversion

        batch = PandasToArrowConversion.convert(
            [frame],
            self._struct,
            timezone=self._settings["timezone"],
            safecheck=self._settings["safe"],
            arrow_cast=cast,
            prefers_large_types=self._settings["large_types"],
            assign_cols_by_name=self._settings["by_name"],
            int_to_decimal_coercion_enabled=self._settings["whole_to_decimal"],
        )
        return pa.RecordBatch.from_struct_array(batch.column(0))


class _BySerializer(_InPandas):
    """Before Spark 4.2."""

    def __init__(self, schema: StructType, settings: dict[str, Any]) -> None:
        super().__init__(schema, settings)
        self._casting, self._strict = self._serializer(), self._serializer()
        self._strict._arrow_cast = False
        # Spark itself passes the setting by position.
        large = [settings["large_types"]] if "prefers_large_types" in _type_options() else []
        self._type = to_arrow_type(schema, *large)

    def _serializer(self) -> Any:
        from pyspark.sql.pandas import serializers

        options = [self._settings[name] for name in ("timezone", "safe", "by_name")]
        if hasattr(serializers, "GroupPandasUDFSerializer"):  # Spark 4.1
            return serializers.GroupPandasUDFSerializer(*options, self._settings["whole_to_decimal"])
        return serializers.ArrowStreamPandasUDFSerializer(*options)

    def to_pandas(self, table: pa.Table) -> list[pd.Series]:
        """Return the columns as a function sees them."""
        convert = self._casting.arrow_to_pandas
        columns = table.itercolumns()
        if hasattr(self._casting, "_input_types"):  # Spark 4.1
            return [convert(column, at) for at, column in enumerate(columns)]
        return [convert(column) for column in columns]

    def to_arrow(self, frame: pd.DataFrame, *, cast: bool = True) -> pa.RecordBatch:
        """Return a checked result as Arrow; without `cast`, only where each value converts independently."""
        serializer = self._casting if cast else self._strict
        batch = serializer._create_batch([(frame, self._type)])
        return pa.RecordBatch.from_struct_array(batch.column(0))


def _type_options() -> Any:
    from inspect import signature

    return signature(to_arrow_type).parameters


class OfArrow:
    """The checks of `applyInArrow` on a function's result.

    Args:
        schema: the columns that the function returns.
        settings: the settings of the session.
    """

    def __init__(self, schema: StructType, settings: dict[str, Any]) -> None:
        self._schema = schema
        self._by_name = settings["by_name"]
        options: dict[str, Any] = {"prefers_large_types": settings["large_types"], "timezone": "UTC"}
        known = _type_options()
        self._fields = list(
            to_arrow_type(schema, **{name: value for name, value in options.items() if name in known})
        )

    def types(self) -> list[pa.DataType]:
        """Return the types of the columns of `checked`."""
        return [field.type for field in self._fields]

    def checked(self, result: Any) -> pa.Table:
        """Return the function's result in the schema's order, or raise Spark's error."""
        from pyspark import worker

        names = [field.name for field in self._fields]
        if hasattr(worker, "verify_arrow_table") or not hasattr(worker, "verify_return_type"):
            verify = getattr(worker, "verify_arrow_table", None) or worker.verify_arrow_result
            types = [(field.name, field.type) for field in self._fields]
            verify(result, self._by_name, dict(types) if self._by_name else types)
            if self._by_name and result.num_columns:
                result = result.select(names)
        else:  # from Spark 4.3 on
            from pyspark.sql.conversion import ArrowBatchTransformer

            worker.verify_return_type(result, pa.Table)
            result = ArrowBatchTransformer.enforce_schema(
                result, pa.schema(self._fields), arrow_cast=False, reorder_by_name=self._by_name
            )
        if not result.num_columns:
            return pa.schema(self._fields).empty_table()
        return pa.Table.from_arrays(result.columns, names)
