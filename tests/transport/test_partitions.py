"""Keys go where Java's and librdkafka's murmur2 put them."""

from __future__ import annotations

from confluent_kafka import Message, Producer

from streams.replay.broker import EmbeddedBroker
from streams.transport.partitions import partition_of


def test_partitions_agree_with_librdkafka() -> None:
    keys = [
        b"a",
        b"job-1",
        "größe".encode(),
        b"x" * 199,
        *(f"job-{number}".encode() for number in range(100)),
    ]
    sent: dict[bytes, int] = {}

    def delivered(error: object, message: Message) -> None:
        assert error is None
        sent[message.key() or b""] = message.partition() or 0

    with EmbeddedBroker() as broker:
        broker.create_topic("t", 7)
        config = {
            "bootstrap.servers": broker.bootstrap_servers,
            "partitioner": "murmur2_random",
            "log_level": 0,
        }
        producer = Producer(config)
        for key in keys:
            producer.produce("t", key=key, value=b"", on_delivery=delivered)
        assert producer.flush(10) == 0
    assert sent == {key: partition_of(key, 7) for key in keys}
