"""The plan log of a query: versions and records that are written once."""

import re
import warnings

import pytest
from streams import versions_of

from keysplit import spark as kss
from keysplit.spark.streaming.adapting import _folder_named
from keysplit.spark.streaming.log import MOST_BATCHES, Log


@pytest.fixture
def plan(spark):
    return kss.plan(spark.range(100).selectExpr("id % 7 as key"), "key", 2)


def test_a_damaged_record_is_not_pruned_but_passed_over(tmp_path, recwarn):
    warnings.simplefilter("always")
    log = Log(tmp_path)
    for batch in range(MOST_BATCHES + 1):
        log.version_of(batch, 0)
    (tmp_path / "batch-1.json").write_text("")
    Log(tmp_path).prune()
    assert "was not pruned" in str(recwarn.pop().message)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"plan": "1"}', '{"plan": true, "query": true}'])
def test_a_damaged_record_is_named_with_the_remedy(tmp_path, text):
    (tmp_path / "batch-3.json").write_text(text)
    message = (
        r"the plan log must hold whole records, got '.*batch-3\.json' with .*: move the folder of the log"
    )
    with pytest.raises(ValueError, match=message):
        Log(tmp_path).version_of(3, 0)
    (tmp_path / "query.json").write_text(text)
    with pytest.raises(ValueError, match=r"got '.*query\.json' with"):
        Log(tmp_path).claim("a query")


def test_a_damaged_plan_is_named_with_the_remedy(plan, tmp_path, recwarn):
    log = Log(tmp_path)
    for _ in range(2):
        log.publish(plan)
    (tmp_path / "plan-1.json").write_text("")
    assert log.newest(plan) == (0, plan)
    assert re.search(r"version 1 .* got '.*plan-1\.json': .*: move the folder", str(recwarn.pop().message))
    with pytest.raises(ValueError, match=r"^the plan log must hold whole plans, got '.*plan-1\.json': "):
        log.plan(1)
    with pytest.raises(FileNotFoundError, match=r"plan-7\.json' is gone: move the folder of the log"):
        log.plan(7)
    gone = Log(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(FileNotFoundError, match=r"must not be moved, but '.*gone' is gone: start the"):
        gone.version_of(3, 0)


def test_a_log_of_many_keys_has_a_short_name():
    assert _folder_named("worker-key") == "worker-key"
    names = {_folder_named("worker-" + "a long name of a key " * 20 + end) for end in ("a", "b")}
    assert len(names) == 2
    assert max(map(len, names)) < 100


def test_the_first_record_of_a_batch_stays(tmp_path, plan):
    log = Log(tmp_path / "log")
    assert log.last is None
    assert [log.publish(plan), log.publish(plan)] == [0, 1]
    assert log.version_of(5, 0) == 0
    assert log.version_of(5, 1) == 0
    again = Log(tmp_path / "log")
    assert again.last == 1
    assert again.version_of(5, 1) == 0
    assert again.plan(1) == plan


def test_two_drivers_publish_two_versions(tmp_path, plan):
    one, two = Log(tmp_path / "log"), Log(tmp_path / "log")
    assert [one.publish(plan), two.publish(plan), one.publish(plan)] == [0, 1, 2]
    two.refresh()
    assert two.last == 2


def test_a_number_of_a_version_is_given_out_once(tmp_path, plan):
    log = Log(tmp_path)
    assert [log.publish(plan) for _ in range(3)] == [0, 1, 2]
    log.version_of(7, 2)
    (tmp_path / "plan-2.json").unlink()
    assert Log(tmp_path).publish(plan) == 3  # after a restart
    (tmp_path / "plan-3.json").unlink()
    log.refresh()
    assert log.publish(plan) == 3  # no batch goes by it
    (tmp_path / "plan-3.json").unlink()
    log.refresh()
    assert log.publish(plan) == 4  # this query may
    assert log.version_of(7, 4) == 2
    with pytest.raises(FileNotFoundError, match=r"plan-2\.json' is gone"):
        log.plan(2)


def test_old_records_are_deleted(tmp_path, plan):
    log = Log(tmp_path / "log")
    for batch in range(MOST_BATCHES + 10):
        if batch % 20 == 0:
            log.publish(plan)
        log.version_of(batch, batch // 20)
        log.prune()
    plans, batches = versions_of(tmp_path / "log")
    assert sorted(batches) == list(range(10, MOST_BATCHES + 10))
    assert set(batches.values()) <= set(plans)
    for batch in range(MOST_BATCHES + 10, MOST_BATCHES + 60):
        log.version_of(batch, 5)
        log.prune()
    assert sorted(versions_of(tmp_path / "log")[0]) == [3, 4, 5]


def test_an_older_version_in_use_is_not_deleted(tmp_path, plan):
    """A query that is started for fewer workers takes the newest plan for so few."""
    log = Log(tmp_path / "log")
    for _ in range(4):
        log.publish(plan)
    log.version_of(0, 3)
    for batch in range(1, MOST_BATCHES + 20):
        log = Log(tmp_path / "log") if batch == 50 else log
        log.version_of(batch, 3 if batch < 40 else 1)
        log.prune()
    assert sorted(versions_of(tmp_path / "log")[0]) == [1, 2, 3]
