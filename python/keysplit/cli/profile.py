"""`keysplit profile`: will it help me?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import keysplit as ks
from keysplit.cli import progress
from keysplit.cli.errors import bad_usage
from keysplit.cli.options import (
    in_range,
    listed,
    output_options,
    sources_option,
    to_standard_output,
    write_json,
)
from keysplit.cli.streams import open_stream, stream_options

MOST_TOP_KEYS = 1000
MOST_WINDOWS = 1000


@click.command(short_help="How skewed are the keys, and what would help?")
@stream_options
@click.option(
    "--workers",
    callback=listed(int, "whole numbers"),
    required=True,
    metavar="N[,N...]",
    help="Numbers of workers.",
)
@sources_option
@click.option(
    "--top",
    type=int,
    default=20,
    show_default=True,
    callback=in_range(1, MOST_TOP_KEYS),
    help="Most frequent keys to tell, and to compare from window to window.",
)
@click.option(
    "--windows",
    type=int,
    default=20,
    show_default=True,
    callback=in_range(1, MOST_WINDOWS),
    help="Parts of the stream in which hot keys are looked for.",
)
@output_options
def profile(
    workers: Sequence[int],
    sources: int,
    top: int,
    windows: int,
    json_: Path | None,
    report: Path | None,
    **stream_options: Any,
) -> None:
    """Say how skewed the keys of FILE are, how they change, and which grouping would help.

    FILE is Parquet, CSV (also compressed) or text, where a word is a key; - is standard input, CSV with
    --key, else text. It is read once and may be larger than memory.
    """
    with bad_usage():
        for number in workers:
            ks.KeyGrouping(workers=number)
        stream = open_stream(**stream_options)
        with progress.shown(stream, "profiling") as chunks:
            found = ks.profile(
                chunks, workers, sources=sources, top=top, windows=windows, messages=stream.messages
            )
        if not to_standard_output(json_):
            from keysplit import tables

            tables.print_profile(tables.terminal(), found, stream.title)
        if json_ is not None:
            write_json({"stream": stream.title, **found.to_dict()}, json_)
        if report is not None:
            from keysplit import report as page

            page.write_profile(found, report, title=stream.title)
            if not to_standard_output(json_):
                click.echo(f"Report: {report}")
