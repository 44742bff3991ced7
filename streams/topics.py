"""The names of all Kafka topics, and the required settings of each."""

from __future__ import annotations

from enum import StrEnum

from schemas.durations import DAY_MS


class Topic(StrEnum):
    """A topic by its name without the prefix."""

    JOBS = "jobs"
    GPU = "gpu"
    NETWORK = "network"
    STORAGE = "storage"
    NODES = "nodes"
    PRICES = "prices"
    CONTROLS = "controls"


SHARD_TOPICS = (Topic.JOBS, Topic.GPU, Topic.NETWORK, Topic.STORAGE, Topic.NODES)
"""Read by shards; equal partition counts, so that one partition number of all topics is in one worker."""

REFERENCE_TOPICS = (Topic.PRICES, Topic.CONTROLS)
"""Read completely by every worker; one partition, log-compacted."""

RECORD_MAX_BYTES = 2**20
"""Limit of an event; a larger one is refused as `oversize`."""


def full_name(topic: str, prefix: str) -> str:
    """The name on the broker."""
    return f"{prefix}{topic}"


def short_name(name: str, prefix: str) -> str:
    """The name without the prefix; a name that lacks it is returned as it is."""
    return name.removeprefix(prefix)


def partition_count(topic: Topic, partitions: int) -> int:
    """How many partitions the topic must have."""
    return partitions if topic in SHARD_TOPICS else 1


def topic_config(topic: Topic) -> dict[str, str]:
    """The required topic-level configuration."""
    config = {
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": str(RECORD_MAX_BYTES + 64 * 1024),
    }
    if topic in REFERENCE_TOPICS:
        config["cleanup.policy"] = "compact"
    if topic is Topic.PRICES:
        # What a price replaced is compared with for a day: a worker that starts meanwhile must read it, too.
        config["min.compaction.lag.ms"] = str(DAY_MS)
    return config
