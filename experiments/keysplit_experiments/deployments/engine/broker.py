"""A broker of Kafka: one node that is its own controller, from jars, without an installation."""

from __future__ import annotations

import base64
import os
import random
import socket
import subprocess
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Message

JARS = "KEYSPLIT_KAFKA_JARS"
"""The environment variable that names the folder of the jars."""

REMEDY = "scripts/jars kafka in a clone of keysplit downloads them into .cache/kafka/jars"

_PATIENCE_S = 120.0
_SETTINGS = """\
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
    """A broker that runs until `stop`, and at most as long as the program, even if that is killed.

    Args:
        folder: Where it keeps its messages, settings and log.
        jars: The folder of its jars. If None, the one that the environment variable KEYSPLIT_KAFKA_JARS
            names, else .cache/kafka/jars below the current folder.

    Attributes:
        servers: Its address, host and port.

    Raises:
        FileNotFoundError: If there are no jars, or no Java.
        RuntimeError: If it ends or does not answer within two minutes, with the end of its log.
    """

    servers: str

    def __init__(self, folder: Path, jars: Path | None = None) -> None:
        self._jars = folder_of_jars() if jars is None else checked(jars)
        port, controller = free_ports(2)
        self.servers = f"127.0.0.1:{port}"
        self._log = folder / "broker.log"
        settings = folder / "server.properties"
        settings.write_text(_SETTINGS.format(port=port, controller=controller, folder=folder))
        self._java("kafka.tools.StorageTool", "format", "-t", _cluster(), "-c", settings).wait(_PATIENCE_S)
        self._process = self._java("kafka.Kafka", settings)
        # reads until the end of the program closes the pipe
        guard = f"read _; kill -9 {self._process.pid}"
        self._guard = subprocess.Popen(["sh", "-c", guard], stdin=subprocess.PIPE)
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill it; what it keeps stays in its folder."""
        for process in (self._guard, self._process):
            process.kill()
            process.wait()

    def create_topic(self, name: str, partitions: int) -> str:
        """Create a topic, and wait until it is there.

        Returns:
            Its name.
        """
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)
        end = time.monotonic() + _PATIENCE_S
        # the broker learns of it a little later than the controller
        while len(admin.list_topics(name, 60).topics[name].partitions) < partitions:
            if time.monotonic() > end:
                raise RuntimeError(f"topic {name} did not appear")
            time.sleep(0.05)
        return name

    def read(self, topic: str, *, committed: bool = True) -> list[Message]:
        """Read all messages of a topic.

        Args:
            topic: Its name.
            committed: Whether only those of committed transactions are read, or all that were sent.
        """
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": f"reader-{uuid.uuid4()}",
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
            }
        )
        numbers = list(consumer.list_topics(topic, 60).topics[topic].partitions)
        ends = {number: self._end(topic, number) for number in numbers}
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
        found: list[Message] = []
        ended: set[int] = set()
        end = time.monotonic() + _PATIENCE_S
        while len(ended) < len(numbers):
            if time.monotonic() > end:
                raise RuntimeError(f"topic {topic} was not read to its end")
            message = consumer.poll(1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append(message)
            # a transaction may have ended, and its messages not be readable yet
            elif error.code() == KafkaError._PARTITION_EOF:
                partition, offset = message.partition(), message.offset()
                if partition is not None and offset is not None and offset >= ends[partition]:
                    ended.add(partition)
            else:
                raise KafkaException(error)
        consumer.close()
        return found

    def _end(self, topic: str, partition: int) -> int:
        """Return the end of all messages of a partition that were sent."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": f"end-{uuid.uuid4()}",
                "isolation.level": "read_uncommitted",
            }
        )
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), 60)
        consumer.close()
        return int(end)

    def _wait(self) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        end = time.monotonic() + _PATIENCE_S
        while self._process.poll() is None and time.monotonic() < end:
            with suppress(KafkaException):
                if admin.list_topics(timeout=1).brokers:  # it takes topics from then on
                    return
            time.sleep(0.05)
        raise RuntimeError(f"the broker did not start: {self._log.read_text()[-5000:]}")

    def _java(self, *arguments: object) -> subprocess.Popen[bytes]:
        java = Path(os.environ["JAVA_HOME"]) / "bin/java" if "JAVA_HOME" in os.environ else "java"
        quick = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        with self._log.open("a") as out:
            command = [java, *quick, "-cp", f"{self._jars}/*", *map(str, arguments)]
            return subprocess.Popen(command, stdout=out, stderr=out)


def folder_of_jars() -> Path:
    """Return the folder of the jars that a broker has by default.

    Raises:
        FileNotFoundError: If there are none.
    """
    return checked(Path(os.environ.get(JARS) or ".cache/kafka/jars").absolute())


def checked(jars: Path) -> Path:
    """Check that a folder has the jars of a broker."""
    if not any(jars.glob("kafka_*.jar")):
        raise FileNotFoundError(
            f"{str(jars)!r} must have the jars of a Kafka broker: {REMEDY}; {JARS} names the folder"
        )
    return jars


def free_ports(number: int) -> set[int]:
    """Find ports that are free, and that Linux gives to nobody who does not ask for them."""
    ports: set[int] = set()
    while len(ports) < number:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.add(port)
    return ports


def _cluster() -> str:
    """Return an id as StorageTool takes it: 16 bytes in base64, with no dash before."""
    return base64.urlsafe_b64encode(b"keysplit-testing").decode().rstrip("=")
