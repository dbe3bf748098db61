"""`keysplit profile`: will it help me?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import keysplit as ks
from keysplit.cli.errors import bad_input, bad_usage
from keysplit.cli.options import (
    deliver,
    memory_option,
    number,
    output_options,
    sources_option,
    threads_option,
    time_options,
    workers_option,
)
from keysplit.cli.streams import open_stream, stream_options

MOST_TOP_KEYS = 1000
MOST_WINDOWS = 1000


@click.command(short_help="How skewed are the keys, and what would help?")
@stream_options
@workers_option(default="8,32,200")
@sources_option()
@number(
    "--top",
    default=20,
    low=1,
    high=MOST_TOP_KEYS,
    help="Number of most frequent keys to report and to compare between windows.",
)
@number(
    "--windows",
    default=20,
    low=1,
    high=MOST_WINDOWS,
    help="Number of windows of the stream in which hot keys are searched for.",
)
@time_options
@memory_option
@threads_option
@output_options
def profile(workers: Sequence[int], json_: Path | None, report: Path | None, **options: Any) -> None:
    """Report how skewed the keys of FILE are, how they change, and which grouping would help.

    FILE is Parquet (a file, or a folder of files), CSV (compressed or not) or text, where each word is a key;
    - is standard input, CSV with --key, otherwise text. It may be larger than memory, and is read once unless
    the simulations do not fit into --memory together.
    """
    with bad_usage():
        for each in workers:
            ks.KeyGrouping(workers=each)
        stream = open_stream(options)
    with bad_input():
        found = ks.profile(
            stream.chunks, workers, messages=stream.messages, key=stream.key, progress=True, **options
        )
    deliver(
        json_,
        report,
        show=lambda console: found.print_on(console, stream.title),
        figures=lambda: {"stream": stream.title, **found.to_dict()},
        write=lambda path: found.report(path, title=stream.title),
    )
