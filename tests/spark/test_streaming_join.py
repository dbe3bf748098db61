"""`streaming.join` puts out in each batch what Spark's own does, and refuses the state of another plan."""

import datetime as dt
import re
from dataclasses import replace

import pytest
from frames import skewed
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from streams import Files, Outputs

from keysplit import spark as kss
from keysplit.plan import Plan
from keysplit.spark.streaming import Adapt

WORKERS = 4
SHOWN = "at timestamp, key string, part int, n bigint, s string"
CLICKED = "clicked timestamp, part bigint, key string, m int, s string"
START = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
RANGE = "at <= clicked AND clicked <= at + INTERVAL 10 MINUTES"
# Each kind of a join of two streams with the side that may be split.
TWO = [("inner", "left"), ("inner", "right"), ("left", "left"), ("right", "right"), ("semi", "left")]


def shown(number, rows=40):
    """Return the rows of an hour: half of them of one key."""
    keys = skewed(["hot", None, "a", "b", "c"], rows)
    return [
        {
            "at": (START + dt.timedelta(hours=number, seconds=80 * i)).isoformat(),
            "key": key,
            "part": None if i % 9 == 0 else i % 2,
            "n": 1000 * number + i,
            "s": f"s{i % 3}",
        }
        for i, key in enumerate(keys)
    ]


def clicked(number, rows=25):
    """Return the same of the other side, some minutes later, or never."""
    keys = skewed(["hot", "a", None, "b", "d"], rows)
    return [
        {
            "clicked": (START + dt.timedelta(hours=number, seconds=150 * i + 200)).isoformat(),
            "key": key,
            "part": None if i % 8 == 0 else i % 2,
            "m": 1000 * number + i,
            "s": f"s{i % 2}",
        }
        for i, key in enumerate(keys)
    ]


class Sides:
    """The files of both sides, and what is read of them."""

    def __init__(self, spark, path):
        self.left, self.right = Files(spark, path / "left", SHOWN), Files(spark, path / "right", CLICKED)

    def add(self, left, right):
        self.left.add(left)
        self.right.add(right)

    def streams(self):
        left = self.left.stream("5 minutes")
        return left, self.right.stream().withWatermark("clicked", "10 minutes")


def plan_of(spark, key="key", **options):
    """Return a plan that splits "hot" and null."""
    rows = [(key, i) for i, key in enumerate(skewed(["hot", None, "e", "f"], 200))]
    df = spark.createDataFrame(rows, "key string, n int").withColumn("part", (F.col("n") % 2).cast("int"))
    return kss.plan(df, key, WORKERS, grouping="w_choices", **options)


@pytest.fixture(scope="module")
def plan(spark):
    plan = plan_of(spark)
    assert {each.key: len(each.workers) for each in plan.head}["hot",] == WORKERS
    return plan


@pytest.fixture(scope="module")
def sides(spark, tmp_path_factory):
    sides = Sides(spark, tmp_path_factory.mktemp("join"))
    sides.add(shown(0), clicked(0))
    sides.add(shown(1), clicked(1))
    # when the watermark has passed it: the first hour again
    sides.add([*shown(3, 10), *shown(0, 8)], [*clicked(3, 10), *clicked(0, 8)])
    return sides


@pytest.fixture(scope="module")
def table(spark):
    rows = [(key, i, f"t{i}") for i, key in enumerate(["hot", "hot", "a", None, "b", "d", "hot"])]
    return spark.createDataFrame(rows, "key string, n int, t string")


@pytest.fixture(autouse=True)
def few_partitions(conf):
    conf("spark.sql.shuffle.partitions", "2")
    conf("spark.sql.autoBroadcastJoinThreshold", "-1")


def spark_s(left, right, how, keys=("key",)):
    """Return Spark's own join of two streams, with each key once."""
    where = [left[key] == right[key] for key in keys]
    joined = left.join(right, [*where, F.expr(RANGE)], how)
    kept = right if how == "right" else left
    named = [kept[key] for key in keys] + [left[each] for each in left.columns if each not in keys]
    if how != "semi":
        named += [right[each] for each in right.columns if each not in keys]
    return joined.select(*named)


def test_a_stream_and_a_table(sides, table, plan, tmp_path):
    rows, results = sides.left.stream("5 minutes"), {}
    for how in ("inner", "left", "semi", "anti", "right", "inner right"):
        left, right = (table, rows) if how.endswith("right") else (rows, table)
        how, name = how.split()[0], how
        results[f"{name} spark"] = left.join(right, "key", how)
        ours = kss.streaming.join(left, right, "key", how, plan=plan, way="place")
        assert kss.explain(ours).startswith("place: ")
        assert ours.schema == results[f"{name} spark"].schema
        results[f"{name} ours"] = ours
    found = Outputs(tmp_path).run(results)
    for name in results:
        assert found[name] == found[f"{name.rpartition(' ')[0]} spark"], name
        assert [bool(rows) for rows in found[name].values()] == [True] * 3


@pytest.mark.parametrize(
    "kinds", [TWO[2:4], pytest.param([*TWO[:2], TWO[4]], marks=pytest.mark.slow)], ids=["outer", "inner"]
)
def test_two_streams(sides, plan, tmp_path, kinds):
    left, right = sides.streams()
    results = {}
    for how, split in kinds:
        results[f"{how} {split} spark"] = expected = spark_s(left, right, how)
        condition = F.expr(RANGE)
        if split == "right":  # the same by columns of the sides
            condition = right["clicked"].between(left["at"], left["at"] + F.expr("INTERVAL 10 MINUTES"))
        ours = kss.streaming.join(
            left, right, "key", how, condition=condition, split=split, plan=plan, way="place"
        )
        assert [each.name for each in ours.schema] == [each.name for each in expected.schema]
        assert [each.dataType for each in ours.schema] == [each.dataType for each in expected.schema]
        results[f"{how} {split} ours"] = ours
    found = Outputs(tmp_path).run(results)
    for name in results:
        expected = found[f"{name.rpartition(' ')[0]} spark"]
        assert found[name] == expected, name
        rows = [row for batch in expected.values() for row in batch]
        assert len(rows) > 30
        if name.startswith(("left", "right")):
            alone = ["None, None, None, None" in row for row in rows]
            assert 5 < sum(alone) < len(rows) - 5


@pytest.mark.slow
def test_a_window_and_whole_numbers_of_two_widths_among_the_keys(sides, tmp_path):
    left, right = sides.streams()
    left = left.withColumn("w", F.window("at", "10 minutes")).drop("at")
    right = right.withColumn("w", F.window("clicked", "10 minutes")).drop("clicked")
    keys = ["w", "part", "key"]
    plan = kss.plan(
        sides.left.batch().withColumn("w", F.window("at", "10 minutes")), keys, 3, grouping="round_robin"
    )
    results = {}
    for how in ("inner", "left"):
        ours = kss.streaming.join(left, right, keys, how, plan=plan, way="place")
        expected = left.join(right, keys, how)
        # Spark names each key once, of the wider type
        assert ours.schema == expected.schema
        results |= {f"{how} ours": ours, f"{how} spark": expected}
    found = Outputs(tmp_path).run(results)
    for how in ("inner", "left"):
        assert found[f"{how} ours"] == found[f"{how} spark"]
        assert sum(map(len, found[f"{how} ours"].values())) > 10


@pytest.mark.usefixtures("state_store")
def test_a_query_goes_on_by_its_plan_and_by_no_other(spark, plan, tmp_path):
    sides, keys = Sides(spark, tmp_path), ["key", "part"]
    first, other = plan_of(spark, keys), plan_of(spark, keys, seed=1)
    left, right = sides.streams()
    outputs = Outputs(tmp_path)

    def ours(plan, **options):
        condition = F.expr(RANGE)
        return kss.streaming.join(left, right, keys, condition=condition, plan=plan, way="place", **options)

    # The same plan from a file; the identity of rows may be another one.
    first.save(tmp_path / "plan.json")
    refused = [{"plan": other}, {"plan": first, "split": "right"}]
    for number, again in enumerate((first, Plan.load(tmp_path / "plan.json"), replace(first, row_id=("n",)))):
        # What matches comes in the next file.
        sides.add(shown(0)[number * 12 :][:12], clicked(0)[:25][::-1][number * 9 :][:9])
        if number:
            before = dict(outputs.rows["ours"])
            for each in refused:
                with pytest.raises(StreamingQueryException, match=r"(?i)schema") as error:
                    outputs.run({"ours": ours(**each)})
                assert "keysplit_must_have_the_plan_of_its_checkpoint" in str(error.value)
            assert outputs.rows["ours"] == before
        expected = spark_s(left, right, "inner", keys)
        found = outputs.run({"ours": ours(again), "spark": expected})
    assert found["ours"] == found["spark"]
    assert len(found["ours"]) > 2
    rows = [row for batch in found["ours"].values() for row in batch]
    assert any("'hot'" in row for row in rows)


def test_the_state_of_a_hot_key_lies_where_its_workers_are(spark, sides, plan, tmp_path, conf):
    if spark.version < "4":
        pytest.skip("this Spark cannot read its state")
    conf("spark.sql.shuffle.partitions", str(WORKERS))
    left, right = sides.left.stream("20 years"), sides.right.stream().withWatermark("clicked", "20 years")
    ours = kss.streaming.join(left, right, "key", condition=F.expr(RANGE), plan=plan, way="place")
    Outputs(tmp_path).run({"ours": ours})
    states = spark.read.format("statestore").option("joinSide", "left").load(str(tmp_path / "ours"))
    found = states.groupBy("key.field0").agg(F.collect_set("partition_id"), F.count("*")).collect()
    routed = kss.route(sides.left.batch(), "key", plan=plan).filter("key is not null").groupBy("key")
    expected = routed.agg(F.collect_set("worker"), F.count("*")).collect()
    assert {key: (sorted(where), n) for key, where, n in found if key} == {
        key: (sorted(where), n) for key, where, n in expected
    }
    # of the other side each worker has all rows of the key
    states = spark.read.format("statestore").option("joinSide", "right").load(str(tmp_path / "ours"))
    copies = states.filter("key.field0 = 'hot'").count()
    assert copies == WORKERS * sides.right.batch().filter("key = 'hot'").count()


def test_a_plan_that_changes_joins_a_table(sides, table, tmp_path):
    rows = sides.left.stream()
    adapt = Adapt(WORKERS, gain=0.01, horizon=1000)
    ours = kss.streaming.join(rows, table, "key", "left", plan=adapt, way="place")
    assert kss.explain(ours).startswith("place: the plan for 4 workers changes while the stream runs")
    found = Outputs(tmp_path).run({"ours": ours, "spark": rows.join(table, "key", "left")})
    assert found["ours"] == found["spark"]


def test_columns_of_both_sides_may_be_selected(sides, table, plan, tmp_path):
    left, right = sides.streams()
    rows = sides.left.stream()
    results = {}
    for name, join in {"spark": None, "ours": kss.streaming.join}.items():
        options = {"plan": plan, "way": "place"}
        with_table = join(rows, table, "key", **options) if join else rows.join(table, "key")
        results[f"table {name}"] = with_table.select(rows["key"], table["key"], rows["n"], table["n"])
        both = (
            join(
                left,
                right,
                ["key", "part"],
                condition=F.expr(RANGE),
                plan=plan_of(rows.sparkSession, ["key", "part"]),
                way="place",
            )
            if join
            else left.join(right, ["key", "part"]).where(RANGE)
        )
        results[f"stream {name}"] = both.select(
            left["part"], right["part"], left["s"], right["s"], "key", "m"
        )
    found = Outputs(tmp_path).run(results)
    for kind in ("table", "stream"):
        assert found[f"{kind} ours"] == found[f"{kind} spark"]
        assert sum(map(len, found[f"{kind} ours"].values())) > 20


def test_spark_s_own_join_where_splitting_brings_nothing(spark, sides, table, plan, conf, tmp_path):
    rows, (left, right) = sides.left.stream(), sides.streams()
    even = kss.plan(spark.range(4000).select(F.col("id").cast("string").alias("key")), "key", WORKERS)
    for other, options in ((table, {}), (right, {"condition": F.expr(RANGE)})):
        plain = kss.streaming.join(left, other, "key", plan=even, **options)
        assert kss.explain(plain).startswith("plain: hashing is balanced")
        assert kss.explain(
            kss.streaming.join(left, other, "key", plan=even, way="place", **options)
        ).startswith("place")
    # such a plan is only the first one where plans adapt
    adapting = kss.streaming.join(rows, table, "key", plan=Adapt(start=even))
    assert kss.explain(adapting).startswith("place: the plan for 4 workers changes")
    assert kss.streaming.join(left, right, "key", plan=even).sameSemantics(left.join(right, "key"))
    plain = kss.streaming.join(left, right, "key", "left", condition=F.expr(RANGE), plan=even)
    expected = spark_s(left, right, "left")
    found = Outputs(tmp_path).run({"plain": plain, "spark": expected})
    assert found["plain"] == found["spark"]
    conf("spark.sql.autoBroadcastJoinThreshold", "10MB")
    small = F.broadcast(table)
    found = kss.streaming.join(rows, small, "key", "left", plan=plan)
    assert kss.explain(found) == "plain: Spark broadcasts the table whole, and shuffles nothing"
    assert found.sameSemantics(rows.join(small, "key", "left"))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"right": "batch"},
            ValueError,
            "condition must be None in a join of a stream and a table, got a column",
        ),
        (
            {"left": "batch", "right": "batch"},
            ValueError,
            "left or right must be streaming, got two batches: kss.join",
        ),
        (
            {"right": "batch", "how": "right", "condition": None},
            ValueError,
            "how must be one of inner, left, semi, anti if",
        ),
        (
            {"left": "batch", "how": "semi", "condition": None},
            ValueError,
            "how must be one of inner, right if only the right side",
        ),
        (
            {"right": "batch", "split": "right", "condition": None},
            ValueError,
            "split must be 'left', the streaming side",
        ),
        (
            {"how": "full"},
            ValueError,
            "how must be inner, left, right or semi in a join of two streams, got 'full': rows of",
        ),
        (
            {"how": "anti"},
            ValueError,
            "how must be inner, left, right or semi in a join of two streams, because Spark",
        ),
        (
            {"how": "left", "split": "right"},
            ValueError,
            "split must be 'left' in a left join of two streams, got 'right'",
        ),
        (
            {"how": "right", "split": "left"},
            ValueError,
            "split must be 'right' in a right join of two streams, got",
        ),
        ({"split": "both"}, ValueError, "split must be 'left' or 'right', got 'both'"),
        (
            {"plan": Adapt(WORKERS)},
            ValueError,
            "plan must be a Plan in a join of two streams, because a change of plan cannot move state, "
            "got keysplit.Adapt",
        ),
        (
            {"plan": None},
            ValueError,
            "plan must be a Plan in a join of two streams, because a change of plan cannot move state, "
            "got NoneType",
        ),
        (
            {"way": "broadcast"},
            ValueError,
            "way must be 'plain', 'place' or None, got 'broadcast'",
        ),
        (
            {"condition": 7},
            TypeError,
            "condition must be a column such as F.expr('a <= b'), SQL text or None",
        ),
        ({"on": "n"}, ValueError, "on must name one column of the DataFrame, got 'n'"),
        ({"how": "cross"}, ValueError, "how must be inner, left, right, full, semi or anti, got 'cross'"),
        ({"right": 7}, TypeError, "right must be a Spark DataFrame, got int"),
    ],
)
def test_wrong_arguments_are_refused(sides, plan, change, error, message):
    left, right = sides.streams()
    batches = {"left": sides.left.batch(), "right": sides.right.batch()}
    given = {"left": left, "right": right, "on": "key", "condition": F.expr(RANGE), "plan": plan} | change
    given |= {side: batches[side] for side in batches if given[side] == "batch"}
    with pytest.raises(error, match="^" + re.escape(message)):
        kss.streaming.join(**given)


def test_state_must_be_checked(sides, plan, conf):
    conf("spark.sql.streaming.stateStore.stateSchemaCheck", "false")
    with pytest.raises(ValueError, match=r"^spark.sql.streaming.stateStore.stateSchemaCheck must be true"):
        kss.streaming.join(*sides.streams(), "key", plan=plan)
