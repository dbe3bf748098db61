"""Error reporting: user errors in one line, bugs with their traceback."""

import errno
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from keysplit import __version__
from keysplit.streams import UnreadableError
from keysplit.text import printable

FAILED, INTERRUPTED = 1, 130


class OneLineErrors(click.Group):
    """A command group that reports a user error in one line on standard error.

    Exit codes: 0; 1 for a failure that is not a user error; 2 for bad usage or bad input; 130 for Ctrl-C. A
    bug shows its traceback and asks to be reported, with exit code 1.
    """

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command given by the arguments."""
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.ClickException as error:
            click.echo(f"keysplit: {printable(' '.join(error.format_message().split()))}", err=True)
            code = error.exit_code
        except click.Abort:
            code = INTERRUPTED
        except MemoryError:
            click.echo("keysplit: not enough memory", err=True)
            code = FAILED
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                click.echo(f"keysplit: the output cannot be written: {error.strerror}", err=True)
                _forget_output()
            else:
                for line in "".join(traceback.format_exception(error)).splitlines():
                    click.echo(printable(line), err=True)
                report = "please report it with the command and the lines above"
                click.echo(f"keysplit: this is a bug in keysplit {__version__}: {report}", err=True)
            code = FAILED
        if standalone_mode:
            sys.exit(code)
        return code


def _forget_output() -> None:
    """Stop Python from flushing unwritable output at exit."""
    with suppress(OSError):  # it may have no file descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def bad_usage() -> Iterator[None]:
    """Report the library's errors about an argument, file or package as user errors.

    Use it only for checks before the work begins: an error of the same type in the work itself is a bug.
    """
    try:
        yield
    except (ImportError, MemoryError, OSError, TypeError, ValueError) as error:
        _refuse(error)


@contextmanager
def bad_input() -> Iterator[None]:
    """Report an input that cannot be read as a user error, even during the work."""
    try:
        yield
    except UnreadableError as error:
        _refuse(error)


@contextmanager
def bad_output(path: Path) -> Iterator[None]:
    """Report a file that cannot be written as a user error."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # not raised by the operating system
            raise
        error.filename = error.filename or str(path)
        _refuse(error)


def _refuse(error: Exception) -> None:
    if isinstance(error, BrokenPipeError):  # the reader has closed the pipe: click ends quietly
        raise error
    raise click.UsageError(message_of(error)) from error


def message_of(error: BaseException) -> str:
    """Return an error's message, with the file if the error comes from the operating system."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}"
    return str(error) or type(error).__name__
