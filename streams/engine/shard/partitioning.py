"""Checks that an event is in the partition of its key: its job, or its node where it has no job.

Keys are placed by murmur2, as every producer does.
"""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache

import numpy as np

from schemas.events import Event, GpuEvent, JobEvent, NodeEvent, TrafficEvent
from schemas.invalid import Invalid
from schemas.reasons import Reason
from schemas.refusal import shown
from streams.engine.kernels.murmur import murmur2


@lru_cache(maxsize=2**16)
def partition_of(key: str, partitions: int) -> int:
    """The partition in which Kafka's default partitioner places a key."""
    text = np.frombuffer(key.encode("utf-8", "surrogatepass"), np.uint8)
    return int(murmur2(text) & 0x7FFFFFFF) % partitions


class PartitionCheck:
    """Checks one partition number; `partitions` None: the feed places records by rules of its own."""

    __slots__ = ("_known", "number", "partitions")

    def __init__(self, number: int, partitions: int | None, known: Container[str]) -> None:
        """`known`: jobs already in this shard are accepted, whatever an earlier version placed here."""
        self.number = number
        self.partitions = partitions
        self._known = known

    def is_of(self, job_id: str, node: str) -> bool:
        """Whether events of the job, or of the node where there is none, belong in this partition."""
        if self.partitions is None or partition_of(job_id or node, self.partitions) == self.number:
            return True
        return bool(job_id) and job_id in self._known

    def judged(self, event: Event | Invalid) -> Event | Invalid:
        """The event, or Invalid if it belongs in another partition."""
        match event:
            case JobEvent() | TrafficEvent():
                job_id, node, field = event.job_id, "", "job_id"
            case GpuEvent():
                job_id, node, field = event.job_id, event.node, "job_id" if event.job_id else "node"
            case NodeEvent():
                job_id, node, field = "", event.node, "node"
            case _:
                return event
        if self.is_of(job_id, node):
            return event
        assert self.partitions is not None  # otherwise every event belongs here
        belongs = partition_of(job_id or node, self.partitions)
        return Invalid(
            Reason.wrong_partition,
            f"field `{field}`: got {shown(job_id or node)} in partition {self.number}, expected in {belongs} of "
            f"{self.partitions}, where murmur2 puts this key",
        )
