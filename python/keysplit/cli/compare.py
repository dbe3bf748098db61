"""`keysplit compare`: all groupings on one stream."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import keysplit as ks
from keysplit.cli.errors import bad_input, bad_usage
from keysplit.cli.options import (
    deliver,
    listed,
    memory_option,
    output_options,
    sources_option,
    threads_option,
    time_options,
    workers_option,
)
from keysplit.cli.streams import open_stream, stream_options
from keysplit.comparison import print_comparison, view_of
from keysplit.profiling.advice import Cost
from keysplit.profiling.planned import Keys, advise_on
from keysplit.profiling.stream import NAMED_KEYS, Frequent, watched
from keysplit.show.panels import write


@click.command(short_help="Rank the groupings by balance and cost.")
@stream_options
@workers_option()
@click.option(
    "--groupings",
    callback=listed(str, "names"),
    metavar="NAME[,NAME...]",
    help="Groupings to compare; default: all of `keysplit groupings`.",
)
@sources_option()
@time_options
@memory_option
@threads_option
@output_options
def compare(
    workers: Sequence[int],
    groupings: Sequence[str] | None,
    seconds_per_row: float | None,
    cores: int | None,
    json_: Path | None,
    report: Path | None,
    **options: Any,
) -> None:
    """Route FILE by every grouping for every number of workers, and rank them.

    FILE is Parquet (a file, or a folder of files), CSV (compressed or not) or text, where each word is a key;
    - is standard input, CSV with --key, otherwise text. It may be larger than memory. Groupings that do not
    fit into --memory together run in several groups, one after another, and each group reads FILE again.
    """
    with bad_usage():
        for number in workers:
            for name in groupings or ks.GROUPINGS:
                ks.grouping(name, workers=number)
        stream = open_stream(options)
    numbers = list(dict.fromkeys(workers))
    keys, frequent = Keys(numbers), Frequent()
    with bad_input():
        results = ks.compare(
            watched(stream.chunks, keys, frequent),
            workers=numbers,
            groupings=list(dict.fromkeys(groupings or ks.GROUPINGS)),
            messages=stream.messages,
            progress=True,
            **options,
        )
    top = frequent.top(NAMED_KEYS)
    advice = {
        number: advise_on(
            [result for result in results if result.params.workers == number],
            keys.predict(number),
            top=next(iter(top), None),
            key=stream.key,
            cost=Cost(seconds_per_row, cores),
        )
        for number in numbers
    }
    deliver(
        json_,
        report,
        show=lambda console: print_comparison(console, results, stream.title, advice),
        figures=lambda: {
            "stream": stream.title,
            "sources": options["sources"],
            "advice": [each.to_dict() for each in advice.values()],
            "results": [result.to_dict() for result in results],
        },
        write=lambda path: write(view_of(results, advice, top), path, title=stream.title),
    )
