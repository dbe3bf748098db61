"""`keysplit reproduce` stands in the list of commands, and says what to install where it is missing."""

import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from keysplit.cli import main, reproduce


def keysplit(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package keysplit-experiments is not installed."""
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())


def listed(page: str) -> str:
    """What the list of commands says of this one."""
    return next(line for line in page.splitlines() if line.startswith("  reproduce"))


def test_the_command_is_the_one_that_the_experiments_bring() -> None:
    with reproduce.make_context("reproduce", ["--quick"]) as context:
        assert context.command.callback.__module__ == "keysplit_experiments.command"
        assert context.params["quick"] is True
    assert "Reproduce the papers' experiments" in listed(keysplit("--help").stdout)
    page = keysplit("reproduce", "--help")
    assert page.exit_code == 0
    assert "--no-figures" in page.stdout


@pytest.mark.usefixtures("missing")
def test_without_the_experiments_the_list_says_what_to_install() -> None:
    page = keysplit("--help")
    assert page.exit_code == 0
    assert listed(page.stdout).endswith("in a clone, pip install . ./experiments.")


@pytest.mark.usefixtures("missing")
@pytest.mark.parametrize("arguments", [[], ["all", "--quick"], ["--help"], ["--no-such-option"]])
def test_without_the_experiments_the_command_says_what_to_install(arguments: list[str]) -> None:
    result = keysplit("reproduce", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("keysplit: reproduce needs the papers' experiments: ")
    assert "pip install . ./experiments in a clone of keysplit" in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_list_of_commands_brings_no_experiments() -> None:
    code = (
        "import sys\nfrom keysplit.cli import main\nmain(['--help'], standalone_mode=False)\n"
        "print([name for name in sys.modules if name.startswith(('keysplit_experiments', 'matplotlib'))])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]"
