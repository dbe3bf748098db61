"""`keysplit diagnose`: which stages of a Spark job wait for a slow task, and what would help."""

from pathlib import Path

import click

import keysplit as ks
from keysplit.cli.errors import bad_usage
from keysplit.cli.options import deliver, output_options
from keysplit.diagnosis.archives import is_of_server, url_of


@click.command(short_help="Which stages of a Spark job wait for a slow task, and why?")
@click.argument("eventlogs", nargs=-1, required=True, metavar="EVENTLOG...")
@output_options
def diagnose(eventlogs: tuple[str, ...], json_: Path | None, report: Path | None) -> None:
    """Read event logs of Spark and name the stages that wait for a slow task: why, and what would help.

    EVENTLOG is a file, a folder of a rolled log, a folder or a zip of logs, or a URL such as
    s3://bucket/logs. For a history server, give address and application: http://host:18080 app-20260401.
    """
    with bad_usage():
        if len(eventlogs) == 2 and is_of_server(eventlogs[0]):
            eventlogs = (url_of(*eventlogs),)
        found = ks.diagnose(eventlogs)
    deliver(
        json_,
        report,
        show=found.print_on,
        figures=found.to_dict,
        write=lambda path: found.report(path),
    )
