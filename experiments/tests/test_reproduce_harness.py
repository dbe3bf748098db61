"""What experiments share: results, tables, the registry, inputs and figures."""

import json
from pathlib import Path
from typing import Any

import pytest

from keysplit_experiments.harness import figure, registry, runner
from keysplit_experiments.harness.experiment import (
    FULL,
    QUICK,
    Cell,
    Results,
    Scale,
    plain,
    steps,
)
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.paper import Dataset
from keysplit_experiments.harness.store import Store
from keysplit_experiments.harness.table import Table, share, spell

ROOT = Path(__file__).parents[2]
TINY = Scale("tiny", 2_000)


# results


def test_results_are_chosen_by_their_parameters() -> None:
    cells = [
        Cell({"n": n, "grouping": g, "seed": s}, {"load": n * 10 + s, "list": [1]})
        for n in (5, 10)
        for g in "ab"
        for s in (1, 2, 3)
    ]
    results = Results(cells)
    assert results.values("n") == [5, 10]
    assert results.median("load", n=5, grouping="a") == 52
    assert results.line("n", "load", grouping="b") == ([5, 10], [52, 102])
    assert results.medians("load", "grouping", "n", seed=[1, 2]) == {
        ("a", 5): 51.5,
        ("b", 5): 51.5,
        ("a", 10): 101.5,
        ("b", 10): 101.5,
    }
    assert results.one("load", n=10, grouping="a", seed=3) == 103
    assert len(list(results.where(n=[5, 10], seed=1))) == 4
    with pytest.raises(LookupError, match="6 cells"):
        results.one("load", n=5)
    for empty in (lambda: results.all("load", n=6), lambda: results.line("n", "load", grouping="c")):
        with pytest.raises(LookupError, match="no cell"):
            empty()


def test_scales() -> None:
    assert FULL.messages(10**7) == 10**7
    assert QUICK.messages(10**7) == 100_000
    assert QUICK.messages(10**7, quick=5) == 5
    assert TINY.messages(10**7) == 2_000
    assert FULL.grid([1, 2], [1]) == [1, 2]
    assert TINY.grid([1, 2], [1]) == QUICK.grid([1, 2], [1]) == [1]


def test_steps_have_no_noise() -> None:
    assert steps(0.1, 0.5, 0.1) == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert steps(1.0, 2.0, 0.25) == [1.0, 1.25, 1.5, 1.75, 2.0]
    assert steps(10, 30, 10) == [10, 20, 30]


def test_plain_is_what_json_takes() -> None:
    import numpy as np

    value = {"a": np.arange(3), "b": (np.float64(0.5), [np.int64(2)]), "c": None}
    assert json.dumps(plain(value)) == '{"a": [0, 1, 2], "b": [0.5, [2]], "c": null}'


# tables


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("word", "word"),
        (True, "yes"),
        (12_345, "12,345"),
        (0.0, "0"),
        (0.4, "0.4"),
        (-76.6, "-76.6"),
        (0.0960001, "0.096"),
        (1.23e-5, "1.2e-05"),
        (2.345, "2.35"),
        (123_456.7, "123,457"),
        (float("nan"), ""),
        (float("inf"), "inf"),
    ],
)
def test_entries_of_a_table(value: Any, text: str) -> None:
    assert spell(value) == text


def test_a_table_as_markdown() -> None:
    table = Table(["name", "load"], [["a|b", 1], ["c", None]])
    assert table.markdown() == "| name | load |\n| --- | ---: |\n| a\\|b | 1 |\n| c |  |"
    with pytest.raises(ValueError, match="must have 2 entries"):
        Table(["name", "load"], [["a"]])
    assert (share(0.0012), share(0.301), share(0)) == ("0.12%", "30.1%", "0.0%")


# registry


def test_names_are_found_in_order() -> None:
    names = [experiment.name for experiment in registry.chosen(["d_choices"])]
    assert names == [f"d_choices/fig{n}" for n in (1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)] + ["d_choices/table1"]
    assert registry.chosen(["d_choices/fig10", "d_choices/fig3", "d_choices/fig10"]) == [
        registry.registered()[name] for name in ("d_choices/fig3", "d_choices/fig10")
    ]
    assert registry.chosen(["all"]) == list(registry.registered().values())
    with pytest.raises(ValueError, match=r"name must be all, a paper \(d_choices.*got 'fig10'"):
        registry.chosen(["fig10"])
    with pytest.raises(ValueError, match=r"one of its experiments \(flexd/fig7, flexd/fig8, .*'flexd/fig99'"):
        registry.chosen(["flexd/fig99"])


DATASET = Dataset(
    symbol="X", title="x", messages=1_000_000, keys=50_000, top_share=0.2, stands_in="x.parquet", periods=4
)


# inputs


def test_a_stream_with_the_papers_statistics_is_drawn() -> None:
    import numpy as np

    keys = Inputs().real(DATASET, 20_000)
    assert len(keys) == 20_000
    shares = [np.bincount(part).max() / 5_000 for part in np.split(keys, 4)]
    assert shares == pytest.approx([0.2] * 4, abs=0.03)
    hot = [int(np.bincount(part).argmax()) for part in np.split(keys, 4)]
    assert len(set(hot)) == 4


def test_files_are_read_and_the_first_messages_taken(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    parquet.write_table(pa.table({"key": ["a", "b", "a"], "other": [1, 2, 3]}), tmp_path / "x.parquet")
    inputs = Inputs(data=tmp_path)
    assert inputs.real(DATASET).to_pylist() == ["a", "b", "a"]
    assert inputs.real(DATASET, 2).to_pylist() == ["a", "b"]
    assert inputs.describe(DATASET) == "x.parquet"
    own = Inputs(stream=tmp_path / "x.parquet", key="other")
    assert own.real(DATASET).to_pylist() == [1, 2, 3]
    assert own.describe(DATASET) == "x.parquet, column other"
    assert own.identity(DATASET) != inputs.identity(DATASET) != Inputs().identity(DATASET)


def test_streams_are_made_once() -> None:
    inputs, made = Inputs(), []
    for name in (1, 1, 2, 1, 3, 1, 2):
        inputs.once(name, lambda name=name: made.append(name))
    assert made == [1, 2, 3, 2]


# figures


def test_a_figure_is_the_same_whenever_it_is_drawn(tmp_path: Path) -> None:
    experiment = registry.registered()["d_choices/fig8"]
    outcome = runner.run(experiment, TINY, Inputs(), Store(tmp_path, TINY.name))
    for name in ("first.svg", "second.svg"):
        drawn = figure.draw(experiment, outcome.results)
        assert drawn is not None
        figure.save(drawn, tmp_path / name)
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()


def test_figures_have_colors_for_dark_pages() -> None:
    drawings = [*(ROOT / "docs").rglob("experiments/*/*.svg"), *(ROOT / "docs/deployments").glob("*.svg")]
    assert len(drawings) > len(registry.deployments())
    for path in drawings:
        text = path.read_text(encoding="utf-8")
        assert "@media (prefers-color-scheme: dark)" in text, path.name
        assert figure.for_dark_pages(text.split("@media")[0] + "</style>").split("</style>")[0] in text, (
            path.name
        )


def test_every_grouping_has_a_look() -> None:
    import keysplit as ks

    assert set(figure.LOOKS) == set(ks.GROUPINGS)
    assert len({look.color for look in figure.LOOKS.values()}) == len(figure.LOOKS)
