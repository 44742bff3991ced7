"""What a shard refused and what came back to it, until the next checkpoint stores both.

It must not decide what is refused; that its result does not depend on how the log is cut is its own affair.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa

from schemas.columns import instants
from schemas.reasons import Reason
from schemas.redaction import kept_raw
from schemas.tables import DEAD_LETTER_REPLAYS, DEAD_LETTERS, SCHEMAS
from streams.engine.batch import LogBatch, Record
from streams.engine.raw_records import RawRecords, any_headers
from streams.engine.shard.books import Tally
from streams.engine.shard.dead_letters import Quota, RecordPosition, Replay, replay_of
from streams.engine.shard.job_tables import DeadLetter, dead_letter_table

_ROW_BYTES = 256


class RefusedRecords:
    """Dead letters and letters that came back, each in the order of the log of its topic."""

    def __init__(self, per_minute: int | None) -> None:
        self.quota = Quota(per_minute)
        self.letters: list[DeadLetter] = []
        self.replays: list[Replay] = []
        self.waiting_bytes = 0  # about what they weigh
        self._of_batch: list[tuple[int, Reason, str]] = []

    def __bool__(self) -> bool:
        return bool(self.letters or self.replays)

    def add(self, record: Record, reason: Reason, detail: str) -> None:
        """Refuse a record of the batch under way; in any order."""
        self._of_batch.append((record.offset, reason, detail))

    def end(self, batch: LogBatch, records: Sequence[Record], log_ms: int, tally: Tally) -> None:
        """The batch was folded: keep what the quota allows, count all.  `log_ms`: the topic's log time before it."""
        refused = {offset: (reason, detail) for offset, reason, detail in self._of_batch}
        self._of_batch = []
        if not refused and not any_headers(records):
            return
        for record, since_ms in _notable(records, log_ms, refused.keys()):
            place = RecordPosition(batch.topic, batch.partition, record.offset)
            if record.headers:
                self._note(place, record, since_ms)
            if record.offset in refused:
                reason, detail = refused[record.offset]
                tally.bury(str(reason), stored=self._keep(place, record, str(reason), detail, since_ms))

    def _keep(self, place: RecordPosition, record: Record, reason: str, detail: str, log_ms: int) -> bool:
        value = kept_raw(place.topic, reason, record.value or b"")
        keep_bytes = self.quota.raw_bytes(place.topic, reason, log_ms, len(value))
        if keep_bytes is None:
            return False
        letter = DeadLetter(*place, reason, detail, value[:keep_bytes], log_ms)
        self.letters.append(letter)
        self.waiting_bytes += _ROW_BYTES + len(letter.raw) + len(detail)
        return True

    def _note(self, at: RecordPosition, record: Record, log_ms: int) -> None:
        place = replay_of(record.headers, at)
        if place is not None:
            self.replays.append(Replay(place, log_ms, at.partition, at.offset))
            self.waiting_bytes += _ROW_BYTES

    def take(self, version: int) -> dict[str, pa.Table]:
        """The rows, which are no longer kept here."""
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
    """The records that have headers or were refused, with the log time of the topic then."""
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
    """Rows of `dead_letter_replays`; of a letter that came back twice, the last.  Without a version, the offset's."""
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
