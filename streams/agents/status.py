"""One look at a running meter: its keeper and its consumer as the values that health and metrics show.

It must not touch a shard: it only reads, in the event loop, between two batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from faust.exceptions import ConsumerNotStarted
from faust.types import TP

from schemas.reasons import OUTCOMES
from streams import fallbacks
from streams.agents.checkpointer import Totals
from streams.agents.counted import STORED
from streams.agents.counts import Counts, letters
from streams.agents.courier_faults import DeliveryFaults
from streams.agents.ends import Ends, WatchedReader, price_age_ms
from streams.agents.held import Held
from streams.agents.intake import Intake
from streams.agents.log_time import LogTime, in_words
from streams.agents.outlook import Sight
from streams.agents.progress import Progress, Standing, Watched
from streams.agents.proofs import balanced, canary_of
from streams.agents.room import Room
from streams.agents.stall import Limits, Restart, readiness
from streams.agents.transactions import Transactions
from streams.config import KafkaSettings
from streams.topics import SHARD_TOPICS
from streams.transport.answers import LogEnd
from streams.web.status import Check, SeenCanary, SeenVerdict, WorkerStatus

_LIMITS: Final = Limits()
_TOPICS: Final = tuple(str(topic) for topic in SHARD_TOPICS)


class Refetching(Protocol):
    """Whoever feeds the shards, as far as it is looked at."""

    refetches: int
    rewinds: int
    intake: Intake


class WatchedCourier(Protocol):
    """The courier, as far as it is looked at."""

    faults: DeliveryFaults

    @property
    def waiting(self) -> int:
        """Messages not done with."""
        ...


class WatchedKeeper(Protocol):
    """The keeper, as far as it is looked at."""

    held: dict[int, Held]
    totals: Totals
    room: Room

    @property
    def feeding(self) -> Refetching:
        """Whoever reads records again that were lost on the way."""
        ...

    @property
    def backlog_bytes(self) -> int:
        """What was read and is not stored."""
        ...


class WatchedConsumer(Protocol):
    """The consumer, as far as it is looked at; all raise ConsumerNotStarted before it is."""

    def is_member(self) -> bool:
        """Whether the group counts on us."""
        ...

    def assignment(self) -> set[TP]:
        """The partitions that are ours."""
        ...

    def log_end(self, tp: TP) -> LogEnd | None:
        """The end of a partition as of the last answer to a fetch; None before the first."""
        ...


class Watch:
    """Look about once a second: what a shard that leaves counted is known as of the last look before."""

    def __init__(
        self,
        keeper: WatchedKeeper,
        consumer: Callable[[], WatchedConsumer | None],
        kafka: KafkaSettings,
        clock: LogTime,
        courier: WatchedCourier | None = None,
        *,
        reader: WatchedReader | None = None,
        sight: Callable[[], Sight] = Sight,
        limits: Limits = _LIMITS,
        audit: Callable[[], SeenVerdict | None] = lambda: None,
        canary: Callable[[], SeenCanary | None] = lambda: None,
        canary_enabled: bool = False,
    ) -> None:
        self._keeper = keeper
        self._reader = reader
        self._sight = sight
        self._limits = limits
        self._audit = audit
        self._canary = canary
        self._canary_enabled = canary_enabled
        self._courier = courier
        self._consumer = consumer
        self._kafka = kafka
        self._clock = clock
        self._ends = Ends(consumer, sight, kafka.topic_prefix)
        self._counts = Counts()
        self._transactions = Transactions(consumer, kafka.topic_prefix, limits.not_ready_ms)
        self._watched = Watched()
        self._progress = Progress()
        self._restart = Restart(limits)
        self._checkpoints = 0
        self._stored_ms: int | None = None
        self._member_ms: int | None = None

    def look(self) -> WorkerStatus:
        """What there is to say now."""
        keeper, totals = self._keeper, self._keeper.totals
        clock_ms, watched_ms = self._clock.now_ms(), self._watched.look(self._clock.monotonic_ms())
        counts = self._counts.look(keeper.held.values())
        buried = letters(counts)
        member, assigned = self._membership()
        restoring = len(assigned - set(keeper.held))
        standings = self._progress.look(keeper.held.values(), self._ends.of, watched_ms, clock_ms)
        held_up = self._transactions
        held_up.look(keeper.held, watched_ms)
        reason = self._reason(restoring, len(assigned))
        moves = readiness(standings, self._limits, clock_ms, reason)
        verdict = self._audit()
        return WorkerStatus(
            checks=(*self._checks(member, restoring, len(assigned)), held_up.check(), moves),
            stuck=self._restart.needed(standings, watched_ms, clock_ms, member=member, reason=reason),
            records={name: counts[name] for name in OUTCOMES},
            records_trimmed=counts["trimmed"],
            records_not_mine=keeper.feeding.intake.not_mine,
            letters=buried,
            letters_sampled_out=max(sum(buried.values()) - counts[STORED], 0),
            gpu_samples_late=counts["late_gpu_samples"],
            costs_capped=counts["capped_costs"],
            rows_stored=dict(totals.rows),
            rows_swept=totals.rows_swept,
            rows_phantom=totals.rows_phantom,
            checkpoints=totals.checkpoints,
            inserts_refused=totals.refused,
            commits_refused=totals.commits_refused,
            rebalances=totals.rebalances,
            refetches=keeper.feeding.refetches,
            fallbacks=dict(fallbacks.counts),
            clock_ahead_ms=self._clock.ahead_ms,
            clock_faults=self._clock.faults,
            shards_rewound=keeper.feeding.rewinds,
            restore_ms=totals.restore_ms,
            backlog_bytes=keeper.backlog_bytes,
            backlog_max_bytes=keeper.room.max_bytes,
            reading_paused=not keeper.room.is_open,
            shards_held=len(keeper.held),
            shards_restoring=restoring,
            checkpoint_age_ms=self._checkpoint_age_ms(),
            snapshot_age_ms=self._snapshot_age_ms(),
            watermark_age_ms=self._watermark_age_ms(),
            courier_pending=None if self._courier is None else self._courier.waiting,
            delivery_faults={} if self._courier is None else dict(self._courier.faults.counts),
            lag_records={topic: sum(each.records[topic] for each in standings) for topic in _TOPICS},
            lag_ms={
                topic: max([waits_ms, *(each.age_ms[topic] for each in standings)])
                for topic, waits_ms in held_up.age_ms().items()
            },
            transaction_records=held_up.records(),
            transaction_ms=held_up.age_ms(),
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
            shards = Check("shards", True, f"{len(self._keeper.held)} shards held")
        return reached, joined, shards, self._clock_check()

    def _clock_check(self) -> Check:
        clock = self._clock
        if not clock.is_off:
            return Check("clock", True, "within a minute of Kafka's log")
        words = f"the clock of this machine is {in_words(clock.ahead_ms)}; ticks follow the log"
        return Check("clock", False, f"{words}; set the clock right (NTP), of this machine or of the brokers")

    def _reason(self, restoring: int, assigned: int) -> str:
        """What is known to hold shards up, the worker itself apart; '' if nothing is."""
        sight, room = self._sight(), self._keeper.room
        if not sight.kafka:
            return f"Kafka at {self._kafka.bootstrap_servers} does not answer"
        if not sight.store:
            return "ClickHouse does not answer"
        if not room.is_open:
            return (
                f"reading pauses: {self._keeper.backlog_bytes} of {room.max_bytes} bytes wait for ClickHouse"
            )
        return (
            f"{restoring} of {assigned} shards are being restored" if restoring else self._transactions.reason
        )

    def _checkpoint_age_ms(self) -> int | None:
        now_ms, totals = self._clock.monotonic_ms(), self._keeper.totals
        if totals.checkpoints > self._checkpoints or (self._keeper.held and self._keeper.backlog_bytes == 0):
            self._checkpoints, self._stored_ms = totals.checkpoints, now_ms
        return None if self._stored_ms is None else now_ms - self._stored_ms

    def _snapshot_age_ms(self) -> int | None:
        stored_ms = self._keeper.totals.snapshots_ms
        ours_ms = [stored_ms[number] for number in self._keeper.held if number in stored_ms]
        return self._clock.monotonic_ms() - min(ours_ms) if ours_ms else None

    def _watermark_age_ms(self) -> int | None:
        newest: list[int] = []
        for held in self._keeper.held.values():
            by_topic: Mapping[str, int] = getattr(held.shard, "newest_ms", {})  # the engine's shards have it
            newest += (ms for ms in by_topic.values() if ms > 0)
        return self._clock.now_ms() - max(newest) if newest else None


def _longest(standings: Sequence[Standing]) -> int:
    return max((each.idle_ms for each in standings), default=0)
