"""Sums flows into `network` events: one for each job, way and span of whole minutes, as the meter books by the minute."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final, NamedTuple

from schemas.durations import MINUTE_MS
from streams.collect.allocations import JobHolder
from streams.collect.collector import CollectedEvent
from streams.topics import Topic

BYTES_MAX: Final = 2**53


class _Key(NamedTuple):
    holder: JobHolder
    direction: str
    path: str
    region: str
    dst_region: str
    from_ms: int
    until_ms: int


class NetworkAmounts:
    """The sums of one part of a file."""

    def __init__(self, source: str, cloud: str) -> None:
        self._common = {"source": source, "cloud": cloud}
        self._bytes: dict[_Key, int] = {}

    def add(
        self,
        holder: JobHolder,
        direction: str,
        path: str,
        regions: tuple[str, str],
        span_ms: tuple[int, int],
        count: int,
    ) -> bool:
        """Add bytes that went from one region to another; return whether they still fit into an event."""
        from_ms = span_ms[0] // MINUTE_MS * MINUTE_MS
        until_ms = max(-(-span_ms[1] // MINUTE_MS) * MINUTE_MS, from_ms + MINUTE_MS)
        key = _Key(holder, direction, path, *regions, from_ms, until_ms)
        total = self._bytes.get(key, 0) + count
        if total > BYTES_MAX:
            return False
        self._bytes[key] = total
        return True

    def events(self, identity: str) -> list[CollectedEvent]:
        """The events, the oldest first; their ids follow from the part's identity and what they are of."""
        found = sorted(self._bytes.items(), key=lambda item: (item[0].until_ms, item[0]))
        return [CollectedEvent(Topic.NETWORK, self._event(identity, *item)) for item in found]

    def _event(self, identity: str, key: _Key, count: int) -> dict[str, Any]:
        text = "\0".join((identity, *map(str, key.holder), *map(str, key[1:])))
        event: dict[str, Any] = {
            **self._common,
            "id": blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest(),
            "time_ms": key.until_ms,
            "interval_ms": key.until_ms - key.from_ms,
            "job_id": key.holder.job_id,
            "attempt": key.holder.attempt,
            "bytes": count,
            "path": key.path,
            "direction": key.direction,
        }
        regions = {"region": key.region, "dst_region": key.dst_region}
        return event | {name: region for name, region in regions.items() if region}
