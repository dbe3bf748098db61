"""Every public function spells its arguments out, documents each, and stands on a page of the API."""

import inspect
import re
from pathlib import Path

import pytest

from keysplit import spark as kss
from keysplit.spark.checks import type_name

API = Path(__file__).parents[2] / "docs/api"
FUNCTIONS = {
    **{name: each for name in kss.__all__ if inspect.isfunction(each := getattr(kss, name))},
    **{
        f"{room.__name__.rpartition('.')[2]}.{name}": each
        for room in (kss.online, kss.streaming)
        for name in room.__all__
        if inspect.isfunction(each := getattr(room, name))
    },
}
every = pytest.mark.parametrize("name", FUNCTIONS)


@every
def test_all_arguments_are_named_typed_and_documented(name):
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    assert [each.name for each in parameters.values() if each.kind is each.VAR_KEYWORD] == []
    assert [each.name for each in parameters.values() if each.annotation in (each.empty, "Any")] == []
    described = inspect.getdoc(FUNCTIONS[name]).split("Args:")[1].split("Returns:")[0]
    assert set(re.findall(r"^    (\w+): ", described.split("\n\n")[0], re.MULTILINE)) == set(parameters)


def test_functions_take_few_arguments():
    """Planning has more, and only `plan` and `Adapt` take them; a streaming `apply` has two functions."""
    more = {"plan": 14, "streaming.apply": 12}
    for name, function in FUNCTIONS.items():
        assert len(inspect.signature(function).parameters) <= more.get(name, 10), name
    planning = {"grouping", "sample", "weight", "group_weight", "capacities", "row_id", "trust", "seed"}
    gone = {"force", "mode", "engine", "refresh", "allow_inexact", "observed", "adapt", "state"}
    for name in ("route", "repartition", "join", "apply", "write"):
        for function in (getattr(kss, name), getattr(kss.streaming, name)):
            found = set(inspect.signature(function).parameters)
            assert found.isdisjoint(planning | gone)
            assert "plan" in found
        assert "workers" in inspect.signature(getattr(kss, name)).parameters


@every
def test_a_page_of_the_api_has_it(name):
    function = FUNCTIONS[name]
    pages = "".join(page.read_text(encoding="utf-8") for page in API.glob("*.md"))
    assert f"::: {function.__module__}.{function.__name__}\n" in pages


def test_completion_shows_public_names_only():
    assert dir(kss) == sorted(kss.__all__)
    for room in (kss.online, kss.streaming):
        assert dir(room) == sorted(room.__all__)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: kss.route(None, "key", 8),
            "route takes df, key by position and all other arguments by name, such as workers=8, got 8 by",
        ),
        (
            lambda: kss.write(None, "key", 8),
            "write takes df, partition_by by position and all other arguments by name",
        ),
        (
            lambda: kss.join(None, None, "key", "inner", 8),
            "join takes left, right, on, how by position and all other arguments by name, such as workers=8",
        ),
    ],
)
def test_an_argument_by_position_is_named(call, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
        call()


def test_frames_of_others_are_named():
    import pandas as pd

    message = "^df must be a Spark DataFrame, got pandas.DataFrame: use spark.createDataFrame$"
    for call in (
        lambda: kss.plan(pd.DataFrame({"key": [1]}), "key", 8),
        lambda: kss.route(pd.DataFrame({"key": [1]}), "key", workers=8),
        lambda: kss.write(pd.DataFrame({"key": [1]}), "key", workers=8),
        lambda: kss.profile(pd.DataFrame({"key": [1]}), "key", 8),
    ):
        with pytest.raises(TypeError, match=message):
            call()
    assert type_name(3) == "int"
