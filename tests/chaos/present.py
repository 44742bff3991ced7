"""A present of a chaos run's own: some minutes before a week of UTC ends, whenever it is run.

Who feeds gives records their append times by it, and workers take it for the time.
"""

from __future__ import annotations

import contextlib
import time
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError
from streams.topics import Topic, full_name, partition_count, topic_config
from streams.transport.admin import create_topics, describe

#: 2024-01-08T00:00Z, a Monday: an hour, a day and a week end.
WEEK_END_MS: Final = 1_704_672_000_000
#: What goes on is paid up to here.
PAID_UNTIL_MS: Final = WEEK_END_MS + 120_000
#: Of the environment of workers: by how many ms they are behind the clock of the machine, and up to when they pay.
BEHIND: Final = "CHAOS_BEHIND_MS"
PAID_UNTIL: Final = "CHAOS_PAID_UNTIL_MS"


class Present:
    """Goes on as the machine's clock does, from `lead_s` before the week ends on."""

    def __init__(self, lead_s: float, end_ms: int = WEEK_END_MS, paid_until_ms: int = PAID_UNTIL_MS) -> None:
        self.begun_ms = end_ms - round(lead_s * 1000)
        self._paid_until_ms = paid_until_ms
        self.begin()

    def begin(self) -> None:
        """Begin now."""
        self._behind_ms = time.time_ns() // 1_000_000 - self.begun_ms

    def now_ms(self) -> int:
        """Milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000 - self._behind_ms

    @property
    def env(self) -> dict[str, str]:
        """For workers with the patch `own_present`."""
        return {BEHIND: str(self._behind_ms), PAID_UNTIL: str(self._paid_until_ms)}


def create_topics_of_given_times(kafka: KafkaSettings, client: AdminClient) -> None:
    """Create topics that keep the append times they are given, and their records for good.

    They are created so: the log of a topic takes a changed setting some time after the broker has confirmed it, and a
    record that came before would have the time of the machine.
    """
    given = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}
    topics = [
        NewTopic(
            full_name(topic, kafka.topic_prefix),
            partition_count(topic, kafka.partitions),
            replication_factor=kafka.replication_factor,
            config=topic_config(topic) | given,
        )
        for topic in Topic
    ]
    for answer in client.create_topics(topics).values():
        answer.result()
    with contextlib.suppress(TrainfareError):  # what is left is created, and the settings given are refused
        create_topics(kafka, client)
    states = describe(client, [topic.topic for topic in topics])
    assert len(states) == len(topics)
    assert all(state.config.items() >= given.items() for state in states.values())
