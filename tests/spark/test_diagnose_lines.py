"""The lines that diagnoses give to paste do what they promise: each is run on rows of this session."""

import re
import sys

import pandas as pd
import pytest
from pyspark import cloudpickle
from pyspark.sql import Window
from pyspark.sql import functions as F

from event_logs import application, diagnosed, end, node, over, query, stage, task
from keysplit import spark as kss
from keysplit.diagnosis.operators import find_gathering, is_placed_by_keysplit
from keysplit.diagnosis.plan import fragments, read_plan

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors do not import it

ROWS, HOT = 3000, 2600
KINDS = ("inner", "left", "right", "full", "semi", "anti")
NAMES = {"inner": "Inner", "left": "LeftOuter", "right": "RightOuter", "full": "FullOuter"}
NAMES |= {"semi": "LeftSemi", "anti": "LeftAnti"}


def found_in(folder, plan, updates, totals, slots=2, records=ROWS, stream=None):
    """Return the finding for the hot task of a stage of 8 on so many slots."""
    slow = task(1, 7, 0, 30, records=records, updates=updates)
    tasks = [task(1, at, at // (slots - 1), 1, records=100, updates=[]) for at in range(7)] + [slow]
    for each in tasks:
        each["Task Metrics"] |= {"Output Metrics": {"Bytes Written": 10}}
    events = application(query(plan), stage(1, tasks, totals), end(0, 31.0), cores=slots, end_s=31.0)
    for each in events:
        if stream is not None and "Properties" in each:
            each["Properties"]["sql.streaming.queryId"] = stream
    (finding,) = diagnosed(folder, events).findings
    return finding


def join_of(how, names=("k", "k")):
    sides = [
        node(
            "Exchange",
            f"Exchange hashpartitioning({name}#{id_}, 8), ENSURE_REQUIREMENTS",
            [node("Scan")],
            records_read=id_,
            local_bytes_read=id_ + 1,
        )
        for name, id_ in zip(names, (1, 3), strict=True)
    ]
    text = f"SortMergeJoin [{names[0]}#1], [{names[1]}#3], {NAMES[how]}"
    return node(
        "SortMergeJoin", text, [node("Sort", children=[each]) for each in sides], number_of_output_rows=5
    )


def hot_rows(spark, key="k", value="n"):
    return spark.range(0, ROWS, 1, 4).selectExpr(
        f"IF(id < {HOT}, 'hot', CONCAT('k', id)) AS {key}", f"id AS {value}"
    )


def few_rows(spark, key="k", value="m"):
    return spark.range(0, 600, 1, 4).selectExpr(
        f"IF(id = 0, 'hot', CONCAT('k', {HOT - 100} + id)) AS {key}", f"id AS {value}"
    )


def same(result, plain):
    assert result.columns == plain.columns
    assert sorted(map(str, result.collect())) == sorted(map(str, plain.collect()))


@pytest.mark.parametrize("hot", ["left", "right"])
@pytest.mark.parametrize("how", KINDS)
def test_the_line_of_a_join_splits_the_side_with_the_hot_keys(spark, tmp_path, how, hot):
    of_hot, of_other = (1, 3) if hot == "left" else (3, 1)
    # the other side is larger, in all tasks alike
    read = [(of_hot, HOT), (of_other, 5000)], [(of_hot, ROWS), (of_other, 40_000)]
    finding = found_in(tmp_path, join_of(how), *read)
    if how in ("semi", "anti") and hot == "right":
        assert finding.line is None
        assert 'right.select("k").distinct()' in finding.verdict
        return
    sides = {"left": hot_rows(spark), "right": few_rows(spark)}
    if hot == "right":
        sides = {"left": few_rows(spark, value="n"), "right": hot_rows(spark, value="m")}
    result = eval(finding.line, {"kss": kss}, sides)
    same(result, sides["left"].join(sides["right"], "k", how))
    assert re.match(r"broadcast: 1 hot key holds 8\d% of the rows|place: 1 key is split", kss.explain(result))
    # on as few slots as those of this session keysplit splits nothing unasked
    assert found_in(tmp_path, join_of(how), *read, slots=8).line == finding.line.replace(', way="place"', "")


def test_the_line_of_a_join_renames_the_key_of_the_right_side(spark, tmp_path):
    finding = found_in(tmp_path, join_of("left", ("k", "name")), [(3, HOT)], [(3, ROWS)])
    left, right = few_rows(spark), hot_rows(spark, "name", "n")
    result = eval(finding.line, {"kss": kss, "left": left, "right": right})
    same(result, left.join(right.withColumnRenamed("name", "k"), "k", "left"))
    assert "1 key is split" in kss.explain(result)


@pytest.mark.parametrize("how", ["inner", "left", "full"])
def test_the_line_for_rows_that_match_many_splits_them_though_they_are_few(spark, tmp_path, how):
    finding = found_in(
        tmp_path,
        join_of(how),
        [(1, 100), (3, 100), (5, 10**7)],
        [(1, 800), (3, 800), (5, 10**7 + 700)],
        8,
        100,
    )
    rows = spark.range(0, 800, 1, 4).selectExpr("IF(id < 60, 'hot', CONCAT('k', id)) AS k", "id AS n")
    left, right = rows, rows.withColumnRenamed("n", "m")
    result = eval(finding.line, {"kss": kss, "left": left, "right": right})
    same(result, left.join(right, "k", how))
    assert kss.explain(result).startswith("broadcast")


def partial(rows):
    return rows.groupby("user", as_index=False)["n"].sum()


@pytest.mark.parametrize(
    "operators",
    [
        ["FlatMapGroupsInPandas [user#1], f(n#5)#7, [out#8]"],
        ["!ArrowAggregatePython [user#1], [f(n#5)#7], [user#1, f(n#5)#7 AS f#8]"],
        ["MapInArrow keysplit_whole(n#5)#7, [out#8], false", "Sort [user#1 ASC NULLS FIRST], false, 0"],
        ["MapInArrow keysplit_finished(n#5)#7, [out#8], false", "Sort [user#1 ASC NULLS FIRST], false, 0"],
    ],
)
def test_the_line_of_a_python_function_splits_the_hot_key(spark, tmp_path, operators):
    plan = over(*operators, shuffle="hashpartitioning(user#1, 8), REPARTITION_BY_NUM")
    line = found_in(tmp_path, plan, [(1, HOT)], [(1, ROWS)]).line
    df, schema = hot_rows(spark, "user"), "user string, n long"
    result = eval(line, {"kss": kss, "df": df, "partial": partial, "merge": partial, "schema": schema})
    same(result, df.groupBy("user").agg(F.sum("n").alias("n")))
    assert "1 key is split" in kss.explain(result)


def test_the_line_of_a_repartition_splits_the_hot_key(spark, tmp_path):
    plan = over("Project [user#1]", shuffle="hashpartitioning(user#1, 8), REPARTITION_BY_NUM")
    line = found_in(tmp_path, plan, [(1, HOT)], [(1, ROWS)]).line
    df = hot_rows(spark, "user")
    result = eval(line, {"kss": kss, "df": df})
    same(result.drop("worker"), df)
    assert "1 key is split over 8 workers" in kss.explain(result)
    assert result.rdd.getNumPartitions() == 8
    assert result.filter("user = 'hot'").groupBy("worker").count().count() > 1


@pytest.mark.parametrize("format", ["Parquet", "CSV"])
def test_the_line_of_a_write_splits_the_hot_key(spark, tmp_path, format):
    shuffled = over("Project [user#1]", shuffle="hashpartitioning(user#1, 8), REPARTITION_BY_NUM")
    insert = "Execute InsertIntoHadoopFsRelationCommand"
    plan = node(insert, f"{insert} file:/t, false, [user#1], {format}, [path=/t], Overwrite, [n]", [shuffled])
    line = found_in(tmp_path, plan, [(1, HOT)], [(1, ROWS)]).line
    df, path = hot_rows(spark, "user").filter("n < 2650"), tmp_path / "out"
    eval(line, {"kss": kss, "df": df, "path": str(path)})
    read = getattr(spark.read.option("inferSchema", "true"), format.lower())(str(path))
    assert read.groupBy("user").count().count() == df.groupBy("user").count().count()
    assert read.count() == df.count()


BY = "PARTITION BY user"


def windows_in(df):
    """Return the texts of the windows in the plan of a DataFrame and of their sorts, the last one first."""
    waiting, texts = [plan_in_log(df)], []
    while waiting:
        each = waiting.pop()
        texts += [each["simpleString"]] if each["nodeName"] in ("Window", "Sort") else []
        waiting += each["children"]
    return texts


@pytest.mark.versions
@pytest.mark.parametrize(
    "columns",
    [
        [
            f"sum(n) OVER ({BY}) AS total",
            f"row_number() OVER ({BY} ORDER BY n DESC) AS place",
            f"max(n) OVER ({BY} ORDER BY n DESC ROWS 2 PRECEDING)",
        ],
        [f"n - lag(n) OVER ({BY} ORDER BY n) AS gap"],
    ],
)
def test_the_line_of_a_window_splits_the_hot_key(spark, tmp_path, columns):
    df, columns = hot_rows(spark, "user"), list(map(F.expr, columns))
    plain = df.select("*", *columns)
    line = found_in(tmp_path, over(*windows_in(plain)), [(1, HOT)], [(1, ROWS)]).line
    assert ("*columns" in line) == (len(columns) == 1)
    result = eval(line, {"kss": kss, "F": F, "Window": Window, "df": df, "columns": columns})
    same(result, plain)
    assert "1 key is split into" in kss.explain(result)


def test_the_line_of_a_window_over_all_rows_splits_its_order(spark, tmp_path):
    df = hot_rows(spark, "user")
    plain = df.select("*", F.count("user").over(Window.orderBy("n")).alias("so_far"))
    plan = over(*windows_in(plain), shuffle="SinglePartition, ENSURE_REQUIREMENTS")
    alone = stage(1, [task(1, 0, 0, 8, updates=[(1, ROWS)])], [(1, ROWS)])
    conf = {"spark.sql.shuffle.partitions": "8"}
    verdict = diagnosed(tmp_path, application(query(plan), alone, end(0, 10.0), cores=2, **conf)).verdict
    line = verdict.splitlines()[0].removeprefix("split the window by ranges of its order: ")
    result = eval(line, {"kss": kss, "F": F, "Window": Window, "df": df})
    same(result, plain)
    assert re.match("place: 1 key is split into [2-8] ranges", kss.explain(result))


def plan_in_log(df):
    """Return the physical plan of a DataFrame as event logs hold it."""
    jvm = df.sparkSession._jvm
    info = getattr(jvm.org.apache.spark.sql.execution, "SparkPlanInfo$")
    executed = df._jdf.queryExecution().executedPlan()
    return as_dict(getattr(info, "MODULE$").fromSparkPlan(executed))


def as_dict(info):
    children = [as_dict(info.children().apply(at)) for at in range(info.children().size())]
    return {"nodeName": info.nodeName(), "simpleString": info.simpleString(), "children": children}


def first(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.iloc[:1]


@pytest.mark.versions
@pytest.mark.parametrize(
    ("make", "seen"),
    [
        (lambda df: kss.apply(df, "user", first, df.schema), [("whole", ("user",), False)]),
        (lambda df: kss.apply(df, "user", first, df.schema, workers=8), [("whole", ("user",), False)]),
        (
            lambda df: kss.apply(
                df,
                "user",
                first,
                df.schema,
                plan=kss.plan(df, "user", 8, grouping="distribution_aware"),
                way="place",
            ),
            [("whole", ("user",), True)],
        ),
        (
            lambda df: kss.apply(df, "user", first, df.schema, merge=first, workers=8),
            [("finished", ("user",), False)],
        ),
        (
            lambda df: kss.apply(df, "user", first, df.schema, merge=first, workers=8, way="place"),
            [("merged", (), True), ("in_parts", ("user",), True)],
        ),
        (lambda df: kss.repartition(df, "user", workers=8), [(None, None, True)]),
        (lambda df: kss.repartition(df.filter("n > 2600"), "user", workers=8), [(None, None, True)]),
        (
            lambda df: kss.join(df, few_rows(df.sparkSession, "user"), "user", workers=8, way="place"),
            [("join", None, True)],
        ),
        (
            lambda df: kss.window(
                df, F.expr(f"sum(n) OVER ({BY} ORDER BY n) AS so_far"), workers=8, way="place"
            ),
            [("window", None, True)],
        ),
        (lambda df: df.repartition(8, "user"), [("repartition", ("user",), False)]),
        (lambda df: df.groupBy("user").applyInPandas(first, df.schema), [("group", ("user",), False)]),
    ],
)
def test_real_plans_show_what_keysplit_has_placed(spark, conf, make, seen):
    conf("spark.sql.adaptive.enabled", "false")
    conf("spark.sql.autoBroadcastJoinThreshold", "-1")
    plan = read_plan(plan_in_log(make(hot_rows(spark, "user"))))
    found = [each for each in fragments(plan) if each.inputs]
    for fragment, (detail, columns, ours) in zip(found, seen, strict=False):
        gathering = find_gathering(fragment, writes=False)
        assert detail in (None, gathering.detail)
        assert columns in (None, gathering.columns)
        assert is_placed_by_keysplit(fragment) == ours


@pytest.fixture
def streams(spark, tmp_path):
    """Rows of a hot user, as a batch and as a stream, and others to join them with."""
    made = {"history": hot_rows(spark, "user"), "few": few_rows(spark, "user")}
    found = {"history": made["history"]}
    for name, df in made.items():
        df.withColumn("at", F.current_timestamp()).write.parquet(str(tmp_path / name))
        schema = f"user string, {'n' if name == 'history' else 'm'} long, at timestamp"
        found[f"{name} stream"] = spark.readStream.schema(schema).parquet(str(tmp_path / name))
    return found


@pytest.mark.parametrize(
    ("operator", "text", "how"),
    [
        ("FlatMapGroupsInPandasWithState", "!FlatMapGroupsInPandasWithState f(n#2)#7, [user#1], [n#2]", ""),
        ("StateStoreSave", "StateStoreSave [user#1], state info", ""),
        *(
            (
                "StreamingSymmetricHashJoin",
                "StreamingSymmetricHashJoin [user#1], [user#3], {}, full = null ]",
                how,
            )
            for how in ("Inner", "LeftOuter", "RightOuter")
        ),
    ],
)
def test_the_line_of_a_stream_builds_and_places_the_rows_by_a_plan(
    spark, tmp_path, streams, operator, text, how
):
    right = how == "RightOuter"
    plan = over(text)
    if how:
        plan = join_of("inner", ("user", "user")) | {"nodeName": operator, "simpleString": text.format(how)}
    if operator == "StateStoreSave":
        plan["children"] = [
            node("ObjectHashAggregate", "ObjectHashAggregate(keys=[user#1])", plan["children"])
        ]
    id_ = 3 if right else 1
    line = found_in(tmp_path, plan, [(id_, HOT)], [(id_, ROWS)], 8, stream="abc").line
    hot, few = (streams[name].withWatermark("at", "1 hour") for name in ("history stream", "few stream"))
    left, other = (few, hot) if right else (hot, few)
    names = {
        "kss": kss,
        "df": hot,
        "left": left,
        "right": other.withColumnRenamed("at", "then"),
        "history": streams["history"],
        "partial": partial,
        "merge": partial,
        "schema": "user string, n long",
        "columns": [F.collect_list("n").alias("all")],
        "window": F.window("at", "1 hour"),
        "condition": F.expr("at <= then AND then <= at + INTERVAL 1 HOUR"),
    }
    result = eval(line, names)
    assert result.isStreaming
    assert kss.explain(result).startswith("place")
