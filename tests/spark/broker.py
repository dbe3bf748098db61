"""A broker of Kafka for the tests: one node, its own controller, from the jars of requirements/kafka.jars."""

import base64
import os
import random
import signal
import socket
import subprocess
import time
import uuid
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
JARS = ROOT / ".cache/kafka/jars"
SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/log
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
broker.session.timeout.ms=60000
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


class Broker:
    """A broker that runs until `stop`.

    Attributes:
        servers: its address.
    """

    def __init__(self, folder):
        port, controller = free_ports(2)
        self.servers = f"127.0.0.1:{port}"
        self._log = folder / "broker.log"
        settings = folder / "server.properties"
        settings.write_text(SETTINGS.format(port=port, controller=controller, folder=folder))
        _java("kafka.tools.StorageTool", "format", "-t", _cluster(), "-c", settings, log=self._log).wait(120)
        self._process = _java("kafka.Kafka", settings, log=self._log)
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def stop(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def create_topic(self, name, partitions):
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)
        end = time.monotonic() + 60
        # the broker learns of it a little later than the controller
        while len(admin.list_topics(name, 60).topics[name].partitions) < partitions:
            assert time.monotonic() < end, f"topic {name} did not appear"
            time.sleep(0.05)
        return name

    def read(self, topic, *, committed=True):
        """All messages of a topic that are committed, or all that were sent."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": f"reader-{uuid.uuid4()}",
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        partitions = [
            TopicPartition(topic, each) for each in consumer.list_topics(topic, 60).topics[topic].partitions
        ]
        ends = {each.partition: self._end(each) for each in partitions}
        consumer.assign([TopicPartition(topic, each.partition, OFFSET_BEGINNING) for each in partitions])
        found, ended, end = [], set(), time.monotonic() + 120
        while len(ended) < len(partitions):
            assert time.monotonic() < end, "the topic was not read to its end"
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is None:
                found.append(message)
            # a transaction may have ended, and its messages not be readable yet
            elif message.error().code() == KafkaError._PARTITION_EOF:
                if message.offset() >= ends[message.partition()]:
                    ended.add(message.partition())
            else:
                raise KafkaException(message.error())
        consumer.close()
        return found

    def _end(self, partition):
        """The end of all messages of a partition that were sent."""
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": f"end-{uuid.uuid4()}",
                "isolation.level": "read_uncommitted",
            }
        )
        _, end = consumer.get_watermark_offsets(partition, 60)
        consumer.close()
        return end

    def _wait(self):
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin, end = AdminClient({"bootstrap.servers": self.servers, "log_level": 0}), time.monotonic() + 120
        while True:
            assert self._process.poll() is None, self._log.read_text()[-5000:]
            try:
                if admin.list_topics(timeout=1).brokers:  # it takes topics from then on
                    return
            except KafkaException:
                pass
            assert time.monotonic() < end, self._log.read_text()[-5000:]
            time.sleep(0.05)


def _java(*arguments, log):
    java = Path(os.environ["JAVA_HOME"]) / "bin/java" if "JAVA_HOME" in os.environ else "java"
    quick = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    with log.open("a") as out:
        return subprocess.Popen([java, *quick, "-cp", f"{JARS}/*", *arguments], stdout=out, stderr=out)


def free_ports(number):
    """Ports that are free, and that Linux gives to nobody who does not ask for them."""
    ports = set()
    while len(ports) < number:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.add(port)
    return ports


def _cluster():
    """An id as StorageTool takes it: 16 bytes in base64, with no dash before."""
    return base64.urlsafe_b64encode(b"keysplit-testing").decode().rstrip("=")
