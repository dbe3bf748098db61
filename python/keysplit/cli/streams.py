"""The input stream of a command: a file, standard input, or drawn by Zipf's law."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import click

import keysplit as ks
from keysplit.cli.options import STANDARD, count, number
from keysplit.text import printable


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Keys in the order in which they arrive.

    Attributes:
        title: a short description of the stream.
        chunks: the keys, column by column: a function that reopens the stream, or an iterator for a single
            read.
        messages: the number of keys; None if unknown.
        key: the name of the keys' column, if there is one.
    """

    title: str
    key: tuple[str, ...] = ()
    chunks: Callable[[], Iterator[Any]] | Iterator[Any]
    messages: int | None


def stream_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments of `open_stream`."""
    for add in (
        number("--stream-seed", default=0, low=0, help="Seed of the drawn stream."),
        click.option("--messages", callback=count, metavar="N", help="Length of the drawn stream, e.g. 1e6."),
        click.option("--keys", callback=count, metavar="N", help="Keys of the drawn stream."),
        click.option(
            "--zipf",
            type=float,
            metavar="EXPONENT",
            help="Draw a stream instead of a file: the key i has a share proportional to 1 / i**EXPONENT.",
        ),
        click.option("--key", metavar="COLUMN", help="Column of the keys; not for text."),
        click.argument("file", required=False, type=click.Path(allow_dash=True)),
    ):
        command = add(command)
    return command


def open_stream(options: dict[str, Any]) -> Stream:
    """Open the stream given by the options of `stream_options`, and check its first keys.

    Args:
        options: the options of a command; the stream's options are removed.

    Raises:
        OSError: there is no such file.
        TypeError: the first key is of an unsupported type.
        ValueError: the options contradict each other, or the file cannot be read, or lacks the column or
            keys.
    """
    file, key = options.pop("file"), options.pop("key")
    zipf, keys, messages = (options.pop(each) for each in ("zipf", "keys", "messages"))
    seed = options.pop("stream_seed")
    drawn = {"--zipf": zipf, "--keys": keys, "--messages": messages}
    if file is None:
        missing = [option for option, value in drawn.items() if value is None]
        if zipf is None and keys is None and messages is None:
            raise ValueError(
                "name a FILE (- for standard input), or draw a stream: --zipf, --keys and --messages"
            )
        if zipf is None or keys is None or messages is None:
            raise ValueError(
                f"a drawn stream takes --zipf, --keys and --messages: {' and '.join(missing)} missing"
            )
        if key is not None:
            raise ValueError("--key needs a FILE and cannot be used with a drawn stream")
        if messages == 0:
            raise ValueError("messages must be at least 1, got 0")
        drawing = partial(ks.streams.zipf_chunks, zipf, keys, messages, seed)
        drawing()  # this checks its arguments
        title = f"drawn by Zipf's law with exponent {zipf:g} from {keys:,} keys"
        return Stream(title=title, chunks=drawing, messages=messages)
    given = [option for option, value in drawn.items() if value is not None]
    if given:
        raise ValueError(
            f"{' and '.join(given)} draw a stream and cannot be combined with a FILE, got {file!r}"
        )
    named = () if key is None else (key,)
    what = "words" if key is None else f"column {key}"
    if file == STANDARD:
        title = f"{what} of standard input"
        return Stream(
            title=title, chunks=_check(ks.streams.chunks(STANDARD, key), title), messages=None, key=named
        )
    title = printable(f"{what} of {Path(file).name}")
    _check(ks.streams.chunks(file, key), title)
    opened = partial(ks.streams.chunks, file, key)
    return Stream(title=title, chunks=opened, messages=ks.streams.length(file), key=named)


def _check(chunks: Iterator[Any], title: str) -> Iterator[Any]:
    """Reject an empty or all-null stream, or unsupported keys, before any work; return all the chunks."""
    nulls: list[int] = []  # lengths of the first chunks, which may be many
    for chunk in chunks:
        ks.hash_keys(chunk[:1])  # all keys have the first one's type
        if chunk.null_count < len(chunk):
            return chain(_null_chunks(nulls, chunk), [chunk], chunks)
        nulls.append(len(chunk))
    if sum(nulls):
        raise ValueError(f"the stream must hold a key that is not null, got {sum(nulls):,} nulls: {title}")
    raise ValueError(f"the stream must hold at least one key, got none: {title}")


def _null_chunks(lengths: list[int], like: Any) -> Iterator[Any]:
    import pyarrow as pa

    return (pa.nulls(length, like.type) for length in lengths)
