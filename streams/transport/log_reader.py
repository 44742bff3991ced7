"""Creates a consumer without a group, to read the log a second time.

It must not commit, nor decide what is read.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer

from streams.config.settings import KafkaSettings
from streams.transport.security import librdkafka_config


def log_reader(kafka: KafkaSettings, name: str, **options: Any) -> Consumer:
    """Return a consumer of committed records that reports partition ends; `name`: the group id, which the client requires."""
    return Consumer(
        {
            **librdkafka_config(kafka),
            "group.id": name,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **options,
        }
    )
