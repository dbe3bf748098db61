"""`kss.diagnose` on the session of the tests: on fresh jobs of this version, by its status store."""

import ast
import inspect
import subprocess
import sys
import threading
import time
from operator import attrgetter
from pathlib import Path

import pandas as pd
import pytest
import skewed_jobs
from pyspark import cloudpickle
from skewed_jobs import BASE, JOBS, findings_of, is_right, make, start_workers

import keysplit as ks
from keysplit import spark as kss

pytestmark = pytest.mark.versions

cloudpickle.register_pickle_by_value(skewed_jobs)  # executors do not import it

TRIED = ("join", "apply", "window", "cached", "sums", "balanced")


@pytest.fixture(scope="module")
def diagnosis(spark, tmp_path_factory):
    settings = {key: value for key, value in BASE.items() if key.startswith("spark.sql.")}
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    start_workers(spark)
    folder = tmp_path_factory.mktemp("jobs")
    for name in TRIED:
        make(spark, name, folder)
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)
    return kss.diagnose(spark)


@pytest.mark.parametrize("name", TRIED)
def test_the_status_store_says_what_an_event_log_says(diagnosis, name):
    found = findings_of(diagnosis, name)
    assert is_right(JOBS[name], found, stalled=True), [each.to_dict() for each in found]


LOGS = sorted(Path(__file__).parent.parent.glob("eventlogs/*.zstd"))


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
def test_lines_to_paste_are_calls_that_keysplit_takes(log):
    lines = {finding.line for finding in ks.diagnose(log).findings} - {None}
    assert {line.split("(")[0] for line in lines} >= {"kss.join", "kss.apply", "kss.write", "kss.repartition"}
    for line in lines:
        calls = [each for each in ast.walk(ast.parse(line)) if isinstance(each, ast.Call)]
        names = {ast.unparse(each.func): each for each in calls}
        ours = [name for name in names if name.startswith("kss.") and "(" not in name]
        assert ours
        for name in ours:  # of a plan within the call as well
            given = [each for each in names[name].args if not isinstance(each, ast.Starred)]
            named = {each.arg: each for each in names[name].keywords}
            inspect.signature(attrgetter(name.removeprefix("kss."))(kss)).bind(*given, **named)


@pytest.mark.slow
def test_each_verdict_on_a_fresh_log_is_right(tmp_path):
    found = verdicts_on(tmp_path / "all")
    assert len(found) > 20
    wrong = [job for job, right in found.items() if not right]
    # A machine that stalls tasks for seconds hides which of them has the most rows.
    for attempt in range(2):
        if wrong:
            found = verdicts_on(tmp_path / f"{attempt}", wrong)
            wrong = [job for job in wrong if not found[job]]
    assert wrong == []


def verdicts_on(folder, jobs=()):
    """Run jobs, all if none are named; return whether the verdict on each is right."""
    command = [sys.executable, skewed_jobs.__file__, str(folder), "", "", *jobs]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    return {row[0].removeprefix("| "): row[-1] == "yes |" for row in rows[1:]}


def test_a_diagnosis_of_a_session_names_it(spark, diagnosis):
    (application,) = diagnosis.applications
    assert application.id == spark.sparkContext.applicationId
    assert application.version == spark.version
    assert not application.ended
    assert "kss.apply" in str(diagnosis)


def test_a_job_that_hangs_is_told_from_one_that_ended(spark, tmp_path):
    done = tmp_path / "done"

    def wait(rows: pd.DataFrame) -> pd.DataFrame:
        while len(rows) > 1 and not done.exists():
            time.sleep(0.05)
        return rows

    rows = spark.range(0, 60).selectExpr("IF(id < 50, 0, id) AS key", "id AS n").repartition(8, "key")
    job = threading.Thread(target=rows.groupBy("key").applyInPandas(wait, rows.schema).collect, daemon=True)
    job.start()
    try:
        verdict = ""
        for _ in range(600):
            # not the stage before it, of which seven tasks may have ended, too
            hung = (each for each in _verdicts(spark) if "7 of 8 tasks ended" in each and "by key" in each)
            verdict = next(hung, "")
            if verdict:
                break
            time.sleep(0.1)
    finally:
        done.touch()
        job.join()
    assert "still runs: 7 of 8 tasks ended" in verdict
    assert "one has run for" in verdict
    assert "python group by key" in verdict or "Python function by key" in verdict
    assert not any("still runs" in each for each in _verdicts(spark))


def _verdicts(spark):
    diagnosis = kss.diagnose(spark)
    found = (f"{finding.verdict}\n{finding.details}" for finding in diagnosis.findings)
    return [*found, diagnosis.verdict, *diagnosis.notes]


def test_what_is_no_classic_session_is_refused():
    with pytest.raises(TypeError, match="spark must be a SparkSession, got str"):
        kss.diagnose("spark")
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(
        ValueError, match=r"spark must be a classic session, .* spark\.eventLog\.enabled=true"
    ):
        kss.diagnose(remote)
