"""`keysplit groupings`: prints the registry."""

from typing import Any

import click

import keysplit as ks
from keysplit.show.console import open_terminal
from keysplit.text import WIDTH


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the table of the documentation.")
def groupings(name: str | None, as_json: bool, as_markdown: bool) -> None:
    """List the groupings, or show the parameters of one grouping: `keysplit groupings fish`."""
    import json

    from keysplit.groupings import overview

    if as_markdown:
        if name is not None or as_json:
            raise click.UsageError("--markdown cannot be combined with a name or --json")
        click.echo(overview.markdown(), nl=False)
        return
    if name is not None and name not in ks.GROUPINGS:
        raise click.UsageError(f"grouping must be one of {', '.join(ks.GROUPINGS)}, got {name!r}")
    if as_json:
        about = (
            [overview.describe(each) for each in ks.GROUPINGS] if name is None else overview.describe(name)
        )
        click.echo(json.dumps(about, indent=2))
    elif name is None:
        _show_groupings()
    else:
        _show_grouping(overview.describe(name))


def _show_groupings() -> None:
    from rich.table import Table

    from keysplit.groupings.overview import LEGEND

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("name", no_wrap=True)
    table.add_column("workers\nper key", no_wrap=True)
    table.add_column("adapts to", min_width=len("changing workers"))
    table.add_column("feedback", no_wrap=True)
    table.add_column("paper")
    for name, kind in ks.GROUPINGS.items():
        adapts_to, feedback = ", ".join(kind.adapts_to), ", ".join(kind.feedback)
        table.add_row(name, kind.workers_per_key, adapts_to, feedback, kind.paper)
    open_terminal().print(table)  # narrower than 80 columns, a column would be lost
    click.echo()
    _show("workers per key", "at most; " + ", ".join(f"{short}: {long}" for short, long in LEGEND.items()))
    _show("feedback", "the arguments of Router.observe that the grouping uses, in addition to now")
    click.echo("`keysplit groupings NAME` shows the parameters and the paper of one grouping.")


def _show_grouping(about: dict[str, Any]) -> None:
    from keysplit.groupings.overview import LEGEND

    click.echo(click.wrap_text(f"{about['name']}: {about['summary']}", WIDTH) + "\n")
    most = about["workers_per_key"]
    _show("class", about["class"])
    _show("parameters", "workers")
    for name, value in {"seed": 0, **about["parameters"]}.items():
        _show("", f"{name} = {value}")
    _show("workers per key", f"at most {most}" + (f": {LEGEND[most]}" if most in LEGEND else ""))
    _show("adapts to", ", ".join(about["adapts_to"]) or "nothing")
    _show("feedback", ", ".join(about["feedback"]) or "none")
    _show("elastic", "yes" if about["elastic"] else "no")
    _show("source", about["source"])


def _show(label: str, text: str) -> None:
    click.echo(click.wrap_text(text, WIDTH, f"{label:<17}", " " * 17))
