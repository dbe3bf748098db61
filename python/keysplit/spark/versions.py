"""What the installed Spark can do; every branch on its version is here."""

from typing import Any

import pyspark
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def has_repartition_by_id(df: DataFrame) -> bool:
    """Say whether rows can be put into the partition of a number: from Spark 4.1 on."""
    return hasattr(df, "repartitionById")


def has_arrow_udf() -> bool:
    """Say whether there are UDFs over Arrow arrays: from Spark 4.1 on."""
    return hasattr(F, "arrow_udf")


def has_apply_in_arrow(df: DataFrame) -> bool:
    """Say whether groups go to functions over Arrow tables: from Spark 4.0 on."""
    return hasattr(df.groupBy(), "applyInArrow")


def has_to_arrow(df: DataFrame) -> bool:
    """Say whether rows come to the driver as an Arrow table: from Spark 4.0 on."""
    return hasattr(df, "toArrow")


def has_classic_package(df: DataFrame) -> bool:
    """Say whether the JVM keeps what belongs to classic sessions in a package: from Spark 4.0 on."""
    return "classic" in type(df).__module__


def takes_iterator(function: Any, format: str) -> bool:
    """Say whether Spark calls a function over groups with an iterator: by its hints, from Spark 4.1 on."""
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
    """Say whether a session makes DataFrames of Arrow tables: from Spark 4.0 on."""
    return not pyspark.__version__.startswith("3.")


def has_sql_functions(spark: Any) -> bool:
    """Say whether a session has functions whose bodies are SQL: from Spark 4.0 on."""
    return not spark.version.startswith("3.")


def is_column(value: Any) -> bool:
    """Say whether it is a Column; before Spark 4 the one of Connect is a class of its own."""
    return type(value).__name__ == "Column"
