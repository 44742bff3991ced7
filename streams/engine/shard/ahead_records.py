"""Counts the records whose times are ahead of the log, by who sent them: `clock_ahead` is judged by these counts.

A function of the log alone, however it is cut into batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from schemas.canary_proof import CanaryProof
from schemas.clock_table import RECORDS_AHEAD, SCHEMAS
from schemas.decode import decode
from schemas.durations import MINUTE_MS, NEVER_MS
from schemas.events import Event, GpuEvent, NodeEvent
from schemas.invalid import Invalid
from schemas.reserved import CANARY
from streams.engine.batch import Record

#: Of so many senders the records of a minute and topic are counted: who sends under ever new names must not fill the memory.
SENDERS_AT_MOST: Final = 1_000


class SenderClock(NamedTuple):
    """Whose clock it is; `node`: of samples and events of nodes."""

    source: str
    node: str


class AheadCount(msgspec.Struct, array_like=True):
    """The records of one sender in a minute."""

    records: int = 0
    refused: int = 0
    most_ahead_ms: int = 0


class _Place(NamedTuple):
    """The key of a row in its shard."""

    topic: str
    minute: int
    sender: SenderClock


#: topic -> (newest minute of log time, what was counted in it).
AheadMinutes = dict[str, tuple[int, list[tuple[SenderClock, AheadCount]]]]


class AheadRecords:
    """Call `note` and `note_read` in the order of a topic's log."""

    def __init__(self, proof: CanaryProof | None = None) -> None:
        self._proof = proof
        self._minutes: dict[str, tuple[int, dict[SenderClock, AheadCount]]] = {}
        self._changed: dict[_Place, AheadCount] = {}

    def __bool__(self) -> bool:
        return bool(self._changed)

    def note(
        self, topic: str, event: Event, record: Record, log_ms: int, *, is_refused: bool = False
    ) -> None:
        """Count a record that is ahead; `log_ms` is the topic's log time."""
        node = event.node if isinstance(event, GpuEvent | NodeEvent) else ""
        if event.source.startswith(CANARY):
            return  # the meter's own clock: `clock_wrong` is about it
        sender, minute = SenderClock(event.source, node), log_ms // MINUTE_MS
        newest, counts = self._minutes.get(topic, (minute, {}))
        if newest != minute:
            counts = {}
        self._minutes[topic] = (minute, counts)
        count = counts.get(sender)
        if count is None:
            if len(counts) == SENDERS_AT_MOST:
                return
            count = counts[sender] = AheadCount()
        count.records += 1
        count.refused += is_refused
        count.most_ahead_ms = max(count.most_ahead_ms, event.time_ms - record.timestamp)
        self._changed[_Place(topic, minute, sender)] = count

    def note_read(self, topic: str, record: Record, log_ms: int, *, is_refused: bool) -> None:
        """Count a record of which no event is at hand, if nothing else is wrong with it."""
        event = decode(topic, record.value, record.headers, NEVER_MS, self._proof)
        if not isinstance(event, Invalid):
            self.note(topic, event, record, log_ms, is_refused=is_refused)

    def drain(self, shard: int, version: int) -> dict[str, pa.Table]:
        """The rows that changed; a row of the same key replaces one that was drained before."""
        changed, self._changed = sorted(self._changed.items()), {}
        if not changed:
            return {}
        columns = {
            "minute": pa.array([place.minute * 60 for place, _ in changed], pa.int64()).cast(
                SCHEMAS[RECORDS_AHEAD].field("minute").type
            ),
            "source": [place.sender.source for place, _ in changed],
            "node": [place.sender.node for place, _ in changed],
            "topic": [place.topic for place, _ in changed],
            "shard": [shard] * len(changed),
            "records": [count.records for _, count in changed],
            "refused": [count.refused for _, count in changed],
            "most_ahead_ms": [count.most_ahead_ms for _, count in changed],
            "version": [version] * len(changed),
        }
        return {RECORDS_AHEAD: pa.Table.from_pydict(columns, schema=SCHEMAS[RECORDS_AHEAD])}

    def dump(self) -> AheadMinutes:
        """The counts of the newest minutes, for a snapshot."""
        return {topic: (minute, [*counts.items()]) for topic, (minute, counts) in self._minutes.items()}

    def load(self, minutes: Mapping[str, tuple[int, list[tuple[SenderClock, AheadCount]]]]) -> None:
        """Set the counts: the inverse of `dump`."""
        self._minutes = {topic: (minute, dict(counts)) for topic, (minute, counts) in minutes.items()}
