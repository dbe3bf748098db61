"""The experiments run and measure what they say; the figures beside the papers' take the full runs."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import pytest

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


@pytest.fixture(scope="module")
def balance() -> ModuleType:
    spec = importlib.util.spec_from_file_location("balance", EXPERIMENTS / "balance.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["balance"] = module  # where a dataclass looks its module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def cells(balance: ModuleType) -> list[Any]:
    return list(balance.cells(100_000, range(2)))


def test_balance_has_every_cell_with_the_papers_d(cells: list[Any]) -> None:
    ours = {(cell.exponent, cell.workers): cell.d for cell in reversed(cells) if cell.grouping == "d_choices"}
    assert ours == {
        (1.0, 20): 3,
        (1.0, 50): 6,
        (1.0, 100): 12,
        (1.4, 20): 10,
        (1.4, 50): 22,
        (1.4, 100): 43,
        (2.0, 50): 49,
        (2.0, 100): 95,
    }
    twice = [(cell.exponent, cell.workers, cell.d) for cell in cells if cell.d and cell.d == cell.authors_d]
    assert twice[3:5] == [(1.4, 20, 14), (1.4, 50, 22)]
    for name in ("key", "partial_key", "w_choices", "round_robin"):
        assert {(cell.exponent, cell.workers) for cell in cells if cell.grouping == name} == set(ours)


def test_balance_measures_the_groupings(cells: list[Any]) -> None:
    for cell in cells:
        assert len(cell.imbalances) == len(cell.replications) == 2
        assert cell.authors is None  # theirs are of longer streams
        assert 1 <= min(cell.replications) <= max(cell.replications) <= cell.workers
        if cell.grouping == "key":
            assert cell.replications == [1, 1]
        if cell.grouping == "partial_key":
            assert max(cell.replications) <= 2
        if cell.grouping == "w_choices":
            assert cell.imbalance_holds()
    imbalance = {
        cell.grouping: median(cell.imbalances)
        for cell in cells
        if (cell.exponent, cell.workers) == (1.4, 50) and cell.d != cell.workers
    }
    # a share of the stream, which its length hardly moves
    assert imbalance["key"] == pytest.approx(0.330, rel=0.1)
    assert imbalance["partial_key"] == pytest.approx(0.145, rel=0.1)
    assert imbalance["w_choices"] < imbalance["d_choices"] < imbalance["partial_key"] / 10


@pytest.mark.parametrize(
    ("grouping", "imbalances", "authors", "holds"),
    [
        ("key", [0.30, 0.32, 0.34], (0.350, 1.0), (True, True)),
        ("key", [0.30, 0.32, 0.34], (0.360, 1.2), (False, False)),
        ("partial_key", [0.05, 0.06, 0.07], (0.054, 1.15), (False, True)),
        ("w_choices", [1e-6, 1e-5], (1e-6, 1.0), (True, True)),
        ("w_choices", [1e-6, 1.1e-5], (1e-6, 1.0), (False, True)),
        ("d_choices", [3e-6, 3e-5], (8.9e-5, 1.0), (True, True)),
        ("d_choices", [3e-6, 3e-5], (9.1e-5, 1.0), (False, True)),
        ("round_robin", [3e-6, 3e-5], (0.9e-6, 1.0), (False, True)),
    ],
)
def test_balance_judges(
    balance: ModuleType,
    cells: list[Any],
    grouping: str,
    imbalances: list[float],
    authors: tuple[float, float],
    holds: tuple[bool, bool],
) -> None:
    cell = replace(
        cells[0],
        grouping=grouping,
        messages=balance.MESSAGES,
        imbalances=imbalances,
        replications=[0.9, 1.0, 1.3],
        authors=authors,
    )
    assert (cell.imbalance_holds(), cell.replication_holds()) == holds
    (about_imbalance, about_replication) = balance.summary([cell])
    assert [" 1 of 1 " in about_imbalance, " 1 of 1 " in about_replication] == list(holds)


def test_balance_prints(balance: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    balance.main(["--quick", "--markdown"])
    table, summary = capsys.readouterr().out.split("\n\n")
    lines = [line.strip("| ").split(" | ") for line in table.splitlines()]
    assert lines[0] == balance.HEADER
    assert len(lines) == 2 + 8 * 5 + 2
    assert {tuple(line[:2]) for line in lines[2:]} == {(f"{z}", f"{n}") for z, n in balance.AUTHORS}
    assert summary.splitlines() == ["- w_choices, imbalance: holds in 8 of 8 cells"]
    balance.main(["--quick"])
    assert len(capsys.readouterr().out.splitlines()) == 1 + 8 * 5 + 2 + 2


def test_wrong_options_end_without_a_traceback(
    balance: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        balance.main(["--slow"])
    assert end.value.code == 2
    assert "--slow" in capsys.readouterr().err
