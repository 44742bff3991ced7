"""Wires the demo: a broker, the meter, its page and a receiver of alerts in one process, fed by a fleet."""

from __future__ import annotations

import asyncio
import base64
import heapq
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from pydantic import SecretStr

from schemas.durations import HOUR_MS
from sinks.clickhouse import ClickHouseStore
from streams.address_keys import address_keys
from streams.clock import Clock
from streams.config.settings import Settings
from streams.demo.catalog import TEAMS
from streams.demo.fleet import Fleet
from streams.demo.log import FleetLog
from streams.demo.pacer import Pacer, RecordSource, start_before
from streams.demo.records import DemoRecord
from streams.demo.rules import DemoRules
from streams.demo.stories import Stories
from streams.demo.story import captions
from streams.demo.summary import Summary, summary_of
from streams.engine.shard.books import Books
from streams.from_settings import engine, notifier_of, open_store, shard_settings
from streams.notify.webhooks.receiver import Received, WebhookReceiver
from streams.replay.broker import EmbeddedBroker
from streams.replay.replay import until
from streams.web import descriptors
from streams.web.local_access import LocalAccess, served
from streams.web.server import WebServer
from streams.worker.health.status import StatusCollector
from streams.worker.health.worker_status import WorkerStatus
from streams.worker.ingest.watermarks import ReplayWatermarks
from streams.worker.log_time import LogTime
from streams.worker.meter import LogOrigin, Meter
from streams.worker.options import ShardManagerOptions
from streams.worker.startup import stopped_by_signals

_PARTITIONS: Final = 2
_CHECKPOINT_INTERVAL_MS: Final = 500
_OPEN_ATTEMPTS_INTERVAL_MS: Final = 1_000  # a minute of the fleet's time
_TICK_POLL_MS: Final = 50
_DELIVERY_TIMEOUT_MS: Final = 5_000
_SECRET_BYTES: Final = 32
#: How long messages wait for others, in the fleet's time.
_WAITS: Final = ("incident_wait_ms", "group_wait_ms", "group_interval_ms", "repeat_interval_ms")


@dataclass(frozen=True)
class DemoOptions:
    """How fast, and for how long; None: until it is stopped."""

    speed: float = 60.0
    seconds: float | None = None
    seed: int = 1


@dataclass(frozen=True)
class Stage:
    """What a screen needs once everything runs."""

    url: str
    now_ms: Callable[[], int]  # the fleet's clock
    link: str  # the page with the token in it, for a terminal only
    token_path: Path | None = None  # where the token is kept


class Screen(Protocol):
    """Shows the demo."""

    def received(self, message: Received) -> None:
        """Show an alert that arrived at its owner's address."""

    def happens(self, time_ms: int, what: str) -> None:
        """Show an action or a fault at an instant of the fleet's clock."""

    async def show(self, stage: Stage) -> None:
        """Show what happens until cancelled; returning earlier ends the demo."""


def run_demo(settings: Settings, options: DemoOptions, screen: Screen, clock: Clock) -> Summary:
    """Run the demo to its end; `settings` has the store's directory and the page's address."""
    store = open_store(settings.clickhouse)
    try:
        store.meta.set_once("log", f"demo {secrets.token_hex(8)}", "give each demo a directory of its own")
        return asyncio.run(_Demo(settings, options, screen, clock, store).run())
    finally:
        store.close()


class _Demo:
    def __init__(
        self, settings: Settings, options: DemoOptions, screen: Screen, clock: Clock, store: ClickHouseStore
    ) -> None:
        self._settings = settings
        self._options = options
        self._screen = screen
        self._clock = clock
        self._store = store
        self._start_ms = start_before(clock.now_ms(), options.speed, options.seconds)
        self._stop = asyncio.Event()
        self._pacer: Pacer | None = None
        self._watch: StatusCollector | None = None
        self._books = Books()
        self._played_ms = 0
        self._door = LocalAccess(settings.web, settings.clickhouse.data_dir, settings.at_rest.keys)

    async def run(self) -> Summary:
        """The summary; everything is closed then."""
        secret = "whsec_" + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()
        receiver = WebhookReceiver(secret, self._screen.received)
        descriptors.raise_limit()
        async with stopped_by_signals(self._stop), served(self._server(), self._door) as url:
            await receiver.start()
            try:
                with EmbeddedBroker() as broker:
                    await self._meter(self._wired(broker, receiver, secret), broker, receiver.url, url)
            finally:
                await receiver.stop()
        event_hours = (self._now_ms() - self._start_ms) / HOUR_MS
        return summary_of(self._store, self._books, self._played_ms / 1_000, event_hours)

    def _wired(self, broker: EmbeddedBroker, receiver: WebhookReceiver, secret: str) -> Settings:
        """The settings with the embedded components in place of the configured ones."""
        settings = self._settings
        partitions = settings.kafka.model_copy(update={"partitions": _PARTITIONS})
        kafka = broker.host(partitions, "demo")
        alerts = settings.alerts.model_copy(
            update={
                "webhook_secret": SecretStr(secret),
                "default_webhook": SecretStr(receiver.url),
                "allow_hosts": receiver.host_port,
                # Otherwise a page would be half an hour late by the fleet's clock.
                **{name: round(getattr(settings.alerts, name) / self._options.speed) for name in _WAITS},
            }
        )
        return settings.model_copy(update={"kafka": kafka, "alerts": alerts})

    def _server(self) -> WebServer:
        return WebServer(
            self._settings.web,
            lambda: self._store,
            self._status,
            self._clock.monotonic_ms,
            speed=self._options.speed,
            query=self._settings.query,
            calendar=self._settings.calendar.calendar(),
            local_token=self._door.token,
            docs_url=self._settings.alerts.docs_url,
        )

    def _status(self) -> WorkerStatus:
        return WorkerStatus() if self._watch is None else self._watch.collect()

    def _now_ms(self) -> int:
        return self._start_ms if self._pacer is None else self._pacer.now_ms()

    async def _meter(self, settings: Settings, broker: EmbeddedBroker, webhook: str, url: str) -> None:
        kafka = settings.kafka
        options = ShardManagerOptions(
            topic_prefix=kafka.topic_prefix,
            as_of_ms=self._now_ms,
            now_ms=self._clock.monotonic_ms,
            checkpoint_interval_ms=_CHECKPOINT_INTERVAL_MS,
            open_attempts_interval_ms=_OPEN_ATTEMPTS_INTERVAL_MS,
            tick_poll_ms=_TICK_POLL_MS,
            max_backlog_bytes=settings.meter.max_backlog_bytes,
        )
        shard, watermarks = shard_settings(settings.meter), ReplayWatermarks()
        factory = await asyncio.to_thread(engine, shard)
        meter = Meter(
            kafka,
            shard,
            options,
            self._store,
            factory,
            origin=LogOrigin(watermarks=watermarks),
            notifier=notifier_of(settings, self._store, self._clock),
            address_keys=address_keys(settings.at_rest.keys),
        )
        self._watch = StatusCollector(
            meter.shard_manager,
            lambda: meter.app.meter_consumer if meter.app.started else None,
            kafka,
            LogTime(self._clock),
        )
        log = FleetLog(broker, kafka.topic_prefix, _PARTITIONS, meter, watermarks)
        rules = DemoRules(self._store, meter.shard_manager, self._now_ms, self._clock, self._options.speed)
        await meter.run(lambda: self._play(meter, log, rules, webhook, url))

    async def _play(self, meter: Meter, log: FleetLog, rules: DemoRules, webhook: str, url: str) -> None:
        await until(lambda: self._stop.is_set() or set(meter.shard_manager.owned) == set(range(_PARTITIONS)))
        start_ms, seed = self._start_ms, self._options.seed
        stories = Stories(start_ms)
        fleet = Fleet(start_ms, seed, dict.fromkeys(sorted({*TEAMS, *stories.owners}), webhook))
        captions_shown = _Captions(
            heapq.merge(captions(seed), stories.captions()),
            lambda at, what: self._screen.happens(start_ms + at, what),
        )

        async def feed(records: list[DemoRecord], to_ms: int) -> None:
            await log.add(records, start_ms, to_ms)
            captions_shown.show_until(to_ms - start_ms)

        together = _Together(fleet, stories)
        self._pacer = pacer = Pacer(together, feed, start_ms, self._options.speed, self._clock, asyncio.sleep)
        stage = Stage(url, pacer.now_ms, self._door.link(url), self._door.token_path)
        showing = asyncio.ensure_future(self._screen.show(stage))
        showing.add_done_callback(lambda _: self._stop.set())
        judging: asyncio.Future[None] | None = None
        try:
            await log.add(together.advance(start_ms), start_ms, start_ms)
            await self._stored(meter, log, start_ms)
            judging = asyncio.ensure_future(rules.run())
            judging.add_done_callback(lambda _: self._stop.set())
            began_ms = self._clock.monotonic_ms()
            await pacer.play(self._stop, self._options.seconds)
            self._played_ms = self._clock.monotonic_ms() - began_ms
            await self._stored(meter, log, pacer.now_ms())
            rules.end()
            await judging
            await self._finish(meter)
        finally:
            log.stop()
            if judging is not None:
                judging.cancel()
            showing.cancel()
            (shown,) = await asyncio.gather(showing, return_exceptions=True)
        if isinstance(shown, Exception):
            raise shown

    async def _stored(self, meter: Meter, log: FleetLog, to_ms: int) -> None:
        """Wait until every record up to an instant is metered, judged and stored."""
        await log.metered(to_ms)
        await meter.shard_manager.settled()
        await meter.shard_manager.store_until_done()

    async def _finish(self, meter: Meter) -> None:
        """Wait until every message is delivered, and add up the books."""
        if meter.notifier is not None:
            await meter.notifier.drain(_DELIVERY_TIMEOUT_MS)
        self._books = meter.reader.books
        for owned in meter.shard_manager.owned.values():
            self._books = self._books.plus(owned.shard.books)


class _Together:
    """The records of several sources, in order of time."""

    def __init__(self, *sources: RecordSource) -> None:
        self._sources = sources

    def advance(self, to_ms: int) -> list[DemoRecord]:
        parts = [source.advance(to_ms) for source in self._sources]
        return list(heapq.merge(*parts, key=lambda record: record.time_ms))


class _Captions:
    """Shows each caption once its time has come."""

    def __init__(self, captions: Iterator[tuple[int, str]], print_line: Callable[[int, str], None]) -> None:
        self._captions = captions
        self._next = next(captions)
        self._print_line = print_line

    def show_until(self, to_ms: int) -> None:
        while self._next[0] <= to_ms:
            self._print_line(*self._next)
            self._next = next(self._captions)
