"""`aggregate` equals groupBy(key).agg(...), and is planned as partial results a worker, merged by key."""

import re
from pathlib import Path

import pandas as pd
import pytest
from frames import KEYS, frame, same_rows, skewed
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keysplit import spark as kss
from keysplit.spark.aggregates import AGGREGATES, BY_NAME, LeavesOpen, State, reason_for_plain

# By the Spark that brought them. `bits`, `sketch` and the like are columns of the frame `hot`.
EXACT = {
    "3.5": [
        "sum(v)",
        "sum(d)",
        "try_sum(v)",
        "count(v)",
        "count(*)",
        "count(v, d)",
        "min(s)",
        "max(d)",
        "avg(v)",
        "mean(d)",
        "try_avg(v)",
        "count(distinct s, v)",
        "sum(distinct v)",
        "count(distinct *)",
        "sum(v) filter (where v > 0)",
        "sum(v) / count(v) + max(v)",
        "median(v)",
        "percentile(d, array(0.1, 0.9))",
        "percentile(v, 0.5, abs(v))",
        "percentile_cont(0.3) within group (order by v desc)",
        "percentile_disc(0.3) within group (order by v)",
        "count_if(v > 0)",
        "approx_count_distinct(s)",
        "bool_and(v > 0) or bool_or(d > 0)",
        "every(v > 0) or some(d > 0) or any(d > 1)",
        "bit_and(v) + bit_or(v) + bit_xor(v)",
        "count_min_sketch(v, 0.1d, 0.9d, 1)",
        "bitmap_construct_agg(bitmap_bit_position(v))",
        "bitmap_or_agg(bits)",
        "regr_count(v, d)",
        "regr_avgx(v, d) + regr_avgy(d, v)",
        "sort_array(collect_list(v))",
        "sort_array(collect_set(s), false)",
        "array_sort(array_agg(s))",
        # ties are of equal rows
        "max_by(s, struct(v, s))",
        "min_by(s, struct(v, s))",
    ],
    "4.0": [
        "mode() within group (order by v)",
        "schema_of_variant_agg(parse_json(to_json(struct(v, s))))",
    ],
    "4.1": ["bitmap_and_agg(bits)"],
    "4.2": ["max_by(s, struct(v, s), 3)", "min_by(s, struct(v, s), 3)"],
}
FLOATS = {
    "3.5": [
        "sum(x)",
        "avg(x)",
        "std(x) + stddev(x) + stddev_samp(x)",
        "stddev_pop(x)",
        "variance(x) + var_samp(x)",
        "var_pop(x)",
        "skewness(x)",
        "kurtosis(x)",
        "corr(x, v)",
        "covar_pop(x, v)",
        "covar_samp(x, v)",
        "regr_r2(x, v)",
        "regr_slope(x, v)",
        "regr_intercept(x, v)",
        "regr_sxx(x, v)",
        "regr_sxy(x, v)",
        "regr_syy(x, v)",
        "product(x)",
    ],
    "4.3": [
        "vector_sum(array(cast(coalesce(v, 0) as float)))[0]",
        "vector_avg(array(cast(coalesce(v, 0) as float)))[0]",
    ],
}
# In any order of their elements.
LISTS = {
    "3.5": ["collect_list(v)", "array_agg(distinct s)", "collect_set(s)"],
    "4.0": [
        # Spark fails where this one stands beside two different DISTINCTs
        "split(listagg(s, ',') within group (order by s), ',')",
        "split(listagg(s, ','), ',')",
        "split(string_agg(distinct s, ','), ',')",
    ],
    "4.3": ["collect_union(array(v, 7))"],
}
# Exact, as these groups are small against the sketches.
SKETCHES = {
    "3.5": [
        "percentile_approx(v, array(0.1, 0.5))",
        "approx_percentile(d, 0.5, 1000)",
        "hll_sketch_estimate(hll_sketch_agg(v))",
        "hll_sketch_estimate(hll_union_agg(hll))",
    ],
    "4.1": [
        "array_sort(approx_top_k(v, 200))",
        "array_sort(approx_top_k_estimate(approx_top_k_accumulate(s), 20))",
        "array_sort(approx_top_k_estimate(approx_top_k_combine(top, 100), 20))",
        "kll_sketch_get_quantile_bigint(kll_sketch_agg_bigint(v), 0.5)",
        "kll_sketch_get_quantile_double(kll_sketch_agg_double(x), 0.5)",
        "kll_sketch_get_quantile_float(kll_sketch_agg_float(cast(x as float)), 0.5)",
        "kll_sketch_get_quantile_bigint(kll_merge_agg_bigint(kll, 9000), 0.5)",
        "kll_sketch_get_quantile_double(kll_merge_agg_double(kll_sketch_of_x, 9000), 0.5)",
        "kll_sketch_get_quantile_float(kll_merge_agg_float(kll_sketch_of_f, 9000), 0.5)",
        "theta_sketch_estimate(theta_sketch_agg(v))",
        "theta_sketch_estimate(theta_union_agg(theta))",
        "theta_sketch_estimate(theta_intersection_agg(theta))",
    ],
    "4.2": [
        "tuple_sketch_estimate_double(tuple_sketch_agg_double(v, x))",
        "tuple_sketch_estimate_integer(tuple_sketch_agg_integer(v, 1))",
        "tuple_sketch_estimate_double(tuple_union_agg_double(tuples_of_x))",
        "tuple_sketch_estimate_integer(tuple_union_agg_integer(tuples))",
        "tuple_sketch_estimate_double(tuple_intersection_agg_double(tuples_of_x))",
        "tuple_sketch_estimate_integer(tuple_intersection_agg_integer(tuples))",
    ],
}
# Columns that hold parts of other aggregates.
INPUTS = {
    "3.5": {"bits": "bitmap_construct_agg(bitmap_bit_position(v))", "hll": "hll_sketch_agg(v)"},
    "4.1": {
        "top": "approx_top_k_accumulate(s, 100)",
        "kll": "kll_sketch_agg_bigint(v, 9000)",
        "kll_sketch_of_x": "kll_sketch_agg_double(x, 9000)",
        "kll_sketch_of_f": "kll_sketch_agg_float(cast(x as float), 9000)",
        "theta": "theta_sketch_agg(v)",
    },
    "4.2": {
        "tuples": "tuple_sketch_agg_integer(v, 1)",
        "tuples_of_x": "tuple_sketch_agg_double(v, x)",
    },
}
# What those hold that hold objects.
HELD = {
    State.ROWS: "array_agg collect_list listagg string_agg",
    State.VALUES: "collect_set collect_union median mode percentile percentile_cont percentile_disc",
    State.SMALL: """
        any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
        approx_top_k_combine bool_and bool_or count_if count_min_sketch every hll_sketch_agg hll_union_agg
        kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint
        kll_sketch_agg_double kll_sketch_agg_float max_by min_by percentile_approx regr_avgx regr_avgy
        regr_count regr_r2 regr_sxx regr_syy schema_of_variant_agg some
        theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum
        tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
        tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer vector_avg vector_sum
        """,
}
TIES = ["max_by(s, v)", "min_by(s, v)", "mode(v % 4)"]
PLANNED = pytest.mark.parametrize("engine", ["columns", "rust"])


def known(spark, by_version):
    return [sql for version, each in by_version.items() if spark.version >= version for sql in each]


def column(sql):
    return F.product(sql[8:-1]) if sql.startswith("product(") else F.expr(sql)


def sums():
    return [F.sum("v"), F.count("*"), F.min("d"), F.max("s").alias("greatest"), F.avg("d"), F.avg("v")]


def answers(df):
    """Return the columns of a result whose first column is the key, each as a dict from key to answer."""
    rows = df.collect()
    return [{row[0]: row[at] for row in rows} for at in range(1, len(df.columns))]


def compared(df, sqls, **options):
    """Return (sql, ours, Spark's) for each aggregate, in two jobs for all of them."""
    columns = [column(sql) for sql in sqls]
    plain = df.groupBy("key").agg(*columns)
    spread = kss.aggregate(df, "key", *columns, force=True, **options)
    assert spread.schema == plain.schema
    return zip(sqls, answers(spread), answers(plain), strict=True)


@pytest.fixture(scope="module")
def hot(spark):
    keys = skewed([1, None, 2, 3, 4, 5], 200)
    df = frame(spark, T.IntegerType(), keys).withColumn("x", F.expr("v / 7 + 0.1d"))
    inputs = {
        name: sql for each in known(spark, {k: [v] for k, v in INPUTS.items()}) for name, sql in each.items()
    }
    parts = df.groupBy("s").agg(*(F.expr(sql).alias(name) for name, sql in inputs.items()))
    return df.join(parts, df.s.eqNullSafe(parts.s)).drop(parts.s).localCheckpoint()


@settings(max_examples=8)
@given(data=st.data())
def test_it_equals_groupby(spark, data):
    type_, keys = KEYS[data.draw(st.sampled_from(sorted(KEYS)), label="type")]
    drawn = data.draw(
        st.one_of(
            st.just([]),
            st.lists(st.sampled_from(keys), max_size=40),
            st.builds(lambda key, rows: [key] * rows, st.sampled_from(keys), st.integers(1, 60)),
            st.integers(1, 80).map(lambda rows: skewed(keys, rows)),
        ),
        label="keys",
    )
    df = frame(spark, type_, drawn, partitions=2)
    options = data.draw(
        st.sampled_from(
            [
                {"mode": "planned", "grouping": "d_choices"},
                {"mode": "planned", "grouping": "cut_to_fit"},
                {"mode": "planned", "grouping": "w_choices", "engine": "rust"},
                {"mode": "online", "grouping": "partial_key"},
                {"mode": "online", "grouping": "shuffle"},
            ]
        ),
        label="options",
    )
    workers = data.draw(st.sampled_from([1, 2, 5]), label="workers")
    spread = kss.aggregate(df, "key", *sums(), workers=workers, force=True, **options)
    assert same_rows(spread, df.groupBy("key").agg(*sums()))


@PLANNED
def test_exact_aggregates_equal_spark_s(spark, hot, engine):
    for sql, ours, theirs in compared(
        hot, known(spark, EXACT), workers=4, grouping="w_choices", engine=engine
    ):
        assert repr(sorted(ours.items(), key=str)) == repr(sorted(theirs.items(), key=str)), sql


def test_exact_aggregates_equal_spark_s_online(spark, hot):
    for sql, ours, theirs in compared(hot, known(spark, EXACT), workers=4, grouping="shuffle", mode="online"):
        assert ours == theirs, sql


def test_floats_equal_spark_s_but_for_their_last_digits(spark, hot):
    for sql, ours, theirs in compared(hot, known(spark, FLOATS), workers=4, grouping="w_choices"):
        digits = 1e-5 if sql.startswith("vector") else 1e-9  # those are floats of seven digits
        assert ours == pytest.approx(theirs, rel=digits, abs=1e-12, nan_ok=True), sql


def test_lists_hold_the_elements_of_spark_s(spark, hot):
    for sql, ours, theirs in compared(hot, known(spark, LISTS), workers=4, grouping="w_choices"):
        assert {key: sorted(map(repr, each)) for key, each in ours.items()} == {
            key: sorted(map(repr, each)) for key, each in theirs.items()
        }, sql


def test_sketches_of_few_values_equal_spark_s(spark, hot):
    for sql, ours, theirs in compared(hot, known(spark, SKETCHES), workers=4, grouping="w_choices"):
        assert ours == theirs, sql


def test_sketches_keep_their_accuracy(spark):
    rows = 4000
    df = spark.range(rows, numPartitions=3).select(F.lit("k").alias("key"), "id")
    sketches = ["percentile_approx(id, 0.5, 20)", "hll_sketch_estimate(hll_sketch_agg(id))"]
    if spark.version >= "4.1":
        sketches += [
            "kll_sketch_get_quantile_bigint(kll_sketch_agg_bigint(id), 0.5)",
            "theta_sketch_estimate(theta_sketch_agg(id, 8))",
        ]
    found = kss.aggregate(
        df, "key", *map(F.expr, sketches), workers=5, grouping="w_choices", force=True
    ).first()
    assert found[1] == pytest.approx(rows / 2, abs=rows / 20)
    assert found[2] == pytest.approx(rows, rel=0.1)
    if spark.version >= "4.1":
        assert found[3] == pytest.approx(rows / 2, abs=rows / 20)
        assert found[4] == pytest.approx(rows, rel=0.25)


def test_where_several_tie_it_takes_one_of_them(hot):
    rows = hot.select("key", "v", "s").toPandas().astype({"v": "Int64"}).fillna({"key": -1})
    found = kss.aggregate(
        hot, "key", *map(F.expr, TIES), workers=4, grouping="w_choices", force=True
    ).toPandas()
    for _, (key, *answers_) in found.fillna({"key": -1}).iterrows():
        group = rows[rows.key == key].dropna(subset="v")
        counts = (group.v.abs() % 4 * group.v.map(lambda v: 1 if v >= 0 else -1)).value_counts()
        greatest, least, mode = answers_
        assert any(
            greatest == s or (pd.isna(greatest) and pd.isna(s)) for s in group[group.v == group.v.max()].s
        )
        assert any(least == s or (pd.isna(least) and pd.isna(s)) for s in group[group.v == group.v.min()].s)
        assert counts[mode] == counts.max()


def test_every_aggregate_of_spark_is_decided_and_tested(spark):
    registry = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
    ids = registry.listFunction()
    infos = [registry.lookupFunction(ids.apply(i)).get() for i in range(ids.size())]
    # Some are registered by a builder, others outside the group.
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    catalyst = "org.apache.spark.sql.catalyst.expressions"
    aggregate = loader.loadClass(f"{catalyst}.aggregate.AggregateFunction")
    window = loader.loadClass(f"{catalyst}.AggregateWindowFunction")
    typed = loader.loadClass(f"{catalyst}.aggregate.TypedImperativeAggregate")
    replaced = loader.loadClass(f"{catalyst}.RuntimeReplaceable")
    there, objects = set(), set()
    for info in infos:
        class_ = loader.loadClass(info.getClassName())
        found = info.getGroup() == "agg_funcs" or aggregate.isAssignableFrom(class_)
        if found and not window.isAssignableFrom(class_):
            there.add(info.getName())
            if typed.isAssignableFrom(class_) or replaced.isAssignableFrom(class_):
                objects.add(info.getName())
    # These need a cube, a rollup or a metric view.
    there -= {"grouping", "grouping_id", "measure"}
    assert there - set(BY_NAME) == set()
    refused = {name for name, each in BY_NAME.items() if each.refusal}
    # All others hold a fixed number of columns.
    assert (objects & there) - refused - set(" ".join(HELD.values()).split()) == set()
    held = {name: state for state, names in HELD.items() for name in names.split()}
    for name in there - refused:
        assert BY_NAME[name].state is held.get(name, State.SMALL), name
    tested = [sql for each in (EXACT, FLOATS, LISTS, SKETCHES) for sql in known(spark, each)] + TIES
    tested = set(re.findall(r"(\w+)\(", " ".join(tested)))
    assert there - refused - tested == set()


def test_spark_s_own_query_is_taken_without_a_plan_or_a_job(spark, hot, tmp_path):
    path = tmp_path / "plan.json"
    spark.sparkContext.setJobGroup("aggregate", "")
    columns = [F.sum("v"), F.expr("1 + max(d)")]
    sums = kss.aggregate(hot, "key", *columns, workers=4, plan=path)
    sets = kss.aggregate(
        hot, "key", F.expr("count(distinct s, v) + sum(v)"), F.collect_set("s"), workers=4, plan=path
    )
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("aggregate")
    spark._jsc.clearJobGroup()
    assert list(jobs) == []
    assert not path.exists()
    assert kss.explain(sums) == "plain: Spark combines sum and max before its shuffle"
    assert kss.explain(sets) == (
        "plain: Spark combines sum, count distinct and collect_set before its shuffle, "
        "and what count distinct and collect_set must merge after it does not depend on how rows are split"
    )
    optimized, plain = (
        each._jdf.queryExecution().optimizedPlan() for each in (sums, hot.groupBy("key").agg(*columns))
    )
    assert optimized.sameResult(plain)
    assert kss.explain(kss.aggregate(hot, "key", *columns, workers=4, force=True)).startswith("place: ")
    online = kss.aggregate(hot, "key", *columns, workers=4, mode="online")
    assert kss.explain(online).startswith("online: ")


def test_a_long_reason_is_cut():
    reason = reason_for_plain((name, False) for name in ["sum", "max", "min", "count", "avg", "sum"])
    assert reason == "Spark combines sum, max, min and 2 more before its shuffle"


def test_the_table_of_aggregates_is_that_of_the_page():
    page = (Path(__file__).parents[2] / "docs/spark.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|") and "`" in line]
    lines = {
        LeavesOpen.NOTHING: "| nothing",
        LeavesOpen.LAST_DIGITS: "| last digits of floats",
        LeavesOpen.ORDER: "| order of elements",
        LeavesOpen.TIES: "| on ties, any of the tied values",
        LeavesOpen.SKETCH: "| another result within",
        LeavesOpen.ROW: "| refused: depends on",
        LeavesOpen.ACCURACY: "| refused: Spark promises",
    }
    for leaves_open, start in lines.items():
        line = next(row for row in rows if row.startswith(start))
        shown = re.findall(r"`(\w+\*?)`", line)
        for each in AGGREGATES.values():
            if each.leaves_open is leaves_open:
                for name in each.names:
                    family = name.split("_")[0] + "_*"
                    assert name in shown or family in shown or name.startswith("approx_top_k_"), name


@pytest.mark.parametrize("key", [["s", "key"], "S", ["`key`"]], ids=str)
def test_key_columns_keep_their_names_and_order(hot, key):
    plain = hot.groupBy(*([key] if isinstance(key, str) else key)).agg(*sums())
    assert same_rows(kss.aggregate(hot, key, *sums(), workers=3, force=True), plain)


def test_columns_bound_to_the_frame_are_found(hot):
    spread = kss.aggregate(hot, "key", F.sum(hot.v), F.max(hot["d"]), workers=3, force=True)
    assert same_rows(spread, hot.groupBy("key").agg(F.sum(hot.v), F.max(hot["d"])))


def test_a_column_called_worker_is_no_obstacle(hot):
    df = hot.select("d", F.col("v").alias("worker"), F.lit(1).alias("Worker_"))
    spread = kss.aggregate(df, "worker", F.sum("d"), F.count_distinct("*"), workers=3, force=True)
    assert same_rows(spread, df.groupBy("worker").agg(F.sum("d"), F.count_distinct("*")))


def test_collated_keys_give_the_groups_of_groupby(spark):
    if spark.version < "4":
        pytest.skip("this Spark has no collations")
    df = spark.sql(
        "select cast(k as string) collate utf8_lcase as key, 1 as v from values ('a'), ('A'), ('b') t(k)"
    )
    spread = kss.aggregate(df, "key", F.sum("v"), workers=4, grouping="shuffle", mode="online")
    plain = df.groupBy("key").agg(F.sum("v"))
    assert spread.schema == plain.schema
    assert sorted((row[0].lower(), row[1]) for row in spread.collect()) == [("a", 2), ("b", 1)]


def test_decimals_keep_all_digits(spark):
    df = spark.range(300, numPartitions=3).select(
        (F.col("id") % 3).alias("key"), (F.col("id") * F.expr("1234567890123456789.012345678bd")).alias("d")
    )
    columns = [F.sum("d"), F.avg("d"), F.min("d")]
    spread = kss.aggregate(df, "key", *columns, workers=7, grouping="w_choices", force=True)
    assert same_rows(spread, df.groupBy("key").agg(*columns))


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_overflow_is_spark_s(spark, conf, ansi):
    conf("spark.sql.ansi.enabled", ansi)
    df = spark.range(4, numPartitions=2).select(F.lit("k").alias("key"), F.lit(2**62).alias("v"))
    spread = kss.aggregate(df, "key", F.sum("v"), workers=3, grouping="shuffle", mode="online")
    if ansi == "true":
        with pytest.raises(Exception, match=r"(?i)overflow"):
            spread.collect()
    else:
        assert same_rows(spread, df.groupBy("key").agg(F.sum("v")))


@pytest.mark.parametrize(
    ("options", "python"),
    [({"mode": "online"}, ["EvalPython"]), ({"engine": "rust"}, ["EvalPython"]), ({"engine": "columns"}, [])],
    ids=str,
)
def test_the_plan_is_partial_results_on_the_workers_and_one_merge_by_key(hot, options, python):
    spread = kss.aggregate(hot, "key", F.sum("v"), workers=4, worker_column="target", force=True, **options)
    plan = spread._jdf.queryExecution().executedPlan().toString()
    steps = re.findall(
        r"HashAggregate\(keys=\[key|Exchange hashpartitioning\(key|Exchange .*target|EvalPython", plan
    )
    steps = [re.sub(r" .*", "", step) if "target" in step else step for step in steps]
    aggregate, merge = "HashAggregate(keys=[key", "Exchange hashpartitioning(key"
    assert steps == [aggregate, merge, aggregate, "Exchange", *python]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "first(v)",
            r"columns must not depend on the order of rows, got first\(v\): use min, max, min_by or max_by",
        ),
        ("first_value(v)", r"columns must not depend on the order of rows, got first_value\(v\): "),
        ("sum(v) + last(v)", r"columns must not depend on the order of rows, got last\(v\): "),
        ("last_value(v)", r"columns must not depend on the order of rows, got last_value\(v\): "),
        ("upper(any_value(s))", r"columns must not depend on the order of rows, got any_value\(s\): "),
        (
            "histogram_numeric(v, 5)",
            r"must have a bounded error, got histogram_numeric\(v, 5\), of which .*: ",
        ),
    ],
)
def test_what_cannot_be_merged_is_refused(hot, sql, message):
    with pytest.raises(ValueError, match=message) as error:
        kss.aggregate(hot, "key", F.count("*"), F.expr(sql), workers=3)
    assert "\n" not in str(error.value)


def test_functions_of_the_user_are_refused(spark, hot):
    @F.pandas_udf("double")
    def mean(v: pd.Series) -> float:
        return v.mean()

    own = r"columns must be Spark's own aggregates that can be merged, got mean\(v\S*\): kss.apply takes"
    with pytest.raises(ValueError, match=own):
        kss.aggregate(hot, "key", mean("v"), workers=3)


def test_columns_of_spark_connect_are_refused_by_name():
    pytest.importorskip("grpc", reason="Spark Connect is not installed: pip install 'pyspark[connect]'")
    from pyspark.sql.connect import functions as C
    from pyspark.sql.connect.udf import UserDefinedFunction
    from pyspark.sql.pandas.functions import PythonEvalType

    from keysplit.spark.aggregates import refusal_of
    from keysplit.spark.session import connect

    def own(function, kind):
        return UserDefinedFunction(function, returnType=T.DoubleType(), evalType=kind)("v")

    def refusals(column):
        found = [call for node in connect._nodes(column._expr) for call in connect._called(node)]
        return [refusal_of(call.kind, call.name) for call in found]

    refused = [
        C.first("v"),
        C.coalesce(C.last("v"), C.lit(1)).alias("l"),
        C.when(C.any_value("v") > 1, 1).otherwise(2),
        C.expr("sum(v) + FIRST_VALUE (v)"),
        C.call_function("histogram_numeric", C.col("v"), C.lit(5)),
        own(lambda v: v.mean(), PythonEvalType.SQL_GROUPED_AGG_PANDAS_UDF),
    ]
    for each in refused:
        assert any(refusals(each))
    of_rows = own(lambda v: v * 2, PythonEvalType.SQL_SCALAR_PANDAS_UDF)
    for each in [C.sum("first"), C.expr("max(last)"), C.sum(of_rows), C.sum("v").alias("any_value")]:
        assert not any(refusals(each))


def test_columns_are_checked(hot):
    with pytest.raises(ValueError, match=r"columns must hold at least one aggregate, got none"):
        kss.aggregate(hot, "key", workers=3)
    with pytest.raises(TypeError, match=r"columns must be aggregates such as F.sum\('x'\), got str"):
        kss.aggregate(hot, "key", "sum(v)", workers=3)
