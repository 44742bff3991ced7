"""The partitions that the leader of a consumer group gave a member, of the bytes that brokers keep of it."""

from __future__ import annotations

from collections.abc import Iterator

from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment


def assigned(assignment: bytes) -> Iterator[tuple[str, int]]:
    """The topics and numbers of the partitions; a member has no bytes before it is given any.

    Raises:
        ValueError: They are no assignment.
    """
    if assignment:
        for topic, partitions in ConsumerProtocolMemberAssignment.decode(assignment).assignment:
            yield from ((topic, number) for number in partitions)
