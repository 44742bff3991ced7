"""Replays files through an embedded broker and the same app as in production, until everything is stored.

It feeds the log, waits, and requests the final checkpoint.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from schemas.events import Event
from schemas.ignored_fields import IgnoredFields
from schemas.invalid import Invalid
from sinks.clickhouse import ClickHouseStore
from streams.address_keys import address_keys
from streams.clock import Clock, SystemClock
from streams.config.settings import Settings
from streams.engine.alerts.ineffective import faults_of
from streams.engine.pricing.book import PriceBook
from streams.engine.shard.books import Books
from streams.engine.shard.job_tables import DeadLetter
from streams.errors import TrainfareError, WrongUseError
from streams.from_settings import engine, notifier_of, shard_settings, target_of
from streams.notify.from_settings import links_of
from streams.replay import segments
from streams.replay.broker import EmbeddedBroker
from streams.replay.feeder import FeedStopped, LogFeeder, Place
from streams.replay.files import digest, read_lines
from streams.replay.lines import LineReader, Sendable
from streams.replay.prices import stored_book
from streams.replay.replayed_judge import LogJudge
from streams.replay.result import ReplayResult, result_of
from streams.replay.revisions import LedgerRevisions, LogParts
from streams.replay.segments import LogSegment, Replayed
from streams.topics import REFERENCE_TOPICS, SHARD_TOPICS, Topic
from streams.worker.ingest.watermarks import Mark, ReplayWatermarks
from streams.worker.ledger_judges.own_rules_judge import Heard
from streams.worker.meter import LogOrigin, Meter, NotifierOf
from streams.worker.options import ShardManagerOptions
from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.shards.ports import AlertSink
from streams.worker.storing.balances import WORTH_KEEPING, keep_settled

logger = logging.getLogger(__name__)

#: Nobody waits for a row or an alert, and each small insert is merged into the ones before it again. Many rows are stored before.
_CHECKPOINT_INTERVAL_MS: Final = 15_000
#: Twice a worker's: few large inserts need few merges.
_FLIGHT_MAX_BYTES: Final = 128 * 2**20
_SESSION_TIMEOUT_MS: Final = 90_000  # there is no other member to take over
_POLL_S: Final = 0.01
# A user waits for the command: report a full disk soon; the same command resumes where it stopped.
_STORE_RETRY_S: Final = 2.0
_STORE_PATIENCE_MS: Final = 10_000
_DELIVERY_TIMEOUT_MS: Final = 120_000  # a user waits for the command; unreachable receivers have this long
_TICK_POLL_MS: Final = 50
_PROGRESS_EVERY: Final = 1_000
_REFUSED_AT_ONCE: Final = 1_000
_CONTROL_FAULTS_AT_MOST: Final = 100

Progress = Callable[[int], None]


def run_replay(
    files: Sequence[Path],
    data: Path,
    as_of: int | None = None,
    append: bool = False,
    settings: Settings | None = None,
    advance: Progress | None = None,
    clock: Clock | None = None,
    deliver: bool = False,
    alert_sink: AlertSink | None = None,
    keeps_days: bool = False,
    heard: Heard | None = None,
) -> ReplayResult:
    """Meter the events of the files into the store of a directory; replaying the same files again changes nothing.

    `deliver`: send the alerts to their owners according to the settings; otherwise they are only judged and stored, and
    `alert_sink` is offered the changes of their status. `keeps_days`: what is asked of the store later finds the days that have
    ended ready, as behind a worker. `heard` hears how far rules by SQL are judged, a statement for each instant.

    Raises:
        WrongUseError: The files do not fit what was replayed into the directory.
        TrainfareError: The files cannot be read, or the store cannot be written.
    """
    started_s = time.monotonic()
    settings = Settings() if settings is None else settings
    clock = SystemClock() if clock is None else clock
    now_ms = clock.now_ms()
    digests = {path: digest(path) for path in files}
    if len(digests) < len(files):
        raise WrongUseError("a file is named twice; name each once")
    clickhouse = settings.clickhouse.model_copy(update={"data_dir": data})
    store = ClickHouseStore(target_of(clickhouse, retry_for_s=_STORE_RETRY_S))
    try:
        if store.lost_parts:
            raise TrainfareError(
                f"{data}: {store.lost_parts[0]} was set aside, its rows are missing, and what was metered "
                "is not metered twice; replay the files into an empty directory"
            )
        replayed = segments.load(store.meta, settings.kafka.partitions)
        segment = replayed.begin(digests, now_ms, append=append, where=data)
        if deliver and segment is not replayed.last:
            # The log continues after these files: their messages are sent, and no clock is set back.
            as_of = replayed.clock_ms(data)
        rows = 0
        if deliver or not segment.done or (segment is replayed.last and as_of != segment.as_of_ms):
            if segment.base and not segment.done and segment.prices is None:
                segment.prices = stored_book(store).events
            # until its last checkpoint: after a kill, rows of another accrual instant must not count as final
            segment.done = False
            segments.save(store.meta, replayed)
            # An alert that resolved in a log of last year is still worth sending if requested now.
            notifier = notifier_of(settings, store, clock, resolved_horizon_ms=None) if deliver else None
            replay = _Replay(
                store, settings, replayed, segment, list(files), as_of, advance, notifier, alert_sink, heard
            )
            rows = asyncio.run(replay.run())
            segments.save(store.meta, replayed)
        if keeps_days:
            keep_settled(store, WORTH_KEEPING)
        seconds = time.monotonic() - started_s
        return result_of(store, replayed.last.total, rows, seconds, segment)
    finally:
        store.close()


class _Replay:
    """One run of one segment."""

    def __init__(
        self,
        store: ClickHouseStore,
        settings: Settings,
        replayed: Replayed,
        segment: LogSegment,
        files: list[Path],
        as_of_ms: int | None,
        advance: Progress | None,
        notifier: NotifierOf | None = None,
        alert_sink: AlertSink | None = None,
        heard: Heard | None = None,
    ) -> None:
        self._heard = heard
        self._notifier = notifier
        self._alert_sink = alert_sink
        self._store = store
        self._settings = settings
        self._replayed = replayed
        self._segment = segment
        self._files = files
        self._as_of_ms = as_of_ms
        self._advance = advance
        self._stop = threading.Event()
        self._lines = LineReader(
            settings.kafka.topic_prefix,
            replayed.partitions,
            shard_settings(settings.meter, segment.run_start_ms).newest_allowed_ms(0),
            segment.clock(),
        )
        self._bad_lines = 0
        self._watermarks = ReplayWatermarks()
        self._revisions = LedgerRevisions()
        self._control_faults: list[str] = []
        self._ignored = IgnoredFields()

    async def run(self) -> int:
        """How many rows were written; the segment is done then."""
        with EmbeddedBroker() as broker:
            meter = self._meter(broker)
            if self._alert_sink is not None and meter.notifier is None:
                meter.shard_manager.checkpointer.alert_sink = self._alert_sink
            try:
                await meter.run(lambda: self._feed_and_finish(meter, broker))
            finally:
                self._stop.set()
            return sum(meter.shard_manager.totals.rows.values())

    def _meter(self, broker: EmbeddedBroker) -> Meter:
        given = {"partitions": self._replayed.partitions, "session_timeout_ms": _SESSION_TIMEOUT_MS}
        kafka = broker.host(self._settings.kafka.model_copy(update=given), "replay")
        meter = self._settings.meter
        shard = shard_settings(meter, self._segment.run_start_ms)
        options = ShardManagerOptions(
            topic_prefix=kafka.topic_prefix,
            as_of_ms=self._as_of,
            now_ms=SystemClock().monotonic_ms,
            checkpoint_interval_ms=_CHECKPOINT_INTERVAL_MS,
            open_attempts_interval_ms=None,
            flight_max_bytes=_FLIGHT_MAX_BYTES,
            fill_flights=True,
            hurries_alerts=False,
            caught_up_bytes=None,
            tick_poll_ms=_TICK_POLL_MS,
            max_backlog_bytes=meter.max_backlog_bytes,
            store_patience_ms=_STORE_PATIENCE_MS,
        )
        base = self._segment.base
        origin = LogOrigin(
            book=self._book(),
            reference={topic: base.get(topic, [0])[0] for topic in REFERENCE_TOPICS},
            at_next=True,
            controls=self._replayed.controls_before(self._segment),
            watermarks=self._watermarks,
        )
        return Meter(
            kafka,
            shard,
            options,
            self._store,
            engine(shard),
            origin=origin,
            notifier=self._notifier,
            address_keys=address_keys(self._settings.at_rest.keys),
        )

    def _book(self) -> PriceBook:
        """The prices of the log before the segment."""
        if self._segment.prices is not None:
            return PriceBook.empty().with_events(self._segment.prices)
        return stored_book(self._store) if self._segment.base else PriceBook.empty()

    def _as_of(self) -> int:
        return self._lines.newest_ms if self._as_of_ms is None else self._as_of_ms

    async def _feed_and_finish(self, meter: Meter, broker: EmbeddedBroker) -> None:
        numbers = range(self._replayed.partitions)
        await until(lambda: set(meter.shard_manager.owned) == set(numbers))
        view = meter.shard_manager.reference.view()  # before anything is merged
        base = self._segment.base
        places = [(str(topic), number) for topic in SHARD_TOPICS for number in numbers]
        skip = {place: _position(meter, place) - _at(base, place) for place in places}
        begin = {place: _position(meter, place) for place in places}
        begin |= {(str(topic), 0): _at(base, (topic, 0)) for topic in REFERENCE_TOPICS}
        feeder = LogFeeder(
            broker.bootstrap_servers,
            self._settings.kafka.topic_prefix,
            skip,
            lambda place: _read(meter, place) - begin[place],
            self._stop,
            lambda log_ms, counts: self._mark(log_ms, {p: _at(base, p) + n for p, n in counts.items()}),
        )
        if base:
            controls = tuple(self._replayed.controls_before(self._segment).values())
            await asyncio.to_thread(self._revisions.read, self._store, controls)
        parts = LogParts(self._records(meter, asyncio.get_running_loop()), self._revisions.is_one)
        with closing(LogJudge(self._store, view, links_of(self._settings), self._heard)) as judge:
            await self._feed_parts(meter, feeder, parts, judge)

    async def _feed_parts(self, meter: Meter, feeder: LogFeeder, parts: LogParts, judge: LogJudge) -> None:
        """Feed the log, and judge the rules across jobs after each part of it."""
        base = self._segment.base
        while True:
            try:
                await asyncio.to_thread(feeder.feed, parts.next())
            except FeedStopped:
                return
            ends = {place: _at(base, place) + count for place, count in feeder.counts.items()}
            before_ms = parts.following_ms
            # The accrual instant at the end: everything was sent.
            last_ms = max(self._lines.newest_ms, self._as_of()) if before_ms is None else before_ms - 1
            self._mark(last_ms, ends)
            await self._settle(meter, ends, last_ms)
            if before_ms is None:
                break
            await self._judge(meter, judge, before_ms)
        await self._finish(meter, ends, judge)

    async def _settle(self, meter: Meter, ends: Mapping[Place, int], last_ms: int) -> None:
        """Wait until everything that was sent is metered and judged; then store it."""
        await until(lambda: all(_position(meter, place) >= end for place, end in ends.items()))
        await until(lambda: all(has_judged(owned, last_ms) for owned in meter.shard_manager.owned.values()))
        # The checkpoint: open attempts accrue up to the accrual instant.
        await meter.shard_manager.settled()
        await meter.shard_manager.store_until_done()

    async def _judge(self, meter: Meter, judge: LogJudge, last_ms: int) -> None:
        """Judge the rules across jobs on what is stored, and offer what changed."""
        changes = await judge.judge(meter.shard_manager.owned[0], last_ms)
        meter.shard_manager.checkpointer.alert_sink.offer(changes, 0)

    def _mark(self, log_ms: int, counts: Mapping[Place, int]) -> None:
        self._watermarks.mark = Mark(log_ms, dict(counts))

    def _records(self, meter: Meter, loop: asyncio.AbstractEventLoop) -> Iterator[Sendable]:
        """Yield the records of all lines, in the feeder's thread; invalid lines become dead letters."""
        refused: list[DeadLetter] = []
        before = self._replayed.files_before(self._segment)
        lines = (line._replace(file=before + line.file) for line in read_lines(self._files))
        for count, record in enumerate(self._lines.records(lines), 1):
            if isinstance(record, Sendable) and record.topic == Topic.CONTROLS:
                self._note_faults(
                    record.event, f"{self._files[record.line[0] - before]} line {record.line[1]}"
                )
            if isinstance(record, Sendable):
                self._ignored.add(record.topic, record.value)
                yield record
            else:
                refused.append(record)
                self._bad_lines += 1
            if len(refused) >= _REFUSED_AT_ONCE:
                loop.call_soon_threadsafe(meter.shard_manager.refuse, refused, "lines")
                refused = []
            if self._advance is not None and count % _PROGRESS_EVERY == 0:
                self._advance(_PROGRESS_EVERY)
        if refused:
            loop.call_soon_threadsafe(meter.shard_manager.refuse, refused, "lines")

    def _note_faults(self, event: Event | Invalid | None, where: str) -> None:
        """Note why a control has no effect."""
        if event is not None and len(self._control_faults) < _CONTROL_FAULTS_AT_MOST:
            self._control_faults += [f"{where}: {detail}" for detail in faults_of(event)]

    async def _finish(self, meter: Meter, ends: dict[Place, int], judge: LogJudge) -> None:
        """Judge what is stored, and note where the log ends."""
        await self._judge(meter, judge, max(self._lines.newest_ms, self._as_of()))
        if meter.notifier is not None:
            left = await meter.notifier.drain(_DELIVERY_TIMEOUT_MS)
            if left:
                logger.warning(
                    "messages not delivered in time, run the same replay again",
                    extra={"messages": left, "runbook": "docs/trouble.md#messages-not-delivered"},
                )
        segment, numbers = self._segment, range(self._replayed.partitions)
        every = {(str(topic), number): 0 for topic in SHARD_TOPICS for number in numbers} | ends
        topics = [str(topic) for topic in Topic]
        before = {place: _at(segment.base, place) for place in every}
        segment.end = segments.counts(before | ends, topics, self._replayed.partitions)
        segment.end_newest_ms = self._lines.newest_ms
        segment.end_ahead = [*self._lines.clock.ahead.items()]
        segment.as_of_ms = self._as_of_ms
        segment.control_faults = self._control_faults
        segment.clocks_ahead = [*self._lines.clock.sentences()]
        segment.ignored_fields = [*self._ignored.sentences()]
        segment.failed_rules = judge.failed_rules()
        segment.controls = list(meter.shard_manager.reference.controls.items())
        bad = Books(records_in=self._bad_lines, dead_lettered=self._bad_lines)
        segment.books = meter.reader.books.plus(bad)
        segment.total = self._replayed.books()
        for owned in meter.shard_manager.owned.values():
            segment.total = segment.total.plus(owned.shard.books)
        segment.done, segment.prices = True, None


async def until(ready: Callable[[], bool]) -> None:
    """Wait until the condition holds."""
    while not ready():  # noqa: ASYNC110 - positions change with every batch, without an event
        await asyncio.sleep(_POLL_S)


def _position(meter: Meter, place: Place) -> int:
    """The next offset that the meter awaits, in the log of all segments."""
    topic, number = place
    if topic in REFERENCE_TOPICS:
        return int(meter.shard_manager.reference_next.get(topic, meter.reader.base.get(topic, 0)))
    owned = meter.shard_manager.owned.get(number)
    return 0 if owned is None else owned.shard.position.next.get(topic, 0)


def _read(meter: Meter, place: Place) -> int:
    """The next offset to read; records read may wait for their tick."""
    owned = meter.shard_manager.owned.get(place[1])
    return (
        _position(meter, place)
        if owned is None or place[0] in REFERENCE_TOPICS
        else owned.align.next_offset(place[0])
    )


def has_judged(owned: OwnedShard, last_ms: int) -> bool:
    """Whether all ticks up to an instant were judged."""
    return owned.align.tick_ms is None or (owned.shard.position.tick_ms or 0) > last_ms


def _at(base: dict[str, list[int]], place: tuple[str, int]) -> int:
    counts = base.get(place[0], [])
    return counts[place[1]] if place[1] < len(counts) else 0
