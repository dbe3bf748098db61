"""What Python code does once per worker on an executor."""

import gc
import importlib
import os
import sys
import zipfile
import zipimport

import pyarrow as pa
import pyspark.sql.types as T
import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F

import keysplit as ks
from keysplit.spark import slices, versions
from keysplit.spark.apply.functions import over
from keysplit.spark.executors import set_aside, set_aside_once
from keysplit.spark.jvm import setting_of
from keysplit.spark.online import routers
from keysplit.spark.slices.conversion import settings_of


def test_a_python_worker_reads_our_code_once(spark, monkeypatch):
    settings = settings_of(setting_of(spark))
    schema = T.StructType([T.StructField("v", T.LongType())])
    call = slices.Call(lambda rows: rows[["v"]], False, schema, "pandas", settings)
    task = cloudpickle.dumps(over(slices.whole, call, slices.Places(["k", "v"], [0, 1], [0], [0])))
    # a worker has not read it before
    for name in [name for name in sys.modules if name.startswith("keysplit_")]:
        monkeypatch.delitem(sys.modules, name)
    read, frozen, loads = [], [], cloudpickle.loads
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    monkeypatch.setattr(cloudpickle, "loads", lambda code: read.append(code) or loads(code))
    for _ in range(3):
        batches = loads(task)(iter([pa.record_batch({"k": [1, 2], "v": [5, 6]})]))
        assert pa.Table.from_batches(batches).to_pydict() == {"v": [5, 6]}
    assert len(read) == len(frozen) == 1


def test_what_tasks_have_in_common_is_set_aside_once(monkeypatch):
    frozen = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    monkeypatch.delitem(sys.modules, "keysplit_set_aside", raising=False)
    for task in map(cloudpickle.loads, [cloudpickle.dumps(set_aside_once)] * 3):
        task()
    assert len(frozen) == 1


class Udf:
    """Stands for a function that makes a UDF: what it returns for columns keeps the function of the tasks."""

    def __init__(self, function, _):
        self.function = function

    def __call__(self, *_):
        return self

    def asNondeterministic(self):
        return self


@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_online_routers_set_aside(spark, monkeypatch, kind):
    monkeypatch.setattr(F, f"{kind}_udf", Udf, raising=False)
    monkeypatch.setattr(versions, "has_arrow_udf", lambda: kind == "arrow")
    frozen = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    monkeypatch.delitem(sys.modules, "keysplit_set_aside", raising=False)
    route = routers.worker_of(ks.Fish(workers=4), ["key"], [T.LongType()], None, "worker").function
    assert [list(route(iter([]))) for _ in range(2)] == [[], []]
    assert len(frozen) == 1


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="this Python reads no list of an archive in vain")
def test_an_archive_is_read_again_only_if_it_has_changed(tmp_path, monkeypatch):
    """Spark sends archives of modules (addPyFile), and a worker that runs must find what is new in them."""
    monkeypatch.setattr(zipimport.zipimporter, "invalidate_caches", zipimport.zipimporter.invalidate_caches)
    read, read_directory = [], zipimport._read_directory
    monkeypatch.setattr(zipimport, "_read_directory", lambda path: read.append(path) or read_directory(path))
    archive = tmp_path / "modules.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("keysplit_in_zip/__init__.py", "")
    monkeypatch.syspath_prepend(archive)
    importlib.import_module("keysplit_in_zip")
    monkeypatch.setattr(gc, "freeze", lambda: None)
    set_aside()
    set_aside()
    importlib.invalidate_caches()
    read.clear()
    for _ in range(3):  # tasks
        importlib.invalidate_caches()
    assert read == []
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("keysplit_in_zip/newer.py", "VALUE = 5")
    importlib.invalidate_caches()
    assert set(read) == {str(archive)}
    assert importlib.import_module("keysplit_in_zip.newer").VALUE == 5
    os.remove(archive)
    importlib.invalidate_caches()
    with pytest.raises(ImportError, match="other"):
        importlib.import_module("keysplit_in_zip.other")
