"""The broker in the process: its topics are there at once, though its thread sleeps in."""

from __future__ import annotations

import socket

import pytest
from confluent_kafka import Consumer

from streams.errors import TrainfareError
from streams.replay.broker import EmbeddedBroker


def test_topics_are_known_with_their_partitions() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("many", 5)
        broker.create_topic("one", 1)
        client = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        topics = client.list_topics(timeout=10).topics
        client.close()
    assert {name: len(topics[name].partitions) for name in ("many", "one")} == {"many": 5, "one": 1}


def test_a_topic_that_is_there_already_is_refused_in_words() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("one", 1)
        with pytest.raises(TrainfareError, match="refused topic one: "):
            broker.create_topic("one", 2)


class Asleep:
    """A library whose cluster hears nothing until somebody connects."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening

    def rd_kafka_mock_topic_create(self, *_: object) -> int:
        connection, _ = self._listening.accept()
        connection.close()
        return 0


def test_a_cluster_that_missed_the_question_is_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedBroker() as broker, socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)  # then nobody came
        host, port = listening.getsockname()
        with monkeypatch.context() as patched:
            patched.setattr(broker, "_library", Asleep(listening))
            patched.setattr(broker, "bootstrap_servers", f"{host}:{port}")
            broker.create_topic("one", 1)
