"""A plan at a path is loaded where it is there, else made once and saved."""

import os
import re
import threading
import time
from dataclasses import replace
from importlib import import_module

import pyarrow.fs
import pytest
from pyspark.sql import functions as F

from keysplit import paths
from keysplit import spark as kss

planning = import_module("keysplit.spark.plan")  # the package has the function by this name


@pytest.fixture(scope="module")
def day(spark):
    return spark.range(6000, numPartitions=3).selectExpr("IF(id % 10 < 8, 0, id % 100) AS key", "id AS v")


@pytest.fixture(scope="module")
def other_day(day):
    return day.withColumn("key", F.col("key") + 1000)


@pytest.fixture(scope="module")
def made(day):
    return kss.plan(day, "key", 4)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "key.plan.json")


@pytest.fixture
def no_job(monkeypatch):
    """Let no plan be made."""

    def refused(*_):
        raise AssertionError("a plan is made")

    monkeypatch.setattr(planning, "summarise", refused)


def aged(path, days):
    """Make a file as old as if it had been written so many days ago."""
    then = time.time() - days * 86_400
    os.utime(path, (then, then))


def test_a_plan_is_made_once_and_then_loaded(day, other_day, made, path, request):
    assert kss.plan(day, "key", 4, path=path) == made
    assert kss.Plan.load(path) == made
    request.getfixturevalue("no_job")
    assert kss.plan(other_day, "key", 4, path=path) == made
    assert kss.plan(other_day, "key", grouping=made.grouping, path=path, max_age="30 days") == made


def test_a_plan_is_loaded_for_the_order_that_it_was_made_for(day, path, request):
    made = kss.plan(day, "key", 4, order_by=F.desc("v"), path=path)
    request.getfixturevalue("no_job")
    assert kss.plan(day, "key", 4, order_by=day["v"].desc(), path=path) == made
    its = r"it has \['v bigint DESC NULLS LAST'\], got "
    for other in ("v", F.desc_nulls_first("v"), ["v", "key"], None):
        with pytest.raises(ValueError, match=rf"must be for the same order_by: {its}(\['v bigint |None)"):
            kss.plan(day, "key", 4, order_by=other, path=path)
    with pytest.raises(ValueError, match=rf"must be for the same order_by: {its}\['v string DESC"):
        kss.plan(day.withColumn("v", F.col("v").cast("string")), "key", 4, order_by=F.desc("v"), path=path)


def test_a_plan_is_made_again_from_its_age_on(day, other_day, made, path):
    made.save(path)
    aged(path, 29)
    assert kss.plan(other_day, "key", 4, path=path, max_age="30 days") == made
    aged(path, 31)
    assert kss.plan(other_day, "key", 4, path=path) == made, "without max_age it stays"
    again = kss.plan(other_day, "key", 4, path=path, max_age="30 days")
    assert again.head[0].key == ("1000",)
    assert kss.Plan.load(path) == again
    assert kss.plan(day, "key", 4, path=path, max_age="30 days") == again


def test_a_plan_of_no_rows_is_used_and_not_saved(day, made, path):
    none = day.filter("v < 0")
    assert kss.plan(none, "key", 4, path=path).total == 0
    assert not os.path.exists(path)
    made.save(path)
    aged(path, 31)
    assert kss.plan(none, "key", 4, path=path, max_age="30 days").total == 0
    assert kss.Plan.load(path) == made


OTHER = [
    ({"workers": 9}, "grouping"),
    ({"seed": 7}, "grouping"),
    ({"grouping": "cut_to_fit"}, "grouping"),
    ({"capacities": [1, 1, 1, 2]}, "capacities"),
    ({"group_weight": 3}, "group_weight"),
    ({"weight": "v"}, "weight"),
    ({"row_id": "v"}, "row_id"),
    ({"trust": "v"}, "trust"),
    ({"order_by": "v"}, "order_by"),
    ({"key": "s"}, "key"),
]


@pytest.mark.parametrize("max_age", [None, "1 day"])
@pytest.mark.parametrize(("arguments", "what"), OTHER)
def test_a_plan_for_other_arguments_is_refused(day, made, path, no_job, arguments, what, max_age):
    made.save(path)
    aged(path, 31)
    given = {"key": "key", "workers": 4, **arguments}
    with pytest.raises(ValueError, match=f"^the plan at {path!r} must be for the same {what}: it has "):
        kss.plan(day.withColumn("s", F.lit("s")), path=path, max_age=max_age, **given)
    assert kss.Plan.load(path) == made


@pytest.mark.parametrize("max_age", [None, "1 day"])
@pytest.mark.parametrize("text", ["", "{}", "not a plan", '{"format": "keysplit plan", "version": 99}'])
def test_what_is_no_plan_is_left_alone(day, path, no_job, text, max_age):
    paths.write(path, text)
    aged(path, 31)
    with pytest.raises(ValueError, match=f"^path must be the file of a plan, got {re.escape(repr(path))}: "):
        kss.plan(day, "key", 4, path=path, max_age=max_age)
    assert paths.read(path) == text


def test_a_path_that_cannot_hold_a_plan_is_named_before_any_job(
    day, made, path, tmp_path, no_job, monkeypatch
):
    for wrong, error, message in (
        (tmp_path, IsADirectoryError, "path must be the path of a file, got the folder"),
        ("", ValueError, "path must be the path of a file, got ''"),
        (5, TypeError, "path must be the path of a file, or a URL, got int"),
        (f"{path}/below/plan.json", FileNotFoundError, "path must be a path in an existing folder, got"),
        ("nowhere://host/plan.json", ValueError, "path must be a file, a folder or a URL"),
    ):
        with pytest.raises(error, match=f"^{message}"):
            kss.plan(day, "key", 4, path=wrong)
    made.save(path)
    aged(path, 31)
    monkeypatch.setattr(os, "access", lambda folder, mode: False)
    assert kss.plan(day, "key", 4, path=path) == made
    for where in ({"path": path + ".new"}, {"path": path, "max_age": "1 day"}):
        with pytest.raises(PermissionError, match=r"^path must be a path in a writable folder"):
            kss.plan(day, "key", 4, **where)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"max_age": "1 day"}, ValueError, "max_age must be omitted without path, got '1 day'"),
        ({"max_age": "soon", "path": "p"}, ValueError, "max_age must be"),
        ({"max_age": 3, "path": "p"}, TypeError, "max_age must be"),
    ],
)
def test_wrong_ages_are_refused(day, no_job, arguments, error, message):
    with pytest.raises(error, match=f"^{message}"):
        kss.plan(day, "key", 4, **arguments)


def test_jobs_that_race_use_one_plan(day, made, path, monkeypatch):
    make = planning.make

    def late(request):
        found = make(request)
        first.save(path)
        return found

    monkeypatch.setattr(planning, "make", late)
    first = replace(made, total=made.total + 1)
    assert kss.plan(day, "key", 4, path=path) == first
    assert kss.Plan.load(path) == first
    for other in (kss.plan(day, "key", 5), replace(made, trust=("v",))):
        os.remove(path)
        first = other
        with pytest.raises(ValueError, match=r"must be for the same (grouping|trust)"):
            kss.plan(day, "key", 4, path=path)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_file_is_created_once(tmp_path, scheme):
    made = []

    def create(text):
        made.append((paths.create(f"{scheme}{tmp_path}/one", text), text))

    threads = [threading.Thread(target=create, args=(str(at) * 5000,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [text for new, text in made if new]
    assert paths.read(tmp_path / "one") == winner
    assert [each.name for each in tmp_path.iterdir()] == ["one"]


def test_a_plan_stays_in_a_store(day, other_day, made, tmp_path, monkeypatch):
    class Files:
        @staticmethod
        def from_uri(url):
            return local, str(tmp_path / url.split("://")[1])

    local = pyarrow.fs.LocalFileSystem()
    monkeypatch.setattr(pyarrow.fs, "FileSystem", Files)
    for _ in range(2):
        assert kss.plan(day, "key", 4, path="s3a://plan.json", max_age="30 days") == made
    aged(tmp_path / "plan.json", 31)
    again = kss.plan(other_day, "key", 4, path="s3a://plan.json", max_age="30 days")
    assert again != made
    assert kss.Plan.load("s3a://plan.json") == again
