"""Converts a line of a file to a record of the log: its topic, partition, value, and the log time it gets."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from schemas.decode import decode
from schemas.events import Event
from schemas.invalid import Invalid
from schemas.reasons import Reason
from schemas.redaction import WITHHELD, is_secret, kept_raw
from schemas.wire_types import MAX_KEY_BYTES
from streams.engine.shard.job_tables import DeadLetter
from streams.keys import key_of
from streams.packed import LINE_MAX_BYTES
from streams.replay.files import FileLine
from streams.replay.log_clock import LOOK_AHEAD, LogClock
from streams.topics import SHARD_TOPICS, Topic
from streams.transport.partitions import partition_of

#: The topic name of lines without an event: `partition` is the file's index, `offset` the line's number.
LINES_TOPIC: Final = "replay"
#: Lines read ahead take so much memory at most.
_AHEAD_BYTES: Final = 16 * 2**20
_RAW_BYTES_AT_MOST: Final = 64 * 1024
_TOPICS: Final = frozenset(topic.value for topic in Topic)
_SHARD_TOPICS: Final = frozenset(topic.value for topic in SHARD_TOPICS)
_NULL: Final = b"null"


class _Envelope(msgspec.Struct):
    topic: str
    value: msgspec.Raw
    headers: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class OpenedLine:
    """A line's envelope, and the event in it or why there is none; `topic` is without prefix."""

    topic: str
    value: bytes | None
    headers: list[tuple[str, bytes]]
    event: Event | Invalid
    line: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Sendable:
    """A record to produce."""

    topic: str
    partition: int
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]
    log_ms: int
    key: bytes
    event: Event | Invalid | None = None
    line: tuple[int, int] = (0, 0)  # the file's index, the line's number


@dataclass
class LineReader:
    """Lines in log order; `clock` says at which log time each was read."""

    topic_prefix: str
    partitions: int
    newest_allowed_ms: int
    clock: LogClock = field(default_factory=LogClock)
    _decoder: msgspec.json.Decoder[_Envelope] = field(default_factory=lambda: msgspec.json.Decoder(_Envelope))

    @property
    def newest_ms(self) -> int:
        """The log time so far."""
        return self.clock.newest_ms

    def open(self, line: FileLine) -> OpenedLine | DeadLetter:
        """What is in the line's envelope, or the dead letter of a line that is none."""
        if not line.is_whole:
            return self._refused(
                line, Reason.oversize, f"line: got more bytes, expected at most {LINE_MAX_BYTES}"
            )
        try:
            envelope = self._decoder.decode(line.data)
        except msgspec.ValidationError as fault:
            return self._refused(line, Reason.bad_envelope, f"line: {fault}")
        except (msgspec.DecodeError, ValueError, RecursionError) as fault:
            return self._refused(line, Reason.malformed_json, f"line: {fault}")
        topic = envelope.topic.removeprefix(self.topic_prefix)
        if topic not in _TOPICS:
            got = WITHHELD if is_secret(LINES_TOPIC, line.data) else repr(topic[:100])
            expected = ", ".join(sorted(_TOPICS))
            return self._refused(
                line, Reason.unknown_topic, f"field `topic`: got {got}, expected one of {expected}"
            )
        raw = bytes(envelope.value)
        value = None if raw == _NULL else raw
        headers = [(name, text.encode()) for name, text in (envelope.headers or {}).items()]
        event = decode(topic, value, headers, self.newest_allowed_ms)
        return OpenedLine(topic, value, headers, event, (line.file, line.number))

    def records(self, lines: Iterable[FileLine]) -> Iterator[Sendable | DeadLetter]:
        """Yield the record of each line, or the dead letter of an invalid one."""
        ahead = _ReadAhead(self.open(line) for line in lines)
        for opened in ahead:
            if isinstance(opened, DeadLetter):
                yield opened._replace(log_ms=self.newest_ms)
                continue
            if not isinstance(opened.event, Invalid):
                self.clock.read(opened.event, ahead.events())
            yield self._sendable(opened)

    def _sendable(self, opened: OpenedLine) -> Sendable:
        topic, value = opened.topic, opened.value
        # Even truncated, it differs from any valid key, and passes through the broker beside its record.
        key = b"" if value is None else key_of(Topic(topic), value)[:MAX_KEY_BYTES]
        partition = partition_of(key, self.partitions) if topic in _SHARD_TOPICS else 0
        return Sendable(
            topic, partition, value, [*opened.headers], self.newest_ms, key, opened.event, opened.line
        )

    def _refused(self, line: FileLine, reason: Reason, detail: str) -> DeadLetter:
        raw = kept_raw(LINES_TOPIC, reason, line.data.rstrip(b"\r\n"))[:_RAW_BYTES_AT_MOST]
        return DeadLetter(LINES_TOPIC, line.file, line.number, str(reason), detail, raw, self.newest_ms)


class _ReadAhead:
    """Lines in their order, of which those that follow can be looked at before their turn."""

    def __init__(self, lines: Iterator[OpenedLine | DeadLetter]) -> None:
        self._lines = lines
        self._waiting: deque[OpenedLine | DeadLetter] = deque()
        self._waiting_bytes = 0

    def __iter__(self) -> Iterator[OpenedLine | DeadLetter]:
        while True:
            if self._waiting:
                line = self._waiting.popleft()
                self._waiting_bytes -= _size_bytes(line)
                yield line
            elif (read := next(self._lines, None)) is not None:
                yield read
            else:
                return

    def events(self) -> Iterator[Event]:
        """Yield the events that follow, as many as may be looked at."""
        for place in range(LOOK_AHEAD):
            if place == len(self._waiting):
                line = None if self._waiting_bytes > _AHEAD_BYTES else next(self._lines, None)
                if line is None:
                    return
                self._waiting.append(line)
                self._waiting_bytes += _size_bytes(line)
            waiting = self._waiting[place]
            if isinstance(waiting, OpenedLine) and not isinstance(waiting.event, Invalid):
                yield waiting.event


def _size_bytes(line: OpenedLine | DeadLetter) -> int:
    return len(line.raw if isinstance(line, DeadLetter) else line.value or b"")
