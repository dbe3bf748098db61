"""What is finished is kept, and what was interrupted goes on."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from keysplit_experiments.harness import runner
from keysplit_experiments.harness.experiment import (
    QUICK,
)
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.store import Store
from made_up_experiment import Counting


def test_finished_cells_are_not_measured_again(tmp_path: Path) -> None:
    counting = Counting()
    first = counting.run(tmp_path)
    assert counting.measured == [0, 1, 2, 3]
    again = counting.run(tmp_path)
    assert counting.measured == [0, 1, 2, 3]
    assert repr(first.results) == repr(again.results)
    more = Counting(cells=5)
    assert not more.run(tmp_path).verdicts[0].holds
    assert more.measured == [4]
    other = Counting(version=2)
    other.run(tmp_path)
    assert other.measured == [0, 1, 2, 3]


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    counting = Counting()
    counting.fails_at = 2
    with pytest.raises(KeyboardInterrupt):
        counting.run(tmp_path)
    assert counting.measured[:2] == [0, 1]
    assert not Store(tmp_path, "quick").path(counting.experiment, ".json").exists()
    kept = len(Store(tmp_path, "quick").finished(counting.experiment))
    assert kept >= 2
    counting.fails_at = None
    before = len(counting.measured)
    assert counting.run(tmp_path).verdicts[0].holds
    assert len(counting.measured) - before == 4 - kept


def test_what_is_under_way_when_a_run_is_stopped_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping, shutdown = Event(), ThreadPoolExecutor.shutdown

    def stop(pool: ThreadPoolExecutor, **options: bool) -> None:
        stopping.set()
        shutdown(pool, **options)

    def measure(inputs: Inputs, *, place: int) -> dict[str, Any]:
        if place == 1:
            raise KeyboardInterrupt
        assert stopping.wait(60)
        return {"value": 1}

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", stop)
    experiment, store = replace(Counting(cells=2).experiment, measure=measure), Store(tmp_path, "quick")
    with pytest.raises(KeyboardInterrupt):
        runner.run(experiment, QUICK, Inputs(), store, jobs=2)
    assert list(store.finished(experiment).values()) == [{"value": 1}]


def test_a_line_that_was_cut_off_is_measured_again(tmp_path: Path) -> None:
    counting = Counting()
    counting.run(tmp_path)
    path = Store(tmp_path, "quick").path(counting.experiment, ".cells.jsonl")
    path.write_bytes(path.read_bytes()[:-20])
    counting.run(tmp_path)
    assert sorted(counting.measured) == [0, 1, 2, 3, 3]
    counting.run(tmp_path)
    assert len(counting.measured) == 5, "the line behind the one cut off was lost"


def test_another_stream_is_measured_anew(tmp_path: Path) -> None:
    counting = Counting(stream="CT")
    drawn = counting.run(tmp_path).results
    assert drawn.streams["CT"].startswith("drawn: Zipf")
    assert not drawn.standard
    for number, words in enumerate(("a b c", "a b c d"), start=1):
        file = tmp_path / f"words{number}.txt"
        file.write_text(words)
        outcome = counting.run(tmp_path, Inputs(stream=file))
        assert outcome.results.streams == {"CT": file.name}
    assert len(counting.measured) == 12


def test_a_stream_that_the_paper_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stream must be one of WP, TW, CT, got 'XX'"):
        Counting(stream="XX").run(tmp_path)


def test_progress_is_told(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def progress(done: int, cells: int) -> None:
        seen.append((done, cells))

    experiment, store = Counting().experiment, Store(tmp_path, "quick")
    runner.run(experiment, QUICK, Inputs(), store, jobs=1, progress=progress)
    assert seen == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    runner.run(experiment, QUICK, Inputs(), store, jobs=1, progress=progress)
    assert seen[5:] == [(4, 4)]
