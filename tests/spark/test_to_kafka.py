"""Streams into a real broker of Kafka: each row there once, in the partition of the plan."""

import asyncio
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import jars
import pyspark
import pytest
from pyspark.sql import functions as F

from keysplit import spark as kss
from keysplit.kafka import PlanPartitioner, check_partitions, partitions_of
from keysplit.spark.streaming import Adapt

confluent_kafka = pytest.importorskip(
    "confluent_kafka", reason="confluent-kafka is not installed: pip install '.[kafka]'"
)

PROGRAM = Path(__file__).with_name("killed_kafka.py")
FILES, ROWS = 4, 150


def events(spark, folder, files=FILES):
    """A stream of two files a micro-batch; half of the rows has one key."""
    path = str(folder / "events")
    rows = spark.range(files * ROWS, numPartitions=files).select(
        F.expr("IF(id % 2 = 0, 'hot', concat('key ', id % 20))").alias("key"),
        F.col("id").cast("string").alias("value"),
        F.expr("array(struct('n' AS key, CAST(id AS STRING) AS value))")
        .cast("array<struct<key:string,value:binary>>")
        .alias("headers"),
    )
    rows.write.mode("overwrite").parquet(path)
    stream = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 2).parquet(path)
    return rows, stream


def run(writer, folder):
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def uncommit(path):
    """Delete the commit of a batch, as if the driver had been killed before it."""
    for each in (path, path.with_name(f".{path.name}.crc")):
        each.unlink(missing_ok=True)


def values(messages):
    return Counter(int(message.value()) for message in messages)


def placed(messages):
    """The partitions of each key."""
    found = defaultdict(set)
    for message in messages:
        found[message.key().decode()].add(message.partition())
    return found


@pytest.mark.versions
@pytest.mark.parametrize(
    "changing", [pytest.param(False, id="plan"), pytest.param(True, id="adapt", marks=pytest.mark.slow)]
)
def test_each_row_is_there_once_also_when_a_batch_runs_again(spark, broker, tmp_path, changing):
    topic = broker.create_topic(f"once-{changing}", 3)
    rows, stream = events(spark, tmp_path)
    plan = kss.plan(rows, "key", 3, sample=1, row_id="value")
    how = {"plan": Adapt(3, row_id="value") if changing else plan}

    def writer():
        return kss.streaming.to_kafka(stream, "key", topic=topic, servers=broker.servers, **how)

    run(writer(), tmp_path)
    found = broker.read(topic)
    assert values(found) == Counter(range(FILES * ROWS))
    assert all(dict(each.headers()) == {"n": each.value()} for each in found)
    partitioner = PlanPartitioner(plan)
    keys = placed(found)
    if not changing:
        assert len(keys["hot"]) > 1
        assert all(keys[key] <= {partitioner.partition(key) for _ in range(100)} for key in keys)

    # the driver is killed after its tasks have sent the last batch, before it says so
    commits = sorted((tmp_path / "checkpoint/commits").glob("[0-9]*"), key=lambda path: int(path.name))
    assert len(commits) == FILES // 2
    uncommit(commits[-1])
    run(writer(), tmp_path)
    assert commits[-1].exists()
    assert values(broker.read(topic, committed=False)) == Counter(range(FILES * ROWS))

    # the whole batch is there: nothing is left that another plan, or a log that does not know it, could send
    by_key = kss.plan(rows, "key", 3, grouping="key")
    how["plan"] = Adapt(3, row_id="value", log=tmp_path / "log") if changing else by_key
    uncommit(commits[-1])
    run(writer(), tmp_path)
    assert values(broker.read(topic, committed=False)) == Counter(range(FILES * ROWS))


@pytest.mark.newest
@pytest.mark.parametrize("before", [0, FILES // 2], ids=["first", "later"])
@pytest.mark.parametrize("changing", [False, True])
def test_a_batch_that_is_half_sent_goes_on_by_its_plan_alone(
    spark, broker, tmp_path, changing, before, monkeypatch
):
    from keysplit.kafka import once
    from keysplit.kafka.once import Message, resume, send_once

    topic = broker.create_topic(f"half-{changing}-{before}", 3)
    settings = {"bootstrap.servers": broker.servers, "log_level": 2}
    rows, stream = events(spark, tmp_path)
    plan = kss.plan(rows, "key", 3, sample=1, row_id="value")
    changed = Adapt(start=plan, every=None)
    how = changed if changing else plan

    def start(plan=how):
        run(kss.streaming.to_kafka(stream, "key", topic=topic, servers=broker.servers, plan=plan), tmp_path)

    if before:
        start()
    (tmp_path / "events").rename(tmp_path / "aside")
    more = rows.withColumn("value", (F.col("value") + FILES * ROWS).cast("long").cast("string"))
    more.coalesce(1).write.parquet(str(tmp_path / "events"))
    if before:
        for each in (tmp_path / "aside").glob("*.parquet"):
            each.rename(tmp_path / "events" / each.name)
    first_of_plan = kss.route(more, "key", plan=plan).filter("worker = 0").collect()
    messages = [Message(None, row.value.encode(), None) for row in first_of_plan]
    assert messages
    seen = []

    def noted(batch, *of):
        seen.append(batch)
        return resume(batch, *of)

    def half(batch, *of):
        noted(batch, *of)
        send_once(batch._replace(partition=0), messages, settings)
        raise RuntimeError("the driver is killed when one partition has been sent")

    monkeypatch.setattr(once, "resume", half)
    with pytest.raises(Exception, match="the driver is killed"):
        start()
    assert seen[0].number == before
    monkeypatch.setattr(once, "resume", noted)
    row_id = ["value", "key"]
    if changing:
        others = [replace(changed, row_id=row_id), replace(changed, log=tmp_path / "log")]
    else:
        by_key = kss.plan(rows, "key", 3, grouping="key", sample=1)
        others = [replace(plan, row_id=tuple(row_id)), by_key]
    for other in others:
        message = (
            rf"batch {before} of query .* was sent to the partitions \[0\] of topic 'half-.*' by a different"
        )
        with pytest.raises(Exception, match=message):
            start(other)
    assert len({each.rule for each in seen}) == len(others) + 1
    start()
    first = 0 if before else FILES * ROWS
    assert values(broker.read(topic, committed=False)) == Counter(range(first, 2 * FILES * ROWS))


def test_a_first_batch_that_is_half_sent_goes_on_by_its_rule_alone(broker):
    from keysplit.kafka.once import Batch, Message, resume, send_once

    topic = broker.create_topic("first", 2)
    settings = {"bootstrap.servers": broker.servers, "log_level": 2}
    part = Batch("a query", "a rule", 0, 0, topic, 0)
    assert not resume(part, 2, settings)
    assert send_once(part, [Message(b"key", b"1", None)], settings) == 1
    other = part._replace(rule="another rule")
    for refused in (lambda: resume(other, 2, settings), lambda: send_once(other, [], settings)):
        with pytest.raises(RuntimeError, match=r"batch 0 of .* was sent to the partitions \[0\] of"):
            refused()
    assert not resume(part, 2, settings)
    assert send_once(part, [Message(b"key", b"1", None)], settings) == 0
    assert send_once(part._replace(partition=1), [Message(b"key", b"2", None)], settings) == 1
    assert resume(other, 2, settings)  # all of it is there
    assert values(broker.read(topic, committed=False)) == Counter([1, 2])


def test_an_attempt_that_another_one_follows_commits_nothing(broker):
    from keysplit.kafka.once import Batch, Message, resume, send_once

    topic = broker.create_topic("followed", 1)
    settings = {"bootstrap.servers": broker.servers, "log_level": 2}
    batch = Batch("followed", "a rule", 0, 0, topic, 0)

    def messages():
        yield Message(b"key", b"1", None)
        assert not resume(batch._replace(rule="another rule"), 1, settings)  # a new driver

    with pytest.raises(confluent_kafka.KafkaException):
        send_once(batch, messages(), settings)
    assert send_once(batch._replace(rule="another rule"), [Message(b"key", b"2", None)], settings) == 1
    assert values(broker.read(topic)) == Counter([2])


def test_batches_without_rows_send_nothing(spark, broker, tmp_path):
    topic = broker.create_topic("filtered", 3)
    _, stream = events(spark, tmp_path, 6)
    late = stream.filter(f"CAST(value AS INT) >= {4 * ROWS}")  # rows of the last batch alone
    plan = Adapt(3, row_id="value")
    writer = kss.streaming.to_kafka(late, "key", topic=topic, servers=broker.servers, plan=plan)
    run(writer, tmp_path)
    assert len(list((tmp_path / "checkpoint/commits").glob("[0-9]*"))) == 3
    assert values(broker.read(topic)) == Counter(range(4 * ROWS, 6 * ROWS))


def test_what_needs_no_broker_is_checked_before_one_is_asked(spark, tmp_path):
    _, stream = events(spark, tmp_path, 1)
    for given, message in (
        ({"key": "no"}, "key must name one column of the DataFrame, got 'no'"),
        ({"plan": 5}, "plan must be a Plan or a kss.streaming.Adapt, got int"),
        ({"plan": None}, "plan must be given for a streaming DataFrame"),
        ({"topic": " "}, "topic must not be empty, got ' '"),
        ({"servers": ""}, "servers must not be empty, got ''"),
    ):
        all_given = {"key": "key", "topic": "t", "servers": "127.0.0.1:1", "plan": Adapt(3)} | given
        with pytest.raises((TypeError, ValueError), match=f"^{re.escape(message)}"):
            kss.streaming.to_kafka(stream, **all_given)


def test_wrong_arguments_are_named_before_the_start(spark, broker, tmp_path):
    topic = broker.create_topic("arguments", 3)
    rows, stream = events(spark, tmp_path, 1)
    plan = kss.plan(rows, "key", 4, sample=1)
    by_hash, by_value = kss.plan(rows, "key", 3, grouping="key", sample=1), Adapt(3, row_id="value")
    upper = F.udf(str.upper)
    repeats = "df must have the same rows each time it is read, because a retried micro-batch "
    for df, arguments, error, message in [
        (rows, {}, ValueError, "df must be a streaming DataFrame, got a batch one: "),
        (stream.drop("value"), {}, ValueError, "df must have a column 'value' to send, got ['key', "),
        (
            stream.withColumn("value", F.lit(1)),
            {},
            TypeError,
            "value must be a string or binary column, got",
        ),
        (stream.withColumn("headers", F.lit(1)), {}, TypeError, "headers must be a column of type array<"),
        (stream, {"topic": "none"}, ValueError, "topic must exist, got 'none': "),
        (stream, {"topic": None}, TypeError, "topic must be a str, got None"),
        (stream, {"servers": ["a:1"]}, TypeError, "servers must be a str, got ['a:1']"),
        (stream, {"settings": [("a", 1)]}, TypeError, "settings must be a dict, got [('a', 1)]"),
        (
            stream,
            {"settings": {"nope.x": 1, "sasl.password": "secret"}},
            ValueError,
            'settings must be settings of Kafka\'s client: No such configuration property: "nope.x"',
        ),
        (
            stream,
            {"settings": {"transactional.id": "mine", "client.id": "me", "group.id": "ours"}},
            ValueError,
            "settings must omit group.id, transactional.id, which keysplit sets",
        ),
        (stream, {"first_batch": -1}, ValueError, "first_batch must be at least 0, got -1"),
        (stream, {"first_batch": "1"}, TypeError, "first_batch must be a whole number, got '1'"),
        (stream.filter("rand() < 0.5"), {"plan": by_value}, ValueError, repeats),
        (stream.filter("rand() < 0.5"), {"plan": by_hash}, ValueError, repeats),
        (stream.filter("now() > DATE '2026-01-01'"), {"plan": by_value}, ValueError, repeats),
        (
            stream.withColumn("id", F.monotonically_increasing_id()),
            {"plan": Adapt(3, row_id="id")},
            ValueError,
            "row_id must name columns that have the same values when a task is retried, got 'id', which ",
        ),
        (stream.withColumn("key", upper("key")), {"plan": by_value}, ValueError, repeats),
        (stream.withColumn("key", upper("key")), {"plan": by_hash}, ValueError, repeats),
        (
            stream,
            {"plan": plan},
            ValueError,
            "plan must have one worker per partition: topic 'arguments' has 3 partitions, the plan has 4 "
            "workers; use plan.with_workers(3)",
        ),
    ]:
        by_key = Adapt(3, row_id="key")
        given = {"topic": topic, "servers": broker.servers, "plan": by_key} | arguments
        with pytest.raises(error, match=f"^{re.escape(message)}") as raised:
            kss.streaming.to_kafka(df, "key", **given)
        assert "\n" not in str(raised.value)
    given = {"topic": topic, "servers": broker.servers}
    for df, trust in (
        (stream.withColumn("key", upper("key")), ["key"]),
        (stream.filter(upper("key") != "HOT"), [upper]),
    ):
        by_trust = Adapt(3, row_id="value", trust=trust)
        assert kss.streaming.to_kafka(df, "key", plan=by_trust, **given) is not None


def test_a_plan_is_checked_against_the_topic(broker):
    topic = broker.create_topic("checked", 3)
    assert partitions_of(topic, broker.servers) == 3
    check_partitions(topic, 3, broker.servers)
    with pytest.raises(ValueError, match=r"^workers must be the 3 partitions of topic 'checked', got 4: "):
        check_partitions(topic, 4, broker.servers)
    with pytest.raises(ValueError, match=r"^topic must exist, got 'none': "):
        partitions_of("none", broker.servers)


@pytest.mark.slow
def test_batches_that_do_not_follow_are_refused(broker):
    from keysplit.kafka.once import Batch, Message, send_once

    settings = {"bootstrap.servers": broker.servers, "log_level": 2}
    topic = broker.create_topic("following", 2)
    messages = [Message(b"a", None, None), Message(None, b"b", [("h", None)])]

    def send(number, first=0, messages=messages):
        return send_once(Batch("sender", "rule", number, first, topic, 1), messages, settings)

    def failing():
        yield messages[0]
        raise KeyError("a source that fails")

    assert (send(0), send(0)) == (2, 0)
    with pytest.raises(KeyError):
        send(1, messages=failing())
    assert (send(1), send(1), send(2, messages=[])) == (2, 0, 0)
    for number in (0, 1, 4):
        with pytest.raises(RuntimeError, match="the last batch is 2: is the query's checkpoint"):
            send(number)
    assert [(each.key(), each.value(), each.headers()) for each in broker.read(topic)] == [
        (b"a", None, None),
        (None, b"b", [("h", None)]),
    ] * 2
    assert send(7, first=7) == 2  # another sink has had the batches from 3 on
    late = Batch("late", "rule", 5, 0, topic, 0)
    with pytest.raises(
        RuntimeError, match=r"Kafka has no record of a batch: .* pass first_batch=5 if nothing was sent$"
    ):
        send_once(late, messages, settings)
    assert send_once(late._replace(first=5), messages, settings) == 2


def confluent(servers, topic, partitioner, keys, settings=None):
    """Send each key by confluent-kafka's own partitioner, and by that of a plan."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "log_level": 2, **(settings or {})})
    for key in keys:
        producer.produce(topic, key=key, value="kafka")
        producer.produce(topic, key=key, value="plan", partition=partitioner.partition(key))
    producer.flush()


def confluent_like_java(servers, topic, partitioner, keys):
    """The same with the partitioner of Kafka's Java clients."""
    confluent(servers, topic, partitioner, keys, {"partitioner": "murmur2_random"})


def kafka_python(servers, topic, partitioner, keys):
    """The same by kafka-python."""
    kafka = pytest.importorskip("kafka", reason="kafka-python is not installed: pip install kafka-python")
    producer = kafka.KafkaProducer(bootstrap_servers=servers)
    for key in map(str.encode, keys):
        producer.send(topic, key=key, value=b"kafka")
        producer.send(topic, key=key, value=b"plan", partition=partitioner.partition(key))
    producer.flush()
    producer.close()


def aiokafka(servers, topic, partitioner, keys):
    """The same by aiokafka, which takes the partitioner itself."""
    client = pytest.importorskip("aiokafka", reason="aiokafka is not installed: pip install aiokafka")

    async def send(value, **options):
        async with client.AIOKafkaProducer(bootstrap_servers=servers, **options) as producer:
            for key in map(str.encode, keys):
                await producer.send_and_wait(topic, key=key, value=value)

    asyncio.run(send(b"kafka"))
    asyncio.run(send(b"plan", partitioner=partitioner))


@pytest.mark.newest
@pytest.mark.parametrize(
    ("client", "rare"),
    [
        (confluent, "crc32"),
        (confluent_like_java, "murmur2"),
        (kafka_python, "murmur2"),
        (aiokafka, "murmur2"),
    ],
)
def test_producers_send_rare_keys_where_their_own_partitioner_does(spark, broker, client, rare):
    key = F.expr("IF(id % 2 = 0, 'hot', concat('key ', id % 60))").alias("key")
    plan = kss.plan(spark.range(400).select(key, "id"), "key", 5, row_id="id", sample=1)
    topic = broker.create_topic(f"by-{client.__name__}", 5)
    frequent = {key for each in plan.head for key in each.key}
    keys = [f"{number} and {'x' * number}" for number in range(50)]
    assert "hot" in frequent
    assert not frequent & set(keys)
    partitioner = PlanPartitioner(plan, rare=rare, partitions=partitions_of(topic, broker.servers))
    client(broker.servers, topic, partitioner, [*keys, *["hot"] * 100])
    messages = broker.read(topic)
    found = placed(messages)
    assert {len(found[key]) for key in keys} == {1}
    assert len(set().union(*(found[key] for key in keys))) == 5
    hot = next(each for each in plan.head if each.key == ("hot",))
    assert placed(each for each in messages if each.value() == b"plan")["hot"] == set(hot.workers)


@pytest.mark.newest
def test_the_figures_of_an_observer_go_to_a_topic(spark, broker, tmp_path):
    topic = broker.create_topic("figures", 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.servers, "log_level": 2})
    _, stream = events(spark, tmp_path)
    routed = kss.streaming.route(stream, "key", plan=Adapt(3, row_id="value"))
    writer = routed.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start()
    with kss.streaming.observe(
        query, log=lambda each: producer.produce(topic, key=each["run"], value=json.dumps(each))
    ) as observer:
        query.processAllAvailable()
        query.stop()
        assert observer.wait(60)
    producer.flush()
    found = [json.loads(message.value()) for message in broker.read(topic)]
    with_rows = [each for each in found if each["input_rows"]]
    assert [each["batch"] for each in with_rows] == list(range(FILES // 2))
    assert sum(sum(each["worker_rows"]) for each in with_rows) == FILES * ROWS
    assert {each["run"] for each in found} == {str(query.runId)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [pytest.param([], id="drivers"), pytest.param(["--executors"], id="executors")]
)
def test_kills_lose_and_double_nothing(tmp_path, more):
    jars.download("kafka")
    check([tmp_path / "run", "--kills", "2", *more])


@pytest.mark.versions
@pytest.mark.skipif(not pyspark.__version__.startswith("4.1."), reason="its jars are for Spark 4.1")
def test_killed_drivers_pass_each_message_of_a_topic_on_once(tmp_path):
    jars.download("kafka")
    jars.download("kafka-connector")
    check([tmp_path / "run", "--kills", "1", "--from-kafka"])


@pytest.mark.versions
@pytest.mark.skipif(not pyspark.__version__.startswith("4.1."), reason="its jars are for Spark 4.1")
def test_spark_s_own_connector_sends_by_a_plan_and_is_routed_online(tmp_path):
    jars.download("kafka")
    jars.download("kafka-connector")
    program = PROGRAM.with_name("kafka_by_spark.py")
    run = subprocess.run(
        [sys.executable, program, tmp_path / "run"], capture_output=True, text=True, check=False, timeout=600
    )
    assert run.returncode == 0, run.stderr[-5000:]
    found = json.loads(run.stdout)
    assert found.pop("partitions of hot") > 1
    assert found.pop("batches") >= 3
    columns, option, two, merged = found.pop("refused")
    assert columns.startswith("df must have the columns topic and partition of its source for kss.online")
    begin = "df must read each partition of the topic in one task for kss.online, got the"
    assert option == f"{begin} options ['minpartitions']: omit these options"
    assert merged == f"{begin} operators ['Repartition']: apply them after routing"
    assert two.startswith("df must have no source but Kafka for kss.online, got 2")
    assert found == {
        "missing": 0,
        "elsewhere": 0,
        "rows": 2400,
        "attempts alike": True,
        "wrongly routed partitions": 0,
    }


def check(arguments):
    """Run a program that kills drivers; nothing may be missing or doubled."""
    run = subprocess.run(
        [sys.executable, PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=1200
    )
    assert run.returncode == 0, run.stderr[-5000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["batches at work"] > 0
    assert found["tasks lost"] > 0 or "--executors" not in arguments
    assert found["plans"] > 1
    assert found["events"] > 1000
    assert (found["missing"], found["wrong or doubled"]) == (0, 0)
