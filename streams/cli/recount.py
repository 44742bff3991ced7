"""`trainfare audit --recount FROM TO`: reads the log again, and compares the ledger's rows with the result.

It must write only through `insert`, for a repair. The engine is the meter's own, in memory, one shard at a time for
Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from schemas.decode import decode
from schemas.durations import NEVER_MS
from schemas.events import PriceEvent
from schemas.reserved import FIRST_BACKFILL_SHARD
from streams.config.settings import Settings
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import FUTURE_MS
from streams.errors import WrongUseError
from streams.from_settings import shard_settings
from streams.replay.files import FileLine, digest, read_lines
from streams.replay.lines import LineReader, Sendable
from streams.replay.segments import LOG_KEY, LOG_OF_FILES, LogSegment, Replayed
from streams.selfcheck.audit import tables
from streams.selfcheck.canary.key import canary_proof
from streams.selfcheck.recount.recount import LEDGERS, Recount, Span, compare
from streams.selfcheck.recount.recount_result import RecountResult
from streams.selfcheck.recount.repair import rows_of
from streams.selfcheck.recount.replayed_log import ReplayedLog
from streams.topics import SHARD_TOPICS, Topic
from streams.transport.cluster import cluster_of, log_name

Advance = Callable[[int], None]
#: Inserts rows into a table.
Insert = Callable[[str, pa.Table], None]

_REACH_S: Final = 5.0
_AT_ONCE: Final = 2_000
_PRICES: Final = str(Topic.PRICES)
_SHARD_TOPICS: Final = frozenset(map(str, SHARD_TOPICS))
#: Differences that are described; the others are counted.
DIFFERENCES_SHOWN: Final = 10


def instant_ms(text: str) -> int:
    """Parse an instant: ms since 1970 UTC, or ISO 8601 (UTC by default).

    Raises:
        WrongUseError: The text is neither.
    """
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise WrongUseError(
            f"{text}: no instant; expected ms since 1970 or e.g. 2026-11-21T12:00 (UTC)"
        ) from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def span_of(begin: str, end: str) -> Span:
    """The minutes of event time between two instants.

    Raises:
        WrongUseError: They are no interval.
    """
    span = Span(instant_ms(begin), instant_ms(end))
    if span.from_ms >= span.until_ms:
        raise WrongUseError(f"--recount {begin} {end}: the second instant must be later than the first")
    return span


def recount(
    ask: tables.Ask,
    settings: Settings,
    span: Span,
    files: Sequence[Path],
    advance: Advance,
    insert: Insert | None = None,
) -> RecountResult:
    """Compare the rows of a span with the log that the store was built from.

    `insert`: inserts rows into a table; wrong rows are then rewritten, and compared once more.

    Raises:
        WrongUseError: The files are not those of the store's log, or the span begins before the minutes kept.
    """
    kept_from = tables.minutes_kept_from(ask)
    if kept_from:
        first = datetime(kept_from // 100, kept_from % 100, 1, tzinfo=UTC)
        if span.from_ms < first.timestamp() * 1000:
            raise WrongUseError(
                f"minutes before {first:%Y-%m-%d} were dropped (meter.minutes_retention_days), so that nothing is left to "
                f"compare; begin at {first:%Y-%m-%d} or later"
            )
    log = tables.of_store(ask, LOG_KEY)
    if log == LOG_OF_FILES:
        return _of_files(ask, settings, span, files, advance, insert)
    if files:
        raise WrongUseError(f"this store was made from {log or 'no log'}, not from files; leave them out")
    here = log_name(settings.kafka, cluster_of(settings.kafka, _REACH_S))
    if log != here:
        raise WrongUseError(
            f"this store was made from {log or 'no log'}, but the settings name {here}; set kafka.bootstrap_servers "
            "and kafka.topic_prefix to the log it came from"
        )
    return _of_kafka(ask, settings, span, advance, insert)


# -- from Kafka --------------------------------------------------------------------------------------------


def _of_kafka(
    ask: tables.Ask, settings: Settings, span: Span, advance: Advance, insert: Insert | None
) -> RecountResult:
    result = RecountResult()
    proof = canary_proof(settings)
    shard = replace(shard_settings(settings.meter), partitions=settings.kafka.partitions, canary=proof)
    log = ReplayedLog(settings.kafka)
    try:
        book = log.book(shard.newest_allowed_ms, proof)
        for number, stand in sorted(tables.shard_positions(ask).items()):
            if number >= FIRST_BACKFILL_SHARD:
                continue  # its log is the files of the backfill
            # A fixed accrual instant does not tell when a record arrived.
            paid_ms = stand.paid_ms if settings.meter.as_of_ms is None else NEVER_MS
            again = Recount(number, shard, book, span, paid_ms)
            for batch in log.batches(number, stand.ends):
                again.feed(batch)
                advance(len(batch.records))
            again.finish(stand.paid_ms)
            lost = log.truncated(number, stand.ends)
            # An event's time may exceed its append time by this much.
            before_ms = max((start.log_ms for start in lost.values()), default=0) + FUTURE_MS
            unverifiable = tables.older(ask, number, min(before_ms, 2**53)) if lost else []
            _compare(ask, result, again, stand.version, unverifiable, insert)
    finally:
        log.close()
    return result


def _compare(
    ask: tables.Ask,
    result: RecountResult,
    again: Recount,
    version: int,
    unverifiable: Sequence[str],
    insert: Insert | None,
) -> None:
    number = again.shard.number
    stored = {table: tables.ledger(ask, table, number, again.span, version) for table in LEDGERS}
    if insert is not None:
        skip = again.unsettled | frozenset(unverifiable)
        for table in LEDGERS:
            _, wrong = compare(table, again.rows[table], stored[table], skip)
            if wrong:
                insert(table, rows_of(table, wrong, number, version))
                result.put_back += len(wrong)
                stored[table] = tables.ledger(ask, table, number, again.span, version)
    result.add(again, stored, list(unverifiable), DIFFERENCES_SHOWN)


# -- from files --------------------------------------------------------------------------------------------


def _of_files(
    ask: tables.Ask,
    settings: Settings,
    span: Span,
    files: Sequence[Path],
    advance: Advance,
    insert: Insert | None,
) -> RecountResult:
    replayed = msgspec.json.decode(tables.of_store(ask, "replayed") or "", type=Replayed)
    parts = list(_parts(replayed, files))
    as_of_ms = replayed.clock_ms(Path("--data"))
    book = PriceBook.empty().with_events(
        event for segment, paths in parts for event in _prices(settings, replayed, segment, paths)
    )
    first = shard_settings(settings.meter, parts[0][0].run_start_ms)
    shards = [Recount(number, first, book, span) for number in range(replayed.partitions)]
    ends: dict[tuple[str, int], int] = {}
    for segment, paths in parts:
        for again in shards:
            again.shard.enter_run(segment.run_start_ms)
        for batch in _batches(_records(settings, replayed, segment, paths), ends):
            shards[batch.partition].feed(batch)
            advance(len(batch.records))
    stands, result = tables.shard_positions(ask), RecountResult()
    for again in shards:
        again.finish(as_of_ms)
        number = again.shard.number
        version = stands[number].version if number in stands else 2**63
        _compare(ask, result, again, version, (), insert if number in stands else None)
    return result


def _parts(replayed: Replayed, files: Sequence[Path]) -> Iterator[tuple[LogSegment, list[Path]]]:
    """Yield each replay with its files, which must be those that were replayed, in their order."""
    left = list(files)
    for segment in replayed.segments:
        paths, left = left[: len(segment.files)], left[len(segment.files) :]
        if [digest(path) for path in paths] != segment.files:
            break
        yield segment, paths
    else:
        if not left:
            return
    count = sum(len(segment.files) for segment in replayed.segments)
    raise WrongUseError(
        f"a replay is recounted from its files: name the {count} that were replayed into this directory, in their "
        f"order{'; the contents of these are others' if files else ''}"
    )


def _reader(settings: Settings, replayed: Replayed, segment: LogSegment) -> LineReader:
    allowed_ms = shard_settings(settings.meter, segment.run_start_ms).newest_allowed_ms(0)
    reader = LineReader(settings.kafka.topic_prefix, replayed.partitions, allowed_ms)
    reader.clock = segment.clock()
    return reader


def _prices(
    settings: Settings, replayed: Replayed, segment: LogSegment, paths: Sequence[Path]
) -> Iterator[PriceEvent]:
    reader = _reader(settings, replayed, segment)
    for record in _sendable(reader, (line for line in read_lines(paths) if _PRICES.encode() in line.data)):
        if record.topic == _PRICES:
            event = decode(_PRICES, record.value, _headers(record), reader.newest_allowed_ms)
            if isinstance(event, PriceEvent):
                yield event


def _records(
    settings: Settings, replayed: Replayed, segment: LogSegment, paths: Sequence[Path]
) -> Iterator[Sendable]:
    for record in _sendable(_reader(settings, replayed, segment), read_lines(paths)):
        if record.topic in _SHARD_TOPICS:
            yield record


def _sendable(reader: LineReader, lines: Iterator[FileLine]) -> Iterator[Sendable]:
    return (record for record in reader.records(lines) if isinstance(record, Sendable))


def _headers(record: Sendable) -> list[tuple[str, bytes]]:
    return [
        (name, value if isinstance(value, bytes) else str(value or "").encode())
        for name, value in record.headers
    ]


def _batches(records: Iterator[Sendable], ends: dict[tuple[str, int], int]) -> Iterator[LogBatch]:
    """Yield the records by topic and partition, in order; `ends` are advanced."""
    waiting: dict[tuple[str, int], list[LogRecord]] = {}

    def batch(place: tuple[str, int]) -> LogBatch:
        found = waiting.pop(place)
        return LogBatch(*place, found[0].offset, found[-1].offset + 1, found)

    for record in records:
        place = (record.topic, record.partition)
        offset = ends.get(place, 0)
        ends[place] = offset + 1
        waiting.setdefault(place, []).append(LogRecord(offset, record.log_ms, record.value, _headers(record)))
        if len(waiting[place]) >= _AT_ONCE:
            yield batch(place)
    for place in list(waiting):
        yield batch(place)
