"""Stores of files by their URLs, as pyarrow knows them."""

import os
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # one letter before the colon is a drive of Windows
_NAMES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}  # Hadoop's, and pyarrow's


def is_url(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a URL."""
    return isinstance(path, str) and _URL.match(path) is not None


def renamed(url: str) -> str:
    """Return a URL with pyarrow's name of its store in place of Hadoop's.

    Example:
        >>> renamed("s3a://bucket/plan.json")
        's3://bucket/plan.json'
    """
    scheme, colon, rest = url.partition(":")
    return _NAMES.get(scheme, scheme) + colon + rest


def open_store(url: str) -> "tuple[FileSystem, str]":
    """Return the file system of a URL, and the path in it.

    Raises:
        OSError: if the store is out of reach.
        ValueError: if pyarrow knows no file system for the URL.
    """
    from pyarrow.fs import FileSystem  # which starts the clients of its stores

    try:
        found: tuple[Any, str] = FileSystem.from_uri(renamed(url))
    except (NotImplementedError, ValueError) as error:  # an unreachable store is an OSError, raised as it is
        reason = str(error).splitlines()[0]
        wanted = "a file, a folder or a URL of a file system that pyarrow knows"
        raise ValueError(f"path must be {wanted}, got {url!r}: {reason}") from error
    return found
