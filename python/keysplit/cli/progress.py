"""Progress through the stream: a bar on standard error if that is a terminal, else nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from keysplit.cli.streams import Stream


@contextmanager
def watch(stream: Stream, what: str) -> Iterator[Callable[[], Iterator[Any]] | Iterator[Any]]:
    """Pass on the chunks of a stream, in the same form, with a progress bar per pass."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield stream.chunks
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=stream.messages)

        def watched(chunks: Iterator[Any]) -> Iterator[Any]:
            progress.reset(task)
            for chunk in chunks:
                yield chunk
                progress.advance(task, len(chunk))

        chunks = stream.chunks
        yield watched(chunks) if isinstance(chunks, Iterator) else lambda: watched(chunks())
