"""Wires the whole meter: the Faust app, the shard manager, the reference reader and the store.

It must not contain logic: `streams.engine` meters a record, `streams.worker` stores it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from schemas.events import ControlEvent
from schemas.validate_requests import are_actions_confirmed
from sinks.clickhouse import ClickHouseStore
from sinks.errors import SinkBusy
from sinks.meta import Meta
from sinks.port import Store
from streams.address_keys import address_keys
from streams.clock import Clock, SystemClock
from streams.config.confirmers import confirmers_of
from streams.config.settings import KafkaSettings, Settings
from streams.engine.reference_log import ReferenceLog, Standing
from streams.from_settings import engine, notifier_of, open_store, shard_settings, target_of
from streams.notify.from_settings import links_of, notifier_options
from streams.notify.receiver_check import ReceiverCheck
from streams.notify.webhooks.guard import ReceiverGuard
from streams.notify.webhooks.sender import Sender
from streams.selfcheck.alerts.self_watch import SelfWatch
from streams.selfcheck.audit.live import LiveAudit, asking
from streams.selfcheck.audit.verdict import Verdict
from streams.selfcheck.canary.key import canary_proof
from streams.selfcheck.recount.committed import committed
from streams.selfcheck.seals import keep_sealing
from streams.topics import full_name
from streams.transport.admin import DEAD_LETTER_TOPIC
from streams.transport.cluster import FoundLog, KafkaUnreachableError, find_log, log_name
from streams.transport.faust_types import TP, ConsumerNotStarted
from streams.transport.record_writer import RecordWriter
from streams.transport.security import librdkafka_config
from streams.web.last_audit import LastAudit
from streams.web.local_access import LocalAccess
from streams.web.record_log import Writers
from streams.web.server import WebServer
from streams.web.token_records import token_file_of
from streams.worker.health.memory import release_free_pages
from streams.worker.health.ownership import Ownership
from streams.worker.health.probe import Probe
from streams.worker.health.stall import StallLimits
from streams.worker.health.status import StatusCollector
from streams.worker.health.worker_status import WorkerStatus
from streams.worker.ledger_judges.action_requester import ActionOptions, ActionRequester
from streams.worker.ledger_judges.known_alerts import SHARD
from streams.worker.ledger_judges.known_log import known_log
from streams.worker.ledger_judges.live_judge import LedgerRules
from streams.worker.ledger_judges.rule_rows import RuleRowWriter
from streams.worker.log_time import LogTime, MessageTime
from streams.worker.meter import Meter
from streams.worker.options import ShardManagerOptions
from streams.worker.receipts.request_messages import RequestMessages
from streams.worker.startup import Startup, stopped_by_signals
from streams.worker.storing.balances import keep_balances
from streams.worker.storing.dead_letters import DeadLetterProducer
from streams.worker.storing.retention import keep_dropping
from streams.worker.supervise import beside

logger = logging.getLogger(__name__)

_REACH_S: Final = 3.0
_LOOK_EVERY_S: Final = 1.0
_GIVE_BACK_EVERY_S: Final = 30.0


def requester_of(
    settings: Settings, store: Store, clock: Clock, is_confirmed: Callable[[], bool]
) -> Callable[[RuleRowWriter], ActionRequester]:
    """A function that makes what asks for the actions of budgets; `is_confirmed`: whether they may be sent."""
    actions, alerts = settings.actions, settings.alerts
    secret = actions.webhook_secret or alerts.webhook_secret
    options = ActionOptions(
        mode=actions.mode,
        address_keys=address_keys(settings.at_rest.keys),
        webhook=None if actions.webhook is None else actions.webhook.get_secret_value(),
        secrets=() if secret is None else tuple(secret.get_secret_value().split()),
        grace_ms=actions.grace_ms,
        max_attempts=alerts.max_attempts,
    )
    sender = Sender(ReceiverGuard(alerts.allow_hosts), timeout_ms=alerts.timeout_ms)
    return lambda writer: ActionRequester(store, writer, sender, options, clock, is_confirmed=is_confirmed)


def bind_store_to_log(meta: Meta, kafka: KafkaSettings, found: FoundLog) -> None:
    """Bind the store to one log and partition count: with others, jobs would be mixed up.

    Raises:
        StoreMismatch: The store belongs to another log.
    """
    meta.set_once("log", log_name(kafka, found.cluster_id), "give each log a store of its own")
    meta.set_once("partitions", str(kafka.partitions), "the partition count of a log cannot change")
    for name, topic_id in found.topic_ids.items():
        # A topic recreated under its name may have more records than were metered, and the first of them would be lost.
        hint = "the topic was made anew: begin anew with another group and an empty store"
        meta.set_once(f"id of topic {name}", topic_id, hint)


def kafka_writers(kafka: KafkaSettings) -> Writers:
    """Producers that connect at their first write."""
    config = librdkafka_config(kafka)
    return Writers(
        RecordWriter(config, kafka.topic_prefix, "events"),
        RecordWriter(config, kafka.topic_prefix, "controls"),
    )


#: Settings that say how far figures can be trusted and what the worker does by itself.
_SHOWN: Final = (
    "kafka.partitions",
    "meter.checkpoint_interval_ms",
    "meter.job_horizon_ms",
    "meter.late_horizon_ms",
    "meter.minutes_retention_days",
    "actions.mode",
    "canary.enabled",
    "query.enabled",
)


def shown_settings(settings: Settings) -> dict[str, Any]:
    """The settings that the page of the meter shows, by name; none is a secret."""
    found: dict[str, Any] = {}
    for name in _SHOWN:
        group, _, field = name.partition(".")
        found[name] = getattr(getattr(settings, group), field)
    return found


def run_worker(settings: Settings, clock: Clock | None = None, writers: Writers | None = None) -> None:
    """Meter the configured log until SIGTERM or SIGINT; `writers`: of a log in this process, instead of Kafka clients.

    Raises:
        TrainfareError: A fault that an operator must fix.
    """
    asyncio.run(Worker(settings, SystemClock() if clock is None else clock, writers).run())


class Worker:
    """One worker process: the web server first, then its dependencies, then the meter. Call `run` once."""

    def __init__(self, settings: Settings, clock: Clock, writers: Writers | None = None) -> None:
        self._settings = settings
        self._writers = kafka_writers(settings.kafka) if writers is None else writers
        self._clock = LogTime(clock)
        self._stop = asyncio.Event()
        self._startup = Startup(self._stop)
        self._store: ClickHouseStore | None = None
        self._watch: StatusCollector | None = None
        self._audit: LiveAudit | None = None
        self._receiver_check: ReceiverCheck | None = None
        self._standing: Callable[[], Standing] = dict  # the controls in force, once they are read
        self._issued: Callable[[], Mapping[bytes, ControlEvent] | None] = lambda: None  # issued tokens
        self._requests: Callable[[], Mapping[bytes, ControlEvent]] = dict  # what waits for a second person
        self._prices: Callable[[], ReferenceLog | None] = lambda: None  # once they are read
        self._door = LocalAccess(settings.web, settings.clickhouse.data_dir, settings.at_rest.keys)
        tokens = token_file_of(settings.web, settings.clickhouse.data_dir)
        self._filed = {} if tokens is None else tokens.read()

    async def run(self) -> None:
        """Run until stopped; everything is closed then."""
        server = self._server()
        self._startup.expect("kafka", f"Kafka at {self._settings.kafka.bootstrap_servers}")
        self._startup.expect("clickhouse", str(target_of(self._settings.clickhouse)))
        self._startup.expect("group", f"consumer group {self._settings.kafka.group_id}")
        async with stopped_by_signals(self._stop):
            if server is not None:
                await server.start()
            try:
                await self._meter(server)
            finally:
                self._door.close()
                if server is not None:
                    await server.stop()
                if self._store is not None:
                    await asyncio.to_thread(self._store.close)

    def _server(self) -> WebServer | None:
        if not self._settings.web.enabled:
            return None
        return WebServer(
            self._settings.web,
            lambda: self._store,
            self._status,
            self._clock.monotonic_ms,
            audit=lambda: LastAudit(self._verdict(), self._clock.now_ms()),
            query=self._settings.query,
            calendar=self._settings.calendar.calendar(),
            ci=self._settings.ci,
            local_token=self._door.token,
            controls=self._writers.controls,
            standing=lambda: self._standing(),
            issued=lambda: self._issued(),
            requests=lambda: self._requests(),
            prices=lambda: self._prices(),
            filed=self._filed,
            events=self._writers.events,
            wall_ms=self._clock.now_ms,
            receivers=lambda: self._receiver_check,
            docs_url=self._settings.alerts.docs_url,
            sign_in=self._settings.sign_in,
            at_rest=self._settings.at_rest.keys,
            shown_settings=shown_settings(self._settings),
        )

    def _may_act(self) -> bool:
        """Whether actions may be sent: where there are identities, once a second one has confirmed that."""
        tokens = self._issued()
        if tokens is None:
            return False  # they are not read yet
        has_identities = bool(tokens or self._filed) or self._settings.sign_in.is_on
        return not has_identities or are_actions_confirmed(self._requests())

    def _request_messages(self, worker: Meter) -> RequestMessages:
        return RequestMessages(
            lambda: self._requests(),
            confirmers_of(self._settings.second_person.confirmers),
            worker.shard_manager.checkpointer.alert_sink,
            links_of(self._settings),
            self._clock.now_ms,
        )

    def _verdict(self) -> Verdict | None:
        return None if self._audit is None else self._audit.last

    def _status(self) -> WorkerStatus:
        return WorkerStatus(checks=self._startup.checks) if self._watch is None else self._watch.collect()

    async def _meter(self, server: WebServer | None) -> None:
        kafka, meter = self._settings.kafka, self._settings.meter
        # Concurrently: the ledger can be read while Kafka is unavailable.
        reaching = asyncio.create_task(self._reach_kafka())
        await self._all_or_none(reaching, asyncio.create_task(self._open_store(server)))
        found, store = reaching.result(), self._store
        if found is None or store is None:
            return  # stopped before anything was metered
        await asyncio.to_thread(bind_store_to_log, store.meta, kafka, found)
        options = ShardManagerOptions(
            topic_prefix=kafka.topic_prefix,
            as_of_ms=self._clock.accrue_until_ms if meter.as_of_ms is None else (lambda: meter.as_of_ms or 0),
            now_ms=self._clock.monotonic_ms,
            checkpoint_interval_ms=meter.checkpoint_interval_ms,
            max_backlog_bytes=meter.max_backlog_bytes,
            log_time=self._clock,
            look_between_ticks=True,
            alerts_at_once=True,
        )
        dead_letters = DeadLetterProducer(
            librdkafka_config(kafka), full_name(DEAD_LETTER_TOPIC, kafka.topic_prefix)
        )
        proof = await asyncio.to_thread(canary_proof, self._settings, make=True)
        shard = replace(shard_settings(meter), partitions=kafka.partitions, canary=proof)
        factory = await asyncio.to_thread(engine, shard)
        notifier = notifier_of(self._settings, store, MessageTime(self._clock))
        keys = address_keys(self._settings.at_rest.keys)
        if keys is None:
            logger.info(
                "addresses of receivers are kept in the log as they come: at_rest.key is not set",
                extra={"runbook": "docs/at_rest.md#a-key"},
            )
        worker = Meter(
            kafka,
            shard,
            options,
            store,
            factory,
            dead_letters=dead_letters,
            notifier=notifier,
            address_keys=keys,
        )
        self._standing = lambda: worker.shard_manager.reference.controls
        self._issued = lambda: worker.reader.tokens
        self._requests = lambda: worker.reader.requests
        manager, reader = worker.shard_manager, worker.reader
        self._prices = lambda: None if reader.tokens is None else manager.reference
        self._receiver_check = ReceiverCheck(
            worker.addresses.of,
            worker.addresses.of_team,
            notifier_options(self._settings),
            MessageTime(self._clock),
        )
        self._audit = LiveAudit(
            worker.shard_manager,
            asking(store),
            self._clock,
            partial(_log_end, worker, kafka),
            partial(committed, kafka),
            partial(_is_member, worker),
        )
        ownership = Ownership(partial(_ask_again, worker))
        self_watch = SelfWatch(
            worker, store, kafka, self._settings.canary, self._clock, self._verdict, proof, ownership
        )
        probe = Probe(kafka, lambda: store.query("SELECT 1"), self._clock)
        ledger_rules = LedgerRules(
            store,
            lambda: worker.shard_manager.owned.get(SHARD),
            partial(_is_member, worker),
            worker.shard_manager.reference,
            worker.shard_manager.checkpointer.alert_sink,
            self._clock,
            requester_of(self._settings, store, MessageTime(self._clock), self._may_act),
            links=links_of(self._settings),
            known_log=lambda: known_log(probe.probed, kafka.partitions, kafka.topic_prefix),
            messages=self._request_messages(worker),
            begun_ms=lambda: worker.shard_manager.begun_ms,
            unstored_ms=lambda: worker.shard_manager.checkpointer.unstored_source_ms,
        )
        self._watch = StatusCollector(
            worker.shard_manager,
            lambda: worker.app.meter_consumer if worker.app.started else None,
            kafka,
            self._clock,
            worker.notifier,
            reader=worker.reader,
            probed=lambda: probe.probed,
            limits=StallLimits(meter.stall_not_ready_ms, meter.stall_restart_ms),
            audit=self._verdict,
            canary=self_watch.canary,
            canary_enabled=self._settings.canary.enabled,
            ledger_rules_lag_ms=ledger_rules.lag_ms,
            own_rules_failed=lambda: ledger_rules.own_failed,
            ownership=ownership,
        )

        def is_mine() -> bool:
            """Whether this worker does what one of all does."""
            return 0 in worker.shard_manager.owned

        async def stopped() -> None:
            # A meter that stops is not late.
            await beside(self._stop.wait(), {"the watch over the meter": self_watch.run()})

        try:
            await beside(
                worker.run(stopped),
                {
                    "the look at Kafka and ClickHouse": probe.run(partial(_probed_shards, worker, kafka)),
                    "the look at the worker's progress": self._poll_status(self._watch),
                    "the audit": self._audit.run(),
                    "the giving back of memory": _release_free_memory(),
                    "the rules across jobs": ledger_rules.run(),
                    "the retention of minutes": keep_dropping(store, meter.minutes_retention_days, is_mine),
                    "the audit trail": keep_sealing(store, is_mine, self._clock.now_ms),
                    "the idle time of days": keep_balances(store, is_mine),
                },
            )
        finally:
            await probe.close()

    async def _all_or_none(self, *tasks: asyncio.Task[Any]) -> None:
        """Wait for all; the first fault cancels the others and is raised."""
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        if any(task.done() and task.exception() is not None for task in tasks):
            self._stop.set()
        await asyncio.gather(*tasks)

    async def _reach_kafka(self) -> FoundLog | None:
        kafka = self._settings.kafka
        where = f"Kafka at {kafka.bootstrap_servers}"
        return await self._startup.reach(
            "kafka", where, lambda: find_log(kafka, _REACH_S), KafkaUnreachableError
        )

    async def _open_store(self, server: WebServer | None) -> None:
        clickhouse = self._settings.clickhouse
        where = str(target_of(clickhouse))

        def opened() -> ClickHouseStore:
            if clickhouse.data_dir is None:
                # Store calls are retried for long; the availability check uses a shorter limit.
                ClickHouseStore(target_of(clickhouse, retry_for_s=_REACH_S)).close()
            return open_store(clickhouse)

        self._store = await self._startup.reach("clickhouse", where, opened, SinkBusy)
        if self._store is not None and server is not None:
            self._door.open(server.url, sys.stderr)

    async def _poll_status(self, watch: StatusCollector) -> None:
        while True:
            watch.collect()
            await asyncio.sleep(_LOOK_EVERY_S)


async def _release_free_memory() -> None:
    while True:
        await asyncio.sleep(_GIVE_BACK_EVERY_S)
        await asyncio.to_thread(release_free_pages)


def _probed_shards(worker: Meter, kafka: KafkaSettings) -> Iterable[int]:
    """Return whose partitions are probed: our own; all of them where the rules across jobs are judged."""
    owned = worker.shard_manager.owned
    return range(kafka.partitions) if SHARD in owned else owned


def _log_end(worker: Meter, kafka: KafkaSettings, topic: str, number: int) -> int | None:
    """Where a partition's log ended at the last fetch response."""
    try:
        end = worker.app.meter_consumer.log_end(TP(full_name(topic, kafka.topic_prefix), number))
    except ConsumerNotStarted:
        return None
    return None if end is None else end[0]


def _is_member(worker: Meter) -> bool:
    """Whether the group counts this worker as a member."""
    try:
        return worker.app.started and worker.app.meter_consumer.is_member()
    except ConsumerNotStarted:
        return False


def _ask_again(worker: Meter) -> None:
    """Let this worker join its group again."""
    with suppress(ConsumerNotStarted):
        worker.app.meter_consumer.ask_again()
