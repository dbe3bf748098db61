"""The rules that judge the papers' claims, on made-up results."""

import pytest

import test_reproduce_consistent as consistent
import test_reproduce_d_choices as d_choices
import test_reproduce_dynamic_key as dynamic_key
import test_reproduce_fish as fish
import test_reproduce_flexd as flexd
from keysplit_experiments.harness import registry
from made_up_results import Cases, made

CASES: Cases = {
    **d_choices.CASES,
    **consistent.CASES,
    **dynamic_key.CASES,
    **fish.CASES,
    **flexd.CASES,
}
CLAIMS = [(name, place) for name, (_, breaks) in CASES.items() for place in range(len(breaks))]


def test_every_claim_is_tried() -> None:
    claims = {name: len(experiment.claims) for name, experiment in registry.registered().items()}
    assert {name: len(breaks) for name, (_, breaks) in CASES.items()} == claims


@pytest.mark.parametrize(("name", "place"), CLAIMS, ids=[f"{name}-{place}" for name, place in CLAIMS])
def test_a_claim_holds_in_results_as_the_paper_tells_them_and_no_others(name: str, place: int) -> None:
    formula, breaks = CASES[name]
    claim = registry.registered()[name].claims[place]
    judged = claim.judge(made(name, formula))
    assert judged.holds, f"{claim.says}: {judged.ours}"
    judged = claim.judge(made(name, formula, breaks[place]))
    assert not judged.holds, f"{claim.says}: {judged.ours}"
