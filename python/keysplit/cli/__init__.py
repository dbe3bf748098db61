"""The command `keysplit`: one file per subcommand."""

import click

import keysplit as ks
from keysplit.cli.compare import compare
from keysplit.cli.demo import demo
from keysplit.cli.diagnose import diagnose
from keysplit.cli.errors import OneLineErrors
from keysplit.cli.groupings import groupings
from keysplit.cli.profile import profile
from keysplit.cli.reproduce import reproduce
from keysplit.cli.simulate import simulate

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=OneLineErrors, invoke_without_command=True, context_settings=SETTINGS)
@click.version_option(ks.__version__, prog_name="keysplit")
@click.pass_context
def main(context: click.Context) -> None:
    """Skew-aware stream partitioning: split the hot keys over several workers, and keep the results exact."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (diagnose, profile, compare, simulate, reproduce, groupings, demo):
    main.add_command(command)
