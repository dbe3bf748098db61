"""Read and write files: local paths, and URLs of the stores that pyarrow supports."""

import os
import re
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # one letter before the colon is a Windows drive
_NAMES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}  # Hadoop's, and pyarrow's
# In these stores an object appears only once its upload is complete.
_WHOLE = ("abfs", "gcs", "s3")


def write(path: str | os.PathLike[str], text: str) -> None:
    """Write a text to a file atomically: the whole text or nothing.

    Args:
        path: a path, or a URL such as s3://bucket/name.
        text: the text.

    Raises:
        OSError: if the file cannot be written.
        ValueError: if pyarrow knows no file system for the URL.
    """
    write_bytes(path, text.encode())


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write bytes to a file atomically: all bytes or nothing.

    Args:
        path: as in `write`.
        data: the bytes.

    Raises:
        OSError: as in `write`.
        ValueError: as in `write`.
    """
    local = _local(path)
    if local is not None:
        _write_local(local, data)
        return
    files, name = open_store(str(path))
    if files.type_name in _WHOLE:
        _write_stream(files, name, data)
    else:
        folder, slash, last = name.rpartition("/")
        part = folder + slash + _part_of(last)
        try:
            _write_stream(files, part, data)
            _move(files, part, name)
        except BaseException:
            with suppress(OSError):
                files.delete_file(part)
            raise


def create(path: str | os.PathLike[str], text: str) -> bool:
    """Write a text atomically to a file that does not exist yet.

    If several processes do this at the same time, exactly one succeeds if the file system has links. In other
    stores several may succeed, and the last text stays.

    Args:
        path: as in `write`.
        text: the text.

    Returns:
        Whether the file was created; if not, it is unchanged.

    Raises:
        OSError: as in `write`.
        ValueError: as in `write`.
    """
    local = _local(path)
    if local is not None:
        part = local.with_name(_part_of(local.name))
        try:
            part.write_bytes(text.encode())
            os.link(part, local)
            return True
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            if not part.exists():
                raise
        finally:
            part.unlink(missing_ok=True)
    try:
        read(path)
    except FileNotFoundError:
        write(path, text)
        return True
    return False


def absolute(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a local file, valid in any directory; other URLs are unchanged.

    Raises:
        ValueError: if pyarrow knows no file system for the URL.
    """
    local = _local(path)
    return os.fspath(path) if local is None else os.path.abspath(local)


def extended(path: str | os.PathLike[str], end: str) -> str:
    """Return a path with a suffix: "/name" names a file in a folder, ".end" a file next to this one.

    The options of a URL, as in s3://bucket/plan.json?region=eu-west-1, stay at its end.

    Args:
        path: as in `write`; a trailing slash is ignored.
        end: the suffix.
    """
    if not is_url(path):
        return os.fspath(path).rstrip("/") + end
    place, mark, options = os.fspath(path).partition("?")
    return place.rstrip("/") + end + mark + options


def check(path: str | os.PathLike[str], argument: str = "path") -> None:
    """Raise an error if a path cannot be a file's path.

    Args:
        path: a path, or a URL such as s3://bucket/name.
        argument: the name of the user's argument.

    Raises:
        TypeError: if `path` is not a path.
        OSError: if `path` is a folder, or is in a folder that does not exist.
        ValueError: if it is empty, or pyarrow knows no file system for the URL.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{argument} must be the path of a file, or a URL, got {type(path).__name__}")
    name = os.fspath(path)
    if not name:
        raise ValueError(f"{argument} must be the path of a file, got ''")
    local = _local(path)
    if local is not None and local.is_dir():
        raise IsADirectoryError(f"{argument} must be the path of a file, got the folder {name!r}")
    if local is not None and not local.parent.is_dir():
        raise FileNotFoundError(f"{argument} must be a path in an existing folder, got {name!r}")


def check_new(path: str | os.PathLike[str], argument: str = "path") -> None:
    """Raise an error if a file clearly cannot be written there; arguments as in `check`.

    Raises:
        PermissionError: if the folder is not writable.
    """
    local = _local(path)
    if local is not None and not os.access(local.parent, os.W_OK):
        raise PermissionError(f"{argument} must be a path in a writable folder, got {os.fspath(path)!r}")


def read(path: str | os.PathLike[str]) -> str:
    """Return the text of a file; bytes that are not UTF-8 become replacement characters.

    Args:
        path: a path, or a URL such as s3://bucket/name.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if pyarrow knows no file system for the URL.
    """
    if not is_url(path):
        return Path(path).read_text(encoding="utf-8", errors="replace")
    files, name = open_store(str(path))
    with files.open_input_stream(name, compression=None) as stream:
        return bytes(stream.read()).decode(errors="replace")


def modified(path: str | os.PathLike[str]) -> datetime:
    """Return when a file was last written, or raise OSError."""
    local = _local(path)
    if local is not None:
        return datetime.fromtimestamp(local.stat().st_mtime, UTC)
    files, name = open_store(str(path))
    found: datetime | None = files.get_file_info(name).mtime
    if found is None:
        raise OSError(f"{os.fspath(path)!r}: the store does not say when the file was written")
    return found.astimezone(UTC)


def names(folder: str | os.PathLike[str]) -> list[str]:
    """Return the names of the files in a folder; none if the folder does not exist.

    Raises:
        OSError: if the folder cannot be read.
        ValueError: if pyarrow knows no file system for the URL.
    """
    local = _local(folder)
    if local is not None:
        return [each.name for each in local.iterdir() if each.is_file()] if local.is_dir() else []
    from pyarrow.fs import FileSelector

    files, name = open_store(str(folder))
    found = files.get_file_info(FileSelector(name, allow_not_found=True))
    return [each.base_name for each in found if each.is_file]


def make_folder(folder: str | os.PathLike[str], argument: str = "path") -> None:
    """Make a folder and its parents, if the store has folders.

    Args:
        folder: a path, or a URL such as s3://bucket/name.
        argument: the name of the user's argument.

    Raises:
        OSError: if the folder cannot be made, or is a file.
        ValueError: if it is empty, or pyarrow knows no file system for the URL.
    """
    if not os.fspath(folder):
        raise ValueError(f"{argument} must be a folder, got ''")
    try:
        local = _local(folder)
        if local is not None:
            local.mkdir(parents=True, exist_ok=True)
        else:
            files, name = open_store(str(folder))
            files.create_dir(name)
    except FileExistsError as error:
        raise NotADirectoryError(f"{argument} must be a folder, got {os.fspath(folder)!r}, a file") from error
    except OSError as error:
        kind = type(error) if type(error).__module__ == "builtins" else OSError
        reason = error.strerror or str(error).partition("\n")[0]
        raise kind(
            f"{argument} must be a folder that can be created, got {os.fspath(folder)!r}: {reason}"
        ) from error
    except ValueError as error:
        raise ValueError(f"{argument} cannot be used: {error}") from error


def delete(path: str | os.PathLike[str]) -> None:
    """Delete a file, if it exists.

    Raises:
        OSError: if the file cannot be deleted.
        ValueError: if pyarrow knows no file system for the URL.
    """
    local = _local(path)
    if local is not None:
        local.unlink(missing_ok=True)
        return
    files, name = open_store(str(path))
    with suppress(FileNotFoundError):
        files.delete_file(name)


def _local(path: str | os.PathLike[str]) -> Path | None:
    """Return the local path; None if the file is on another machine."""
    if not is_url(path):
        return Path(path)
    files, name = open_store(str(path))
    return Path(name) if files.type_name == "local" else None


def _part_of(name: str) -> str:
    """Return a file's name while it is being written; readers of table folders skip such names."""
    return f".{name}.{uuid.uuid4().hex}.part"


def _write_local(path: Path, data: bytes) -> None:
    part = path.with_name(_part_of(path.name))
    try:
        with part.open("xb") as file:
            file.write(data)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _write_stream(files: "FileSystem", name: str, data: bytes) -> None:
    with files.open_output_stream(name, compression=None) as stream:
        stream.write(data)


def _move(files: "FileSystem", part: str, name: str) -> None:
    try:
        files.move(part, name)
        return
    except OSError:
        if not files.get_file_info(name).is_file:
            raise
    # HDFS cannot move onto an existing file, so the old one is moved away first.
    old = f"{part}.old"
    files.move(name, old)
    try:
        files.move(part, name)
    except BaseException:
        files.move(old, name)
        raise
    files.delete_file(old)


def is_url(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a URL."""
    return isinstance(path, str) and _URL.match(path) is not None


def renamed(url: str) -> str:
    """Return a URL with pyarrow's scheme in place of Hadoop's.

    Example:
        >>> renamed("s3a://bucket/plan.json")
        's3://bucket/plan.json'
    """
    scheme, colon, rest = url.partition(":")
    return _NAMES.get(scheme, scheme) + colon + rest


def open_store(url: str) -> "tuple[FileSystem, str]":
    """Return the file system of a URL, and the path in that file system.

    Raises:
        OSError: if the store cannot be reached.
        ValueError: if pyarrow knows no file system for the URL.
    """
    from pyarrow.fs import FileSystem  # importing it starts the clients of its stores

    try:
        found: tuple[Any, str] = FileSystem.from_uri(renamed(url))
    except (NotImplementedError, ValueError) as error:  # an unreachable store raises its own OSError
        reason = str(error).splitlines()[0]
        wanted = "a file, a folder or a URL of a file system that pyarrow supports"
        raise ValueError(f"path must be {wanted}, got {url!r}: {reason}") from error
    return found
