"""What the installed Spark can do."""

from typing import Any

import pyspark
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def has_repartition_by_id(df: DataFrame) -> bool:
    """Return whether rows can be sent to the partition with a given number: since Spark 4.1."""
    return hasattr(df, "repartitionById")


def has_arrow_udf() -> bool:
    """Return whether there are UDFs over Arrow arrays: since Spark 4.1."""
    return hasattr(F, "arrow_udf")


def has_apply_in_arrow(df: DataFrame) -> bool:
    """Return whether functions over groups can take Arrow tables: since Spark 4.0."""
    return hasattr(df.groupBy(), "applyInArrow")


def has_to_arrow(df: DataFrame) -> bool:
    """Return whether the driver can collect an Arrow table: since Spark 4.0."""
    return hasattr(df, "toArrow")


def has_classic_package(df: DataFrame) -> bool:
    """Return whether the JVM has a separate package for classic sessions: since Spark 4.0."""
    return "classic" in type(df).__module__


def takes_iterator(function: Any, format: str) -> bool:
    """Return whether a group function's type hints ask Spark for an iterator: since Spark 4.1."""
    from pyspark.sql.pandas import typehints

    infer = getattr(typehints, f"infer_group_{format}_eval_type_from_func", None)
    if infer is None:
        return False
    from pyspark.sql.pandas.functions import PythonEvalType

    try:
        kind = infer(function)
    except Exception:  # Spark then takes it for one over whole groups
        return False
    name = f"SQL_GROUPED_MAP_{format.upper()}_ITER_UDF"
    return kind is not None and kind == getattr(PythonEvalType, name, None)


def takes_arrow_tables() -> bool:
    """Return whether a session can create DataFrames from Arrow tables: since Spark 4.0."""
    return not pyspark.__version__.startswith("3.")


def has_sql_functions(spark: Any) -> bool:
    """Return whether a session supports functions with SQL bodies: since Spark 4.0."""
    return not spark.version.startswith("3.")


def is_column(value: Any) -> bool:
    """Return whether `value` is a Column; before Spark 4, Connect has a separate class."""
    return type(value).__name__ == "Column"
