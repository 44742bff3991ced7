"""Dead letters: how many of a flood are kept, and which records of the log are letters that came back.

Functions of the log alone, however it is cut into batches; it must not refuse anything, nor count it: all are
counted elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

#: A record that was a dead letter at topic/partition/offset, sent again.
REPLAY_HEADER: Final = "trainfare-replay-of"
RAW_BYTES_AT_MOST: Final = 64 * 1024
#: Of a flood, one in so many is kept, with so much of it.
SAMPLE_EVERY: Final = 100
SAMPLE_RAW_BYTES: Final = 1024
#: Kept whole per topic, reason and minute, however few they are.
WHOLE_BYTES_PER_MINUTE: Final = 16 * 2**20
_MINUTE_MS: Final = 60_000
_PLACE: Final = re.compile(r"([a-z]{1,20})/(\d{1,10})/(\d{1,18})")
_LATE_BY: Final = re.compile(r"is (\d+) ms before the newest event")
_LATE_SAMPLE: Final = re.compile(r"begins more than (\d+) ms before its newest second")

#: topic -> reason -> the newest minute of log time, and how many letters and bytes kept whole there were in it.
Minutes = dict[str, dict[str, tuple[int, int, int]]]


class RecordPosition(NamedTuple):
    """Where a record is in the log; the topic without its prefix."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


class Replay(NamedTuple):
    """A dead letter that came back."""

    place: RecordPosition
    log_ms: int
    to_partition: int
    to_offset: int


class Quota:
    """Per topic, reason and minute of log time so many letters are kept whole, then a sample of them.

    `per_minute`: None keeps everything.  Letters of a topic must be asked for in the order of their offsets.
    """

    def __init__(self, per_minute: int | None) -> None:
        self._per_minute = per_minute
        self._minutes: Minutes = {}

    def raw_bytes(self, topic: str, reason: str, log_ms: int, size_bytes: int) -> int | None:
        """How much of this letter's record is kept; None: only its count."""
        if self._per_minute is None:
            return RAW_BYTES_AT_MOST
        minute, reasons = log_ms // _MINUTE_MS, self._minutes.setdefault(topic, {})
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
        """The inverse of `dump`."""
        self._minutes = {topic: dict(reasons) for topic, reasons in minutes.items()}


def place_of(text: str) -> RecordPosition | None:
    """The place that `topic/partition/offset` names."""
    found = _PLACE.fullmatch(text)
    return None if found is None else RecordPosition(found[1], int(found[2]), int(found[3]))


def replay_of(headers: Sequence[tuple[str, bytes | None]], at: RecordPosition) -> RecordPosition | None:
    """The dead letter that the record at a place is; it comes back in its own partition, behind where it was."""
    for name, value in headers:
        if name == REPLAY_HEADER and value is not None:
            place = place_of(value.decode("ascii", "replace"))
            if place is not None and place[:2] == at[:2] and place.offset < at.offset:
                return place
    return None


def is_late_again(detail: str, job_horizon_ms: int, late_horizon_ms: int) -> bool:
    """Whether what was too late with this detail is so for certain under these horizons: the newest only grows."""
    if (found := _LATE_BY.search(detail)) is not None:
        return int(found[1]) > job_horizon_ms
    if (found := _LATE_SAMPLE.search(detail)) is not None:
        return int(found[1]) >= late_horizon_ms
    return False
