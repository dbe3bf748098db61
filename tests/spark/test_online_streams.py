"""Online mode in streams: routers go on from micro-batch to micro-batch, and attempts begin alike."""

import json
import re

import pytest
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss

WORKERS, ROWS = 4, 600
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


@pytest.mark.parametrize(
    "name", [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in ks.GROUPINGS]
)
def test_routers_go_on_from_batch_to_batch(spark, files, tmp_path, name):
    params, rows = ks.GROUPINGS[name](workers=WORKERS), Rows()
    routed = kss.streaming.route(
        read(spark, files), "key", grouping=params, mode="online", state=tmp_path / "routers"
    )
    assert kss.explain(routed).startswith("online: ")
    run(routed, tmp_path / "c", rows)
    assert [len(each) for each in rows.batches] == [ROWS] * 3
    assert [each.worker.tolist() for each in rows.batches] == expected(params, rows.batches)
    assert sorted(each.name for each in (tmp_path / "routers").iterdir()) == [
        f"source-0-batch-{batch}" for batch in range(3)
    ]


@pytest.mark.versions
def test_each_attempt_at_a_batch_begins_with_the_state_before_it(spark, files, tmp_path):
    params, first, second = ks.Fish(workers=WORKERS), Rows(fails=1), Rows()

    def routed():
        df = read(spark, files)
        return kss.streaming.route(df, "key", grouping=params, mode="online", state=str(tmp_path / "routers"))

    with pytest.raises(Exception, match="an attempt"):
        run(routed(), tmp_path / "c", first)
    run(routed(), tmp_path / "c", second)
    assert first.batches[1].equals(second.batches[0])
    batches = [*first.batches[:1], *second.batches]
    assert [each.worker.tolist() for each in batches] == expected(params, batches)


def test_weights_count(spark, files, tmp_path):
    rows = Rows()
    df = read(spark, files).withColumn("weight", F.expr("1 + value % 3"))
    params = ks.PartialKeyGrouping(workers=WORKERS)
    routed = kss.streaming.repartition(
        df, "key", grouping=params, mode="online", state=tmp_path / "routers", weight="weight"
    )
    run(routed, tmp_path / "c", rows)
    router = params.router(source=0)
    for each in rows.batches:
        found = router.route(each.key.tolist(), weights=each.weight.astype(float).to_numpy())
        assert found.tolist() == each.worker.tolist()


def test_other_streams_are_refused(spark, files, tmp_path):
    options = {"workers": WORKERS, "mode": "online", "state": tmp_path / "routers"}
    counted = read(spark, files).groupBy("key").count()
    for df, message in (
        (counted, "is exact only in streams whose rows come again in the same order, got "),
        (read(spark, files).repartition(3), "is exact only in streams whose rows come again"),
        (spark.read.json(str(files)), "state belongs to streams in mode 'online'"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            kss.streaming.route(df, "key", **options)
    with pytest.raises(ValueError, match=r"kss\.streaming\.route takes streams, with state="):
        kss.streaming.route(read(spark, files), "key", workers=WORKERS, mode="online")
    with pytest.raises(TypeError, match="state must be a path or URL of a folder, got 3"):
        kss.streaming.route(read(spark, files), "key", workers=WORKERS, mode="online", state=3)
    with pytest.raises(ValueError, match="adapt must be None in mode 'online'"):
        kss.streaming.route(read(spark, files), "key", **options, adapt="auto")
    assert not (tmp_path / "routers").exists()
