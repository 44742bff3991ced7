"""Finds the shards that no member of the consumer group owns, as the brokers describe the group.

The description is independent of what a worker was assigned, so that a leader that assigns wrongly is seen too. Calls
block.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from streams.config.settings import KafkaSettings
from streams.topics import SHARD_TOPICS, full_name

logger = logging.getLogger(__name__)

_REBALANCES: Final = (ConsumerGroupState.PREPARING_REBALANCING, ConsumerGroupState.COMPLETING_REBALANCING)


@dataclass(frozen=True)
class GroupShards:
    """Which shards have no owner, and whether the group is about to assign them."""

    unowned: frozenset[int]
    owned: frozenset[int]
    rebalances: bool


def group_shards(client: AdminClient, kafka: KafkaSettings, timeout_s: float) -> GroupShards | None:
    """The shards by whether a member owns them with all their topics; None if the brokers do not say."""
    try:
        asked = client.describe_consumer_groups([kafka.group_id], request_timeout=timeout_s)
        group = asked[kafka.group_id].result()
    except (KafkaException, ValueError) as fault:  # the embedded broker does not describe its group
        logger.debug("the group's shards are not known", extra={"reason": str(fault)})
        return None
    assigned = {
        (place.topic, place.partition)
        for member in group.members
        for place in (member.assignment.topic_partitions if member.assignment else None) or ()
    }
    names = [full_name(topic, kafka.topic_prefix) for topic in SHARD_TOPICS]
    owned = frozenset(n for n in range(kafka.partitions) if all((name, n) in assigned for name in names))
    return GroupShards(frozenset(range(kafka.partitions)) - owned, owned, group.state in _REBALANCES)
