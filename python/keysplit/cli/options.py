"""Options that several commands share, and how their values are read and written."""

import json
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import click

STANDARD = "-"  # standard input or output


def whole(_: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Read a whole number, written as 1000000, 1_000_000 or 1e6."""
    if text is None:
        return None
    try:
        number = Decimal(text.replace("_", ""))
        is_whole = number.is_finite() and number == number.to_integral_value()
    except InvalidOperation:
        is_whole = False
    if not is_whole:
        raise click.UsageError(f"{parameter.name} must be a whole number, got {text!r}")
    return int(number)


def listed(read: Callable[[str], Any], what: str) -> Callable[..., Any]:
    """Make a callback that reads values separated by commas."""

    def split(_: click.Context, parameter: click.Parameter, text: str | None) -> list[Any] | None:
        try:
            return None if text is None else [read(each.strip()) for each in text.split(",")]
        except ValueError as error:
            message = f"{parameter.name} must be {what}, separated by commas, got {text!r}"
            raise click.UsageError(message) from error

    return split


def in_range(low: float, high: float | None = None, why: str = "") -> Callable[..., Any]:
    """Make a callback that refuses a number out of range in the words that the library uses."""

    def check(_: click.Context, parameter: click.Parameter, value: Any) -> Any:
        name = str(parameter.name).replace("_", "-")
        if value is not None and not (low <= value and (high is None or value <= high)):
            allowed = f"at least {low}" if high is None else f"in {low}..={high}"
            raise click.UsageError(f"{name} must be {allowed}{why}, got {value}")
        return value

    return check


def sources_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option --sources."""
    return click.option(
        "--sources",
        type=int,
        default=5,
        show_default=True,
        callback=in_range(1, 65_536),
        help="Tasks that route, each by what it has sent itself.",
    )(command)


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options --json and --report."""
    command = click.option(
        "--report",
        type=click.Path(path_type=Path, dir_okay=False),
        callback=_writable,
        metavar="PATH",
        help="Write a page with pictures, one HTML file that needs nothing else.",
    )(command)
    return click.option(
        "--json",
        "json_",
        type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
        callback=_writable,
        metavar="PATH",
        help="Write the figures as JSON, too; - prints them, and nothing else, on standard output.",
    )(command)


def _writable(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and str(path) != STANDARD and not path.absolute().parent.is_dir():
        raise click.UsageError(f"the folder of {path} must exist")
    return path


def to_standard_output(json_: Path | None) -> bool:
    """Whether the figures go to standard output, so that nothing else may."""
    return json_ is not None and str(json_) == STANDARD


def write_json(figures: Any, json_: Path) -> None:
    """Write figures, ready for JSON, to a file or to standard output."""
    text = json.dumps(figures, indent=2, ensure_ascii=False, allow_nan=False)
    if to_standard_output(json_):
        click.echo(text)
    else:
        json_.write_text(text + "\n", encoding="utf-8")
        click.echo(f"Figures: {json_}")
