"""`join` equals left.join(right, on, how), spreads hot keys, and shuffles nothing itself."""

import re
from dataclasses import replace

import pytest
from calls import no_job
from frames import KEYS, USUAL, Collected, frame, same_rows, skewed
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keysplit import spark as kss
from keysplit.spark import jvm, strategy

# Each kind of join with each side that may be split.
SPLITS = [
    ("inner", "left"),
    ("inner", "right"),
    ("left", "left"),
    ("left", "right"),
    ("right", "left"),
    ("right", "right"),
    ("full", "left"),
    ("full", "right"),
    ("semi", "left"),
    ("anti", "left"),
]
WAYS = ["place", "broadcast"]


EVERY = pytest.mark.parametrize(("how", "split"), SPLITS)
# Those with the other side split; where a test is about something else, the newest Spark alone runs them.
MIRRORED = [("inner", "right"), ("left", "right"), ("right", "left"), ("full", "right")]
EVERY_ON_NEWEST = pytest.mark.parametrize(
    ("how", "split"),
    [pytest.param(*each, marks=pytest.mark.newest) if each in MIRRORED else each for each in SPLITS],
)


def other(spark, type_, keys):
    """Make a frame of a key and two columns, `v` being in the frames of `frame` too."""
    schema = T.StructType(
        [T.StructField("key", type_), T.StructField("v", T.IntegerType()), T.StructField("t", T.StringType())]
    )
    rows = [(key, i, None if i % 3 == 1 else f"t{i}") for i, key in enumerate(keys)]
    return spark.createDataFrame(rows, schema)


def nodes_of(df):
    """Yield the operators of the plan that Spark executes, those upstream last."""
    nodes = [df._jdf.queryExecution().executedPlan()]
    while nodes:
        node = nodes.pop(0)
        yield node
        nodes += [node.children().apply(i) for i in range(node.children().size())]


def written(df):
    """Return how many rows each shuffle of a DataFrame wrote."""
    df.collect()
    return [
        node.metrics().apply("shuffleRecordsWritten").value()
        for node in nodes_of(df)
        if node.getClass().getSimpleName() == "ShuffleExchangeExec"
    ]


@pytest.fixture(scope="module")
def hot(spark):
    """Key 1 and null are hot, 9 is rare and on this side only."""
    return frame(spark, T.LongType(), [*skewed([1, None, 2, 3, 4], 150), 9]).cache()


@pytest.fixture(scope="module")
def cold(spark):
    return other(spark, T.IntegerType(), [1, 1, 2, 3, 3, None, None, 5, 5, 6]).cache()


@pytest.fixture(scope="module")
def plan(spark):
    """A plan whose split keys are in `hot`, in `cold` (5, 6) or in neither (7)."""
    df = frame(spark, T.LongType(), skewed([1, 5, None, 7, 2, 6], 200))
    made = kss.plan(df, "key", workers=4)
    assert {each.key for each in made.head if len(each.workers) > 1} >= {("1",), ("5",), (None,), ("7",)}
    return made


@settings(max_examples=15)
@given(data=st.data())
def test_it_equals_spark_s_join(spark, data):
    type_, keys = KEYS[data.draw(st.sampled_from(sorted(KEYS)), label="type")]
    drawn = st.one_of(
        st.just([]),
        st.lists(st.sampled_from(keys), max_size=20),
        st.builds(lambda key, rows: [key] * rows, st.sampled_from(keys), st.integers(1, 30)),
        st.integers(1, 40).map(lambda rows: skewed(keys, rows)),
    )
    left = frame(spark, type_, data.draw(drawn, label="left"), partitions=2)
    right = other(spark, type_, data.draw(drawn, label="right"))
    how, split = data.draw(st.sampled_from(SPLITS), label="how")
    workers = data.draw(st.sampled_from([1, 2, 5]), label="workers")
    grouping = data.draw(st.sampled_from(["d_choices", "cut_to_fit", "round_robin", "key"]), label="grouping")
    way = data.draw(st.sampled_from([None, "plain", *WAYS]), label="way")
    plan = kss.plan(left if split == "left" else right, "key", workers, grouping=grouping)
    joined = kss.join(left, right, "key", how, split=split, plan=plan, way=way)
    assert same_rows(joined, left.join(right, "key", how))


@EVERY
def test_each_join_equals_spark_s_under_a_given_plan(hot, cold, plan, how, split):
    expected = Collected(hot.join(cold, "key", how)), Collected(cold.join(hot, "key", how))
    for way in WAYS:
        joined = kss.join(hot, cold, "key", how, split=split, plan=plan, way=way)
        assert same_rows(joined, expected[0]), way
        swapped = kss.join(cold, hot, "key", how, split=split, plan=plan, way=way)
        assert same_rows(swapped, expected[1]), way


@pytest.mark.parametrize(
    "name", [name if name in USUAL else pytest.param(name, marks=pytest.mark.slow) for name in sorted(KEYS)]
)
def test_each_type_of_key_joins(spark, name):
    type_, keys = KEYS[name]
    left = frame(spark, type_, [*skewed(keys, 40), *reversed(keys)], partitions=2)
    right = other(spark, type_, keys)
    plan = kss.plan(left, "key", 3, grouping="w_choices")
    expected = Collected(left.join(right, "key", "full"))
    for way in ("place", "broadcast"):
        joined = kss.join(left, right, "key", "full", plan=plan, split="left", way=way)
        assert same_rows(joined, expected), way


@EVERY_ON_NEWEST
def test_empty_sides_join(hot, cold, plan, how, split):
    nothing, none = hot.filter("false"), cold.filter("false")
    for left, right in ((hot, none), (nothing, cold)):
        expected = Collected(left.join(right, "key", how))
        for way in WAYS:
            joined = kss.join(left, right, "key", how, split=split, plan=plan, way=way)
            assert same_rows(joined, expected), way


def test_a_plan_of_nothing_joins(hot, cold):
    for left, right in ((hot.filter("false"), cold), (hot.filter("false"), cold.filter("false"))):
        expected = Collected(left.join(right, "key", "full"))
        for way in (None, "place", "broadcast"):
            joined = kss.join(left, right, "key", "full", workers=3, way=way)
            assert same_rows(joined, expected)


@pytest.fixture(scope="module")
def pairs(spark):
    """Two sides with two key columns of other widths, names in other cases, and a plan."""
    rows = [(1, "a", i) for i in range(30)] + [(None, "a", 1), (1, None, 2), (None, None, 3), (2, "b", 4)]
    left = spark.createDataFrame(rows, "a int, b string, x int")
    rows = [("a", 1), ("a", 1), (None, 1), ("a", None), (None, None), ("c", 3)]
    right = spark.createDataFrame(rows, "b string, A smallint").withColumn("y", F.lit(1.5))
    return left, right, kss.plan(left, ["b", "a"], workers=3)


@EVERY_ON_NEWEST
def test_several_key_columns_join(pairs, how, split):
    left, right, plan = pairs
    expected = Collected(left.join(right, ["b", "a"], how))
    for way in WAYS:
        joined = kss.join(left, right, ["b", "a"], how, split=split, plan=plan, way=way)
        assert same_rows(joined, expected), way


@pytest.mark.parametrize(("how", "split"), [("inner", "right"), ("full", "left"), ("semi", "left")])
def test_names_are_those_of_spark_s_join(spark, how, split):
    rows = [(1, i, i, i, i) for i in range(20)] + [(2, 1, 1, 1, 1)]
    left = spark.createDataFrame(rows, "`a.b` int, worker int, worker_there int, `c``d` int, X int")
    right = spark.createDataFrame([(1, 1, 1, 1), (3, 1, 1, 1)], "x int, `a.b` int, worker int, worker_ int")
    plan = kss.plan(left if split == "left" else right, "`a.b`", 3)
    expected = {name: Collected(left.join(right, name, how)) for name in ("a.b", "A.B")}
    for way in WAYS:
        joined = kss.join(left, right, "a.b", how, split=split, plan=plan, way=way)
        assert same_rows(joined, expected["a.b"]), way
        joined = kss.join(left, right, "A.B", how, split=split, plan=plan, way=way)
        assert same_rows(joined, expected["A.B"]), way


@EVERY_ON_NEWEST
def test_a_frame_joins_itself(hot, plan, how, split):
    less = hot.filter("v < 0")
    expected = Collected(hot.join(less, "key", how))
    for way in WAYS:
        joined = kss.join(hot, less, "key", how, split=split, plan=plan, way=way)
        assert same_rows(joined, expected), way
    joined = kss.join(hot, hot, "key", how, split=split, plan=plan, way="place")
    assert joined.count() == hot.join(hot, "key", how).count()


@EVERY_ON_NEWEST
def test_columns_of_each_side_are_known_after_it(hot, cold, plan, how, split):
    """Also those that the join hides: the key of a side that is not kept whole."""
    left, right = hot.alias("l"), cold.alias("r")
    both = [left["key"], right["key"], left["v"], right["v"], "l.key", "r.key", "l.v", "r.t"]

    def uses(joined):
        """Return what uses the columns in each manner."""
        yield joined.select(*([left["key"], left["v"], "l.v"] if how in ("semi", "anti") else both))
        if how not in ("semi", "anti"):
            yield joined.filter(right["key"] > 1).groupBy(left["key"]).count()
        yield joined.select("key", "s").join(left.filter("false"), "key", "anti")

    expected = [Collected(each) for each in uses(left.join(right, "key", how))]
    for way in WAYS:
        joined = kss.join(left, right, "key", how, split=split, plan=plan, way=way)
        for ours, plain in zip(uses(joined), expected, strict=True):
            assert same_rows(ours, plain), way


@EVERY_ON_NEWEST
def test_columns_without_nulls_stay_so(spark, plan, how, split):
    left = spark.range(9).selectExpr("id as key", "id as x")
    right = spark.range(5).selectExpr("id as key", "'y' as y")
    for way in WAYS:
        joined = kss.join(left, right, "key", how, split=split, plan=plan, way=way)
        assert joined.schema == left.join(right, "key", how).schema, way


@pytest.mark.skipif(not hasattr(T.StringType(), "collation"), reason="this Spark has no collations")
@pytest.mark.parametrize(
    ("how", "split"), [("inner", "left"), ("right", "left"), ("full", "left"), ("anti", "left")]
)
def test_collated_keys_join(spark, how, split):
    rows = [(key, i) for i, key in enumerate(["a", "A", "b", None] * 8)]
    left = spark.createDataFrame(rows, "k string, i int")
    right = spark.createDataFrame([("A", 1), ("a", 2), ("B", 3), ("c", 4), (None, 5)], "k string, n int")
    left, right = (df.withColumn("k", F.expr("k collate UTF8_LCASE")) for df in (left, right))
    for way in WAYS:
        joined = kss.join(
            left, right, "k", how, plan=kss.plan(left, "k", 3, grouping="w_choices"), split=split, way=way
        )
        assert same_rows(joined, left.join(right, "k", how)), way


@pytest.mark.parametrize(
    "how", ["INNER", "outer", "full_outer", "fullOuter", "left_outer", "right_outer", "left_semi", "leftanti"]
)
def test_spark_s_spellings_are_known(hot, cold, plan, how):
    assert same_rows(kss.join(hot, cold, "key", how, plan=plan, way="place"), hot.join(cold, "key", how))


@pytest.mark.parametrize("split", ["left", "right"])
def test_a_hot_key_is_spread(spark, conf, split):
    conf("spark.sql.autoBroadcastJoinThreshold", "-1")
    conf("spark.sql.adaptive.coalescePartitions.enabled", "false")
    facts = spark.range(4000, numPartitions=2).select(
        F.when(F.col("id") % 4 > 0, 0).otherwise(F.col("id")).alias("key"), "id"
    )
    names = spark.range(4000, numPartitions=2).select(F.col("id").alias("key"), F.col("id").alias("name"))
    sides = (facts, names) if split == "left" else (names, facts)
    plan = kss.plan(facts, "key", 8, grouping="cut_to_fit")
    joined = kss.join(*sides, "key", split=split, plan=plan, way="place")
    assert joined.count() == 4000
    tasks = joined.groupBy(F.spark_partition_id().alias("task")).count().collect()
    if hasattr(DataFrame, "repartitionById"):
        assert len(tasks) == 8
        assert max(row["count"] for row in tasks) < 1.2 * 500
    hot = joined.filter("key = 0").select(F.spark_partition_id()).distinct().count()
    assert hot >= (6 if hasattr(DataFrame, "repartitionById") else 3)
    plain = sides[0].join(sides[1], "key").filter("key = 0").select(F.spark_partition_id()).distinct().count()
    assert plain == 1


def test_rows_are_copied_for_split_keys_only(spark, conf, hot, plan):
    conf("spark.sql.adaptive.enabled", "false")
    conf("spark.sql.autoBroadcastJoinThreshold", "-1")
    rare = spark.range(100, 120, numPartitions=1).selectExpr("id as key")
    names = rare.union(spark.sql("select explode(array(1L, null)) as key"))
    copies = {each.key[0]: len(each.workers) for each in plan.head}
    assert copies["1"] > 1
    assert written(kss.join(hot, names, "key", plan=plan, way="place"))[-1] == 20 + copies["1"]
    # None of these is in `rare`: each meets nothing, and comes out once.
    joined = kss.join(rare, names, "key", "right", split="left", plan=plan, way="place")
    assert written(joined)[-1] == 22


def test_a_worker_is_computed_once(hot, cold, plan):
    joined = kss.join(hot, cold, "key", plan=plan, way="place")
    optimized = joined._jdf.queryExecution().optimizedPlan().toString()
    assert not re.search(r"Filter.*xxhash64", optimized)
    assert "Eval" not in optimized


@pytest.mark.skipif(
    not hasattr(DataFrame, "repartitionById"), reason="only repartitionById tells Spark how rows are placed"
)
@pytest.mark.parametrize("adaptive", ["true", "false"])
@EVERY
def test_the_join_shuffles_nothing(conf, hot, cold, plan, how, split, adaptive):
    conf("spark.sql.adaptive.enabled", adaptive)
    conf("spark.sql.autoBroadcastJoinThreshold", "-1")
    joined = kss.join(hot, cold, "key", how, split=split, plan=plan, way="place")
    if adaptive == "true":
        joined.collect()
    nodes = joined._jdf.queryExecution().executedPlan().toString().split("Initial Plan")[0]
    # Both sides, and the distinct keys of a side where rows must come out once or not at all.
    keys = how not in ("inner", split)
    assert len(re.findall(r"(?<!\w)Exchange ", nodes)) == 2 + keys
    assert nodes.count("shufflepartitionidpassthrough") == 2


@pytest.mark.parametrize("way", ["place", "broadcast"])
def test_the_keys_of_a_side_are_found_by_one_task(conf, hot, cold, plan, way):
    conf("spark.sql.adaptive.enabled", "false")
    conf("spark.sql.autoBroadcastJoinThreshold", "-1")
    joined = kss.join(hot, cold, "key", "full", plan=plan, way=way)
    nodes = joined._jdf.queryExecution().executedPlan().toString()
    assert nodes.count("Exchange SinglePartition") == 1
    by_worker = way == "place" and hasattr(DataFrame, "repartitionById")
    assert nodes.count("Exchange hashpartitioning(") == (0 if by_worker else 2)


@pytest.mark.parametrize("way", ["place", "broadcast"])
def test_zeros_of_both_signs_are_one_key(spark, way):
    keys = [0.0, -0.0, float("nan"), 0.5]
    rows = spark.createDataFrame([(keys[i % 4], i) for i in range(400)], "key double, i int")
    others = spark.createDataFrame([*zip([*keys, 1.5], range(5), strict=True)], "key double, n int")
    joined = kss.join(
        rows, others, "key", "full", plan=kss.plan(rows, "key", 4, grouping="w_choices"), way=way
    )
    assert same_rows(joined, rows.join(others, "key", "full"))


def test_it_may_become_a_broadcast_join(hot, cold, plan):
    joined = kss.join(hot, F.broadcast(cold), "key", "left", plan=plan, way="place")
    assert same_rows(joined, hot.join(cold, "key", "left"))


@pytest.fixture
def large(conf, monkeypatch):
    """Make the other side of `facts` too large to be broadcast whole, and the first one worth a plan."""
    conf("spark.sql.autoBroadcastJoinThreshold", "2000")
    monkeypatch.setattr(strategy, "_SMALL", 0)


@pytest.fixture
def many_slots(monkeypatch):
    """Let splitting a hot key pay."""
    monkeypatch.setattr(jvm, "slots", lambda df: 8)


@pytest.fixture(scope="module")
def facts(spark):
    """A thousand rows, 60 % of them of key 7 and some of no key; a row of each of 500 keys; a plan."""
    some = F.when(F.col("id") % 20 == 1, None).when(F.col("id") % 5 > 1, 7).otherwise(F.col("id"))
    facts = spark.range(0, 1000, 1, 2).select(some.alias("k"), F.col("id").alias("v"))
    names = spark.range(0, 500, 1, 2).select(F.col("id").cast("int").alias("k"), F.lit("x" * 20).alias("w"))
    return facts, names, kss.plan(facts, "k", workers=8)


def shuffled(df):
    """Return how many rows Spark wrote into shuffles."""
    return sum(written(df))


def test_hot_keys_are_broadcast_and_never_shuffled(conf, large, facts):
    conf("spark.sql.adaptive.enabled", "false")
    rows, names, plan = facts
    joined = kss.join(rows, names, "k", "left", plan=plan)
    told = r"broadcast: \d+ hot keys hold \d+% of the rows; the other side has \d+ rows of them.*"
    assert re.fullmatch(told, kss.explain(joined))
    assert same_rows(joined, rows.join(names, "k", "left"))
    hot = rows.filter("k = 7 or k is null").count()
    assert shuffled(joined) <= rows.count() - hot + names.count()
    swapped = kss.join(names, rows, "k", "left", split="right", plan=plan)  # names are kept whole
    assert kss.explain(swapped).startswith("broadcast: ")
    assert same_rows(swapped, names.join(rows, "k", "left"))


def test_rows_of_the_other_side_are_measured(conf, large, many_slots, facts):
    rows, names, plan = facts
    keys = len(plan.head)
    conf("spark.sql.autoBroadcastJoinThreshold", f"{40 * keys}")
    joined = kss.join(rows, names, "k", plan=plan)  # each with an INT and 20 bytes of text
    assert re.match(
        rf"broadcast: .* has {keys - 1} rows of them \({24 * (keys - 1)} B\)", kss.explain(joined)
    )
    assert same_rows(joined, rows.join(names, "k"))
    conf("spark.sql.autoBroadcastJoinThreshold", f"{10 * keys}")
    fewer = kss.join(rows, names, "k", plan=plan)
    assert not kss.explain(fewer).startswith(f"broadcast: {keys} ")


@pytest.mark.parametrize("way", [None, "broadcast", "place"])
def test_the_other_side_may_have_a_column_twice(large, facts, way):
    rows, names, plan = facts
    twice = names.union(names).selectExpr("k", "w AS t", "upper(w) AS t", "IF(k = 7, NULL, k) AS `a.b`")
    joined = kss.join(rows, twice, "k", plan=plan, way=way)
    assert kss.explain(joined).startswith(way or "broadcast")
    assert joined.columns == ["k", "v", "t", "t", "a.b"]
    assert same_rows(joined.toDF(*"kvtub"), rows.join(twice, "k").toDF(*"kvtub"))


@pytest.mark.newest  # older ones count no rows there
@pytest.mark.parametrize("way", ["place", "broadcast"])
def test_keys_with_a_null_are_not_collected(spark, conf, way):
    """Half of some rows have one key with a null, the others a null of their own each: they meet nothing."""
    ids = spark.range(0, 400, 1, 2)
    nulls = ids.selectExpr("IF(id < 0, '', NULL) AS a", "IF(id % 2 = 0, 0, id) AS b", "id")
    rows = nulls.union(spark.sql("SELECT 'x', id % 2, id FROM range(200)"))
    others = spark.sql("SELECT * FROM VALUES ('x', 0L, 1), ('x', 2L, 2), (NULL, 0L, 3) AS t(a, b, n)")
    conf("spark.sql.adaptive.enabled", "false")
    joined = kss.join(
        rows, others, ["a", "b"], "full", plan=kss.plan(rows, ["a", "b"], 4, grouping="w_choices"), way=way
    )
    assert same_rows(joined, rows.join(others, ["a", "b"], "full"))
    joined.collect()
    keys = [
        node.metrics().apply("numOutputRows").value()
        for node in nodes_of(joined)
        if node.nodeName() == "Generate" and "inline" in node.toString()
    ]
    assert max(keys) == 2


@pytest.fixture
def texts(spark, tmp_path):
    """Return what makes a table of `ab` as CHAR of some length."""
    made = []

    def table(length):
        made.append(f"chars_{length}_{len(made)}")
        spark.sql(
            f"CREATE TABLE {made[-1]} (k CHAR({length})) USING parquet LOCATION '{tmp_path / made[-1]}'"
        )
        spark.sql(f"INSERT INTO {made[-1]} VALUES ('ab')")
        return spark.table(made[-1])

    yield table
    for name in made:
        spark.sql(f"DROP TABLE {name}")


def test_texts_that_spark_pads_to_compare_them_are_refused(conf, texts):
    short, long, again = texts(3), texts(5), texts(3)
    assert short.join(long, "k").count() == 1
    with pytest.raises(
        TypeError, match=r"^on must have CHAR of the same length .*, got char\(3\) and char\(5\): pad"
    ):
        kss.join(short, long, "k", workers=4)
    padded = short.withColumn("k", F.rpad("k", 5, " "))
    for left, right in ((short, again), (padded, long)):
        plan = kss.plan(left, "k", 4, trust="k")
        assert kss.join(left, right, "k", plan=plan, way="place").count() == 1
    conf("spark.sql.readSideCharPadding", "false")
    with pytest.raises(
        TypeError, match=r"^on must not be char\(3\) where spark.sql.readSideCharPadding is fa"
    ):
        kss.join(short, again, "k", workers=4)


def test_a_side_that_spark_broadcasts_is_left_to_it(monkeypatch, facts):
    monkeypatch.setattr(strategy, "_SMALL", 0)
    rows, names, plan = facts
    joined = kss.join(rows, names, "k", plan=plan)
    assert kss.explain(joined) == "plain: Spark broadcasts one side whole, and shuffles nothing"
    for way in WAYS:
        assert kss.explain(kss.join(rows, names, "k", plan=plan, way=way)).startswith(f"{way}: ")
    told = kss.explain(kss.join(rows, names, "k", plan=plan, way="plain"))
    assert told == "plain: as way='plain' requires"


def test_a_small_side_is_left_to_spark_and_not_planned(spark, conf, facts):
    conf("spark.sql.autoBroadcastJoinThreshold", "2000")
    rows, names, _ = facts
    told = r"plain: planning would cost more than it saves: 2 tasks run at once, .* at 0\.0 MB \(up to .*"
    with no_job(spark, "small"):
        unread = kss.join(rows, names, "k", workers=8)
    assert re.fullmatch(told, kss.explain(unread))
    planned = kss.join(rows, names, "k", workers=8, way="broadcast")
    assert kss.explain(planned).startswith("broadcast: ")
    assert strategy.reason_for_no_plan_of_a_join(2, 10**6) is not None
    for slots, size in ((3, 10**6), (None, 10**6), (2, 10**8), (2, None)):
        assert strategy.reason_for_no_plan_of_a_join(slots, size) is None


@pytest.mark.filterwarnings("ignore:key column 'k' of")
def test_why_no_hot_key_is_broadcast(conf, large, many_slots, facts):
    rows, names, plan = facts
    drawn = rows.repartition(2).withColumn("k", F.when(F.rand() > 2, 1).otherwise(F.col("k")))
    python = rows.withColumn("v", F.udf(lambda v: v, "long")("v"))
    for left, right, why in (
        (drawn, names, "both sides twice, and rows or keys may differ the second time: rand downstream of"),
        (rows, names.join(drawn.select("k"), "k", "semi"), "rows or keys may differ the second time: rand"),
        (rows.repartition(2), names, "there is a shuffle upstream"),
        (rows, names.repartition(2), "there is a shuffle upstream"),
        (python, names, "there is Python upstream"),
    ):
        joined = kss.join(left, right, "k", plan=replace(plan, row_id=("v",), trust=("v",)))
        assert re.match(f"place: .*{why}", kss.explain(joined))
    cached = kss.join(rows.repartition(2).cache(), names, "k", plan=plan)
    assert kss.explain(cached).startswith("broadcast: ")
    conf("spark.sql.autoBroadcastJoinThreshold", "-1")
    joined = kss.join(rows, names, "k", plan=plan)
    assert "no broadcast, because spark.sql.autoBroadcastJoinThreshold is below 0" in kss.explain(joined)


@pytest.mark.filterwarnings("ignore:key column 'k' of")
def test_a_key_that_is_drawn_is_never_read_twice(facts):
    rows, names, plan = facts
    drawn = rows.repartition(2).withColumn("k", (F.col("k") + F.rand()).cast("long"))
    for left, right in ((drawn, names), (rows, drawn.withColumnRenamed("v", "w"))):
        with pytest.raises(
            ValueError, match=r"^(left|right) must have the same rows .* because way='broadcast' reads"
        ):
            kss.join(left, right, "k", plan=plan, way="broadcast")


def test_many_pairs_per_row_are_left_to_spark(large, facts):
    rows, _, plan = facts
    many = rows.select(F.coalesce("k", F.lit(-1)).cast("int").alias("k"), F.col("v").alias("w"))
    joined = kss.join(rows, many, "k", plan=plan)
    told = (
        r"plain: splitting would gain too little: .*; a broadcast would not help: "
        r"its hot keys make 36\d pairs per row of the split side"
    )
    assert re.fullmatch(told, kss.explain(joined))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"how": "cross"}, ValueError, "how must be inner, left, right, full, semi or anti, got 'cross'"),
        ({"how": None}, TypeError, "how must be a string, got NoneType"),
        ({"split": "both"}, ValueError, "split must be 'left' or 'right', got 'both'"),
        (
            {"split": "right", "how": "left_anti"},
            ValueError,
            "split must be 'left' in semi and anti joins, got",
        ),
        ({"way": "grid"}, ValueError, "way must be 'plain', 'place', 'broadcast' or None, got 'grid'"),
        ({"on": "n"}, ValueError, "on must name one column of the DataFrame, got"),
        ({"on": []}, ValueError, "on must name at least one column, got an empty list"),
        ({"on": ["key", "Key"]}, ValueError, "on must name each column once, got ['key', 'Key']"),
        ({"on": "t"}, TypeError, "on must have the same type on both sides, got bigint and string: cast one"),
        ({"workers": 0}, ValueError, "workers must be in 1..=65536, got 0"),
        ({"right": 7}, TypeError, "right must be a Spark DataFrame, got int"),
        ({"rows": 7}, TypeError, "got an unexpected keyword argument 'rows'"),
    ],
)
def test_wrong_arguments_are_refused(hot, cold, arguments, error, message):
    left = hot.withColumn("t", F.col("v"))
    given = {"left": left, "right": cold, "on": "key", "workers": 3} | arguments
    with pytest.raises(error, match=re.escape(message)):
        kss.join(**given)


CONDITIONS = {
    "columns": lambda left, right: left["v"] < right["w"] * 20,
    "names": lambda left, right: (F.col("s") > F.col("t")) & (left["key"] + right["key"] > 2),
    "text": lambda left, right: "w > 3 AND s IS NOT NULL",
    "null": lambda left, right: F.lit(None).cast("boolean"),
}


@pytest.mark.parametrize("how", ["inner", "left", "right", "semi", "anti"])
@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_is_part_of_the_join(hot, cold, plan, how, name):
    left, right = hot.select("key", "v", "s"), cold.select(F.col("v").alias("w"), "key", "t")
    if name == "columns":
        swapped = cold.select("key", "v", F.col("t").alias("s"))
        sides = [(left, right), (swapped, hot.select("key", F.col("v").alias("w"), F.col("s").alias("t")))]
    else:
        sides = [(left, right)]
    for left, right in sides:
        condition = CONDITIONS[name](left, right)
        also = F.expr(condition) if isinstance(condition, str) else condition
        expected = left.join(right, (left["key"] == right["key"]) & also, how)
        if how not in ("semi", "anti"):
            key, rest = (
                (right if how == "right" else left)["key"],
                (left["v"], left["s"], right["w"], right["t"]),
            )
            expected = expected.select(key, *rest)
        expected = Collected(expected)
        for way in WAYS:
            joined = kss.join(left, right, "key", how, condition=condition, plan=plan, way=way)
            assert kss.explain(joined).startswith(way)
            assert same_rows(joined, expected), way
    plain = kss.join(left, right, "key", how, condition=condition, workers=4)
    assert kss.explain(plain).startswith("plain")
    assert same_rows(plain, expected)
    if how == "inner":
        joined = kss.join(left, right, "key", condition=condition, plan=plan, way="place")
        assert joined.select(left["key"], right["key"], right["w"]).count() == joined.count()


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_rows_are_joined_on_their_workers_under_a_condition(hot, cold, plan, conf, how):
    """Spark would push such a join below the placing, and shuffle by key and worker instead."""
    conf("spark.sql.adaptive.enabled", "false")
    conf("spark.sql.autoBroadcastJoinThreshold", "-1")
    right = cold.select("key", F.col("v").alias("w"))
    joined = kss.join(hot, right, "key", how, condition="v < w", plan=plan, way="place")
    text = joined._jdf.queryExecution().executedPlan().toString()
    exchanges = re.findall(r"Exchange \w*partitioning\(.*", text)
    assert not [each for each in exchanges if "hashpartitioning" in each and "key" in each]


def test_a_join_with_itself_takes_a_condition(hot, plan):
    left, right = hot.alias("l"), hot.alias("r")
    condition = F.col("l.v") < F.col("r.v")
    for how in ("left", "anti"):
        expected = left.join(right, (F.col("l.key") == F.col("r.key")) & condition, how)
        for way in WAYS:
            joined = kss.join(left, right, "key", how, condition=condition, plan=plan, way=way)
            assert joined.count() == expected.count(), (how, way)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"condition": 7},
            TypeError,
            "condition must be a column such as F.expr('a <= b'), SQL text or None, got 7",
        ),
        (
            {"how": "full"},
            ValueError,
            "how must be inner, left, right, semi or anti with a condition, got 'full'",
        ),
        (
            {"how": "left", "split": "right"},
            ValueError,
            "split must be 'left' in a left join with a condition",
        ),
        (
            {"how": "right", "split": "left"},
            ValueError,
            "split must be 'right' in a right join with a condition",
        ),
        ({"condition": "nothing > 3"}, AnalysisException, "nothing"),
        ({"condition": "v > 3"}, AnalysisException, "v"),  # both sides have one
    ],
)
def test_a_wrong_condition_is_refused(hot, cold, plan, arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        kss.join(hot, cold, "key", **{"condition": F.lit(True), "plan": plan} | arguments)


def test_a_condition_in_the_place_of_keys_is_refused(hot, cold):
    with pytest.raises(TypeError, match="on must be a column name or a list of column names, got Column"):
        kss.join(hot, cold, hot["key"] == cold["key"], workers=3)


def test_streams_are_refused(spark, hot):
    stream = spark.readStream.format("rate").load().withColumnRenamed("value", "key")
    for left, right, side in ((stream, hot, "left"), (hot, stream, "right")):
        with pytest.raises(ValueError, match=f"{side} must be a batch DataFrame, got a streaming one"):
            kss.join(left, right, "key", workers=3)


def test_a_side_that_is_read_twice_must_be_the_same_twice(spark):
    df = spark.range(0, 40, 1, 2).selectExpr("id % 4 as k", "id as v")
    right = spark.range(6).selectExpr("id as k", "id as w")
    plan = kss.plan(df, "k", 4, grouping="w_choices")
    for risky in (df.repartition(4).sample(0.5, seed=1), df.repartition(4).limit(20)):
        with pytest.raises(
            ValueError, match=r"^left must have the same rows each time it is read, because a"
        ):
            kss.join(risky, right, "k", "full", plan=replace(plan, row_id=("v",)), way="place")
    assert kss.join(df, right, ("k",), "full", plan=plan, way="place").count() == 42


def test_functions_are_trusted_on_both_sides(spark):
    @F.udf("string")
    def cleaned(key):
        return key

    left = spark.range(1200).selectExpr("IF(id % 2 = 0, 'hot', concat('k', id % 30)) AS key", "id")
    right = left.filter("id < 30").select(cleaned("key").alias("key"), F.col("id").alias("o"))
    plan = kss.plan(left, "key", 4)
    with pytest.raises(ValueError, match=r"^right must have the same rows .*'cleaned', which is not trusted"):
        kss.join(left, right, "key", plan=plan, way="broadcast")
    with pytest.raises(ValueError, match=r"^right must have the same rows"):  # a column of the other side
        kss.join(left, right, "key", plan=replace(plan, trust=("key",)), way="broadcast")
    plain = left.join(right, "key")
    with pytest.raises(ValueError, match=r"^right must have the same rows"):  # a column that is not there
        kss.join(left, right, "key", plan=replace(plan, trust=("cleaned",)), way="broadcast")
    joined = kss.join(left, right, "key", plan=replace(plan, trust=("cleaned()",)), way="broadcast")
    assert kss.explain(joined).startswith("broadcast: ")
    assert sorted(joined.collect()) == sorted(plain.collect())


def test_a_session_that_was_stopped_is_named(spark, monkeypatch):
    df = spark.range(5)
    monkeypatch.setattr(spark.sparkContext, "_jsc", None)  # as `stop` leaves it
    for argument, call in (
        ("df", lambda: kss.plan(df, "id", 2)),
        ("left", lambda: kss.join(df, df, "id", workers=2)),
        ("spark", lambda: kss.diagnose(spark)),
    ):
        with pytest.raises(
            ValueError, match=rf"^{argument} must be .*that is running, got a stopped session$"
        ):
            call()
