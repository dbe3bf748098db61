"""The one seam to Spark's insides: all that is not public API of Spark is named in this folder alone.

`session_of` returns the session of a DataFrame, `classic` or `connect`, which implement one interface.
`versions` says what the installed Spark can do.
"""

from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession

from keysplit.spark.session import versions
from keysplit.spark.session.interface import (
    ByChance,
    Determinism,
    Joining,
    Node,
    RecordedExecution,
    Records,
    Session,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "ByChance",
    "Determinism",
    "Joining",
    "Node",
    "RecordedExecution",
    "Records",
    "Session",
    "collation_key",
    "is_connect",
    "local_rows",
    "records_of",
    "session_of",
]


def session_of(df: DataFrame) -> Session:
    """Return the session of a DataFrame."""
    if is_connect(df):
        from keysplit.spark.session.connect import Connect

        return Connect(df.sparkSession)
    from keysplit.spark.session.classic import Classic

    return Classic(df.sparkSession)


def records_of(spark: Any) -> Records:
    """Return what a session remembers of its stages.

    Raises:
        TypeError: if it is no session.
        ValueError: if it is one of Spark Connect.
    """
    if is_connect(spark) and versions.is_session(spark):
        raise ValueError(
            "spark must be a classic session, got one of Spark Connect, which shows no figures of tasks: set "
            "spark.eventLog.enabled=true on the server, and pass the log to keysplit.diagnose(path) or "
            "`keysplit diagnose PATH`"
        )
    if not isinstance(spark, SparkSession):
        raise TypeError(f"spark must be a SparkSession, got {type(spark).__name__}")
    if is_stopped(spark):
        raise ValueError("spark must be a session that runs, got one that was stopped")
    from keysplit.spark.session.recorded import Recorded

    return Recorded(spark)


def is_connect(value: Any) -> bool:
    """Say whether a DataFrame, Column or query is of Spark Connect, where there is no JVM to look into."""
    return type(value).__module__.startswith("pyspark.sql.connect")


def is_stopped(spark: Any) -> bool:
    """Say whether a session was stopped."""
    if is_connect(spark):
        return bool(spark.is_stopped)
    return spark.sparkContext._jsc is None


def local_rows(df: DataFrame, table: "pa.Table") -> DataFrame:
    """Return rows of the driver as a DataFrame of the session of another one; no job reads them."""
    spark = df.sparkSession
    if is_connect(df):
        return spark.createDataFrame(table if versions.takes_arrow_tables() else table.to_pandas())
    from keysplit.spark.session import classic

    return classic.rows_of_arrow(spark, table)


def collation_key(column: Column) -> Column:
    """Return the bytes whose equality is that of a collated string.

    Raises:
        TypeError: on Spark Connect, which has no name for it.
    """
    if is_connect(column):
        raise TypeError("key must not be a collated string on Spark Connect: cast it to another column first")
    from keysplit.spark.session import classic

    return classic.collation_key(column)
