"""A profile tells the truth about the keys, predicts what plans do, and says so in words."""

import re
from collections import Counter

import numpy as np
import pytest
from frames import KEYS, frame, skewed
from pyspark.sql import functions as F
from pyspark.sql import types as T

import keysplit as ks
from keysplit import spark as kss
from keysplit.plan import PLANS

WORKERS = 16
# one key in a third of the rows, one in a ninth, and three hundred others
DRAWN = (["hot"] * 6 + ["warm"] * 2 + [None] * 10) * 300
DRAWN = [f"k{i % 300}" if key is None else key for i, key in enumerate(DRAWN)]


def words(spark, keys):
    return spark.createDataFrame([(key, i) for i, key in enumerate(keys)], "word string, n bigint")


@pytest.fixture(scope="module")
def rows(spark):
    return words(spark, DRAWN).repartition(3).cache()


@pytest.fixture(scope="module")
def found(rows):
    return kss.profile(rows, "word", WORKERS, operation="apply")


def test_bounds_hold(rows):
    profile = kss.profile(rows, "word", WORKERS)
    exact = Counter(DRAWN)
    assert profile.total == len(DRAWN)
    assert profile.unit == "rows"
    assert [each.key for each in profile.top[:2]] == ["hot", "warm"]
    for key, count, error, share in profile.top:
        assert count - error <= exact[key] <= count
        assert share == count / len(DRAWN)
    frequent = {key for key, count in exact.items() if count >= len(DRAWN) / (20 * WORKERS)}
    assert frequent <= {each.key for each in profile.top}
    assert len(profile.top) < len(exact)


@pytest.mark.parametrize("grouping", sorted(PLANS))
def test_predictions_are_those_of_plans(rows, found, grouping):
    plan = kss.plan(rows, "word", WORKERS, grouping=grouping)
    assert found.predicted[grouping].loads == pytest.approx(plan.loads)
    copies = sum(len(each.workers) for each in plan.head) - len(plan.head)
    assert found.predicted[grouping].extra_partials == copies


@pytest.mark.parametrize("grouping", ["key", "cut_to_fit", "w_choices"])
def test_rows_go_as_predicted(rows, found, grouping):
    routed = kss.route(rows, "word", plan=kss.plan(rows, "word", WORKERS, grouping=grouping, row_id="n"))
    loads = np.zeros(WORKERS)
    for row in routed.groupBy("worker").count().collect():
        loads[row.worker] = row["count"]
    # a hash spreads the rows of a split key: their number on a worker varies by its root
    noise = 0 if grouping == "key" else 5 * np.sqrt(loads.mean())
    assert np.abs(loads - found.predicted[grouping].loads).max() <= noise
    assert found.loads.tolist() == found.predicted["key"].loads.tolist()
    assert found.relative_imbalance == pytest.approx(found.loads.max() / found.loads.mean() - 1)
    assert found.imbalance == pytest.approx((found.loads.max() - found.loads.mean()) / len(DRAWN))


def test_it_recommends_the_fewest_copies_among_the_level(found):
    level = {name: of.extra_partials for name, of in found.predicted.items() if of.busiest <= 1.1}
    assert level[found.recommended] == min(level.values()) > 0
    assert found.predicted["key"].busiest > 5
    assert found.predicted[found.recommended].busiest <= 1.1


def test_skew_in_words(found):
    better, now = found.predicted[found.recommended], found.predicted["key"]
    assert found.verdict.splitlines() == [
        "split the frequent keys for whole-group Python",
        f"today {now.busiest:.2f} times as long as balanced, then {better.busiest:.2f} times, by the loads "
        "alone",
        "sure, all are counted. The most frequent key, 'hot', has 33.3 % of the rows",
    ]
    assert found.advice[0].details == (
        f"Max/mean load is {now.busiest:.2f} with hash partitioning and {better.busiest:.2f} with "
        f"{found.recommended}, for {better.extra_partials} more partial results to merge"
    )
    assert found.advice[0].line == (
        f"kss.apply(df, 'word', partial, schema, merge=merge, plan=kss.plan(df, 'word', {WORKERS}, "
        f"grouping='{found.recommended}'))"
    )


def test_the_cost_of_a_row_and_the_cores_are_those_given(rows):
    verdict = kss.profile(rows, "word", WORKERS, seconds_per_row=2, cores=4).verdict
    assert re.search(f"\ntoday .* s, then {len(DRAWN) * 2 // 4:,} s, with 2 s per row on 4 cores\n", verdict)
    for arguments, message in (
        ({"cores": 0}, "cores must be at least 1"),
        ({"seconds_per_row": -1}, "secon"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            kss.profile(rows, "word", WORKERS, **arguments)


def test_the_answer_is_that_for_the_same_keys_as_a_stream(rows, found):
    (advice,) = ks.profile(DRAWN, WORKERS, key=["word"]).advice
    assert advice.recommended == found.recommended
    assert advice.planned[advice.recommended].extra_partials == pytest.approx(
        found.predicted[found.recommended].extra_partials, abs=2
    )


@pytest.mark.parametrize(
    ("operation", "words_of_it"),
    [
        (
            None,
            [
                "split the frequent keys for joins, whole-group Python and writes",
                "kss.join(left, right, 'word', plan=kss.plan(left, 'word', 16",
                "For a partitioned write: kss.write(df, 'word', plan=kss.plan(df, 'word', 16",
                "No action needed for sum, count, min, max and avg: they combine on the map side",
            ],
        ),
        (
            "apply",
            [
                "split the frequent keys for whole-group Python",
                "kss.apply(df, 'word', partial, schema, merge=merge, ",
            ],
        ),
        (
            "join",
            [
                "kss.join(left, right, 'word', plan=kss.plan(left, 'word', 16",
                "more workers that get the other side's rows",
            ],
        ),
        ("write", ["kss.write(df, 'word', plan=kss.plan(df, 'word', 16", "more files"]),
        (
            "stream",
            ["kss.streaming.join(left, right, 'word', plan=kss.plan(history, ", "in each window"],
        ),
        ("window", ["kss.window(df, *columns, plan=kss.plan(df, 'word', 16", "more ranges of the order"]),
    ],
)
def test_each_operation_has_its_verdict(rows, operation, words_of_it):
    profile = kss.profile(rows, "word", WORKERS, operation=operation)
    assert profile.recommended is not None
    (advice,) = profile.advice
    told = "\n".join([advice.verdict, advice.line, advice.details])
    assert all(text in told for text in [*words_of_it, "'hot', has 33.3 % of the rows"])
    assert len(advice.verdict.splitlines()) == 3


def test_sums_need_no_action(rows):
    profile = kss.profile(rows, "word", WORKERS, operation="sum")
    assert profile.recommended is None
    assert profile.verdict.startswith(
        "no action needed: sum, count, min, max and avg combine on the map side"
    )
    assert " with hash partitioning, which is harmless\n" in profile.verdict
    assert profile.predicted["key"].busiest > 5


def test_splitting_helps_no_aggregate(rows):
    profile = kss.profile(rows, "word", WORKERS, operation="collect")
    assert profile.recommended is None
    assert profile.verdict.startswith("no action helps: for lists, percentiles and distinct counts Spark ")


def test_a_window_is_split_at_keys_that_are_hot(spark):
    profile = kss.profile(words(spark, ["hot"] * 100 + list("abcde")), "word", 2, operation="window")
    (advice,) = profile.advice
    assert profile.verdict.startswith("split the frequent keys for a window\n")
    plan = f"plan=kss.plan(df, 'word', 2, grouping='{profile.recommended}')"
    assert advice.line == f"kss.window(df, *columns, {plan})"
    assert "more ranges of the order" in advice.details
    assert "Leave the first rows per key, row_number() <= k, to Spark" in advice.details
    # a dozen keys of one weight, some on one worker: a plan that only moves keys leaves a window plain
    level = kss.profile(spark.range(12), "id", 12, operation="window")
    assert level.predicted["key"].busiest >= 2
    assert level.predicted[level.recommended].extra_partials > 0


def test_keys_that_only_lie_badly_are_not_split(spark):
    profile = kss.profile(spark.range(12), "id", 12, operation="apply")
    assert "place the keys for whole-group Python" in profile.verdict
    assert profile.advice[0].details.endswith(", and no key is split")


def test_level_keys_need_no_action(spark):
    profile = kss.profile(spark.range(100_000), "id", 8)
    assert profile.recommended is None
    assert profile.top == []
    busiest = profile.predicted["key"].busiest
    assert profile.verdict == (
        f"no action needed: max/mean load is {busiest:.2f} (up to 1.1 counts as balanced)"
    )
    assert 1 < busiest < 1.1


def test_one_worker_needs_no_action(rows):
    profile = kss.profile(rows, "word", 1)
    assert profile.loads.tolist() == [len(DRAWN)]
    assert profile.recommended is None
    assert profile.verdict == "no action needed: max/mean load is 1.00 (up to 1.1 counts as balanced)"


def test_no_rows(spark):
    profile = kss.profile(words(spark, []), "word", 4)
    assert (profile.total, profile.top, profile.recommended) == (0, [], None)
    assert profile.verdict == "no action needed: there are no rows"
    assert profile.loads.tolist() == [0] * 4
    assert "grouping" in str(profile)


def test_one_key_that_is_null(spark):
    profile = kss.profile(words(spark, [None] * 50), "word", 4, operation="apply")
    assert profile.top == [(None, 50, 0, 1)]
    assert profile.predicted["key"].busiest == 4
    assert "The most frequent key, null, has 100.0 % of the rows" in profile.verdict
    assert "\nnull " in str(profile)


def test_weights_and_capacities(rows):
    weight = F.when(F.col("word") == "warm", 100.0).otherwise(0.5)
    profile = kss.profile(rows, "word", 2, weight=weight, capacities=[1, 3])
    assert profile.unit == "weight"
    assert profile.total == 60_000 + 2400
    assert profile.top[0] == ("warm", 60_000, 0, 60_000 / 62_400)
    assert profile.predicted["cut_to_fit"].loads == pytest.approx([15_600, 46_800])
    assert profile.predicted["cut_to_fit"].imbalance == pytest.approx(0)
    assert "has 96.2 % of the weight" in profile.verdict


def test_several_columns_are_tuples(spark):
    df = spark.createDataFrame([("a", None)] * 9 + [("b", 1)], "word string, n int")
    profile = kss.profile(df, ["n", "word"], 3)
    assert profile.key == ("n", "word")
    assert profile.top == [((None, "a"), 9, 0, 0.9), ((1, "b"), 1, 0, 0.1)]
    assert "null, 'a'" in str(profile)


def plain(key):
    """Return a key as text, equal where Spark's hashes are: they skip nulls inside arrays and structs."""
    if isinstance(key, list | tuple):
        return repr([part for part in key if part is not None] or None)
    if isinstance(key, bytearray):  # of which Spark made bytes in 4.0
        key = bytes(key)
    return repr(key + 0.0 if isinstance(key, float) else key)


@pytest.mark.parametrize("name", KEYS)
def test_all_types_of_keys(spark, name):
    type_, keys = KEYS[name]
    df = frame(spark, type_, skewed(keys, 60), partitions=2)
    profile = kss.profile(df, "key", 2)
    counts = Counter()
    for row in df.groupBy("key").count().collect():
        counts[plain(row.key)] += row["count"]
    frequent = {key: count for key, count in counts.items() if count >= 60 / 40}
    assert {plain(each.key): each.count for each in profile.top} == frequent
    assert str(profile)


def test_the_table_fits_eighty_columns(spark):
    hostile = ["[bold]x[/]" + "é" * 100, "two\nlines\t:smile:", "<b>&amp;", "界" * 60] * 20
    df = words(spark, hostile + [f"k{i}" for i in range(20)])
    profile = kss.profile(df, "word", 1000, weight=F.lit(1e12))
    text = str(profile)
    assert max(len(line) for line in text.splitlines() if not line.startswith("  kss.")) <= 80
    assert all(line == line.rstrip() for line in text.splitlines())
    assert text.splitlines()[0].startswith("Profile of word for 1,000 workers: 100,000,000,000,000 weight")
    assert "'[bold]x[/]é" in text
    assert " 20,000,000,000,000 " in text
    assert r"'two\nlines\t:smile:'" in text
    assert "... and 14 more" in text
    assert " ".join(profile.verdict.split()) in " ".join(text.split())
    page = profile._repr_html_()
    assert page.startswith('<div class="keysplit-view">')
    assert "&lt;b&gt;&amp;amp;" in page
    assert "<b>&" not in page


def test_arguments_are_checked(spark, rows):
    with pytest.raises(ValueError, match=r"operation must be one of sum, collect, .*, got 'group'"):
        kss.profile(rows, "word", 4, operation="group")
    with pytest.raises(TypeError, match="unexpected keyword argument 'grouping'"):
        kss.profile(rows, "word", 4, grouping="key")
    with pytest.raises(ValueError, match=r"workers must be in 1..=65536, got 0"):
        kss.profile(rows, "word", 0)
    with pytest.raises(ValueError, match="df must be a batch DataFrame, got a streaming one"):
        kss.profile(spark.readStream.format("rate").load(), "value", 4)
    with pytest.raises(TypeError, match="key must not hold maps"):
        kss.profile(rows.select(F.create_map("word", "n").alias("m")), "m", 4)


def test_nested_keys(spark):
    df = spark.createDataFrame([((1, "x"),)] * 4, T.StructType([T.StructField("s", KEYS["struct"][0])]))
    assert kss.profile(df, "s.b", 2).top[0].key == "x"
