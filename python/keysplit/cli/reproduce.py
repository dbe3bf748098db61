"""`keysplit reproduce`: a placeholder. The command itself is in the package of the experiments."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import click

ENTRY_POINTS = "keysplit.commands"
INSTALL = "pip install . ./experiments"


class Reproduce(click.Command):
    """A placeholder that loads the command by its entry point when called."""

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the help text, and what to install if the command is missing."""
        return (
            super().get_short_help_str(limit)
            if _installed()
            else f"The papers' experiments: in a clone, {INSTALL}."
        )

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Run the command itself.

        Raises:
            click.UsageError: If the package that provides it is not installed.
        """
        found = _installed()
        if not found:
            raise click.UsageError(
                f"{info_name} needs the papers' experiments: {INSTALL} in a clone of keysplit"
            )
        command: click.Command = found[0].load()
        return command.make_context(info_name, args, parent, **extra)


def _installed() -> tuple[Any, ...]:
    return tuple(metadata.entry_points(group=ENTRY_POINTS, name="reproduce"))


reproduce = Reproduce("reproduce", help="Reproduce the papers' experiments and check their claims.")
