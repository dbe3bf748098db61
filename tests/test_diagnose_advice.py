"""What diagnoses advise: by which columns, in which order, with which line; on made-up plans and logs."""

from typing import Any

import pytest

import keysplit as ks
from test_diagnose import (
    application,
    diagnosed,
    end,
    hot,
    node,
    query,
    stage,
)


def over(
    *operators: str, shuffle: str = "hashpartitioning(user#1, 8), ENSURE_REQUIREMENTS"
) -> dict[str, Any]:
    """Return a plan of operators by their texts, the last first, over a shuffle."""
    read = {"records_read": 1, "local_bytes_read": 2}
    plan = node("Exchange", f"Exchange {shuffle}", [node("Scan", data=3)], **read)
    for text in reversed(operators):
        plan = node(text.removeprefix("!").split(" ")[0].split("(keys=")[0], text, [plan])
    return plan


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
