"""What diagnoses advise: by which columns, in which order, with which line; on made-up plans and logs."""

import json
from typing import Any

import pytest

import keysplit as ks
from event_logs import MB, READS, application, diagnosed, end, hot, node, over, query, stage
from pages import Page
from test_diagnose import join_plan


def found_in(folder, plan: dict[str, Any], **of_hot: Any) -> ks.diagnosis.Finding:
    tasks = hot(**{"records": 5000, **of_hot})
    (finding,) = diagnosed(
        folder, application(query(plan), stage(1, tasks, [(1, 5700)]), end(0, 12.0))
    ).findings
    return finding


LIMIT = "WindowGroupLimit [user#1], [loaded#2 DESC NULLS LAST], rank(loaded#2), 1"
RANK = "rank(loaded#2) windowspecdefinition(user#1, loaded#2 DESC NULLS LAST) AS r#9"


@pytest.mark.parametrize(
    ("operators", "operator", "columns"),
    [
        ([f"Window [{RANK}], [user#1], [loaded#2 DESC NULLS LAST]", f"{LIMIT}, Final"], "window", ["user"]),
        ([f"{LIMIT}, Final"], "window", ["user"]),
        ([f"Window [{RANK}], [user#1, day#3], [loaded#2 DESC NULLS LAST]"], "window", ["user", "day"]),
        (["Window [count(1) windowspecdefinition(user#1) AS c#4L], [user#1]"], "window", ["user"]),
        (
            ["Window [first([1,2][n#5]) windowspecdefinition() AS c#4], [user#1], [n#5 ASC NULLS FIRST]"],
            "window",
            ["user"],
        ),
        (
            ["WindowInPandas [mean(n#5) windowspecdefinition() AS m#4], [user#1], [n#5 ASC NULLS FIRST]"],
            "window",
            ["user"],
        ),
        (["!ArrowWindowPython [mean(n#5)#7 AS m#4], [user#1]"], "window", ["user"]),
        (["FlatMapGroupsInPandas [user#1, day#3], f(n#5)#7, [out#8]"], "python group", ["user", "day"]),
        (["!ArrowAggregatePython [user#1], [f(n#5)#7], [user#1, f(n#5)#7 AS f#8]"], "python group", ["user"]),
        (["FlatMapCoGroupsInPandas [user#1], [name#6], f(n#5)#7, [out#8]"], "python group", ["user"]),
        (
            [
                "MapGroups A$$Lambda@1, newInstance(class [Ljava.lang.String;), cast(n#5 as int), [user#1], "
                "[n#5], obj#22: scala.Tuple2"
            ],
            "python group",
            ["user"],
        ),
        (["ObjectHashAggregate(keys=[user#1], functions=[collect_list(n#5, 0, 0)])"], "aggregate", ["user"]),
        (["HashAggregate(keys=[user#1, day#3], functions=[sum([1,2][n#5])])"], "aggregate", ["user", "day"]),
    ],
)  # fmt: skip
def test_the_keys_of_an_operator_are_told_from_its_other_lists(tmp_path, operators, operator, columns):
    finding = found_in(tmp_path, over(*operators))
    assert (finding.operator, list(finding.columns)) == (operator, columns)


@pytest.mark.parametrize(
    "text",
    [
        f"Window [{RANK}], [loaded#2 DESC NULLS LAST]",
        "WindowGroupLimit [loaded#2 DESC NULLS LAST], rank(loaded#2), 1, Final",
        "FlatMapGroupsInPandas f(n#5)#7, [out#8]",
        "HashAggregate(keys=[], functions=[collect(n#5)])",
    ],
)
def test_an_operator_over_all_rows_has_no_keys(tmp_path, text):
    plan = over(text, shuffle="SinglePartition, ENSURE_REQUIREMENTS, [plan_id=9]")
    assert found_in(tmp_path, plan).columns == ()


INSERT = "Execute InsertIntoHadoopFsRelationCommand file:/t, false, {}, [path=/t], Overwrite, [user, day, n]"


@pytest.mark.parametrize(
    ("folders", "operator", "line"),
    [
        ("[user#1], Parquet", "write", 'kss.write(df, "user", workers=8).parquet(path)'),
        ("[user#1, day#3], CSV", "write", 'kss.write(df, ["user", "day"], workers=8).csv(path)'),
        ("[day#3], Parquet", "repartition", 'kss.repartition(df, "user", workers=8)'),
        ("Parquet", "repartition", 'kss.repartition(df, "user", workers=8)'),
    ],
)
def test_a_write_is_by_a_key_only_if_that_makes_its_folders(tmp_path, folders, operator, line):
    shuffled = over("Project [user#1]", shuffle="hashpartitioning(user#1, 8), REPARTITION_BY_NUM")
    plan = node("Execute InsertIntoHadoopFsRelationCommand", INSERT.format(folders), [shuffled])
    tasks = hot(records=5000)
    for each in tasks:
        each["Task Metrics"]["Output Metrics"] = {"Bytes Written": 10, "Records Written": 1}
    events = application(query(plan), stage(1, tasks, [(1, 5700)]), end(0, 12.0))
    (finding,) = diagnosed(tmp_path, events).findings
    assert (finding.operator, finding.line) == (operator, line)


RANGE = "RangeFrame, unboundedpreceding$(), currentrow$()"
WHOLE = "RowFrame, unboundedpreceding$(), unboundedfollowing$()"


def windowed(
    function: str, frame: str = RANGE, alias: str = "w#9", order: str = "ts#2 ASC NULLS FIRST"
) -> str:
    spec = ", ".join(filter(None, ["user#1", order]))
    return f"{function} windowspecdefinition({spec}, specifiedwindowframe({frame})) AS {alias}"


def window_of(*functions: str, order: str = ", [ts#2 ASC NULLS FIRST]") -> str:
    return f"Window [{', '.join(functions)}], [user#1]{order}"


BY_TIME = 'over(Window.partitionBy("user").orderBy("ts")'


@pytest.mark.parametrize(
    ("functions", "columns"),
    [
        ([windowed("row_number()", "RowFrame, unboundedpreceding$(), currentrow$()", "n#9")],
         f'F.row_number().{BY_TIME}).alias("n")'),
        ([windowed("sum(n#5L)", alias="sum(n) OVER (PARTITION BY user ORDER BY ts ASC NULLS FIRST)#9L")],
         f'F.sum("n").{BY_TIME})'),
        ([windowed("count(1)", alias="a.b#9L"), windowed("avg(n#5L)"), windowed("first(n#5, false)")],
         f'F.count("*").{BY_TIME}).alias("a.b"), F.avg("n").{BY_TIME}).alias("w"), '
         f'F.first("n").{BY_TIME}).alias("w")'),
        ([windowed("nth_value(n#5, 2, false)", WHOLE)],
         'F.nth_value("n", 2).over(Window.partitionBy("user").orderBy("ts").rowsBetween('
         'Window.unboundedPreceding, Window.unboundedFollowing)).alias("w")'),
        ([windowed("avg(n#5)", "RowFrame, -10, currentrow$()")],
         f'F.avg("n").{BY_TIME}.rowsBetween(-10, 0)).alias("w")'),
        ([windowed("max(n#5)", order="ts#2 DESC NULLS LAST, a.b#3 ASC NULLS LAST")],
         'F.max("n").over(Window.partitionBy("user").orderBy(F.desc("ts"), F.asc_nulls_last("`a.b`")))'
         '.alias("w")'),
        # what the plan does not show whole is for the user to name
        ([windowed("lag(n#5, -1, null)", "RowFrame, -1, -1", "_we0#9")], "*columns"),
        ([windowed("sum(_w0#5L)")], "*columns"),
        ([windowed("first(n#5, true)", "RowFrame, -1, 1")], "*columns"),
        ([windowed("last(n#5, true)")], "*columns"),
        ([windowed("stddev(n#5)", "RowFrame, -1, 1")], "*columns"),
        ([windowed("max(n#5)", order="_w1#2 ASC NULLS FIRST")], "*columns"),
        ([f"MakeDecimal({windowed('sum(UnscaledValue(n#5))').split(' AS ')[0]},18,2) AS w#9"], "*columns"),
        ([windowed(f"{each}(n#5)") for each in ("min", "max", "sum", "count")], "*columns"),
    ],
)  # fmt: skip
def test_a_line_for_a_window_names_what_the_plan_shows(tmp_path, functions, columns):
    finding = found_in(tmp_path, over(window_of(*functions)))
    assert finding.verdict.startswith("split the hot keys of the window by user\n")
    assert finding.line == f"kss.window(df, {columns}, workers=8)"


@pytest.mark.parametrize(
    ("function", "condition"),
    [
        (windowed("avg(n#5)"), "unless it averages decimals"),
        ("... 17 more fields", "if kss.window supports its functions"),
    ],
)
def test_a_window_whose_type_or_functions_are_not_shown_is_advised_on_a_condition(
    tmp_path, function, condition
):
    finding = found_in(tmp_path, over(window_of(windowed("count(1)"), function)))
    assert finding.verdict.startswith(f"split the hot keys of the window by user, {condition}\n")
    assert finding.line.startswith("kss.window(df, ")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (windowed("mode(n#5)"), "kss.window does not support mode"),
        (windowed("sum(n#5) FILTER (WHERE _w0#6)"), "sum has a FILTER"),
        (windowed("sum(n#5)", "RangeFrame, -10, currentrow$()"), "the frame of sum is a RANGE with an"),
        (windowed("sum(n#5)", "RangeFrame, INTERVAL '-1' DAY, currentrow$()"), "the frame of sum is a RANGE"),
        (windowed("sum(n#5)", "RowFrame, unboundedpreceding$(), -1"), "the frame of sum is bounded on one"),
        (windowed("nth_value(n#5, 2, true)"), "nth_value ignores nulls"),
        (windowed("nth_value(n#5, 2, false)", "RowFrame, currentrow$(), unboundedfollowing$()"),
         "the frame of nth_value starts at the current row"),
        (windowed("collect_list(n#5, 0, 0)"), "collect_list over an unbounded frame cannot be combined"),
        (f"cast(({windowed('avg(UnscaledValue(n#5))').split(' AS ')[0]} / 100.0) as decimal(14,6)) AS w#9",
         "it averages decimals"),
        (windowed("first(n#5, false)", WHOLE, order=""), "first depends on an order, and its window has"),
    ],
)  # fmt: skip
def test_what_ranges_cannot_compute_is_not_advised(tmp_path, function, reason):
    finding = found_in(tmp_path, over(window_of(windowed("row_number()"), function)))
    assert finding.line is None
    assert finding.verdict.startswith("partition by more columns, or aggregate first: keysplit cannot help\n")
    assert f"All rows of a key go to one task for the window by user, as {reason}" in finding.details


def test_functions_in_python_are_not_advised(tmp_path):
    text = "WindowInPandas [mean(n#5) windowspecdefinition() AS m#4], [user#1], [n#5 ASC NULLS FIRST]"
    finding = found_in(tmp_path, over(text))
    assert (finding.line, "kss.window does not support Python functions" in finding.details) == (None, True)


def test_the_first_rows_per_key_are_left_to_spark(tmp_path):
    finding = found_in(
        tmp_path, over(f"Window [{RANK}], [user#1], [loaded#2 DESC NULLS LAST]", f"{LIMIT}, Final")
    )
    assert finding.line is None
    assert finding.verdict.startswith("keep fewer rows per key: keysplit cannot help\n")
    assert "Spark drops all rows of a key but the first ones in each task" in finding.details


SORTED = "Sort [user#1 ASC NULLS FIRST, ts#2 ASC NULLS FIRST], false, 0"
TOTAL = windowed("sum(n#5)", WHOLE, "s#9", order="")


@pytest.mark.parametrize(
    ("operators", "columns"),
    [
        ([window_of(windowed("row_number()")), SORTED, window_of(TOTAL, order="")],
         'F.sum("n").over(Window.partitionBy("user")).alias("s"), F.row_number().'
         f'{BY_TIME}).alias("w")'),
        ([window_of(TOTAL, order=""), window_of(windowed("lag(n#5, -1, null)", "RowFrame, -1, -1"))],
         "*columns"),
        # one orders otherwise, one needs a result of another, one is computed by Spark after the others
        ([window_of(windowed("rank()", order="n#5 DESC NULLS LAST")), window_of(windowed("row_number()"))],
         None),
        ([window_of(windowed("max(s#9)")), window_of(TOTAL, order="")], None),
        ([window_of(windowed("rank()", order="s#9 ASC NULLS FIRST")), window_of(TOTAL, order="")], None),
        ([window_of(windowed("max(t#6)")), "Project [(s#9 > 1) AS t#6]", window_of(TOTAL, order="")], None),
        ([window_of(windowed("rank()")), window_of(windowed("collect_set(n#5)", WHOLE, order=""), order="")],
         None),
    ],
)  # fmt: skip
def test_several_windows_have_a_line_where_one_call_splits_them(tmp_path, operators, columns):
    finding = found_in(tmp_path, over(*operators))
    assert finding.line == (columns and f"kss.window(df, {columns}, workers=8)")
    assert ("a kss.window for each order" in finding.verdict) == (columns is None)


BY_NUMBER = "hashpartitioning(user#1, 8), REPARTITION_BY_NUM, [plan_id=9]"
BY_ID = "shufflepartitionidpassthrough(direct_shuffle_partition_id(worker#9), 8), REPARTITION_BY_NUM"
SORT = "Sort [user#1 ASC NULLS FIRST], false, 0"
TAIL = (
    "Project [coalesce([5,2,4][cast(shiftrightunsigned(xxhash64(0, user#1, 42), 52) as int)], 0) AS worker#9]"
)
IN_PARTS = 'kss.apply(df, "user", partial, schema, merge=merge, workers=8'


def with_plan(plan: dict[str, Any]) -> dict[str, Any]:
    """Put what finds the worker of a row below the shuffle of a plan."""
    below = plan
    while below["nodeName"] != "Exchange":
        (below,) = below["children"]
    below["children"] = [node("Project", TAIL, below["children"])]
    return plan


@pytest.mark.parametrize(
    ("function", "shuffle", "line", "action"),
    [
        ("keysplit_whole", BY_NUMBER, f"{IN_PARTS})", "split the hot keys of the Python function by user"),
        ("keysplit_whole", BY_ID, f"{IN_PARTS})", "split the hot keys of the Python function by user"),
        ("keysplit_finished", BY_NUMBER, f'{IN_PARTS}, way="place")', "split the hot keys of the Python"),
        ("keysplit_finished", BY_ID, None, "make a new plan"),
        ("keysplit_in_parts", BY_ID, None, "make a new plan"),
        ("keysplit_merged", BY_NUMBER, None, "return fewer rows from the first function"),
        ("of_the_user", BY_NUMBER, f"{IN_PARTS})", "split the hot keys of the Python function by user"),
    ],
)
@pytest.mark.parametrize("name", ["MapInArrow", "PythonMapInArrow"])
def test_groups_that_are_cut_from_sorted_rows_stay_whole(tmp_path, name, function, shuffle, line, action):
    plan = over(f"{name} {function}(user#1, n#2L)#7, [user#8], false", SORT, shuffle=shuffle)
    finding = found_in(tmp_path, with_plan(plan) if shuffle == BY_ID else plan)
    assert finding.operator == "python group"
    assert finding.line == line
    assert finding.verdict.startswith(action)


def test_rows_that_are_not_sorted_by_the_key_are_split_if_none_must_stay_whole(tmp_path):
    plan = over(
        "MapInArrow f(user#1)#7, [user#8], false", "Sort [n#2 ASC NULLS FIRST], false, 0", shuffle=BY_NUMBER
    )
    finding = found_in(tmp_path, plan)
    assert finding.line == 'kss.repartition(df, "user", workers=8)'
    assert "if none must stay whole" in finding.verdict


@pytest.mark.parametrize(
    "text",
    [
        TAIL,
        TAIL.replace("xxhash64(0, user#1, 42)", "worker_hash#5L"),
        "Project [coalesce(tail#4[cast((shiftrightunsigned(worker#3L, 50) & 63) as int)], 0) AS worker#9]",
        "ArrowEvalPython [keysplit_route(worker#3L)#5], [pythonUDF0#6], 201",
        "Generate explode(CASE WHEN (worker_there#1L = -19) THEN sequence((pmod(drawn#2L, 3) * 3), 2) END)",
    ],
)
def test_rows_that_a_plan_of_keysplit_has_placed_need_a_new_plan(tmp_path, text):
    join = join_plan("SortMergeJoin [k#1, worker#9], [k#2, worker#8], Inner")
    for sort in join["children"]:
        sort["children"][0]["children"][0]["children"] = [node("Project", text, [node("Scan")])]
    finding = found_in(tmp_path, join, updates=READS)
    assert finding.verdict.startswith("make a new plan")
    assert finding.line is None


@pytest.mark.parametrize(
    ("how", "left", "right", "line"),
    [
        ("Inner", 4900, 100, 'kss.join(left, right, on="k", workers=8)'),
        ("Inner", 100, 4900, 'kss.join(left, right, on="k", split="right", workers=8)'),
        ("LeftOuter", 4900, 100, 'kss.join(left, right, on="k", how="left", workers=8)'),
        ("LeftOuter", 100, 4900, 'kss.join(left, right, on="k", how="left", split="right", workers=8)'),
        ("LeftOuter", 8000, 4900, 'kss.join(left, right, on="k", how="left", split="right", workers=8)'),
        ("RightOuter", 4900, 100, 'kss.join(left, right, on="k", how="right", split="left", workers=8)'),
        ("RightOuter", 100, 4900, 'kss.join(left, right, on="k", how="right", workers=8)'),
        ("FullOuter", 100, 4900, 'kss.join(left, right, on="k", how="full", split="right", workers=8)'),
        ("LeftSemi", 4900, 100, 'kss.join(left, right, on="k", how="semi", workers=8)'),
        ("LeftSemi", 100, 4900, None),
        ("LeftAnti", 100, 4900, None),
        ("Inner", 0, 0, None),
    ],
)
def test_a_line_splits_the_side_with_the_hot_keys(tmp_path, how, left, right, line):
    slow = hot(records=5000, updates=[(1, left), (3, right)])
    totals = [(1, 8000 * 8 if left == 8000 else left + 700), (3, right + 700)]
    events = application(
        query(join_plan(f"SortMergeJoin [k#1], [k#2], {how}")), stage(1, slow, totals), end(0, 12.0)
    )
    (finding,) = diagnosed(tmp_path, events).findings
    assert finding.line == line


def test_the_bytes_of_a_side_count_where_its_rows_are_not_known(tmp_path):
    slow = hot(records=5000, updates=[(2, MB), (4, 49 * MB)])
    events = application(
        query(join_plan("SortMergeJoin [k#1], [k#2], LeftOuter")),
        stage(1, slow, [(2, 8 * MB), (4, 50 * MB)]),
        end(0, 12.0),
    )
    (finding,) = diagnosed(tmp_path, events).findings
    assert finding.line == 'kss.join(left, right, on="k", how="left", split="right", workers=8)'


@pytest.mark.parametrize(
    ("how", "hot_id", "line"),
    [
        (
            "Inner",
            3,
            'kss.streaming.join(left, right, on="k", split="right", plan=kss.plan(history, "k", 8))',
        ),
        (
            "LeftOuter",
            1,
            'kss.streaming.join(left, right, on="k", how="left", plan=kss.plan(history, "k", 8))',
        ),
        ("LeftOuter", 3, None),
        ("RightOuter", 1, None),
        ("LeftSemi", 3, None),
        ("FullOuter", 1, None),
    ],
)
def test_a_join_of_streams_has_a_line_only_where_the_side_can_be_split(tmp_path, how, hot_id, line):
    text = f"StreamingSymmetricHashJoin [k#1], [k#2], {how}, condition = [ both = null, full = null ]"
    plan = join_plan(text) | {"nodeName": "StreamingSymmetricHashJoin"}
    slow = hot(records=5000, updates=[(hot_id, 4900)])
    (finding,) = diagnosed(
        tmp_path, application(query(plan), stage(1, slow, [(hot_id, 5600)]), end(0, 12.0))
    ).findings
    assert (finding.operator, finding.line) == ("stateful stream", line)


# Spark's own settings

A = "spark.sql.adaptive."
LARGE = [(1, 4900), (2, 900 * MB)]


def join_found(folder, plan: dict[str, Any], version: str = "4.3.0", **conf: str) -> ks.diagnosis.Finding:
    slow = hot(records=5000, size=900 * MB, updates=LARGE)
    events = application(query(plan), stage(1, slow, [(1, 5600), (2, 907 * MB)]), end(0, 12.0), **conf)
    events[0]["Spark Version"] = version
    (finding,) = diagnosed(folder, events).findings
    return finding


@pytest.mark.parametrize(
    ("plan", "conf", "action"),
    [
        (join_plan("SortMergeJoin [k#1], [k#2], Inner"), {}, "split the hot keys"),
        (
            join_plan("SortMergeJoin [k#1], [k#2], Inner"),
            {f"{A}enabled": "false"},
            "set spark.sql.adaptive.enabled=true first",
        ),
        (
            join_plan("SortMergeJoin [k#1], [k#2], Inner"),
            {f"{A}skewJoin.enabled": "false"},
            "set spark.sql.adaptive.skewJoin.enabled=true first",
        ),
        (
            join_plan("SortMergeJoin [k#1], [k#2], Inner", above="Window"),
            {},
            "set spark.sql.adaptive.forceOptimizeSkewedJoin=true first",
        ),
        (
            join_plan("SortMergeJoin [k#1], [k#2], Inner", above="Window"),
            {f"{A}forceOptimizeSkewedJoin": "true"},
            "split the hot keys",
        ),
        # it would not split these, whatever is set
        (join_plan("SortMergeJoin [k#1], [k#2], FullOuter"), {f"{A}enabled": "false"}, "split the hot keys"),
        (
            join_plan("SortMergeJoin [k#1], [k#2], Inner"),
            {f"{A}enabled": "false", f"{A}skewJoin.skewedPartitionThresholdInBytes": "1g"},
            "split the hot keys",
        ),
    ],
)
def test_a_switch_of_adaptive_execution_comes_first_where_it_helps(tmp_path, plan, conf, action):
    finding = join_found(tmp_path, plan, "4.1.0", **conf)
    assert finding.verdict.startswith(action)
    assert finding.line.startswith("kss.join(left, right")
    if action.startswith("set"):
        assert finding.details.startswith("If that is not enough, split the hot keys of the join by k")


def test_above_2000_partitions_adaptive_execution_sees_averages(tmp_path):
    plan = json.loads(json.dumps(join_plan("SortMergeJoin [k#1], [k#2], Inner")).replace(", 8)", ", 2001)"))
    assert join_found(tmp_path, plan).verdict.startswith(
        "set spark.shuffle.accurateBlockSkewedFactor=5 first"
    )
    conf = {"spark.shuffle.accurateBlockSkewedFactor": "5"}
    assert join_found(tmp_path, plan, **conf).verdict.startswith("split the hot keys")


@pytest.mark.parametrize("value", ["x", "", "nan", "1e999"])
def test_settings_that_are_no_numbers_count_as_not_set(tmp_path, value):
    plan = json.loads(json.dumps(join_plan("SortMergeJoin [k#1], [k#2], Inner")).replace(", 8)", ", 2001)"))
    names = (f"{A}skewJoin.skewedPartitionFactor", "spark.shuffle.accurateBlockSkewedFactor")
    found = join_found(tmp_path, plan, **dict.fromkeys(names, value))
    assert found.verdict == join_found(tmp_path, plan).verdict


@pytest.mark.parametrize(
    ("how", "version", "conf", "helps"),
    [
        ("LeftOuter", "4.3.0", {}, True),
        ("LeftAnti", "4.3.0", {}, True),
        ("FullOuter", "4.3.1", {}, True),
        ("LeftOuter", "4.2.1", {}, False),
        ("LeftOuter", "4.3.0", {"spark.sql.shuffle.spreadNullJoinKeys.enabled": "true"}, False),
        ("RightOuter", "4.3.0", {}, False),  # the hot keys are on the left side, which drops null keys
        ("Inner", "4.3.0", {}, False),
        ("LeftSemi", "4.3.0", {}, False),
    ],
)
def test_null_keys_are_spread_by_spark_where_it_can(tmp_path, how, version, conf, helps):
    plan = join_plan(f"SortMergeJoin [k#1], [k#2], {how}")
    finding = join_found(tmp_path, plan, version, **conf)
    action = "set spark.sql.shuffle.spreadNullJoinKeys.enabled=true if the hot key is null\n"
    assert finding.verdict.startswith(action) == helps
    assert ("null" in finding.verdict) == helps
    below = plan["children"][0]["children"][0]["children"][0]
    below["children"] = [node("Filter", "Filter isnotnull(k#1)", below["children"])]
    assert "null" not in join_found(tmp_path, plan, version, **conf).verdict


@pytest.mark.parametrize(
    ("filtered", "conf", "setting"),
    [
        ("(r#9 <= 1500)", {}, "windowGroupLimitThreshold=1500"),
        ("(r#9 < 1500)", {}, "windowGroupLimitThreshold=1499"),
        ("((r#9 = 1500) AND isnotnull(user#1))", {}, "windowGroupLimitThreshold=1500"),
        ("(r#9 <= 1000)", {}, ""),
        ("(r#9 <= 9000)", {}, ""),  # the hot key has fewer rows
        ("(r#9 <= 2501)", {}, ""),  # each task before the shuffle keeps so many: few are dropped
        ("(r#9 <= 1500)", {"spark.sql.optimizer.windowGroupLimitThreshold": "2000"}, ""),
        (
            "(r#9 <= 1500)",
            {"spark.sql.optimizer.windowGroupLimitThreshold": "1k"},
            "windowGroupLimitThreshold=1500",
        ),
        ("(n#5 <= 1500)", {}, ""),
    ],
)
@pytest.mark.parametrize("function", ["row_number()", "rank(loaded#2)"])
def test_the_limit_of_a_window_is_pushed_down_by_spark_where_it_can(
    tmp_path, function, filtered, conf, setting
):
    frame = "specifiedwindowframe(RowFrame, unboundedpreceding$(), currentrow$())"
    rank = f"{function} windowspecdefinition(user#1, loaded#2 ASC NULLS FIRST, {frame}) AS r#9"
    plan = over(f"Filter {filtered}", f"Window [{rank}], [user#1], [loaded#2 ASC NULLS FIRST]")
    events = application(query(plan), stage(1, hot(records=5000), [(1, 5700)]), end(0, 12.0), **conf)
    (finding,) = diagnosed(tmp_path, events).findings
    assert finding.operator == "window"
    assert finding.verdict.startswith(
        f"set spark.sql.optimizer.{setting} first" if setting else "split the hot keys of the window by user"
    )


@pytest.mark.parametrize(
    ("version", "name", "note"),
    [
        ("4.3.0", f"{A}skewjoin.enabled", f"no Spark knows this setting: did you mean {A}skewJoin.enabled?"),
        ("3.5.9", "spark.sql.shuffle.partition", "did you mean spark.sql.shuffle.partitions?"),
        (
            "4.2.1",
            "spark.sql.shuffle.spreadNullJoinKeys.enabled",
            "no effect in Spark 4.2: it came with Spark 4.3",
        ),
        ("4.3.0", "spark.sql.shuffle.spreadNullJoinKeys.enabled", ""),
        ("3.5.9", f"{A}coalescePartitions.minPartitionNum", ""),
        ("3.5.0-amzn-1", f"{A}ours", ""),
        ("4.3.0", "spark.sql.other", ""),
        ("4.4.0", f"{A}new", ""),
        ("3.4.3", f"{A}old", ""),
    ],
)
@pytest.mark.parametrize("of_query", [False, True])
def test_a_setting_that_no_spark_knows_is_named(tmp_path, version, name, note, of_query):
    asked = query(over("Project [user#1]"))
    if of_query:
        asked["modifiedConfigs"] = {name: "1"}
    events = application(asked, end(0, 12.0), **({} if of_query else {name: "1"}))
    events[0]["Spark Version"] = version
    notes = diagnosed(tmp_path, events).notes
    assert sum(each.startswith(f"{name} has no effect") for each in notes) == bool(note)
    assert note in "".join(notes)


def test_a_report_ends_a_question_once(tmp_path):
    events = application(query(over("Project [user#1]")), end(0, 12.0), **{f"{A}skewjoin.enabled": "1"})
    diagnosed(tmp_path, events).report(tmp_path / "report.html")
    words = Page(tmp_path / "report.html").words
    assert f"did you mean {A}skewJoin.enabled?" in words
    assert "?." not in words


# three lines


def test_a_verdict_is_three_lines(tmp_path):
    finding = found_in(tmp_path, over("FlatMapGroupsInPandas [user#1], f(n#5)#7, [out#8]"))
    assert finding.verdict.splitlines() == [
        "split the hot keys of the Python function by user, if parts can be merged",
        "today 2.91 times as long as balanced: 12.0 s instead of 4.1 s",
        "sure: task 7 of 8 read 5,000 of 5,700 rows (88%)",
    ]
    assert finding.details == (
        "Task 7 of 8 took 10.0 s, 10.00 times the median. Cores waited 63.0 core-seconds. Adaptive execution "
        "splits joins only"
    )
