"""Finds the shards that no member of the consumer group owns, as the brokers describe the group.

The description is independent of what a worker was assigned, so that a leader that assigns wrongly is seen too. Calls
block.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streams.config.settings import KafkaSettings
from streams.topics import SHARD_TOPICS, full_name
from streams.transport.member_assignment import assigned

logger = logging.getLogger(__name__)

#: As brokers say it.
_REBALANCES: Final = ("PreparingRebalance", "CompletingRebalance")


@dataclass(frozen=True)
class GroupShards:
    """Which shards have no owner, and whether the group is about to assign them."""

    unowned: frozenset[int]
    owned: frozenset[int]
    rebalances: bool


def group_shards(client: AdminClient, kafka: KafkaSettings, timeout_s: float) -> GroupShards | None:
    """The shards by whether a member owns them with all their topics; None if the brokers do not say.

    Asked by `list_groups`, as old as it is: `describe_consumer_groups` of librdkafka up to 2.16 ends the whole process where
    a connection breaks while the group's coordinator changes (librdkafka issue 4605).
    """
    try:
        found: list[Any] = client.list_groups(kafka.group_id, timeout=timeout_s)
        groups = [each for each in found if each.id == kafka.group_id]
        members = [member for group in groups for member in group.members]
        owned_places = {place for member in members for place in assigned(member.assignment)}
    except (KafkaException, ValueError) as fault:  # the embedded broker does not describe its group
        logger.debug("the group's shards are not known", extra={"reason": str(fault)})
        return None
    names = [full_name(topic, kafka.topic_prefix) for topic in SHARD_TOPICS]
    owned = frozenset(n for n in range(kafka.partitions) if all((name, n) in owned_places for name in names))
    rebalances = any(group.state in _REBALANCES for group in groups)
    return GroupShards(frozenset(range(kafka.partitions)) - owned, owned, rebalances)
