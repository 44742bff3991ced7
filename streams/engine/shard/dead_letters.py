"""Dead letters: the refused records of a shard, the sampling of a flood, and records sent again by a replay.

A function of the log alone, however it is cut into batches.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from schemas.columns import instants
from schemas.durations import MINUTE_MS
from schemas.reasons import Reason
from schemas.redaction import kept_raw
from schemas.tables import DEAD_LETTER_REPLAYS, DEAD_LETTERS, SCHEMAS
from streams.engine.batch import LogBatch, Record
from streams.engine.raw_records import RawRecords, any_headers
from streams.engine.shard.books import Tally
from streams.engine.shard.job_tables import DeadLetter, dead_letter_table

#: Header of a record that is sent again: topic/partition/offset of the dead letter.
REPLAY_HEADER: Final = "trainfare-replay-of"
RAW_BYTES_AT_MOST: Final = 64 * 1024
#: Of a flood, one record in this many is stored, cut to this size.
SAMPLE_EVERY: Final = 100
SAMPLE_RAW_BYTES: Final = 1024
#: Limit of the bytes stored whole per topic, reason and minute.
WHOLE_BYTES_PER_MINUTE: Final = 16 * 2**20
_PLACE: Final = re.compile(r"([a-z]{1,20})/(\d{1,10})/(\d{1,18})")
_LATE_BY: Final = re.compile(r"is (\d+) ms before the newest event")
_LATE_SAMPLE: Final = re.compile(r"begins more than (\d+) ms before its newest second")

#: topic -> reason -> (newest minute of log time, dead letters in it, bytes of those stored whole).
Minutes = dict[str, dict[str, tuple[int, int, int]]]


class RecordPosition(NamedTuple):
    """The position of a record in the log; the topic is without its prefix."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


class Replay(NamedTuple):
    """A dead letter that was sent again."""

    place: RecordPosition
    log_ms: int
    to_partition: int
    to_offset: int


class Quota:
    """Limits how many dead letters are stored whole per topic, reason and minute of log time; of the rest, a sample.

    `per_minute` None stores all. Dead letters of a topic must be submitted in the order of their offsets.
    """

    def __init__(self, per_minute: int | None) -> None:
        self._per_minute = per_minute
        self._minutes: Minutes = {}

    def raw_bytes(self, topic: str, reason: str, log_ms: int, size_bytes: int) -> int | None:
        """How many bytes of the record to store; None: only count it."""
        if self._per_minute is None:
            return RAW_BYTES_AT_MOST
        minute, reasons = log_ms // MINUTE_MS, self._minutes.setdefault(topic, {})
        newest, before, kept_bytes = reasons.get(reason, (minute, 0, 0))
        if newest != minute:
            before = kept_bytes = 0
        if before < self._per_minute and kept_bytes < WHOLE_BYTES_PER_MINUTE:
            kept_bytes += min(size_bytes, RAW_BYTES_AT_MOST)
            keep: int | None = RAW_BYTES_AT_MOST
        else:
            keep = SAMPLE_RAW_BYTES if before % SAMPLE_EVERY == 0 else None
        reasons[reason] = (minute, before + 1, kept_bytes)
        return keep

    def dump(self) -> Minutes:
        """The state, for a snapshot."""
        return self._minutes

    def load(self, minutes: Mapping[str, Mapping[str, tuple[int, int, int]]]) -> None:
        """Set the state: the inverse of `dump`."""
        self._minutes = {topic: dict(reasons) for topic, reasons in minutes.items()}


def place_of(text: str) -> RecordPosition | None:
    """Parse `topic/partition/offset`; None if it is not one."""
    found = _PLACE.fullmatch(text)
    return None if found is None else RecordPosition(found[1], int(found[2]), int(found[3]))


def replay_of(headers: Sequence[tuple[str, bytes | None]], at: RecordPosition) -> RecordPosition | None:
    """The dead letter that a record repeats; None unless it is in the same topic, and in its partition later."""
    for name, value in headers:
        if name == REPLAY_HEADER and value is not None:
            place = place_of(value.decode("ascii", "replace"))
            if place is None or place.topic != at.topic:
                continue
            if place.partition != at.partition or place.offset < at.offset:
                return place
    return None


def is_late_again(detail: str, job_horizon_ms: int, late_horizon_ms: int) -> bool:
    """Whether a record that was too late, by its `detail`, is certainly too late again: the newest time only grows."""
    if (found := _LATE_BY.search(detail)) is not None:
        return int(found[1]) > job_horizon_ms
    if (found := _LATE_SAMPLE.search(detail)) is not None:
        return int(found[1]) >= late_horizon_ms
    return False


_ROW_BYTES = 256


class RefusedRecords:
    """Dead letters and replays, each in the order of the log of its topic."""

    def __init__(self, per_minute: int | None) -> None:
        self.quota = Quota(per_minute)
        self.letters: list[DeadLetter] = []
        self.replays: list[Replay] = []
        self.waiting_bytes = 0  # approximate size in memory
        self._of_batch: list[tuple[int, Reason, str]] = []

    def __bool__(self) -> bool:
        return bool(self.letters or self.replays)

    def add(self, record: Record, reason: Reason, detail: str) -> None:
        """Refuse a record of the batch being folded; in any order."""
        self._of_batch.append((record.offset, reason, detail))

    def close_batch(self, batch: LogBatch, records: Sequence[Record], log_ms: int, tally: Tally) -> None:
        """Apply the quota to the batch's refused records and count all of them.

        `log_ms`: the topic's log time before the batch.
        """
        refused = {offset: (reason, detail) for offset, reason, detail in self._of_batch}
        self._of_batch = []
        if not refused and not any_headers(records):
            return
        for record, since_ms in _notable(records, log_ms, refused.keys()):
            place = RecordPosition(batch.topic, batch.partition, record.offset)
            if record.headers:
                self._sample(place, record, since_ms)
            if record.offset in refused:
                reason, detail = refused[record.offset]
                tally.bury(str(reason), stored=self._store(place, record, str(reason), detail, since_ms))

    def _store(self, place: RecordPosition, record: Record, reason: str, detail: str, log_ms: int) -> bool:
        value = kept_raw(place.topic, reason, record.value or b"")
        keep_bytes = self.quota.raw_bytes(place.topic, reason, log_ms, len(value))
        if keep_bytes is None:
            return False
        letter = DeadLetter(*place, reason, detail, value[:keep_bytes], log_ms)
        self.letters.append(letter)
        self.waiting_bytes += _ROW_BYTES + len(letter.raw) + len(detail)
        return True

    def _sample(self, at: RecordPosition, record: Record, log_ms: int) -> None:
        place = replay_of(record.headers, at)
        if place is not None:
            self.replays.append(Replay(place, log_ms, at.partition, at.offset))
            self.waiting_bytes += _ROW_BYTES

    def drain(self, version: int) -> dict[str, pa.Table]:
        """The rows and forget them."""
        tables = {}
        if self.letters:
            tables[DEAD_LETTERS] = dead_letter_table(self.letters, version)
        if self.replays:
            tables[DEAD_LETTER_REPLAYS] = replay_table(self.replays, version)
        self.letters, self.replays, self.waiting_bytes = [], [], 0
        return tables


def _notable(
    records: Sequence[Record], log_ms: int, refused: Collection[int]
) -> Iterator[tuple[Record, int]]:
    """Yield the records with headers and the refused ones, each with the topic's log time at that point."""
    if isinstance(records, RawRecords):
        is_notable = (records.headers_at >= 0) | np.isin(records.offsets, list(refused))
        until_ms = np.maximum.accumulate(np.maximum(records.log_ms, log_ms))
        for index in np.flatnonzero(is_notable).tolist():
            yield records[index], int(until_ms[index])
        return
    for record in records:
        log_ms = max(log_ms, record.timestamp)
        if record.headers or record.offset in refused:
            yield record, log_ms


def replay_table(replays: Sequence[Replay], version: int | None = None) -> pa.Table:
    """Build rows of `dead_letter_replays`; of a dead letter sent twice, the last. `version` None: the record's offset."""
    last = {replay.place: replay for replay in replays}.values()
    return pa.Table.from_pydict(
        {
            "topic": [each.place.topic for each in last],
            "partition": [each.place.partition for each in last],
            "offset": [each.place.offset for each in last],
            "time": instants([each.log_ms for each in last]),
            "to_partition": [each.to_partition for each in last],
            "to_offset": [each.to_offset for each in last],
            "version": pa.array([version or each.to_offset + 1 for each in last], pa.uint64()),
        },
        schema=SCHEMAS[DEAD_LETTER_REPLAYS],
    )
