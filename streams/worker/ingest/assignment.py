"""Checks that a partition assignment keeps each shard together, and finds the offsets where reading begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streams.errors import TrainfareError
from streams.topics import SHARD_TOPICS, full_name
from streams.transport.faust_types import TP
from streams.worker.shards.owned_shard import OwnedShard


def check_assignment(partitions: Iterable[TP], prefix: str) -> set[int]:
    """The shard numbers of an assignment.

    Raises:
        TrainfareError: The topics of one shard are assigned to different workers.
    """
    topics: dict[int, set[str]] = {}
    for tp in partitions:
        topics.setdefault(tp.partition, set()).add(tp.topic)
    whole = {full_name(topic, prefix) for topic in SHARD_TOPICS}
    for number, names in sorted(topics.items()):
        lacking = sorted(whole - names)
        if lacking:
            raise TrainfareError(
                f"partition {number} was assigned to this worker without {', '.join(lacking)}: the group has workers "
                "with other topics or another assignor, the topics have unequal partition counts, or one was deleted; "
                "run the same version with the same settings in all workers"
            )
    return set(topics)


def awaited(owned: Mapping[int, OwnedShard], partitions: Iterable[TP], prefix: str) -> dict[TP, int]:
    """The next offset of each partition whose shard is in memory."""
    return {
        tp: owned[tp.partition].shard.position.next.get(tp.topic.removeprefix(prefix), 0)
        for tp in partitions
        if tp.partition in owned
    }
