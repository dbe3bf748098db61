"""The input streams of cells, drawn or read, each made once for the cells that share it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path
from threading import Lock
from typing import Any

import keysplit as ks
from keysplit import streams
from keysplit_experiments.harness.paper import Dataset

KEPT = 2
"""Number of streams kept for later cells."""

MOST_DRAWN = 10_000_000
"""Maximum messages of a stream drawn in place of a real one."""


class Inputs:
    """The source of the messages.

    Args:
        data: Folder with substitutes for the papers' datasets; None if there is none.
        stream: A file to read instead of each of the papers' datasets.
        key: Its column of keys, as for [`streams.read`][keysplit.streams.read].

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it cannot be read, or has no messages.
    """

    def __init__(self, data: Path | None = None, stream: Path | None = None, key: str | None = None) -> None:
        self.data, self.stream, self.key = data, stream, key
        self._made: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = Lock()
        if stream is not None:
            self._read(stream, key)

    def once(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """Make something at the first call with this name; the most recent ones are kept."""
        with self._lock:
            if name not in self._made:
                while len(self._made) >= KEPT:
                    self._made.popitem(last=False)
                self._made[name] = make()
            self._made.move_to_end(name)
            return self._made[name]

    def zipf(self, exponent: float, keys: int, messages: int, seed: int) -> Any:
        """Draw the stream of [`streams.zipf`][keysplit.streams.zipf]."""
        name = ("zipf", exponent, keys, messages, seed)
        return self.once(name, lambda: streams.zipf(exponent, keys, messages, seed))

    def real(self, dataset: Dataset, most_messages: int | None = None) -> Any:
        """Read the substitute for a paper's dataset, or draw a stream with its statistics.

        Args:
            dataset: The paper's.
            most_messages: Take only this many first messages.

        Returns:
            Its keys, as routers accept them.
        """
        file = self._file(dataset)
        if file is None:
            length, keys = _drawn_size(dataset, most_messages)
            return self.once(("drawn", dataset, length), lambda: _draw(dataset, length, keys))
        column = self._read(*file)
        return column if most_messages is None else column[:most_messages]

    def describe(self, dataset: Dataset) -> str:
        """Describe the stream used for a dataset."""
        file = self._file(dataset)
        if file is None:
            periods = f", other hot keys in each of {dataset.periods} parts" if dataset.periods > 1 else ""
            return (
                f"drawn: Zipf whose hottest key has {dataset.top_share:.2%} of the messages, at most "
                f"{MOST_DRAWN:,} messages{periods}"
            )
        return file[0].name + ("" if file[1] is None or self.stream is None else f", column {file[1]}")

    def standard(self, dataset: Dataset) -> bool:
        """Return whether a dataset's standard substitute is read."""
        return self.stream is None and self._file(dataset) is not None

    def identity(self, dataset: Dataset) -> list[Any]:
        """Identify a file, so that its measurements are not reused for another."""
        file = self._file(dataset)
        if file is None:
            return ["drawn", dataset.messages, dataset.keys, dataset.top_share, dataset.periods, MOST_DRAWN]
        return [file[0].name, file[1], file[0].stat().st_size]

    def _read(self, path: Path, key: str | None) -> Any:
        try:
            column = self.once((path, key), lambda: streams.read(path, key))
            ks.hash_keys(column[:1])  # all keys have the type of the first
        except (OSError, TypeError, streams.UnknownColumnError) as error:
            raise streams.UnreadableError(str(error)) from error
        if len(column) == 0:
            raise streams.UnreadableError(f"{str(path)!r} must hold at least one message, got none")
        return column

    def _file(self, dataset: Dataset) -> tuple[Path, str | None] | None:
        if self.stream is not None:
            return self.stream, self.key
        if self.data is None:
            return None
        path = self.data / dataset.stands_in
        return (path, "key") if path.is_file() else None


def _drawn_size(dataset: Dataset, most_messages: int | None) -> tuple[int, int]:
    """Length and keys of a drawn stream, reduced in proportion."""
    most = MOST_DRAWN if most_messages is None else min(most_messages, MOST_DRAWN)
    messages = min(dataset.messages, most)
    return messages, max(2, round(dataset.keys * messages / dataset.messages))


def _draw(dataset: Dataset, messages: int, keys: int) -> Any:
    exponent = streams.zipf_exponent(max(keys, round(1 / dataset.top_share) + 1), dataset.top_share)
    return streams.zipf_drifting(exponent, keys, messages, periods=dataset.periods, seed=1)
