"""What is known of the sources of a query on a classic session: whether they return the same rows again."""

import json
import pickletools
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from keysplit.spark.identity import reading
from keysplit.spark.jvm import running
from keysplit.spark.tasks import BATCH, QUERY
from oracle.interface import Node
from oracle.jvm import items, kind_of, mode_of_overflow, sums_in
from oracle.steadiness import Source
from oracle.written import Written, whole

LOCAL = re.compile(r"local(\[.*\])?")
"""Masters of sessions whose tasks run in the driver."""

_SQL = "org.apache.spark.sql."
_RDD = _SQL + "execution.LogicalRDD"
_FILES = _SQL + "execution.datasources.HadoopFsRelation"
_HIVE = _SQL + "catalyst.catalog.HiveTableRelation"
_STEADY: Source = (None, None)
# These hold their rows, or the rule that makes them.
_WITHOUT_A_CALL = frozenset(
    _SQL + name
    for name in (
        "catalyst.plans.logical.CommandResult",
        "catalyst.plans.logical.LocalRelation",
        "catalyst.plans.logical.Range",
    )
)
# Packages of file formats, each a prefix of its classes.
_FILE_FORMATS = (
    _SQL + "avro.",
    _SQL + "delta.",
    _SQL + "execution.datasources.",
    _SQL + "hive.orc.",
    "org.apache.spark.ml.source.",
)
# The same for tables that Spark reads by Hive's code; those of other systems have formats of their own.
_HIVE_FORMATS = ("org.apache.hadoop.hive.ql.io.", "org.apache.hadoop.mapred.")
_FILE_TABLES = tuple(
    f"{_SQL}execution.datasources.v2.{format}." for format in ("csv", "json", "orc", "parquet", "text", "xml")
)
# Tables that return a snapshot, files, or the records between fixed offsets.
SNAPSHOTS = (
    *_FILE_TABLES,
    "org.apache.iceberg.spark.source.",
    _SQL + "delta.catalog.",
    _SQL + "execution.streaming.sources.Rate",
    _SQL + "execution.streaming.sources.Memory",
    _SQL + "kafka010.",
    _SQL + "v2.avro.",
)
# The largest limit of a sort that is one operator by default: the longest array there is.
_LARGEST_LIMIT = 2**31 - 16
# Lists of files that are made once, with the relation that has them.
_LISTED = ("InMemoryFileIndex", "MetadataLogFileIndex")
# Options of Kafka that fix where a batch begins and ends, and what is asked of them.
_BOUNDS = ("startingoffsets", "endingoffsets")
_REMEDY = "startingOffsets and endingOffsets with a number for each partition"
# What makes the RDD of `createDataFrame` from a list, from the top down, and that from Arrow.
_FROM_LIST = (
    ("MapPartitionsRDD", "applySchemaToPythonRDD at "),
    ("MapPartitionsRDD", "map at SerDeUtil.scala"),
    ("MapPartitionsRDD", "mapPartitions at SerDeUtil.scala"),
    ("PythonRDD", "RDD at PythonRDD.scala"),
    ("ParallelCollectionRDD", "readRDDFromFile at PythonRDD.scala"),
)
_FROM_ARROW = (("MapPartitionsRDD", "toDataFrame at "), ("ParallelCollectionRDD", "toDataFrame at "))


class Sources:
    """The leaves of an analysed plan of the JVM, and of the plans of its subqueries.

    Args:
        spark: the session.
        plan: the plan.
        leaves: those that are at hand, by their class and the number of their first column.
    """

    def __init__(
        self, spark: SparkSession, plan: Any, leaves: Mapping[tuple[str, int], Any] | None = None
    ) -> None:
        self._spark, self._plan, self._at_hand = spark, plan, leaves or {}
        # by the id of a leaf in `_leaves`
        self._read: dict[int, tuple[str, dict[str, str]] | None] = {}
        self._relations: dict[int, _Relation] = {}

    def of(self, node: Node, output: list[int]) -> Source:
        """Return why rows of a leaf may differ when it is read again, and why their order may."""
        if node.kind in _WITHOUT_A_CALL:
            return _STEADY
        leaf = self._leaf(node, output)
        if leaf is None:
            why: str | None = f"the source {node.name}, which keysplit does not know"
        else:
            why = self._of(node, leaf) or self._left_out(node, leaf)
        return why, why

    def again(self, node: Node, output: list[int]) -> str | None:
        """Return why another query that reads a leaf may see other rows; None if its rows are fixed."""
        leaf = None if node.kind in _WITHOUT_A_CALL else self._leaf(node, output)
        found = None if leaf is None else self._options(node, leaf)
        if leaf is None or found is None:
            return None
        kind, options = found
        if "kafka" in kind:
            fixed = all(_are_fixed(options.get(each, "")) for each in _BOUNDS)
            return None if fixed else f"a topic in Kafka whose start or end moves (pass {_REMEDY})"
        if not self._is_listed_once(node, leaf):
            return "a table whose partitions and files each query lists when it reads them"
        if not any(each in kind for each in reading.TEXT):
            return None
        columns = [str(each).lower() for each in leaf.schema().fieldNames()]
        return reading.malformed(options, self._setting, lambda name: name in columns)

    def partitioned(self, node: Node, output: list[int]) -> str | None:
        """Return what may put the rows of a leaf into other partitions when it is read twice, if anything."""
        if node.kind == _RDD:  # Spark reads that RDD both times
            return None
        if node.kind not in _WITHOUT_A_CALL:
            leaf = self._leaf(node, output)
            if leaf is None or not self._is_cut_by_size(node, leaf):
                return f"a source ({node.name}) that may put its rows into other partitions"
        if self._parallelism_is_fixed or (node.name == "Range" and self._has_own_slices(node, output)):
            return None
        return f"a source ({node.name}), cut for the cores there are"

    def _has_own_slices(self, node: Node, output: list[int]) -> bool:
        leaf = self._leaf(node, output)
        return leaf is not None and bool(leaf.numSlices().isDefined())

    @property
    def _parallelism_is_fixed(self) -> bool:
        """Whether Spark cuts sources for the same number of cores, whichever executors come and go."""
        settings = map(self._setting, ("spark.sql.leafNodeDefaultParallelism", "spark.default.parallelism"))
        return bool(LOCAL.fullmatch(self._master)) or any((value or "").isdigit() for value in settings)

    @cached_property
    def _master(self) -> str:
        return str(self._spark.sparkContext.master)

    def behind(self, node: Node, output: list[int]) -> "tuple[Written, Sources] | None":
        """Return the plan of the micro-batch whose rows a leaf has, and its leaves.

        `foreachBatch` gets the rows of its micro-batch as an RDD: that of the plan which the query runs.

        Returns:
            None if the leaf has other rows, or the plan has subqueries, which Spark may make joins.
        """
        leaf = self._leaf(node, output) if node.kind == _RDD else None
        batch = None if leaf is None else self._micro_batch
        if leaf is None or batch is None or leaf.rdd().id() != batch.toRdd().id():
            return None
        plan = batch.analyzed()
        try:
            return None if plan.subqueriesAll().size() else (whole(plan), Sources(self._spark, plan))
        except (Py4JError, ValueError, RecursionError):  # a very deep expression overflows Spark's stack
            return None

    def is_checkpoint(self, node: Node, output: list[int]) -> bool:
        """Say whether a leaf has the rows of a checkpoint."""
        leaf = self._leaf(node, output) if node.kind == _RDD else None
        return leaf is not None and bool(leaf.rdd().isCheckpointed())

    @cached_property
    def has_caches(self) -> bool:
        """Whether rows of the plan may be cached."""
        return not self._spark._jsparkSession.sharedState().cacheManager().isEmpty()

    @cached_property
    def limits_keep_order(self) -> bool:
        """Whether Spark computes every limit of a sort as one operator."""
        most = self._setting("spark.sql.execution.topKSortFallbackThreshold")
        return most is None or int(most) >= _LARGEST_LIMIT

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether Spark finds all expressions of the plan deterministic."""
        try:
            return bool(self._plan.deterministic())
        except Py4JError:
            return False

    @cached_property
    def sums_try(self) -> bool:
        """Whether a sum that overflows may be null, as `try_sum` is."""
        text = self._text()
        return text is None or "try_sum(" in text or "try_avg(" in text

    @cached_property
    def sums_fail(self) -> bool:
        """Whether all sums that overflow are errors."""
        # Each has the mode in which it was written: a view is read in that of its session.
        return set(map(mode_of_overflow, sums_in(self._plan))) == {"ANSI"}

    def _text(self) -> str | None:
        """Return the plan as text, with all expressions of each operator."""
        for more in ((), (False,)):  # Spark 4 has one argument more
            with suppress(Py4JError):
                return str(self._plan.treeString(False, False, 2**31 - 1, False, *more))
        return None

    def _setting(self, name: str) -> str | None:
        """Return the value of a setting; None where a service lets nobody read it."""
        with suppress(Py4JError, PySparkException):
            return str(self._spark.conf.get(name))
        return None

    def _left_out(self, node: Node, leaf: Any) -> str | None:
        """Return why files that a task cannot read once, and then can, are left out of its rows."""
        found = self._options(node, leaf)
        if found is None:
            return None
        kind, options = found
        return reading.lost(options) if "kafka" in kind else reading.left_out(options, self._setting)

    def _options(self, node: Node, leaf: Any) -> tuple[str, dict[str, str]] | None:
        if id(leaf) not in self._read:
            self._read[id(leaf)] = self._read_options(node, leaf)
        return self._read[id(leaf)]

    def _relation(self, leaf: Any) -> "_Relation":
        if id(leaf) not in self._relations:
            self._relations[id(leaf)] = _Relation(leaf.relation())
        return self._relations[id(leaf)]

    def _read_options(self, node: Node, leaf: Any) -> tuple[str, dict[str, str]] | None:
        """Return the class of the format of a leaf, in small letters, and the options it is read with.

        Returns:
            None if the leaf is not read with options of its own.
        """
        if node.name == "LogicalRelation":
            relation = self._relation(leaf)
            if relation.is_of_files:
                kind, pairs = relation.format, _pairs(relation.value.options())
            elif relation.is_topic:
                kind, pairs = relation.kind, _pairs(_field(relation.value, "sourceOptions"))
            else:
                return None
        elif node.name in ("DataSourceV2Relation", "StreamingRelationV2"):
            options = leaf.options() if node.name == "DataSourceV2Relation" else leaf.extraOptions()
            kind = leaf.table().getClass().getName()
            pairs = [(str(key), str(options.get(key))) for key in options.keySet()]
        elif node.name == "StreamingRelation":
            source = leaf.dataSource()
            kind, pairs = source.className(), _pairs(source.options())
        elif node.kind == _HIVE:
            kind, pairs = node.name, []
        else:
            return None
        return str(kind).lower(), {key.lower(): value for key, value in pairs}

    def _is_cut_by_size(self, node: Node, leaf: Any) -> bool:
        """Say whether Spark cuts the files of a leaf by their sizes, whatever columns it reads.

        Of a bucketed table it makes a partition per bucket where it reads the columns of the buckets; tables
        of other systems cut by rules of their own.
        """
        if node.name == "LogicalRelation":
            relation = self._relation(leaf)
            return relation.kind == _FILES and not relation.value.bucketSpec().isDefined()
        is_table = node.name == "DataSourceV2Relation"
        return is_table and str(leaf.table().getClass().getName()).startswith(_FILE_TABLES)

    def _is_listed_once(self, node: Node, leaf: Any) -> bool:
        """Say whether the files of a leaf, if it has any, are those that were there when it was made.

        Spark lists the partitions of a table of the catalog, and files of Hive, as a query comes to them.
        """
        if node.name == "LogicalRelation" and self._relation(leaf).kind == _FILES:
            return kind_of(self._relation(leaf).value.location()) in _LISTED
        return node.kind != _HIVE

    @cached_property
    def _micro_batch(self) -> Any:
        """The execution of the micro-batch that this thread belongs to, None if there is none."""
        query, number = map(self._spark.sparkContext.getLocalProperty, (QUERY, BATCH))
        if query is None or number is None:
            return None
        try:
            found = running(self._spark, query).lastExecution()
        except LookupError:  # it has ended
            return None
        # the thread may have outlived its micro-batch, and Spark may be planning the next one
        return found if found is not None and int(found.currentBatchId()) == int(number) else None

    def _leaf(self, node: Node, output: list[int]) -> Any:
        if not output:
            return None
        found = self._at_hand.get((node.kind, output[0]))
        return self._leaves.get((node.kind, output[0])) if found is None else found

    @cached_property
    def _leaves(self) -> dict[tuple[str, int], Any]:
        """The leaves of the JVM, by their class and the number of their first column; None if they differ."""
        found: dict[tuple[str, int], Any] = {}
        plans = [self._plan, *items(self._plan.subqueriesAll())]
        for leaf in (leaf for plan in plans for leaf in items(plan.collectLeaves())):
            output = leaf.output()
            if output.size():
                key = leaf.getClass().getName(), int(output.apply(0).exprId().id())
                other = found.setdefault(key, leaf)
                if other is not leaf and other is not None and not other.equals(leaf):
                    found[key] = None
        return found

    def _of(self, node: Node, leaf: Any) -> str | None:
        if node.kind == _HIVE:
            format = str(leaf.tableMeta().storage().inputFormat().getOrElse(None))
            return None if format.startswith(_HIVE_FORMATS) else f"a table of Hive of the format {format}"
        if node.kind == _RDD:
            return None if self._is_known_rdd(leaf.rdd(), leaf.schema().json()) else "an RDD"
        if node.name == "LogicalRelation":
            relation = self._relation(leaf)
            if relation.is_of_files:
                kind = relation.format
                return None if kind.startswith(_FILE_FORMATS) else f"the file format {kind}"
            return None if relation.is_topic else f"the source {kind_of(relation.value)}"
        if node.name == "StreamingRelation":
            kind = str(leaf.dataSource().providingClass().getName())
            return None if kind.startswith(_FILE_FORMATS) else f"the source {kind}"
        if node.name in ("DataSourceV2Relation", "StreamingRelationV2"):
            return _of_class(leaf.table())
        if node.name in ("StreamingDataSourceV2Relation", "StreamingDataSourceV2ScanRelation"):
            with suppress(Py4JError):  # before Spark reads it, it has no stream
                return _of_class(leaf.stream()) or _lost_by(leaf.stream())
        return f"the source {node.name}, which keysplit does not know"

    def _is_known_rdd(self, rdd: Any, schema: str) -> bool:
        """Say whether it is a checkpoint, or a list or table that the driver has sent."""
        if rdd.isCheckpointed():
            return True
        chain = _chain(rdd)
        if _is_like(chain, _FROM_ARROW):
            return True
        return _is_like(chain, _FROM_LIST) and self._only_converts(chain[3], schema)

    def _only_converts(self, rdd: Any, schema: str) -> bool:
        """Say whether the function of an RDD is PySpark's own, which makes rows of Python objects."""
        context = self._spark.sparkContext
        found = _operations(_command(rdd))
        pickled = context.parallelize([], 1)._pickled()._jrdd.rdd()
        if _differ_in_a_number(found, _operations(_command(pickled))):
            return True
        # `createDataFrame` of what `parallelize` made checks the rows against the schema in its function
        own = self._spark.createDataFrame(context.parallelize([], 1), StructType.fromJson(json.loads(schema)))
        leaf = own._jdf.queryExecution().analyzed()
        chain = _chain(leaf.rdd())
        return _is_like(chain, _FROM_LIST) and _differ_in_a_number(found, _operations(_command(chain[3])))


def _are_fixed(offsets: str) -> bool:
    """Say whether offsets of Kafka are numbers, not "earliest" or "latest", which are -2 and -1, too."""
    try:
        found = json.loads(offsets)
        return bool(found) and all(
            bool(topic) and all(type(each) is int and each >= 0 for each in topic.values())
            for topic in found.values()
        )
    except (AttributeError, ValueError):
        return False


class _Relation:
    """What a leaf reads by the first interface of Spark for sources."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._class = value.getClass()
        self.kind = str(self._class.getName())

    @cached_property
    def is_of_files(self) -> bool:
        """Whether it is one of files; Delta has a class of its own, derived from Spark's."""
        derived = self.kind.startswith(_SQL + "delta.")
        return (str(self._class.getSuperclass().getName()) if derived else self.kind) == _FILES

    @property
    def is_topic(self) -> bool:
        """Whether it is a topic of Kafka; a task may ask for its first and last offsets anew."""
        return self.kind == _SQL + "kafka010.KafkaRelation"

    @cached_property
    def format(self) -> str:
        """The class of the format of its files."""
        return str(self.value.fileFormat().getClass().getName())


def _pairs(options: Any) -> list[tuple[str, str]]:
    """Return what a map of Scala holds."""
    found = (each.partition(" -> ") for each in str(options.mkString("\0")).split("\0"))
    return [(key, value) for key, _, value in found]


def _of_class(source: Any) -> str | None:
    kind = source.getClass().getName()
    return None if kind.startswith(SNAPSHOTS) else f"the source {kind}"


def _lost_by(stream: Any) -> str | None:
    """Return why records may be left out of what the stream of a micro-batch reads."""
    if ".kafka010." not in stream.getClass().getName():
        return None
    return reading.lost({"failondataloss": str(_field(stream, "failOnDataLoss")).lower()})


def _field(value: Any, name: str) -> Any:
    """Return a private field of an object."""
    field = value.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(value)


def _chain(rdd: Any) -> list[Any]:
    """Return an RDD and those below it, as long as each is made of one other."""
    chain = [rdd]
    while len(chain) < len(_FROM_LIST):
        dependencies = chain[-1].dependencies()
        if dependencies.size() != 1:
            break
        chain.append(dependencies.apply(0).rdd())
    return chain


def _is_like(chain: list[Any], pattern: tuple[tuple[str, str], ...]) -> bool:
    seen = [(kind_of(each), str(each.creationSite().shortForm())) for each in chain]
    return len(seen) == len(pattern) and all(
        kind == wanted and site.startswith(begin)
        for (kind, site), (wanted, begin) in zip(seen, pattern, strict=True)
    )


def _differ_in_a_number(found: list[tuple[str, Any]], own: list[tuple[str, Any]]) -> bool:
    """Say whether pickles differ in nothing but one number at most: how many rows are pickled at once."""
    if len(found) != len(own):
        return False
    differ = [(mine, theirs) for mine, theirs in zip(found, own, strict=True) if mine != theirs]
    return all(mine[0] == theirs[0] == "INT" for mine, theirs in differ) and len(differ) <= 1


def _command(rdd: Any) -> bytes:
    """Return the pickled function of an RDD of Python."""
    numbers = _field(rdd, "func").command().mkString(",")
    return bytes(int(number) & 0xFF for number in numbers.split(",")) if numbers else b""


def _operations(pickled: bytes) -> list[tuple[str, Any]]:
    """Return what a pickle does, but for how it is cut; nothing of it is run."""
    found = ((operation.name, argument) for operation, argument, _ in pickletools.genops(pickled))
    return [
        ("INT" if name.startswith("BININT") else name, argument)
        for name, argument in found
        if name != "FRAME"
    ]
