"""A real Kafka broker, for tests: one node, controller and broker in one process."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tamis.spark.runtime.java import find_java
from tests.parts.jars import require_jars

_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/logs
num.partitions=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""

_JAVA_OPTIONS = ("-Xmx256m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

_PATIENCE = 120.0
"""How many seconds to wait for the broker."""


class Record(NamedTuple):
    """A record of a topic."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Broker:
    """A running broker."""

    def __init__(self, servers: str) -> None:
        self.servers = servers

    def create_topic(self, name: str, partitions: int = 1) -> str:
        """Create a topic; returns its name."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        for created in admin.create_topics([NewTopic(name, partitions, 1)]).values():
            created.result(_PATIENCE)
        return name

    def send(self, topic: str, records: Iterable[Record], partition: int | None = None) -> None:
        """Append records to a topic."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        place: dict[str, Any] = {} if partition is None else {"partition": partition}
        for record in records:
            producer.produce(topic, record.value, record.key, headers=list(record.headers), **place)
        assert producer.flush(_PATIENCE) == 0

    def read(self, topic: str) -> list[Record]:
        """All records of a topic, partition by partition."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": uuid4().hex})
        try:
            partitions = consumer.list_topics(topic, _PATIENCE).topics[topic].partitions
            return [
                _to_record(message)
                for number in partitions
                for message in _read_partition(consumer, TopicPartition(topic, number))
            ]
        finally:
            consumer.close()


def _read_partition(consumer: Consumer, place: TopicPartition) -> Iterator[Message]:
    first, last = consumer.get_watermark_offsets(place, _PATIENCE)
    consumer.assign([TopicPartition(place.topic, place.partition, first)])
    position = first
    while position < last:
        message = consumer.poll(_PATIENCE)
        assert message is not None, f"{place.topic} ends at {position}, before {last}"
        assert message.error() is None, message.error()
        position = (message.offset() or 0) + 1
        yield message


def _to_record(message: Message) -> Record:
    headers: Any = message.headers() or []
    return Record(message.key(), message.value(), tuple(map(tuple, headers)))


@contextmanager
def start_broker(folder: Path) -> Iterator[Broker]:
    """Start a broker that keeps its files in `folder`; skips the test if there is none."""
    classes = ":".join(map(str, require_jars("kafka-broker")))
    java = [str(find_java() / "bin" / "java"), *_JAVA_OPTIONS, "-cp", classes]
    port, controller = _free_ports(2)
    settings = folder / "server.properties"
    settings.write_text(_SETTINGS.format(port=port, controller=controller, folder=folder))
    format_disk = ["kafka.tools.StorageTool", "format", "--cluster-id", "tamis-tests-of-kafka-0"]
    subprocess.run(
        [*java, *format_disk, "--config", str(settings)], check=True, capture_output=True
    )
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*java, "kafka.Kafka", str(settings)],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "KAFKA_HEAP_OPTS": ""},
        )
        try:
            broker = Broker(f"127.0.0.1:{port}")
            _wait_for(broker, server, folder / "log")
            yield broker
        finally:
            server.kill()
            server.wait()


def _wait_for(broker: Broker, server: subprocess.Popen[bytes], log: Path) -> None:
    last = time.monotonic() + _PATIENCE
    admin = AdminClient({"bootstrap.servers": broker.servers, "log_level": 0})
    while True:
        assert server.poll() is None, f"the broker ended: {log.read_text()[-2000:]}"
        assert time.monotonic() < last, f"the broker does not answer: {log.read_text()[-2000:]}"
        try:
            if admin.list_topics(timeout=1).brokers:
                return
        except KafkaException:
            time.sleep(0.2)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports
