"""Collects the state of a running meter for health checks and metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from schemas.counting import how_many
from schemas.reasons import OUTCOMES
from streams import fallbacks
from streams.config.settings import KafkaSettings
from streams.notify.store_faults import DeliveryFaults
from streams.topics import SHARD_TOPICS
from streams.transport.answers import LogEnd
from streams.transport.faust_types import TP, ConsumerNotStarted
from streams.worker.health.check_status import balanced, canary_of
from streams.worker.health.counts import Counts, dead_letters
from streams.worker.health.lag import LagSource, LagTracker, ShardLag
from streams.worker.health.log_ends import Ends, WatchedReader, price_age_ms
from streams.worker.health.ownership import Ownership
from streams.worker.health.probe import ProbeResult
from streams.worker.health.stall import RestartCheck, StallLimits, readiness
from streams.worker.health.transactions import Transactions
from streams.worker.health.worker_status import Check, SeenCanary, SeenVerdict, ShardStanding, WorkerStatus
from streams.worker.ingest.backpressure import BackpressureGate
from streams.worker.ingest.ingest_counts import IngestCounts
from streams.worker.log_time import LogTime, in_words
from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.shards.shard_counts import STORED
from streams.worker.storing.checkpointer import StoredTotals

_LIMITS: Final = StallLimits()
_TOPICS: Final = tuple(str(topic) for topic in SHARD_TOPICS)


class RefetchCounts(Protocol):
    """The observed part of the ingest."""

    refetches: int
    rewinds: int
    ingest_counts: IngestCounts


class StatusNotifier(Protocol):
    """The observed part of the notifier."""

    faults: DeliveryFaults

    @property
    def waiting(self) -> int:
        """The messages that are not finished."""
        ...


class StatusManager(Protocol):
    """The observed part of the shard manager."""

    owned: dict[int, OwnedShard]
    totals: StoredTotals
    backpressure: BackpressureGate

    @property
    def ingest(self) -> RefetchCounts:
        """The ingest, which fetches lost records again."""
        ...

    @property
    def backlog_bytes(self) -> int:
        """The size of what was read and is not stored."""
        ...


class StatusConsumer(Protocol):
    """The observed part of the consumer; every method raises ConsumerNotStarted before it has started."""

    def is_member(self) -> bool:
        """Whether the group counts this worker as a member."""
        ...

    def assignment(self) -> set[TP]:
        """The assigned partitions."""
        ...

    def log_end(self, tp: TP) -> LogEnd | None:
        """The end of a partition as of the last fetch response; None before the first."""
        ...


class StatusCollector:
    """Poll about once a second: a shard that leaves counts as of the last poll."""

    def __init__(
        self,
        shard_manager: StatusManager,
        consumer: Callable[[], StatusConsumer | None],
        kafka: KafkaSettings,
        clock: LogTime,
        notifier: StatusNotifier | None = None,
        *,
        reader: WatchedReader | None = None,
        probed: Callable[[], ProbeResult] = ProbeResult,
        limits: StallLimits = _LIMITS,
        audit: Callable[[], SeenVerdict | None] = lambda: None,
        canary: Callable[[], SeenCanary | None] = lambda: None,
        canary_enabled: bool = False,
        ledger_rules_lag_ms: Callable[[], int] = lambda: 0,
        own_rules_failed: Callable[[], int] = lambda: 0,
        ownership: Ownership | None = None,
    ) -> None:
        self._shard_manager = shard_manager
        self._reader = reader
        self._probed = probed
        self._ownership = Ownership(lambda: None) if ownership is None else ownership
        self._limits = limits
        self._audit = audit
        self._canary = canary
        self._canary_enabled = canary_enabled
        self._ledger_rules_lag_ms = ledger_rules_lag_ms
        self._own_rules_failed = own_rules_failed
        self._notifier = notifier
        self._consumer = consumer
        self._kafka = kafka
        self._clock = clock
        self._ends = Ends(consumer, probed, kafka.topic_prefix)
        self._counts = Counts()
        self._transactions = Transactions(consumer, kafka.topic_prefix, limits.not_ready_ms)
        self._watched = LagSource()
        self._progress = LagTracker()
        self._restart = RestartCheck(limits)
        self._checkpoints = 0
        self._stored_ms: int | None = None
        self._member_ms: int | None = None

    def collect(self) -> WorkerStatus:
        """The present status."""
        shard_manager, totals = self._shard_manager, self._shard_manager.totals
        clock_ms, watched_ms = self._clock.now_ms(), self._watched.advance(self._clock.monotonic_ms())
        counts = self._counts.collect(shard_manager.owned.values())
        buried = dead_letters(counts)
        member, assigned = self._membership()
        if member:  # else the check of the group fails, and who joins next may only just be starting
            probed = self._probed()
            self._ownership.observe(probed.group, probed.group_ms)
        restoring = len(assigned - set(shard_manager.owned))
        standings = self._progress.measure(shard_manager.owned.values(), self._ends.of, watched_ms, clock_ms)
        held_up = self._transactions
        held_up.measure(shard_manager.owned, watched_ms)
        reason = self._reason(restoring, len(assigned))
        moves = readiness(standings, self._limits, clock_ms, reason)
        verdict = self._audit()
        return WorkerStatus(
            checks=(
                *self._checks(member, restoring, len(assigned)),
                self._ownership.check(),
                held_up.check(),
                moves,
            ),
            shards_unowned=len(self._ownership.unowned),
            stuck=self._restart.needed(standings, watched_ms, clock_ms, member=member, reason=reason),
            records={name: counts[name] for name in OUTCOMES},
            records_trimmed=counts["trimmed"],
            records_not_mine=shard_manager.ingest.ingest_counts.not_mine,
            dead_letters=buried,
            dead_letters_sampled_out=max(sum(buried.values()) - counts[STORED], 0),
            gpu_samples_late=counts["late_gpu_samples"],
            costs_capped=counts["capped_costs"],
            rows_stored=dict(totals.rows),
            rows_swept=totals.rows_swept,
            rows_phantom=totals.rows_phantom,
            checkpoints=totals.checkpoints,
            inserts_refused=totals.refused,
            commits_refused=totals.commits_refused,
            rebalances=totals.rebalances,
            refetches=shard_manager.ingest.refetches,
            fallbacks=dict(fallbacks.counts),
            clock_ahead_ms=self._clock.ahead_ms,
            clock_faults=self._clock.faults,
            ledger_rules_lag_ms=self._ledger_rules_lag_ms(),
            own_rules_failed=self._own_rules_failed(),
            shards_rewound=shard_manager.ingest.rewinds,
            restore_ms=totals.restore_ms,
            backlog_bytes=shard_manager.backlog_bytes,
            max_backlog_bytes=shard_manager.backpressure.max_bytes,
            reading_paused=not shard_manager.backpressure.is_open,
            shards_held=len(shard_manager.owned),
            shards_restoring=restoring,
            checkpoint_age_ms=self._checkpoint_age_ms(),
            snapshot_age_ms=self._snapshot_age_ms(),
            watermark_age_ms=self._watermark_age_ms(),
            notifier_pending=None if self._notifier is None else self._notifier.waiting,
            delivery_faults={} if self._notifier is None else dict(self._notifier.faults.counts),
            lag_records={topic: sum(each.records[topic] for each in standings) for topic in _TOPICS},
            lag_ms={
                topic: max([waits_ms, *(each.age_ms[topic] for each in standings)])
                for topic, waits_ms in held_up.age_ms().items()
            },
            transaction_records=held_up.records(),
            transaction_ms=held_up.age_ms(),
            shard_lag=tuple(
                ShardStanding(each.number, each.records, each.age_ms, each.idle_ms) for each in standings
            ),
            shard_lag_records_max=max((each.behind for each in standings), default=0),
            no_progress_ms=_longest(standings),
            reference_lag_records=self._ends.unread(self._reader),
            reference_refused=0 if self._reader is None else self._reader.books.dead_lettered,
            price_age_ms=price_age_ms(self._reader, clock_ms),
            books_balanced={} if verdict is None else balanced(verdict),
            audit_age_ms=None if verdict is None else max(clock_ms - verdict.as_of_ms, 0),
            canary_enabled=self._canary_enabled,
            canary=canary_of(self._canary(), clock_ms),
        )

    def _membership(self) -> tuple[bool, set[int]]:
        consumer = self._consumer()
        try:
            member = consumer is not None and consumer.is_member()
            assigned = (
                {tp.partition for tp in consumer.assignment()} if consumer is not None and member else set()
            )
        except ConsumerNotStarted:
            return False, set()
        if member:
            self._member_ms = self._clock.monotonic_ms()
        return member, assigned

    def _checks(self, member: bool, restoring: int, assigned: int) -> tuple[Check, ...]:
        kafka = self._kafka
        where = f"Kafka at {kafka.bootstrap_servers}"
        silent_ms = None if self._member_ms is None else self._clock.monotonic_ms() - self._member_ms
        if silent_ms is not None and silent_ms > kafka.session_timeout_ms:
            reached = Check("kafka", False, f"{where} has not answered for {silent_ms // 1000} s")
        else:
            reached = Check("kafka", True, where)
        group = f"consumer group {kafka.group_id}"
        joined = Check("group", member, f"a member of {group}" if member else f"joining {group} at {where}")
        if restoring:
            shards = Check("shards", False, f"{restoring} of {assigned} shards are being restored")
        else:
            shards = Check(
                "shards", True, f"{how_many(len(self._shard_manager.owned), 'shard held', 'shards held')}"
            )
        return reached, joined, shards, self._clock_check()

    def _clock_check(self) -> Check:
        clock = self._clock
        if not clock.is_off:
            return Check("clock", True, "within a minute of Kafka's log")
        words = f"the clock of this machine is {in_words(clock.ahead_ms)}; ticks follow the log"
        return Check("clock", False, f"{words}; set the clock right (NTP), of this machine or of the brokers")

    def _reason(self, restoring: int, assigned: int) -> str:
        """Describe a known cause, other than the worker itself, why shards stand still; '' if there is none."""
        probed, backpressure = self._probed(), self._shard_manager.backpressure
        if not probed.kafka:
            return f"Kafka at {self._kafka.bootstrap_servers} does not answer"
        if not probed.store:
            return "ClickHouse does not answer"
        if not backpressure.is_open:
            return f"reading pauses: {self._shard_manager.backlog_bytes} of {backpressure.max_bytes} bytes wait for ClickHouse"
        return (
            f"{restoring} of {assigned} shards are being restored" if restoring else self._transactions.reason
        )

    def _checkpoint_age_ms(self) -> int | None:
        now_ms, totals = self._clock.monotonic_ms(), self._shard_manager.totals
        if totals.checkpoints > self._checkpoints or (
            self._shard_manager.owned and self._shard_manager.backlog_bytes == 0
        ):
            self._checkpoints, self._stored_ms = totals.checkpoints, now_ms
        return None if self._stored_ms is None else now_ms - self._stored_ms

    def _snapshot_age_ms(self) -> int | None:
        stored_ms = self._shard_manager.totals.snapshots_ms
        ours_ms = [stored_ms[number] for number in self._shard_manager.owned if number in stored_ms]
        return self._clock.monotonic_ms() - min(ours_ms) if ours_ms else None

    def _watermark_age_ms(self) -> int | None:
        newest: list[int] = []
        for owned in self._shard_manager.owned.values():
            newest += (ms for ms in owned.shard.position.newest_ms.values() if ms > 0)
        return self._clock.now_ms() - max(newest) if newest else None


def _longest(standings: Sequence[ShardLag]) -> int:
    return max((each.idle_ms for each in standings), default=0)
