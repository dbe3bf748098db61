"""Options shared by several commands: parsing and output."""

import json
import math
import os
from collections.abc import Callable
from decimal import Decimal
from functools import wraps
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from keysplit.cli.errors import bad_output
from keysplit.runs import LEAST_MEMORY, MEMORY, MOST_THREADS
from keysplit.show.console import open_terminal

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

STANDARD = "-"  # standard input or output
_MOST = 10**15  # of a count
_GIGA = 10**9


def whole(text: str) -> int:
    """Read a whole number, written as 1000000, 1_000_000 or 1e6."""
    try:
        number = Decimal(text.replace("_", ""))
        if abs(number) <= _MOST and number == int(number):
            return int(number)
    except ArithmeticError:
        pass
    raise ValueError(f"must be a whole number of at most {_MOST:,}, got {text!r}")


def count(_: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Parse an option's value with `whole`."""
    try:
        return None if text is None else whole(text)
    except ValueError as error:
        raise click.UsageError(f"{parameter.name} {error}") from error


def listed(read: Callable[[str], Any], what: str) -> Callable[..., Any]:
    """Make a callback that parses comma-separated values."""

    def split(_: click.Context, parameter: click.Parameter, text: str | None) -> list[Any] | None:
        try:
            return None if text is None else [read(each.strip()) for each in text.split(",")]
        except ValueError as error:
            message = f"{parameter.name} must be {what}, separated by commas, got {text!r}"
            raise click.UsageError(message) from error

    return split


def in_range(low: float, high: float | None = None, why: str = "") -> Callable[..., Any]:
    """Make a callback that rejects a number out of range with the library's wording."""

    def check(_: click.Context, parameter: click.Parameter, value: Any) -> Any:
        name = str(parameter.name).replace("_", "-")
        if value is not None and not (low <= value and (high is None or value <= high)):
            allowed = f"at least {low}" if high is None else f"in {low}..={high}"
            raise click.UsageError(f"{name} must be {allowed}{why}, got {value}")
        return value

    return check


def number(name: str, *, low: float, high: float | None = None, why: str = "", **settings: Any) -> Decorator:
    """Make an option for a number in a range; `settings` go to `click.option`."""
    return click.option(name, callback=in_range(low, high, why), show_default=True, **settings)


def sources_option(most: int = 65_536) -> Decorator:
    """Make the option --sources."""
    meaning = "Tasks that route, each by its own load estimate."
    return number("--sources", default=5, low=1, high=most, help=meaning)


def threads_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --threads."""
    meaning = "Threads to run on; default: the processors that may be used. Figures do not depend on it."
    return number("--threads", type=int, low=1, high=MOST_THREADS, metavar="N", help=meaning)(command)


def memory_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --memory, in bytes."""
    return click.option(
        "--memory",
        callback=_bytes,
        default=f"{MEMORY // _GIGA}GB",
        show_default=True,
        metavar="SIZE",
        help="Limits how many simulations run together, e.g. 500MB: each counts 100 bytes per key and 64 "
        "workers (at most per message), 4 kB per worker and source, and 15 MB.",
    )(command)


def _bytes(_: click.Context, parameter: click.Parameter, text: str) -> int:
    """Read a size in bytes, written as 2e9, 500MB or 2GB."""
    units = {"GB": _GIGA, "MB": 10**6, "": 1}
    unit = next(unit for unit in units if text.upper().endswith(unit))
    try:
        size = Decimal(text[: len(text) - len(unit)].strip()) * units[unit]
        if LEAST_MEMORY <= size <= _MOST:
            return int(size)
    except ArithmeticError:
        pass
    least = f"{LEAST_MEMORY // 10**6}MB"
    raise click.UsageError(f"{parameter.name} must be a size of at least {least}, such as 2GB, got {text!r}")


def workers_option(*, default: str | None = None) -> Decorator:
    """Make the option --workers, which takes several numbers."""
    given: dict[str, Any] = {"required": True} if default is None else {"default": default}
    return click.option(
        "--workers",
        callback=listed(int, "whole numbers"),
        **given,
        show_default=True,
        metavar="N[,N...]",
        help="Numbers of workers.",
    )


def time_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options --seconds-per-row and --cores, for the times in verdicts."""
    meaning = "Tasks that run at once, for the expected times; default: one per worker."
    command = number("--cores", type=int, low=1, metavar="N", help=meaning)(command)
    return click.option(
        "--seconds-per-row",
        type=float,
        callback=_above_zero,
        metavar="S",
        help="Time per row: the verdict then gives expected times instead of a ratio.",
    )(command)


def _above_zero(_: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not 0 < value < math.inf:
        name = str(parameter.name).replace("_", "-")
        raise click.UsageError(f"{name} must be above 0 and finite, got {value}")
    return value


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options --json and --report for `deliver`; neither may name the command's input."""

    @wraps(function)
    def checked(json_: Path | None, report: Path | None, **others: Any) -> Any:
        inputs = others.get("eventlogs") or [others.get("file")]
        for output in (json_, report):
            if output is not None and any(_is_of(output, each) for each in inputs if each is not None):
                raise click.UsageError(f"{output} is the command's input: write to a different file")
        if json_ is not None and report is not None and json_.resolve() == report.resolve():
            raise click.UsageError(f"--json and --report must be different files, got {json_} for both")
        return function(json_=json_, report=report, **others)

    command = click.option(
        "--report",
        type=click.Path(path_type=Path, dir_okay=False),
        callback=writable,
        metavar="PATH",
        help="Write a report with charts, a single self-contained HTML file.",
    )(checked)
    return click.option(
        "--json",
        "json_",
        type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
        callback=writable,
        metavar="PATH",
        help="Also write the figures as JSON; - prints only the figures, on standard output.",
    )(command)


def _is_of(output: Path, read: Path | str) -> bool:
    """Return whether a file is the input, or is in the input folder."""
    if not output.exists() or not os.path.exists(read):  # such as a URL, or a file that does not exist yet
        return False
    found = Path(read).resolve()
    return output.resolve() == found or found in output.resolve().parents


def writable(_: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """Reject an unwritable path before any work is done."""
    if path is None:
        return None
    if str(path) == STANDARD:
        if isinstance(parameter.type, click.Path) and parameter.type.allow_dash:
            return path
        raise click.UsageError(f"{parameter.name} must be a file, got '-'")
    if not path.absolute().parent.is_dir():
        raise click.UsageError(f"the folder of {path} must exist")
    try:
        if not path.exists():
            path.touch()
            path.unlink()
        elif path.is_file():
            path.open("ab").close()
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}") from error
    return path


def deliver(
    json_: Path | None,
    report: Path | None,
    *,
    show: Callable[[Console], None],
    figures: Callable[[], dict[str, Any]],
    write: Callable[[Path], None],
) -> None:
    """Write a result to the requested outputs.

    Args:
        json_: the path for the figures, or None; with `-` nothing else is printed on standard output.
        report: the path for the page, or None.
        show: prints the result on the terminal.
        figures: returns the figures of the result, ready for JSON.
        write: writes the page.
    """
    alone = json_ is not None and str(json_) == STANDARD
    text = "" if json_ is None else json.dumps(figures(), indent=2, ensure_ascii=False, allow_nan=False)
    # Files first: the reader of a pipe may close it early.
    if json_ is not None and not alone:
        with bad_output(json_):
            json_.write_text(text + "\n", encoding="utf-8")
    if report is not None:
        with bad_output(report):
            write(report)
    if alone:
        click.echo(text)
        return
    show(open_terminal())
    for name, path in (("Figures", json_), ("Report", report)):
        if path is not None:
            click.echo(f"{name}: {path}")
