"""Where the log of all shards ends, as far as it is known: what a shard without an open job has not read may begin one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from streams.topics import SHARD_TOPICS, full_name
from streams.transport.faust_types import TP
from streams.worker.health.probe import ProbeResult

#: Topic and shard.
Place = tuple[str, int]

#: A record becomes visible a little after it was appended, and brokers' clocks differ.
_MARGIN_MS: Final = 1_000


class KnownLog(NamedTuple):
    """The partitions of all shards: all that was appended before `asked_ms` of log time lies before `ends`."""

    shards: int
    asked_ms: int = 0  # 0: nothing is known yet
    begins: Mapping[Place, int] = {}  # the first offsets, at some time before
    ends: Mapping[Place, int] = {}

    def unread(self, next_offsets: Mapping[Place, int]) -> set[int]:
        """The shards with records at these offsets, or behind them."""
        return {
            place[1]
            for place, end in self.ends.items()
            if end > max(next_offsets.get(place, 0), self.begins.get(place, 0))
        }


def known_log(probed: ProbeResult, shards: int, topic_prefix: str) -> KnownLog:
    """What a probe of all shards has found."""
    if not probed.shards.issuperset(range(shards)):
        return KnownLog(shards)
    places = {
        (str(topic), shard): TP(full_name(topic, topic_prefix), shard)
        for topic in SHARD_TOPICS
        for shard in range(shards)
    }
    return KnownLog(
        shards,
        probed.asked_log_ms - _MARGIN_MS,
        {place: probed.begins[tp] for place, tp in places.items()},
        {place: probed.ends[tp] for place, tp in places.items()},
    )
