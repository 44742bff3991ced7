"""The socket that fills a log: what it sends a client reads, what is refused for now comes again, other faults end it."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from loadtest.fleet import Fleet, Shape, fill
from loadtest.produce import Batch, BatchProducer
from streams.replay.broker import EmbeddedBroker

NONE, NOT_LEADER, TOO_LARGE = 0, 6, 10


class Answering:
    """A broker that answers each request with the next codes: one a partition, in the request's order."""

    def __init__(self, codes: list[list[int]]) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.asked: list[list[int]] = []
        self._codes = codes
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        connection, _ = self._server.accept()
        with connection, connection.makefile("rb") as requests:
            for codes in self._codes:
                (size,) = struct.unpack(">i", requests.read(4))
                body = requests.read(size)
                (number,) = struct.unpack_from(">i", body, 4)
                at = body.index(b"topic") + 5
                (count,) = struct.unpack_from(">i", body, at)
                partitions, at = [], at + 4
                for _ in range(count):
                    partition, length = struct.unpack_from(">ii", body, at)
                    partitions.append(partition)
                    at += 8 + length
                self.asked.append(partitions)
                answer = struct.pack(">iih", number, 1, 5) + b"topic" + struct.pack(">i", count)
                for partition, code in zip(partitions, codes, strict=True):
                    answer += struct.pack(">ihqq", partition, code, 0, 0)
                connection.sendall(struct.pack(">i", len(answer) + 4) + answer + struct.pack(">i", 0))


def batches(*partitions: int) -> list[Batch]:
    return [Batch(partition, memoryview(b"bytes")) for partition in partitions]


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[list[int]]], Answering]:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return Answering


def test_what_is_refused_for_now_is_sent_again(answering: Callable[[list[list[int]]], Answering]) -> None:
    broker = answering([[NONE, NOT_LEADER, NONE], [NOT_LEADER], [NONE]])
    with BatchProducer(broker.address, "topic") as producer:
        producer.send(batches(0, 1, 2))
    assert broker.asked == [[0, 1, 2], [1], [1]]
    assert producer.sent_again == 2


def test_what_will_never_be_taken_ends_it(answering: Callable[[list[list[int]]], Answering]) -> None:
    broker = answering([[TOO_LARGE]])
    with (
        pytest.raises(OSError, match="partition 3: error 10"),
        BatchProducer(broker.address, "topic") as producer,
    ):
        producer.send(batches(3))


def test_clients_read_what_it_sent() -> None:
    fleet = Fleet(Shape(jobs=20, senders_per_job=2, gpus=8, seconds=5), 1_772_366_400, partitions=3)
    with EmbeddedBroker() as broker:
        broker.create_topic("topic", 3)
        known = fill(fleet, broker.bootstrap_servers, "topic")
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        consumer.assign([TopicPartition("topic", number, 0) for number in range(3)])
        found = consumer.consume(known.messages, 10)
        consumer.close()
    assert len(found) == known.messages == 200
    assert not any(message.error() for message in found)
