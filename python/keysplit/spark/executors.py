"""Send Python code to executors without keysplit, and run it once per Python worker."""

import gc
import os
import sys
import zipimport
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import cloudpickle


def travel_by_value(name: str) -> None:
    """Pickle a module, or a package with all its modules, by value, so that executors need no keysplit."""
    cloudpickle.register_pickle_by_value(sys.modules[name])


travel_by_value(__name__)


def read_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another function, from a module pickled by value.

    A Python worker on an executor runs many tasks. It unpickles the code, and calls `set_aside`, only in the
    first task, because unpickling can take longer than a task.
    """
    code = _written(function)
    name = f"keysplit_{sha256(code).hexdigest()}"

    def run(*arguments: Any) -> Any:
        if name not in sys.modules:
            module = ModuleType(name)
            module.function = cloudpickle.loads(code)  # type: ignore[attr-defined]
            sys.modules[name] = module
            set_aside()
        return sys.modules[name].function(*arguments)

    return run


@cache
def _written(function: Callable[..., Any]) -> bytes:
    code: bytes = cloudpickle.dumps(function)
    return code


def set_aside() -> None:
    """Spare the tasks of this Python process work that Spark repeats in each of them.

    After each task a worker collects garbage, which visits all objects of all modules, mostly of pandas. So
    existing objects are excluded. Up to Spark 4.1 a worker also drops its caches of folders and archives
    before each task. After that, Python before 3.13 reads the directories of `pyspark.zip` and of a Spark jar
    again for each package. Both take longer than a small task.
    """
    if sys.version_info < (3, 13):
        _read_changed_archives_only()
    gc.freeze()


def set_aside_once() -> None:
    """Call `set_aside` in the first task that needs it."""
    name = "keysplit_set_aside"
    if name not in sys.modules:
        sys.modules[name] = ModuleType(name)
        set_aside()


def _read_changed_archives_only() -> None:
    """Let `importlib.invalidate_caches` read an archive's directory again only if its file has changed."""
    read_again = zipimport.zipimporter.invalidate_caches
    if hasattr(read_again, "files"):
        return  # already done
    files: WeakKeyDictionary[zipimport.zipimporter, tuple[int, ...]] = WeakKeyDictionary()

    def invalidate_caches(self: zipimport.zipimporter) -> None:
        try:
            found = os.stat(self.archive)
        except OSError:
            read_again(self)
            return
        file = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
        if files.get(self) != file:
            read_again(self)
            files[self] = file

    invalidate_caches.files = files  # type: ignore[attr-defined]
    zipimport.zipimporter.invalidate_caches = invalidate_caches  # type: ignore[method-assign]
