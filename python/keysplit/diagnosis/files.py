"""Event logs in files, folders and stores: which files are a log, and their lines."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keysplit.diagnosis.codecs import READERS, DamagedError, begins_so, plain

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_ROLLED = re.compile(r"events_(\d+)_")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_LONGEST_LINE = 1 << 29


@dataclass(frozen=True)
class EventLog:
    """A log: its name, and its files in the order in which they were written."""

    name: str
    files: tuple[str, ...]
    _system: Any

    def lines(self, note: Callable[[str], None]) -> Iterator[bytes]:
        """Return the lines, as far as they can be read.

        Args:
            note: is told in words what could not be read.

        Raises:
            OSError: if a file cannot be opened.
            ValueError: if it is not compressed as its name says.
        """
        for name in self.files:
            read = _reader_of(name)
            with self._system.open_input_file(name) as file:
                if name == self.files[0] and not begins_so(read, file):
                    kind = read.__name__
                    raise ValueError(
                        f"{_base(name)} must be compressed with {kind}, as its name says, and is not"
                    )
                yield from _lines(read(file), _base(name), note)


def find_logs(paths: Iterable[str | os.PathLike[str]]) -> list[EventLog]:
    """Find the event logs at paths.

    Args:
        paths: files, folders of a rolled log (`eventlog_v2_...`), folders of logs, or URLs of these.

    Returns:
        The logs, in the order of the paths; those of a folder by name.

    Raises:
        FileNotFoundError: if there is nothing at a path, or no log in a folder.
        ValueError: if a log is compressed with lzf, or pyarrow knows no file system for a URL.
    """
    found: list[EventLog] = []
    for path in paths:
        logs = list(_find(os.fspath(path)))
        if not logs:
            raise FileNotFoundError(f"{path}: no event log in this folder")
        found += logs
    for log in found:
        for name in log.files:
            _reader_of(name)
    return found


def _find(path: str) -> Iterator[EventLog]:
    from pyarrow.fs import FileSelector, FileType

    system, name = _open(path)
    info = system.get_file_info(name)
    if info.type == FileType.NotFound:
        raise FileNotFoundError(f"{path}: no such file or folder")
    if info.type != FileType.Directory:
        yield EventLog(_base(name), (name,), system)
        return
    inside = sorted(system.get_file_info(FileSelector(name)), key=lambda each: each.base_name)
    rolled = _rolled([each.path for each in inside if each.is_file])
    if rolled:
        yield EventLog(_base(name), rolled, system)
        return
    for each in inside:
        if each.type == FileType.Directory:
            if each.base_name.startswith("eventlog_v2_"):
                files = system.get_file_info(FileSelector(each.path))
                rolled = _rolled([file.path for file in files if file.is_file])
                if rolled:
                    yield EventLog(each.base_name, rolled, system)
        elif not each.base_name.startswith((".", "_")):
            yield EventLog(each.base_name, (each.path,), system)


def _rolled(names: Iterable[str]) -> tuple[str, ...]:
    """Return the files of a rolled log by their number; of compacted ones the last replaces those before."""
    numbered = []
    for name in names:
        if match := _ROLLED.match(_base(name)):
            numbered.append((int(match[1]), name.endswith(".compact"), name))
    numbered.sort()
    compacted = [at for at, (_, compact, _) in enumerate(numbered) if compact]
    return tuple(name for _, _, name in numbered[compacted[-1] if compacted else 0 :])


def _open(path: str) -> tuple[FileSystem, str]:
    from pyarrow.fs import FileSystem, LocalFileSystem

    if not _URL.match(path):  # one letter before the colon is a drive of Windows
        return LocalFileSystem(), str(Path(path).absolute())
    try:
        system, name = FileSystem.from_uri(re.sub("^s3[an]:", "s3:", path))  # as Hadoop calls it
    except (NotImplementedError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"path must be a file, a folder or a URL of a file system that pyarrow knows, got {path!r}: "
            f"{reason}"
        ) from error
    return system, name.rstrip("/")


def _base(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _reader_of(name: str) -> Callable[[Any], Iterator[bytes]]:
    last = _base(name).removesuffix(".compact").removesuffix(".inprogress")
    ending = last.rpartition(".")[2]
    if ending == "lzf":
        raise ValueError(
            f"{last}: event logs compressed with lzf are not read: set spark.eventLog.compression.codec to "
            "zstd, or save the log from Spark's history server, which decompresses it"
        )
    return READERS.get(ending, plain)


def _lines(parts: Iterator[bytes], name: str, note: Callable[[str], None]) -> Iterator[bytes]:
    """Cut parts into lines; a last one without its end is passed on too."""
    rest: list[bytes] = []
    length = 0
    try:
        for part in parts:
            lines = part.split(b"\n")
            if len(lines) > 1:
                yield b"".join([*rest, lines[0]])
                yield from lines[1:-1]
                rest, length = [], 0
            rest.append(lines[-1])
            length += len(lines[-1])
            if length > _LONGEST_LINE:
                raise DamagedError(f"a line of more than {_LONGEST_LINE:,} bytes")
    except DamagedError as error:
        note(f"{name} was read up to where it is damaged ({error})")
    if length:
        yield b"".join(rest)
