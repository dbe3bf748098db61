"""`register`: an SQL function that returns a row's worker."""

import re

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from keysplit.plan import Plan
from keysplit.spark import versions
from keysplit.spark.checks import by_name, refuse_stopped, type_name
from keysplit.spark.expr import columns
from keysplit.spark.expr.hashes import identity_in_sql
from keysplit.spark.identity import identity_columns
from keysplit.spark.jvm import is_session
from keysplit.spark.keys import key_hash_in_sql
from keysplit.spark.names import in_sql

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@by_name
def register(spark: SparkSession, plan: Plan, name: str, *, row_id: str | StructType | None = None) -> str:
    """Register an SQL function that returns a row's worker: `SELECT worker_of(word, id) FROM texts`.

    The function is an expression: it needs neither Python nor keysplit on the executors. It returns the same
    worker as `route` with the same plan and `row_id`. It works in batches and streams, in classic sessions
    and on Spark Connect.

    Its arguments are the key columns of the plan, in order, then the columns of `row_id`. Spark casts
    arguments of different types to the types of the plan and of `row_id`, as for its own functions. The
    worker of a key that is not split depends only on the key.

    Args:
        spark: the session, of Spark 4.0 or newer.
        plan: a plan made by `plan`.
        name: the name of the function: letters, digits and underscores. A registered function with the same
            name is replaced.
        row_id: the columns that distinguish rows, with their types: a string such as "id BIGINT, at
            TIMESTAMP", or a schema such as `df.select("id").schema`. A plan that splits keys requires it.
            Types matter: a BIGINT and an INT have different hashes.

    Returns:
        The signature of the function: the name with its arguments and their types.

    Raises:
        TypeError: if an argument has a wrong type.
        ValueError: if `name` is not an identifier, or is the name of a Spark function; if `row_id` is missing
            or cannot be read; if keys of the plan have a collation; before Spark 4.0, which has no SQL
            functions.

    Source:
        docs/plans.md, "The two hashes of a row" and "The tables".

    Example:
        >>> df.createOrReplaceTempView("texts")  # doctest: +SKIP
        >>> kss.register(spark, plan, "worker_of", row_id="length INT")  # doctest: +SKIP
        'worker_of(word STRING, length INT)'
        >>> placed = spark.sql("SELECT *, worker_of(word, length) AS worker FROM texts")  # doctest: +SKIP
    """
    if not is_session(spark):
        raise TypeError(f"spark must be a SparkSession, got {type_name(spark)}")
    refuse_stopped(spark)
    _check_name(name)
    if not versions.has_sql_functions(spark):
        raise ValueError(
            f"spark must be of Spark 4.0 or newer, which has SQL functions, got {spark.version}: "
            "kss.route adds the worker as a column"
        )
    if not isinstance(plan, Plan):
        raise TypeError(f"plan must be a Plan that kss.plan made, got {type_name(plan)}")
    keys = _key_fields(spark, plan)
    rows = _row_fields(spark, plan, row_id)
    fields = [*zip(plan.key, keys, strict=True), *((field.name, field) for field in rows)]
    parameters = _distinct([shown for shown, _ in fields])
    paths = [in_sql(parameter) for parameter in parameters]
    types = [field.dataType for _, field in fields]
    count, seed = len(keys), plan.grouping.seed
    key = key_hash_in_sql(paths[:count], types[:count], seed)
    if key is None:
        raise ValueError(
            f"plan must have keys without a collation, got {list(plan.key_types)}: "
            "kss.route adds the worker as a column"
        )
    worker = columns.worker_in_sql(plan, key, identity_in_sql(seed, paths[count:]) if plan.splits else None)
    in_text = list(map(_type_in_sql, types))
    signature = ", ".join(f"{path} {type_}" for path, type_ in zip(paths, in_text, strict=True))
    _refuse_builtin(spark, name)
    spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {name}({signature}) RETURNS INT RETURN {worker}")
    named = (f"{each.replace('`', '')} {type_}" for each, type_ in zip(parameters, in_text, strict=True))
    return f"{name}({', '.join(named)})"


def _type_in_sql(type_: DataType) -> str:
    """Return a type in SQL, with quoted field names."""
    if isinstance(type_, StructType):
        fields = (f"{in_sql(field.name)}: {_type_in_sql(field.dataType)}" for field in type_.fields)
        return f"STRUCT<{', '.join(fields)}>"
    if isinstance(type_, ArrayType):
        return f"ARRAY<{_type_in_sql(type_.elementType)}>"
    text: str = type_.simpleString()
    return text.upper()


def _check_name(name: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {type_name(name)}")
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"name must be letters, digits and underscores, and must not begin with a digit, got {name!r}"
        )


def _refuse_builtin(spark: SparkSession, name: str) -> None:
    if spark.sql(f"SHOW SYSTEM FUNCTIONS LIKE '{name}'").take(1):
        raise ValueError(f"name must not be the name of a Spark function, got {name!r}")


def _key_fields(spark: SparkSession, plan: Plan) -> list[StructField]:
    text = ", ".join(f"k{at} {kind}" for at, kind in enumerate(plan.key_types))
    try:
        return list(spark.createDataFrame([], text).schema.fields)
    except ParseException as error:
        raise ValueError(
            f"plan must have key types that SQL can name, got {list(plan.key_types)}: "
            "kss.route adds the worker as a column"
        ) from error


def _row_fields(spark: SparkSession, plan: Plan, row_id: str | StructType | None) -> list[StructField]:
    if row_id is None:
        if plan.splits:
            chosen = f" of {list(plan.row_id)}" if plan.row_id else ""
            raise ValueError(
                f"row_id must be given for a plan that splits keys: the columns{chosen} that distinguish "
                "rows, with their types, such as row_id='id BIGINT'"
            )
        return []
    if not isinstance(row_id, str | StructType):
        raise TypeError(f"row_id must be a string such as 'id BIGINT', or a schema, got {type_name(row_id)}")
    schema = row_id
    if isinstance(schema, str):
        try:
            schema = spark.createDataFrame([], schema).schema
        except (ParseException, AnalysisException) as error:
            raise ValueError(
                f"row_id must be columns with their types, such as 'id BIGINT', got {row_id!r}"
            ) from error
    fields = {field.name: field for field in schema.fields}
    identity_columns(list(fields), lambda _, each: fields[each].dataType)
    return list(schema.fields)


def _distinct(names: list[str]) -> list[str]:
    """Return the names, changed where needed so that SQL distinguishes them."""
    found: dict[str, str] = {}
    for name in names:
        while name.lower() in found:
            name += "_"
        found[name.lower()] = name
    return list(found.values())
