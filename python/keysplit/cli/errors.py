"""How the command fails: in one line on standard error, without a traceback."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from keysplit.cli.options import printable

INTERRUPTED = 130


class OneLineErrors(click.Group):
    """A group of commands that reports what goes wrong in one line on standard error, without a traceback.

    Exit codes: 0, 1 for a failure that is nobody's mistake, 2 for bad usage or bad input, 130 for Ctrl-C.
    """

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command that the arguments name."""
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.ClickException as error:
            click.echo(f"keysplit: {printable(' '.join(error.format_message().split()))}", err=True)
            code = error.exit_code
        except click.Abort:
            code = INTERRUPTED
        if standalone_mode:
            sys.exit(code)
        return code


@contextmanager
def bad_usage() -> Iterator[None]:
    """Make what the library raises for a wrong argument, file or package a mistake of the user."""
    try:
        yield
    except BrokenPipeError:  # who reads the output has seen enough: click ends quietly
        raise
    except (ImportError, MemoryError, OSError, TypeError, ValueError) as error:
        raise click.UsageError(told(error)) from error


def told(error: BaseException) -> str:
    """Return the message of an error, an operating system's with the file that it is about."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}"
    return str(error) or type(error).__name__
