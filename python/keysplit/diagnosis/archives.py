"""Zips of event logs, as Spark's history server sends them."""

from __future__ import annotations

import lzma
import shutil
import tempfile
import urllib.request
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo

# Raised for damaged members of a zip, in addition to OSError.
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)
_TIMEOUT_S = 60
_MISSING = 404


def url_of(server: str, application: str) -> str:
    """Return the URL of an application's logs on a history server, or of one attempt (`app-1/2`)."""
    return f"{server.rstrip('/')}/api/v1/applications/{quote(application)}/logs"


def is_of_server(path: str) -> bool:
    """Return whether a path is a URL of a history server."""
    return path.lower().startswith(("http://", "https://"))


def download(url: str) -> IO[bytes]:
    """Return the answer of a history server, in an unnamed file.

    Raises:
        FileNotFoundError: if the server has nothing at the URL.
        OSError: if the server cannot be reached.
    """
    file = tempfile.TemporaryFile()  # noqa: SIM115 (it is read later)
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            shutil.copyfileobj(answer, file)
    except HTTPError as error:
        kind = FileNotFoundError if error.code == _MISSING else OSError
        raise kind(f"{url}: the history server answers {error.code} ({error.reason})") from error
    except URLError as error:
        raise OSError(f"{url}: the history server cannot be reached ({error.reason})") from error
    return file


class Zip:
    """The files in a zip, with the interface of a pyarrow file system."""

    def __init__(self, file: Any, name: str) -> None:
        """Open the zip. `name` is used in error messages.

        Raises:
            ValueError: if the file is not a zip.
        """
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError) as error:  # from pyarrow, for a seek before the start
            raise ValueError(f"{name} must be a zip of event logs, but is not a zip: {error}") from error

    def files(self) -> list[FileInfo]:
        """Return the files in the zip."""
        return [self.get_file_info(each.filename) for each in self._zip.infolist() if not each.is_dir()]

    def get_file_info(self, name: str) -> FileInfo:
        """Return the type and size of a file, but not its time."""
        from pyarrow.fs import FileInfo, FileType

        return FileInfo(name, FileType.File)

    def open_input_file(self, name: str) -> Any:
        """Open a file for reading."""
        import pyarrow as pa

        try:
            return pa.PythonFile(self._zip.open(name), "r")
        except (NotImplementedError, RuntimeError) as error:  # compressed in an unknown way; encrypted
            raise ValueError(f"{name} cannot be read: {error}") from error
