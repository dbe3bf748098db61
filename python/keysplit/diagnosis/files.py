"""Event logs in files, folders and stores: which files are a log, and their lines."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keysplit.diagnosis.archives import DAMAGED, Zip, download, is_of_server
from keysplit.diagnosis.codecs import READERS, DamagedError, begins_so, plain
from keysplit.paths import is_url, open_store

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_ROLLED = re.compile(r"events_(\d+)_(.*)")
_BY_HOUR = re.compile(
    r"eventlog(|-\d{4}-\d{2}-\d{2}--\d{2}-\d{2}(\.gz)?)"
)  # from Databricks; the latest has no time
_HIDDEN = (".", "_", "appstatus_")
_NOT_READ = "lzf"
_LONGEST_LINE = 1 << 29


@dataclass(frozen=True)
class EventLog:
    """A log: its name, its files in the order in which they were written, and which files are missing."""

    name: str
    files: tuple[str, ...]
    _system: Any
    missing: tuple[str, ...] = ()

    @property
    def written_ms(self) -> int:
        """When the log was last written, in milliseconds; 0 if the file system does not say."""
        return (self._system.get_file_info(self.files[-1]).mtime_ns or 0) // 1_000_000

    @property
    def is_compressed(self) -> bool:
        """Whether the log's last file is compressed."""
        return _reader_of(self.files[-1]) is not plain

    def lines(self, note: Callable[[str], None]) -> Iterator[bytes]:
        """Return the lines, as far as they can be read.

        Args:
            note: called with a description of what could not be read.

        Raises:
            OSError: if a file cannot be opened.
            ValueError: if a file's compression does not match its name, or is lzf.
        """
        for each in self.missing:
            note(f"{self.name} has no {each}")
        readers = [_reader_of(name) for name in self.files]
        damage: tuple[type[Exception], ...] = (*DAMAGED, DamagedError)
        if isinstance(self._system, Zip):
            damage = (*damage, OSError)  # bzip2's
        for name, read in zip(self.files, readers, strict=True):
            with self._system.open_input_file(name) as file:
                try:
                    begins = name != self.files[0] or begins_so(read, file)
                except damage as error:
                    raise ValueError(f"{_base(name)} cannot be read: {error}") from error
                if not begins:
                    kind = read.__name__
                    raise ValueError(
                        f"{_base(name)} must be compressed with {kind}, according to its name, but is not"
                    )
                yield from _lines(read(file), _base(name), note, damage)


def find_logs(path: str | os.PathLike[str]) -> list[EventLog]:
    """Find the event logs at a path; in a folder any file may be one.

    Args:
        path: a file, the folder of a rolled log (`eventlog_v2_...`), a folder or a zip of logs, or a URL of
            any of these; for a history server, the URL of an application's logs.

    Returns:
        The logs, by name.

    Raises:
        FileNotFoundError: if there is nothing at the path, or no log in the folder.
        TypeError: if `path` is not a path.
        ValueError: if `path` is empty, or pyarrow knows no file system for a URL.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str):
        raise TypeError(f"paths must be files, folders or URLs, got {path!r}")
    if not text.strip() or "\0" in text:
        raise ValueError(f"paths must be files, folders or URLs, got {path!r}")
    found = sorted(_find(text), key=lambda log: log.name)
    if not found:
        raise FileNotFoundError(f"{path}: no event log in this folder")
    return found


def _find(path: str) -> Iterator[EventLog]:
    from pyarrow.fs import FileSelector, FileType

    if is_of_server(path):
        yield from _in_folders("", Zip(download(path), path))
        return
    system, name = _open(path)
    info = system.get_file_info(name)
    if info.type == FileType.NotFound:
        raise FileNotFoundError(f"{path}: no such file or folder")
    if info.type == FileType.Directory:
        yield from _in_folders(name, system, system.get_file_info(FileSelector(name, recursive=True)))
    elif name.endswith(".zip"):
        yield from _in_folders("", Zip(system.open_input_file(name), _base(name)))
    else:
        yield EventLog(_base(name), (name,), system)


def _in_folders(name: str, system: Any, files: Iterable[Any] | None = None) -> Iterator[EventLog]:
    """Return the logs in a folder and its subfolders, except hidden folders; in a zip, all logs."""
    folders: dict[str, list[Any]] = {}
    for each in system.files() if files is None else files:
        folder, _, base = each.path.rpartition("/")
        if each.is_file and not any(part.startswith(_HIDDEN) for part in (*_below(folder, name), base)):
            folders.setdefault(folder, []).append(each)
    for folder, inside in folders.items():
        others = []
        for each in inside:
            zipped = _unzipped(system, each)
            yield from zipped
            others += [] if zipped else [each]
        yield from _logs_of(system, folder, others)


def _unzipped(system: Any, file: Any) -> list[EventLog]:
    """Return the logs in a zip in a folder; none if the file is not a zip, or is inside another zip."""
    if not file.path.endswith(".zip") or isinstance(system, Zip):
        return []
    try:
        return list(_in_folders("", Zip(system.open_input_file(file.path), file.base_name)))
    except ValueError:  # reading it adds a note
        return []


def _below(folder: str, top: str) -> list[str]:
    """Return the names of the folders on the path from a folder to one of its subfolders."""
    return folder[len(top) :].strip("/").split("/") if folder != top else []


def _logs_of(system: FileSystem, folder: str, inside: Iterable[Any]) -> Iterator[EventLog]:
    """Return the logs that a folder's files form: one rolled log per application, and single files."""
    rolled: dict[str, list[tuple[int, bool, str]]] = {}
    others, by_hour = [], []
    for each in inside:
        if match := _ROLLED.match(each.base_name):
            part = int(match[1]), each.base_name.endswith(".compact"), each.path
            rolled.setdefault(_uncompressed(match[2]), []).append(part)
        elif _BY_HOUR.fullmatch(each.base_name):
            by_hour.append(each.path)
        else:
            others.append(EventLog(each.base_name, (each.path,), system))
    if by_hour:
        latest_last = sorted(by_hour, key=lambda path: (path.endswith("/eventlog"), path))
        others.append(EventLog(_base(latest_last[0]), tuple(latest_last), system))
    yield from others
    for application, parts in rolled.items():
        alone = len(rolled) == 1 and not others
        yield _rolled(_base(folder) if alone else application, parts, system)


def _rolled(name: str, parts: list[tuple[int, bool, str]], system: FileSystem) -> EventLog:
    """Return a rolled log, with its parts by number; a compacted part replaces earlier parts."""
    parts = sorted(parts)
    compacted = [at for at, (_, compact, _) in enumerate(parts) if compact]
    parts = parts[compacted[-1] if compacted else 0 :]
    missing = []
    before = parts[0][0] if compacted else 0
    for number, _, _ in parts:
        if number > before + 1:
            last = number - 1
            missing.append(f"part {last}" if last == before + 1 else f"parts {before + 1:,} to {last:,}")
        before = number
    return EventLog(name, tuple(path for _, _, path in parts), system, tuple(missing))


def _open(path: str) -> tuple[FileSystem, str]:
    from pyarrow.fs import LocalFileSystem

    if not is_url(path):
        return LocalFileSystem(), str(Path(path).absolute())
    system, name = open_store(path)
    return system, name.rstrip("/")


def _base(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _written(base: str) -> str:
    return base.removesuffix(".compact").removesuffix(".inprogress")


def _uncompressed(base: str) -> str:
    name, _, ending = _written(base).rpartition(".")
    return name if ending in (*READERS, _NOT_READ) else _written(base)


def _reader_of(name: str) -> Callable[[Any], Iterator[bytes]]:
    last = _written(_base(name))
    ending = last.rpartition(".")[2]
    if ending == _NOT_READ:
        raise ValueError(
            f"{last}: event logs compressed with lzf are not read: set spark.eventLog.compression.codec to "
            "zstd, or save the log from Spark's history server, which decompresses it. kss.diagnose(spark) "
            "reads a running session without a log"
        )
    return READERS.get(ending, plain)


def _lines(
    parts: Iterator[bytes], name: str, note: Callable[[str], None], damage: tuple[type[Exception], ...]
) -> Iterator[bytes]:
    """Cut parts into lines; an incomplete last line is included."""
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
                raise DamagedError(f"a line has more than {_LONGEST_LINE:,} bytes")
    except damage as error:
        note(f"{name} was read up to where it is damaged ({error})")
    if length:
        yield b"".join(rest)
