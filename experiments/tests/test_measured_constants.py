"""`measured/constants.py` runs a made-up experiment for each value of a constant."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import keysplit as ks
from keysplit_experiments.harness import Claim, Experiment, Judged, Results, registry
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.measured import constants
from made_up_experiment import Counting


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """What an experiment has measured: FlexD, FlexD with a threshold of its own, and FISH."""
    measured: list[tuple[str, float]] = []

    def measure(inputs: Inputs, *, grouping: str, **given: float) -> dict[str, Any]:
        params: Any = ks.grouping(grouping, workers=4, **given)
        measured.append((grouping, params.threshold))
        return {"threshold": params.threshold}

    def below(limit: float) -> Claim:
        def judge(results: Results) -> Judged:
            return Judged((results.all("threshold", grouping="flexd")[0] or 0) < limit, "")

        return Claim(says=f"below {limit} (always)", where="here", judge=judge)

    experiment: Experiment = replace(
        Counting().experiment,
        name="flexd/fig7",
        label="Fig. 7",
        cells=lambda scale: [
            {"grouping": "flexd"},
            {"grouping": "flexd", "threshold": 0.7},
            {"grouping": "fish"},
        ],
        measure=measure,
        claims=[below(0.2), below(0.3), below(1)],
    )
    monkeypatch.setattr(registry, "experiments_of", lambda slug: {f"{slug}/fig7": experiment})
    return measured


def test_constants_counts_the_claims_for_each_value(
    measured: list[tuple[str, float]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["flexd", "threshold", "1/n", "1/(2n)", "0.5", "--quick", "--out", str(tmp_path)]
    for _ in range(2):
        constants.main(command)
        assert [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()] == [
            ["claim", "1/n", "1/(2n)", "0.5"],
            ["---", "---", "---", "---"],
            ["claims that hold, of 3", "2", "3", "1"],
            ["Fig. 7: below 0.2", "differs", "holds", "differs"],
            ["Fig. 7: below 0.3", "holds", "holds", "differs"],
        ]
    # the cells with no use of the default once, and nothing again in the second run
    once = [("flexd", 0.7), ("fish", None)]
    assert sorted(measured, key=str) == sorted(
        [*once, *(("flexd", tried) for tried in (0.25, 0.125, 0.5))], key=str
    )
    assert ks.FlexD(workers=4).threshold is None


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["key", "threshold", "1/n"], "invalid choice: 'key'"),
        (["flexd", "best", "1/n"], "unexpected keyword argument 'best'"),
        (["flexd", "threshold", "1/n", "n"], "must be a number, A/n or A/(Bn), got 'n'"),
        (["flexd", "threshold", "2"], "threshold must be"),
    ],
)
def test_wrong_options_end_before_anything_is_measured(
    measured: list[tuple[str, float]], command: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        constants.main(command)
    assert end.value.code == 2
    assert said in capsys.readouterr().err
    assert measured == []
