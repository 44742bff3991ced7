"""A present of a chaos run's own: some minutes before a week of UTC ends, whenever it is run.

Who feeds gives records their append times by it, and workers take it for the time.
"""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from streams.config.settings import KafkaSettings
from streams.topics import Topic, full_name

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


def keep_append_times(kafka: KafkaSettings, client: AdminClient) -> None:
    """Let the topics keep the append times that they are given, and their records for good."""
    given = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in given.items()
    ]
    names = [full_name(topic, kafka.topic_prefix) for topic in Topic]
    resources = [
        ConfigResource(ResourceType.TOPIC, name, incremental_configs=list(entries)) for name in names
    ]
    for answer in client.incremental_alter_configs(resources).values():
        answer.result()
