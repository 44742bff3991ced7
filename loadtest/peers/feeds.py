"""The topics that the peers read: fleets of loadtest.fleet, with what each window must come to.

Small topics are the first seconds of the same fleets, for peers that would take minutes, with one flushing
message per job behind them: an idle instant one window later, that no total counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import orjson
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from loadtest.catch_up import send
from loadtest.fleet import Shape, job_name, recent, workload
from loadtest.known import WINDOW_S, Known
from streams.config.settings import KafkaSettings
from streams.topics import Topic, full_name
from streams.transport.admin import connect, create_topics

PARTITIONS: Final = 8
_LEADER_S: Final = 20.0


@dataclass(frozen=True)
class Size:
    """How much of a workload; `seconds` of event time."""

    workload: str
    seconds: int
    flushed: bool = False
    most_warm_up: int = 3
    """Passes before those that count, at most: one over a long topic has a JVM's compiler done with its work."""

    @property
    def prefix(self) -> str:
        """Of the topics, as our settings call it."""
        return f"{self.workload}.{self.seconds}s{'.flushed' if self.flushed else ''}."


@dataclass(frozen=True)
class Feed:
    """A filled topic, ready to be read again and again."""

    size: Size
    kafka: KafkaSettings
    shape: Shape
    known: Known

    @property
    def topic(self) -> str:
        """Its name on the broker."""
        return full_name(Topic.GPU, self.kafka.topic_prefix)

    @property
    def messages(self) -> int:
        """In the topic, flushing ones included."""
        return self.shape.messages + (self.shape.jobs if self.size.flushed else 0)

    @property
    def samples(self) -> int:
        """GPU samples in them."""
        return self.messages * self.shape.gpus


def begin_s(sizes: Iterable[Size]) -> int:
    """The event time at which the longest of these fleets begins, so that it ends now."""
    return recent(max(size.seconds for size in sizes))


def filled(size: Size, bootstrap_servers: str, at_s: int) -> Feed:
    """Make the topics of a size, as our worker wants them, and fill `gpu` and `prices`."""
    kafka = KafkaSettings(
        bootstrap_servers=bootstrap_servers, partitions=PARTITIONS, topic_prefix=size.prefix
    )
    create_topics(kafka, connect(kafka))
    _wait_for_leaders(kafka)
    fleet = workload(size.workload, at_s, PARTITIONS, size.seconds)
    # Prices come first: behind the samples every job would be reported as unpriced, then priced anew.
    feed = Feed(size, kafka, fleet.shape, send(fleet, kafka, lifecycle=False))
    if size.flushed:
        with_client = Producer({"bootstrap.servers": bootstrap_servers, "partitioner": "murmur2_random"})
        for job in range(fleet.shape.jobs):
            key = job_name(job).encode()
            with_client.produce(feed.topic, flushing(job_name(job), feed), key)
        if with_client.flush(30):
            raise OSError("the broker does not take the last messages")
    return feed


def _wait_for_leaders(kafka: KafkaSettings) -> None:
    """A topic that was just made has no leaders yet; what fills it does not ask for them."""
    client = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "peers", "log_level": 0})
    topic = full_name(Topic.GPU, kafka.topic_prefix)
    deadline_s = time.monotonic() + _LEADER_S
    try:
        for partition in range(kafka.partitions):
            while not _answers(client, TopicPartition(topic, partition)):
                if time.monotonic() > deadline_s:
                    raise OSError(f"partition {partition} of {topic} has no leader after {_LEADER_S:g} s")
                time.sleep(0.05)
    finally:
        client.close()


def _answers(client: Consumer, partition: TopicPartition) -> bool:
    try:
        client.get_watermark_offsets(partition, 1.0)
    except KafkaException:
        return False
    return True


def flushing(job_id: str, feed: Feed) -> bytes:
    """A message of one window later, in which all GPUs are idle."""
    gpus = [f"GPU-{number}" for number in range(feed.shape.gpus)]
    at_s = feed.known.begin_s + -(-feed.shape.seconds // WINDOW_S) * WINDOW_S
    return orjson.dumps(
        {
            "source": "dcgm", "time_ms": at_s * 1000, "interval_ms": 1000, "node": f"node-of-{job_id}",
            "job_id": job_id, "gpus": gpus, "util_ratio": [0.0] * len(gpus),
        }
    )  # fmt: skip
