"""Decide whether the sources of a classic query return the same rows again."""

import json
import pickletools
from contextlib import suppress
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from keysplit.spark.identity import reading
from keysplit.spark.identity.known import Node
from keysplit.spark.jvm import JvmError, items, kind_of, plan_of, running, setting_of
from keysplit.spark.tasks import BATCH, QUERY

_SQL = "org.apache.spark.sql."
_RDD = _SQL + "execution.LogicalRDD"
_FILES = _SQL + "execution.datasources.HadoopFsRelation"
_HIVE = _SQL + "catalyst.catalog.HiveTableRelation"
# These contain their rows, or the rule that creates them.
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
# The same for tables that Spark reads with Hive's code; other systems have their own formats.
_HIVE_FORMATS = ("org.apache.hadoop.hive.ql.io.", "org.apache.hadoop.mapred.")
# Tables that return a snapshot, files, or the records between fixed offsets.
SNAPSHOTS = (
    *(
        _SQL + f"execution.datasources.v2.{format}."
        for format in ("csv", "json", "orc", "parquet", "text", "xml")
    ),
    "org.apache.iceberg.spark.source.",
    _SQL + "delta.catalog.",
    _SQL + "execution.streaming.sources.Rate",
    _SQL + "execution.streaming.sources.Memory",
    _SQL + "kafka010.",
    _SQL + "v2.avro.",
)
# Lists of files that are made once, together with their relation.
_LISTED = ("InMemoryFileIndex", "MetadataLogFileIndex")
# Kafka options that fix the start and end of a batch, and the check of their values.
_BOUNDS = ("startingoffsets", "endingoffsets")
_REMEDY = "startingOffsets and endingOffsets with a number for each partition"
# The RDDs of `createDataFrame` from a list, from the top down, and from Arrow.
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
    """

    def __init__(self, spark: SparkSession, plan: Any) -> None:
        self._spark, self._plan, self._setting = spark, plan, setting_of(spark)
        # by the id of a leaf in `_leaves`
        self._read: dict[int, tuple[str, dict[str, str]] | None] = {}
        self._relations: dict[int, _Relation] = {}

    def of(self, node: Node, output: list[int]) -> str | None:
        """Return why rows of a leaf, or their order, may differ when the leaf is read again."""
        if node.kind in _WITHOUT_A_CALL:
            return None
        leaf = self._leaf(node, output)
        if leaf is None:
            return f"the source {node.name}, which keysplit does not know"
        return self._of(node, leaf) or self._left_out(node, leaf)

    def again(self, node: Node, output: list[int]) -> str | None:
        """Return why a second query that reads a leaf may see different rows; None if the rows are fixed."""
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

    def behind(self, node: Node, output: list[int]) -> "tuple[str, Sources] | None":
        """Return the JSON plan of the micro-batch that a leaf's rows come from, and the leaves of that plan.

        `foreachBatch` gets the rows of its micro-batch as an RDD of the query's plan.

        Returns:
            None if the leaf's rows come from elsewhere, or the plan has subqueries: Spark may turn them into
            joins.
        """
        leaf = self._leaf(node, output) if node.kind == _RDD else None
        batch = None if leaf is None else self._micro_batch
        if leaf is None or batch is None or leaf.rdd().id() != batch.toRdd().id():
            return None
        plan = batch.analyzed()
        try:
            return None if plan.subqueriesAll().size() else (str(plan.toJSON()), Sources(self._spark, plan))
        except JvmError:  # a very deep expression overflows Spark's stack
            return None

    def is_checkpoint(self, node: Node, output: list[int]) -> bool:
        """Return whether a leaf reads the rows of a checkpoint."""
        leaf = self._leaf(node, output) if node.kind == _RDD else None
        return leaf is not None and bool(leaf.rdd().isCheckpointed())

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether Spark finds all expressions of the plan deterministic."""
        try:
            return bool(self._plan.deterministic())
        except JvmError:
            return False

    def _left_out(self, node: Node, leaf: Any) -> str | None:
        """Return why a leaf may skip files in one attempt and read them in a later one."""
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
        """Return the class of a leaf's format, in lower case, and its read options.

        Returns:
            None if the leaf has no read options.
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

    def _is_listed_once(self, node: Node, leaf: Any) -> bool:
        """Return whether a leaf's files were listed when the leaf was made, or it has no files.

        Spark lists the partitions of catalog tables, and Hive's files, only when a query reads them.
        """
        if node.name == "LogicalRelation" and self._relation(leaf).kind == _FILES:
            return kind_of(self._relation(leaf).value.location()) in _LISTED
        return node.kind != _HIVE

    @cached_property
    def _micro_batch(self) -> Any:
        """The execution of this thread's micro-batch; None if there is none."""
        query, number = map(self._spark.sparkContext.getLocalProperty, (QUERY, BATCH))
        if query is None or number is None:
            return None
        try:
            found = running(self._spark, query).lastExecution()
        except LookupError:  # it has ended
            return None
        # the micro-batch may have ended, and Spark may be planning the next one
        return found if found is not None and int(found.currentBatchId()) == int(number) else None

    def _leaf(self, node: Node, output: list[int]) -> Any:
        return self._leaves.get((node.kind, output[0])) if output else None

    @cached_property
    def _leaves(self) -> dict[tuple[str, int], Any]:
        """The JVM's leaves, by class and id of the first column; None if that is ambiguous."""
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
            with suppress(JvmError):  # it has no stream before Spark reads it
                return _of_class(leaf.stream()) or _lost_by(leaf.stream())
        return f"the source {node.name}, which keysplit does not know"

    def _is_known_rdd(self, rdd: Any, schema: str) -> bool:
        """Return whether an RDD is a checkpoint, or a list or table that the driver has sent."""
        if rdd.isCheckpointed():
            return True
        chain = _chain(rdd)
        if _is_like(chain, _FROM_ARROW):
            return True
        return _is_like(chain, _FROM_LIST) and self._only_converts(chain[3], schema)

    def _only_converts(self, rdd: Any, schema: str) -> bool:
        """Return whether an RDD's function is PySpark's own that converts Python objects to rows."""
        context = self._spark.sparkContext
        found = _operations(_command(rdd))
        pickled = context.parallelize([], 1)._pickled()._jrdd.rdd()
        if _differ_in_a_number(found, _operations(_command(pickled))):
            return True
        # `createDataFrame` of a result of `parallelize` checks the rows against the schema in its function
        own = self._spark.createDataFrame(context.parallelize([], 1), StructType.fromJson(json.loads(schema)))
        chain = _chain(plan_of(own).rdd())
        return _is_like(chain, _FROM_LIST) and _differ_in_a_number(found, _operations(_command(chain[3])))


def _are_fixed(offsets: str) -> bool:
    """Return whether Kafka offsets are numbers, not "earliest" or "latest", alias -2 and -1."""
    try:
        found = json.loads(offsets)
        return bool(found) and all(
            bool(topic) and all(type(each) is int and each >= 0 for each in topic.values())
            for topic in found.values()
        )
    except (AttributeError, ValueError):
        return False


class _Relation:
    """The relation of a leaf that is read through version 1 of Spark's Data Source API."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._class = value.getClass()
        self.kind = str(self._class.getName())

    @cached_property
    def is_of_files(self) -> bool:
        """Whether the relation reads files; Delta has its own class, derived from Spark's."""
        derived = self.kind.startswith(_SQL + "delta.")
        return (str(self._class.getSuperclass().getName()) if derived else self.kind) == _FILES

    @property
    def is_topic(self) -> bool:
        """Whether the relation is a Kafka topic; a task may look up its first and last offsets again."""
        return self.kind == _SQL + "kafka010.KafkaRelation"

    @cached_property
    def format(self) -> str:
        """The class of the files' format."""
        return str(self.value.fileFormat().getClass().getName())


def _pairs(options: Any) -> list[tuple[str, str]]:
    """Return the pairs of a Scala map."""
    found = (each.partition(" -> ") for each in str(options.mkString("\0")).split("\0"))
    return [(key, value) for key, _, value in found]


def _of_class(source: Any) -> str | None:
    kind = source.getClass().getName()
    return None if kind.startswith(SNAPSHOTS) else f"the source {kind}"


def _lost_by(stream: Any) -> str | None:
    """Return why the stream of a micro-batch may skip records."""
    if ".kafka010." not in stream.getClass().getName():
        return None
    return reading.lost({"failondataloss": str(_field(stream, "failOnDataLoss")).lower()})


def _field(value: Any, name: str) -> Any:
    """Return a private field of an object."""
    field = value.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(value)


def _chain(rdd: Any) -> list[Any]:
    """Return an RDD and its ancestors, as long as each has a single parent."""
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
    """Return whether two pickles differ at most in one number: the rows per pickled batch."""
    if len(found) != len(own):
        return False
    differ = [(mine, theirs) for mine, theirs in zip(found, own, strict=True) if mine != theirs]
    return all(mine[0] == theirs[0] == "INT" for mine, theirs in differ) and len(differ) <= 1


def _command(rdd: Any) -> bytes:
    """Return the pickled function of a Python RDD."""
    numbers = _field(rdd, "func").command().mkString(",")
    return bytes(int(number) & 0xFF for number in numbers.split(",")) if numbers else b""


def _operations(pickled: bytes) -> list[tuple[str, Any]]:
    """Return the operations of a pickle without its framing; nothing is executed."""
    found = ((operation.name, argument) for operation, argument, _ in pickletools.genops(pickled))
    return [
        ("INT" if name.startswith("BININT") else name, argument)
        for name, argument in found
        if name != "FRAME"
    ]
