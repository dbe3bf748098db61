"""The programs in examples/applications are exact, and one that adapts also if its driver is killed."""

import random
import re
import runpy
import sys
from pathlib import Path

import pytest
from killed_driver import Queries, newest, run_and_kill, wait_for_batch

PROGRAMS = sorted((Path(__file__).resolve().parents[2] / "examples/applications").glob("*.py"))
VERDICT = re.compile(r"^equal to .*: (True|False)$", re.MULTILINE)

pytestmark = pytest.mark.newest


@pytest.fixture
def program(request):
    path = next(each for each in PROGRAMS if each.stem == request.param)
    if "from sklearn" in path.read_text():
        pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install scikit-learn")
    return path


# its aggregation places rows by a plan that adapts; `killed_driver.py` kills queries like those of the others
KILLED = "average_rating"
QUICK = "word_count"


# what is killed runs to its end there
@pytest.mark.parametrize(
    "program",
    [
        name if name == QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in (path.stem for path in PROGRAMS)
        if name != KILLED
    ],
    indirect=True,
)
def test_application(spark, tmp_path, capsys, program):
    runpy.run_path(str(program))["main"](spark, tmp_path)
    verdicts = VERDICT.findall(capsys.readouterr().out)
    assert len(verdicts) >= 2
    assert set(verdicts) == {"True"}


class AfterTheFirstBatch(Queries):
    """The queries of a program, which are to be killed in a later batch than their first."""

    def wait_for_moment(self, process, chance):
        for checkpoint in self.checkpoints.values():
            wait_for_batch(process, checkpoint / "commits", 0)
        super().wait_for_moment(process, chance)


class ToTheEnd(Queries):
    """The queries of a program that goes on to its end; one that does not end is killed after all."""

    def wait_for_moment(self, process, chance):
        assert process.wait(timeout=900) == 0, self.log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("program", [KILLED], indirect=True)
def test_killed_application(tmp_path, program):
    """A kill that comes just as a batch ends meets none: then the program is killed once more."""
    folder, chance = tmp_path / "run", random.Random(program.stem)
    queries, command = AfterTheFirstBatch(tmp_path, ["run"]), [sys.executable, program, folder]
    for _ in range(3):
        (met,) = run_and_kill(queries, command, chance)
        if met["batch was at work"]:
            break
    assert met["batch was at work"]
    assert met["killed in batch"] > 0
    before = len(queries.log.read_text())
    run_and_kill(ToTheEnd(tmp_path, ["run"]), command, chance)
    assert newest(folder / "checkpoint/commits") >= met["killed in batch"]
    verdicts = VERDICT.findall(queries.log.read_text()[before:])
    assert len(verdicts) >= 2
    assert set(verdicts) == {"True"}
