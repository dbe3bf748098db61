"""`keysplit simulate`: one grouping, with all its parameters, optionally over time."""

import ast
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

import keysplit as ks
from keysplit.cli.errors import bad_input, bad_usage
from keysplit.cli.options import (
    deliver,
    listed,
    number,
    output_options,
    sources_option,
    threads_option,
    whole,
)
from keysplit.cli.streams import open_stream, stream_options
from keysplit.profiling.stream import NAMED_KEYS, Frequent, watched
from keysplit.results import print_result, view_of
from keysplit.show.panels import write

_NO_LIMIT = 10**15  # bytes: the figures are those of `ks.simulate`
EVENTS = "add:POSITION[:CAPACITY], remove:POSITION:WORKER or capacity:POSITION:WORKER:CAPACITY"


@click.command(short_help="Simulate one grouping, optionally over time.")
@stream_options
@click.option("--grouping", required=True, metavar="NAME", help="See `keysplit groupings`.")
@click.option("--workers", type=int, required=True, metavar="N", help="Number of workers.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the grouping, see `keysplit groupings NAME`; may be repeated.",
)
@sources_option()
@number(
    "--service-time-ms",
    type=float,
    low=0,
    help="Service time of a message at capacity 1; enables the timing model.",
)
@number(
    "--arrival-rate",
    type=float,
    low=0,
    metavar="PER_S",
    help="Messages per second; by default one arrives when there is room.",
)
@click.option(
    "--capacities",
    callback=listed(float, "numbers"),
    metavar="C,C,...",
    help="Relative speed of each worker.",
)
@click.option(
    "--event",
    "events",
    multiple=True,
    metavar="EVENT",
    help=f"Before a message arrives: {EVENTS}; may be repeated.",
)
@number(
    "--samples", default=100, low=1, high=1_000_000, help="Number of points at which figures are sampled."
)
@threads_option
@output_options
def simulate(
    grouping: str,
    workers: int,
    settings: Sequence[str],
    service_time_ms: float | None,
    arrival_rate: float | None,
    events: Sequence[str],
    json_: Path | None,
    report: Path | None,
    **options: Any,
) -> None:
    """Route FILE by one grouping and report its loads, costs and, with a service time, its latencies.

    FILE is Parquet (a file, or a folder of files), CSV (compressed or not) or text, where each word is a key;
    - is standard input, CSV with --key, otherwise text. It is read once and may be larger than memory.
    """
    with bad_usage():
        ks.grouping(grouping, workers=workers)
        params = ks.grouping(grouping, workers=workers, **_parameters(grouping, settings))
        changes = [_event(event) for event in events]
        slower = next((text for text in events if text.startswith("capacity:")), None)
        capacities = options["capacities"]
        timed = {"--arrival-rate": arrival_rate, "--capacities": capacities, f"--event {slower}": slower}
        for option, value in timed.items():
            if value is not None and service_time_ms is None:
                raise ValueError(f"{option} belongs to the timing model: --service-time-ms is missing")
        own = {
            **{name: options.pop(name) for name in ("sources", "capacities", "samples", "threads")},
            "service_time_s": None if service_time_ms is None else service_time_ms / 1000,
            "arrival_rate_per_s": arrival_rate,
            "events": changes,
        }
        ks.simulate(params, iter(()), **own)  # this checks them
        stream = open_stream(options)
    frequent = Frequent()
    with bad_input():
        result, *others = ks.compare(
            watched(stream.chunks, frequent),
            workers=workers,
            groupings=[params, *_baseline(params, changes)],
            memory=_NO_LIMIT,
            messages=stream.messages,
            progress=True,
            **own,
        )
    baseline = next(iter(others), None)
    deliver(
        json_,
        report,
        show=lambda console: print_result(console, result, stream.title, baseline),
        figures=lambda: {
            "stream": stream.title,
            **result.to_dict(),
            "baseline": None if baseline is None else baseline.to_dict(),
        },
        write=lambda path: write(
            view_of(result, baseline, frequent.top(NAMED_KEYS)), path, title=stream.title
        ),
    )


def _baseline(params: Any, events: Sequence[Any]) -> list[ks.Grouping]:
    """Return key grouping as the baseline; None if it is what is simulated, or if workers join or leave."""
    changes = any(isinstance(event, ks.AddWorker | ks.RemoveWorker) for event in events)
    if changes or isinstance(params, ks.KeyGrouping):
        return []
    return [ks.KeyGrouping(workers=params.workers, seed=params.seed)]


def _parameters(grouping: str, settings: Sequence[str]) -> dict[str, Any]:
    """Read NAME=VALUE; values are written as in Python, and true, false and none in upper or lower case."""
    allowed = [field.name for field in fields(ks.GROUPINGS[grouping]) if field.name != "workers"]
    found = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"set must be NAME=VALUE, got {setting!r}")
        if name not in allowed:
            raise ValueError(f"set must name one of {', '.join(allowed)}, got {name!r}")
        word = text.strip()
        try:
            found[name] = ast.literal_eval(word.capitalize() if word.isalpha() else word)
        except (SyntaxError, ValueError):
            raise ValueError(f"set must give a number, true, false or none, got {setting!r}") from None
    return found


def _event(text: str) -> ks.AddWorker | ks.RemoveWorker | ks.SetCapacity:
    kind, *values = text.split(":")
    try:
        match kind, values:
            case "add", [position]:
                return ks.AddWorker(whole(position))
            case "add", [position, capacity]:
                return ks.AddWorker(whole(position), float(capacity))
            case "remove", [position, worker]:
                return ks.RemoveWorker(whole(position), int(worker))
            case "capacity", [position, worker, capacity]:
                return ks.SetCapacity(whole(position), int(worker), float(capacity))
    except ValueError:
        pass
    raise ValueError(f"event must be {EVENTS}, got {text!r}")
