"""Runs the canary, a job of known cost that goes through the whole meter; it pages when the cost is wrong or late.

A failure of the canary itself is a late run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from confluent_kafka import KafkaException

from schemas.tables import CANARY as CANARY_TABLE
from sinks.errors import SinkBusy
from sinks.port import Store
from streams.clock import Clock
from streams.engine.alerts.meter_rules import CANARY_EVIDENCE, CANARY_LATE, CANARY_WRONG, MeterFinding
from streams.engine.pricing.book import PriceBook
from streams.engine.rules.formatting import span
from streams.selfcheck.alerts.self_alerts import SelfAlerts
from streams.selfcheck.canary.client import CanarySender, canary_table, fetch_rows
from streams.selfcheck.canary.counts import CanaryCounts
from streams.selfcheck.canary.judge import CanaryJudge, CanaryResult, CanaryRows, Outcome
from streams.selfcheck.canary.plan import (
    EXPECTED_NANO,
    CanaryOptions,
    CanaryPrice,
    CanaryRun,
    Event,
    events_of,
)
from streams.worker.shards.owned_shard import OwnedShard

logger = logging.getLogger(__name__)

#: The owner of this shard runs the canary.
SHARD: Final = 0
SUBJECT: Final = "canary"
_RULES: Final[dict[Outcome, str]] = {"wrong": CANARY_WRONG, "late": CANARY_LATE}
_TURN_S: Final = 0.1
_AGAIN_S: Final = 1.0
#: Limit of results that wait for the store; older ones are dropped after they were counted.
_RESULTS_AT_MOST: Final = 1_440


class Canary:
    """Call `run` while the worker meters; it is active only while the worker owns shard 0."""

    def __init__(
        self,
        options: CanaryOptions,
        store: Store,
        sender: Callable[[], CanarySender],
        owner: Callable[[], OwnedShard | None],
        book: Callable[[], PriceBook],
        alerts: SelfAlerts,
        clock: Clock,
    ) -> None:
        self._options = options
        self._store = store
        self._make_sender = sender
        self._sender: CanarySender | None = None
        self._owner = owner
        self._alerts = alerts
        self._clock = clock
        self._owned: OwnedShard | None = None
        self._judge = CanaryJudge(options)
        self._price = CanaryPrice(book)
        self._sending: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._rows: list[CanaryResult] = []
        self._stopped = False
        self._threads = {
            name: ThreadPoolExecutor(1, thread_name_prefix=f"canary-{name}")
            for name in ("send", "look", "write")
        }
        self.counts = CanaryCounts()

    @property
    def seen(self) -> CanaryCounts | None:
        """The counts for metrics; None while another worker runs the canary."""
        return None if self._owned is None else self.counts

    async def run(self) -> None:
        """Call `run_once` repeatedly until cancelled."""
        try:
            while True:
                try:
                    self.run_once()
                except Exception:
                    logger.exception(
                        "canary failed, retrying", extra={"runbook": "docs/trouble.md#internal-fault"}
                    )
                    await asyncio.sleep(_AGAIN_S)
                await asyncio.sleep(_TURN_S)
        finally:
            self._stopped = True
            for pool in self._threads.values():
                pool.shutdown(wait=False, cancel_futures=True)

    def run_once(self) -> None:
        """Start what is due, and process results; never blocks."""
        owner = self._owner()
        if owner is not self._owned:
            # Runs of a former owner are dropped: their delay is unknown. Our own are dropped by our successor.
            self._owned, self._judge, self._rows = owner, CanaryJudge(self._options), []
        if owner is None:
            return
        now_ms, at_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        self._publish_price(now_ms)
        run = self._judge.due(now_ms)
        if run is not None:
            self._start_run(run, now_ms, at_ms)
        wanted = self._judge.wanted(at_ms)
        if wanted and not _runs(self._looking):
            self._looking = _started(self._judge_stored(self._judge, wanted))
        self._judge.pass_time(at_ms)
        self._collect_results(now_ms)
        if self._rows and not _runs(self._writing):
            self._writing = _started(self._write(owner))

    # -- sending -------------------------------------------------------------------------------------------

    def _publish_price(self, now_ms: int) -> None:
        """Publish the price once if there is none; repeat now and then until the book has it."""
        if _runs(self._sending) or not self._price.is_due(now_ms, self._options.interval_ms):
            return
        self._sending = _started(self._send([self._price.record(now_ms)], self._judge, None))

    def _start_run(self, run: CanaryRun, now_ms: int, at_ms: int) -> None:
        from_ms = self._price.from_ms()
        if from_ms is None:
            # Without its price the job would be unpriced.
            if now_ms - self._price.first_asked_ms > self._options.late_after_ms:
                self._judge.start_run(run, at_ms)
                self._judge.not_sent(run, "not sent: its price is not known yet")
        elif _runs(self._sending):
            self._judge.start_run(run, at_ms)
            self._judge.not_sent(run, "not sent: Kafka has not acknowledged an earlier one yet")
        elif run.begin_ms >= from_ms:
            self._judge.start_run(run, at_ms)
            self._sending = _started(self._send(list(events_of(run)), self._judge, run))

    async def _send(self, events: list[Event], judge: CanaryJudge, run: CanaryRun | None) -> None:
        loop = asyncio.get_running_loop()
        try:
            why = await loop.run_in_executor(self._threads["send"], self._send_now, events)
        except KafkaException as fault:
            why = str(fault)
        if why:
            logger.warning(
                "canary events not all sent", extra={"reason": why, "runbook": "docs/audit.md#canary"}
            )
        if run is not None and why:
            judge.not_sent(run, why)
        elif run is not None:
            judge.acknowledged(run, self._clock.monotonic_ms())

    def _send_now(self, events: list[Event]) -> str:
        if self._sender is None:
            self._sender = self._make_sender()
        return self._sender.send(events, lambda: self._stopped)

    # -- looking -------------------------------------------------------------------------------------------

    async def _judge_stored(self, judge: CanaryJudge, wanted: list[str]) -> None:
        loop = asyncio.get_running_loop()
        try:
            found: dict[str, CanaryRows] = await loop.run_in_executor(
                self._threads["look"], fetch_rows, self._store, wanted
            )
        except SinkBusy as busy:
            logger.debug("canary waits for the store", extra={"reason": str(busy)})
            judge.blind()
        else:
            judge.compare(wanted, found, self._clock.monotonic_ms())

    # -- telling -------------------------------------------------------------------------------------------

    def _collect_results(self, now_ms: int) -> None:
        results, self._judge.results = self._judge.results, []
        for result in results:
            self.counts.add(result, now_ms)
            if result.outcome != "right":
                logger.warning(
                    "canary is not right",
                    extra={
                        "job_id": result.run.job_id,
                        "shard": result.run.shard,
                        "outcome": result.outcome,
                        "reason": result.detail,
                        "runbook": "docs/audit.md#canary",
                    },
                )
        self._rows = [*self._rows, *results][-_RESULTS_AT_MOST:]
        for outcome, opened in self._judge.opened.items():
            self._alerts.update(SHARD, self._finding(outcome, opened, now_ms))

    def _finding(self, outcome: Outcome, opened: CanaryResult | None, now_ms: int) -> MeterFinding:
        if opened is None:
            return MeterFinding(_RULES[outcome], SUBJECT, False, now_ms)
        found_nano = opened.found_nano or 0
        every = span(self._options.interval_ms)
        return MeterFinding(
            _RULES[outcome],
            SUBJECT,
            True,
            now_ms,
            f"the canary in shard {opened.run.shard} is {outcome}: {opened.detail} (job {opened.run.job_id}, "
            f"one every {every})",
            CANARY_EVIDENCE,
            cost_nano=found_nano,
            ratio=found_nano / EXPECTED_NANO,
        )

    async def _write(self, owner: OwnedShard) -> None:
        """Store results in their order; those that the store refuses wait."""
        loop = asyncio.get_running_loop()
        while self._rows and self._owner() is owner:
            result, version = self._rows[0], owner.versions.next()
            token = f"canary:{result.run.job_id}.{version}"
            rows = canary_table(result, version)
            try:
                await loop.run_in_executor(
                    self._threads["write"], self._store.insert, CANARY_TABLE, rows, token
                )
            except SinkBusy as busy:
                logger.debug("canary result waits for the store", extra={"reason": str(busy)})
                await asyncio.sleep(_AGAIN_S)
            else:
                if self._rows and self._rows[0] is result:
                    self._rows = self._rows[1:]


def _runs(task: asyncio.Task[None] | None) -> bool:
    return task is not None and not task.done()


def _started(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(_log_fault)
    return task


def _log_fault(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        logger.error(
            "canary task failed",
            exc_info=task.exception(),
            extra={"runbook": "docs/trouble.md#internal-fault"},
        )
