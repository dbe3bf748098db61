"""How far a command has read its stream: a bar on standard error where that is a terminal, else nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from keysplit.cli.streams import Stream


@contextmanager
def shown(stream: Stream, what: str) -> Iterator[Iterator[Any]]:
    """Give the chunks of a stream; the bar moves as they are taken."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield stream.chunks
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=stream.messages)

        def chunks() -> Iterator[Any]:
            for chunk in stream.chunks:
                yield chunk
                progress.advance(task, len(chunk))

        yield chunks()
