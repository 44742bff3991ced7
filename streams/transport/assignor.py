"""Faust's assignor with a check that every shard is handed out, and a view of the whole group for each member.

The private names that it uses are in tests/transport/pins.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from faust.assignor.client_assignment import ClientMetadata
from faust.assignor.partition_assignor import PartitionAssignor
from yarl import URL

from streams.transport.faust_types import TP
from streams.transport.whole_metadata import NotWholeError

_ASKED: Final = "asked_again"


class MeterAssignor(PartitionAssignor):
    """Each member has a name of its own, so that the distribution in an assignment lists the shards of all members."""

    def __init__(self, app: Any, replicas: int = 0) -> None:
        super().__init__(app, replicas)
        #: Changes what we join with: a broker hands a follower that joins with the same again its old assignment.
        self.asked_again = 0
        instance = app.conf.consumer_group_instance_id
        name = uuid.uuid4() if instance is None else uuid.uuid5(uuid.NAMESPACE_DNS, instance)
        self._name = URL(f"http://{name.hex}")

    @property
    def _url(self) -> URL:
        return self._name

    @property
    def _metadata(self) -> ClientMetadata:
        metadata = super()._metadata
        metadata.topic_groups = {**metadata.topic_groups, _ASKED: self.asked_again}
        return metadata

    def _perform_assignment(self, cluster: Any, member_metadata: Any) -> Any:
        """Assign all partitions of all topics.

        Raises:
            NotWholeError: Some would have no owner.
        """
        wanted: Mapping[str, int] = cast("Any", self.app).wanted_partitions
        found = super()._perform_assignment(cluster, member_metadata)
        handed_out = {
            TP(topic, number)
            for each in found.values()
            for topic, numbers in each.assignment
            for number in numbers
        }
        missing = [tp for tp in _all(wanted) if tp not in handed_out]
        if missing:
            raise NotWholeError(f"{len(missing)} partitions would have no owner, of them {missing[0]}")
        return found

    def on_assignment(self, assignment: Any) -> None:
        """Adopt an assignment; a worker that comes back with the name of an earlier life gets what was given to that."""
        given = cast("Any", ClientMetadata).loads(self._decompress(assignment.user_data))
        self._name = URL(given.url)
        super().on_assignment(assignment)

    def without_owner(self) -> set[int]:
        """The shards that the last assignment gave to no member."""
        wanted: Mapping[str, int] = cast("Any", self.app).wanted_partitions
        handed_out = {
            TP(topic, number)
            for topics in self.external_topic_distribution.values()
            for topic, numbers in topics.items()
            for number in numbers
        }
        return {tp.partition for tp in _all(wanted) if tp not in handed_out}


def _all(wanted: Mapping[str, int]) -> Iterable[TP]:
    return (TP(topic, number) for topic, count in sorted(wanted.items()) for number in range(count))
