"""Spark Connect: the client's own expressions, and what the server says of its plans."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from keysplit.spark.session import conversion_settings, costs, physical, relations, versions
from keysplit.spark.session.interface import Determinism, Joining
from keysplit.spark.session.joins import JoinOfNames

_READ_TOGETHER = (
    "spark.sql.caseSensitive",
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.columnNameOfCorruptRecord",
    costs.THRESHOLD,
    *(name for name, _ in conversion_settings.SETTINGS.values()),
)
"""The settings that operations ask for: the server is asked for all of them at once."""


class Connect:
    """A session of Spark Connect, in one call: what is asked for twice is read once."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def slots(self) -> int | None:
        """How many tasks run at once; the server does not say."""
        return None

    def setting(self, name: str) -> str | None:
        """Return the value of a setting; None if there is none, or if nobody may read it."""
        if name in self._read_together:
            return self._read_together[name]
        try:
            value: str | None = self._spark.conf.get(name)
        except PySparkException:
            return None
        return value

    def settings(self, defaults: Iterable[tuple[str, str]]) -> list[str]:
        """Return the values of settings, given by their names and what they are where Spark has none."""
        names = dict(defaults)
        known = names.keys() <= self._read_together.keys()
        found = self._read_together if known else self._read(names)
        values = ((found.get(name), default) for name, default in names.items())
        return [default if value is None else value for value, default in values]

    @cached_property
    def _read_together(self) -> dict[str, str | None]:
        try:
            return self._read(_READ_TOGETHER)
        except PySparkException:  # a service may refuse all of them for one
            return {}

    def _read(self, names: Iterable[str]) -> dict[str, str | None]:
        """Return the values of settings by one request, None for those that Spark does not have."""
        from pyspark.sql.connect.proto import ConfigRequest

        client: Any = self._spark.client
        # with defaults the server would return these instead of Spark's own
        wanted = ConfigRequest.Operation(get_option=ConfigRequest.GetOption(keys=list(names)))
        return dict(client.config(wanted).pairs)

    def arrow(self, df: DataFrame) -> pa.Table:
        """Run a query in one job and return its rows; without rows the types may be others."""
        if versions.has_to_arrow(df):
            return df.toArrow()
        return pa.Table.from_pandas(df.toPandas(), preserve_index=False)

    def determinism(self, df: DataFrame, trusted: frozenset[str], anew: str | None = None) -> Determinism:
        """Return which columns of a DataFrame have the same values when tasks are retried; run nothing."""
        plan = df._plan.to_proto(df.sparkSession._client).root
        return relations.Walk(trusted, anew, self.setting, self._schema_of_relation).of(plan, df.columns)

    def _schema_of_relation(self, relation: Any) -> StructType:
        """Ask the server for the schema of a relation, such as a source."""
        from pyspark.sql.connect.proto import Plan

        client: Any = self._spark.client
        found: StructType = client.schema(Plan(root=relation))
        return found

    def is_deterministic(self, df: DataFrame) -> bool:
        """Return False: only the server knows."""
        return False

    def disorder(self, df: DataFrame, deterministic: bool) -> str | None:
        """Return why rows may come in another order when a task is retried, None if they do not."""
        return "a stream" if df.isStreaming else physical.disorder_in(df._explain_string(mode="formatted"))

    def beyond_a_scan(self, df: DataFrame) -> str | None:
        """Return what makes reading a DataFrame dear: a shuffle or Python; None if it is a scan."""
        return costs.beyond_a_scan(df._explain_string())

    def size(self, df: DataFrame) -> int | None:
        """Return None: a client may not ask."""
        return None

    def joins_by_broadcast(self, df: DataFrame) -> bool:
        """Say whether Spark would compute a join, the topmost of a query, by a broadcast of one side."""
        return bool(costs.joins_by_broadcast(df._explain_string()))

    def joining(
        self,
        plain: DataFrame,
        left: DataFrame,
        right: DataFrame,
        on: Sequence[str],
        where: Column | None = None,
    ) -> Joining:
        """Take apart `plain`, which is `left.join(right, on, how)`."""
        return JoinOfNames(left, right, on, where)

    def schema_of(self, df: DataFrame) -> StructType:
        """Return the schema of a DataFrame, which must not be changed: a copy of a wide one takes long."""
        found = getattr(df, "_schema", None)  # from Spark 4.0 on
        return found if isinstance(found, StructType) else df.schema

    def schema(self, ddl: str) -> StructType:
        """Return a schema written as DDL."""
        # `createDataFrame` would begin with this, and then ask for the schema of no rows
        found = self._spark.client._analyze(method="ddl_parse", ddl_string=ddl).parsed
        return found if isinstance(found, StructType) else StructType([StructField("value", found)])
