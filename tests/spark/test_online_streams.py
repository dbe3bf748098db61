"""`kss.online` in streams: routers go on from micro-batch to micro-batch, and attempts begin alike."""

import json
import re
import threading

import pytest
from pyspark import InheritableThread
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss

WORKERS, ROWS = 4, 600
FISH = ks.Fish(workers=WORKERS)
QUICK = ("partial_key", "fish", "consistent")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stream")
    for number in range(3):
        values = range(number * ROWS, (number + 1) * ROWS)
        lines = (json.dumps({"value": each, "key": f"key {each % 7 * (each % 3)}"}) for each in values)
        (folder / f"{number}.json").write_text("\n".join(lines))
    return folder


def read(spark, files):
    reader = spark.readStream.schema("value bigint, key string").option("maxFilesPerTrigger", 1)
    return reader.json(str(files))


def run(df, checkpoint, each):
    writer = df.writeStream.foreachBatch(each).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination(120)
    return query.id


class Rows:
    """The rows of each batch, in their order; the attempt at one batch fails."""

    def __init__(self, fails=None):
        self.batches, self.fails = [], fails

    def __call__(self, df, batch):
        self.batches.append(df.toPandas().sort_values("value"))
        if batch == self.fails:
            raise RuntimeError("an attempt")


def expected(params, batches):
    router = params.router(source=0)
    return [router.route(each.key.tolist()).tolist() for each in batches]


def test_a_relative_folder_is_that_of_the_driver(spark, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the tasks are elsewhere, as on a cluster
    routed = kss.online.route(read(spark, files), "key", FISH, state="routers")
    query = run(routed, tmp_path / "c", Rows())
    assert (tmp_path / "routers" / query / "routes-worker" / "source-0" / "batch-2").is_file()


@pytest.mark.parametrize(
    "name", [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in ks.GROUPINGS]
)
def test_routers_go_on_from_batch_to_batch(spark, files, tmp_path, name):
    params, rows = ks.GROUPINGS[name](workers=WORKERS), Rows()
    routed = kss.online.route(read(spark, files), "key", params, state=tmp_path / "routers")
    assert kss.explain(routed).startswith("online: ")
    query = run(routed, tmp_path / "c", rows)
    assert [len(each) for each in rows.batches] == [ROWS] * 3
    assert [each.worker.tolist() for each in rows.batches] == expected(params, rows.batches)
    routers = tmp_path / "routers" / query / "routes-worker" / "source-0"
    assert sorted(each.name for each in routers.iterdir()) == [f"batch-{batch}" for batch in range(3)]


@pytest.mark.versions
def test_each_attempt_at_a_batch_begins_with_the_state_before_it(spark, files, tmp_path):
    first, second = Rows(fails=1), Rows()

    def routed():
        return kss.online.route(read(spark, files), "key", FISH, state=str(tmp_path / "routers"))

    with pytest.raises(Exception, match="an attempt"):
        run(routed(), tmp_path / "c", first)
    run(routed(), tmp_path / "c", second)
    assert first.batches[1].equals(second.batches[0])
    batches = [*first.batches[:1], *second.batches]
    assert [each.worker.tolist() for each in batches] == expected(FISH, batches)


def test_queries_with_one_folder_go_on_by_themselves(spark, files, tmp_path):
    first, second, other = Rows(fails=1), Rows(), Rows()

    def routed(df):
        return kss.online.route(df, "key", FISH, state=tmp_path / "routers")

    with pytest.raises(Exception, match="an attempt"):
        run(routed(read(spark, files)), tmp_path / "c", first)
    run(routed(read(spark, files).filter("value % 3 = 1")), tmp_path / "new checkpoint", other)
    run(routed(read(spark, files)), tmp_path / "c", second)
    batches = [*first.batches[:1], *second.batches]
    for each in (other.batches, batches):
        assert [rows.worker.tolist() for rows in each] == expected(FISH, each)


def test_states_of_other_workers_are_refused(spark, files, tmp_path):
    def routed(workers):
        params = ks.DChoices(workers=workers)
        return kss.online.route(read(spark, files), "key", params, state=tmp_path / "routers")

    with pytest.raises(Exception, match="an attempt"):
        run(routed(WORKERS), tmp_path / "c", Rows(fails=1))
    with pytest.raises(Exception, match=r"state must be of DChoices for 5 workers, like this query, got "):
        run(routed(5), tmp_path / "c", Rows())


@pytest.mark.versions
def test_only_threads_that_inherit_the_batch_route(spark, files, tmp_path):
    found = []

    def collect(df):
        try:
            found.append(len(df.collect()))
        except Exception as error:
            found.append(str(error))

    def in_threads(df, batch):
        for kind in (threading.Thread, InheritableThread):
            thread = kind(target=lambda: collect(df))
            thread.start()
            thread.join()

    routed = kss.online.route(read(spark, files / "0*"), "key", FISH, state=tmp_path / "routers")
    run(routed, tmp_path / "c", in_threads)
    refused, rows = found
    assert "start threads as pyspark.InheritableThread" in refused
    assert rows == ROWS


def test_weights_count(spark, files, tmp_path):
    rows = Rows()
    df = read(spark, files).withColumn("weight", F.expr("1 + value % 3"))
    params = ks.PartialKeyGrouping(workers=WORKERS)
    routed = kss.online.repartition(df, "key", params, weight="weight", state=tmp_path / "routers")
    run(routed, tmp_path / "c", rows)
    router = params.router(source=0)
    for each in rows.batches:
        found = router.route(each.key.tolist(), weights=each.weight.astype(float).to_numpy())
        assert found.tolist() == each.worker.tolist()


def test_other_streams_are_refused(spark, files, tmp_path):
    state = tmp_path / "routers"
    counted = read(spark, files).groupBy("key").count()
    for df, message in (
        (counted, "is exact only if a retried batch has the same rows in the same order, got "),
        (read(spark, files).repartition(3), "is exact only if a retried batch has the same rows"),
        (
            spark.read.json(str(files)),
            "state must be omitted for a batch, whose routers end with the batch, got ",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            kss.online.route(df, "key", FISH, state=state)
    with pytest.raises(ValueError, match=r"^state must be given for a streaming DataFrame, got None: "):
        kss.online.route(read(spark, files), "key", FISH)
    with pytest.raises(ValueError, match=r"^allow_inexact must be False for a streaming DataFrame"):
        kss.online.route(read(spark, files), "key", FISH, state=state, allow_inexact=True)
    inside = tmp_path / "file" / "routers"
    inside.parent.touch()
    for wrong, error, message in (
        (3, TypeError, "state must be a path or URL of a folder, got 3"),
        ("", ValueError, "state must be a folder, got ''"),
        (inside.parent, NotADirectoryError, f"state must be a folder, got '{inside.parent}', a file"),
        (
            inside,
            NotADirectoryError,
            f"state must be a folder that can be created, got '{inside}': Not a directory",
        ),
    ):
        with pytest.raises(error, match=f"^{message}$"):
            kss.online.route(read(spark, files), "key", FISH, state=wrong)
    assert not state.exists()
