"""One look at a running meter: its keeper and its consumer as the values that health and metrics show.

It must not touch a shard: it only reads, in the event loop, between two batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol
from weakref import WeakKeyDictionary

from faust.exceptions import ConsumerNotStarted
from faust.types import TP

from streams.agents.checkpointer import Totals
from streams.agents.held import Held
from streams.clock import Clock
from streams.config import KafkaSettings
from streams.pipeline.books import Books
from streams.web.status import Canary, Check, SeenCanary, SeenVerdict, WorkerStatus


class WatchedKeeper(Protocol):
    """The keeper, as far as it is looked at."""

    held: dict[int, Held]
    totals: Totals

    @property
    def backlog_bytes(self) -> int:
        """What was read and is not stored."""
        ...


class WatchedConsumer(Protocol):
    """The consumer, as far as it is looked at; both raise ConsumerNotStarted before it is."""

    def is_member(self) -> bool:
        """Whether the group counts on us."""
        ...

    def assignment(self) -> set[TP]:
        """The partitions that are ours."""
        ...


class Watch:
    """Look about once a second: counts of a shard that leaves are kept as of the last look before."""

    def __init__(
        self,
        keeper: WatchedKeeper,
        consumer: Callable[[], WatchedConsumer | None],
        kafka: KafkaSettings,
        clock: Clock,
        pending: Callable[[], int | None] = lambda: None,
        *,
        audit: Callable[[], SeenVerdict | None] = lambda: None,
        canary: Callable[[], SeenCanary | None] = lambda: None,
    ) -> None:
        self._keeper = keeper
        self._audit = audit
        self._canary = canary
        self._pending = pending
        self._consumer = consumer
        self._kafka = kafka
        self._clock = clock
        self._first: WeakKeyDictionary[Held, Books] = WeakKeyDictionary()
        self._held: dict[Held, Books] = {}  # at the last look
        self._left = Books()  # of shards that are no longer ours, from our first look to our last
        self._checkpoints = 0
        self._stored_ms: int | None = None
        self._member_ms: int | None = None

    def look(self) -> WorkerStatus:
        """What there is to say now."""
        keeper, totals = self._keeper, self._keeper.totals
        books = self._books()
        member, assigned = self._membership()
        restoring = len(assigned - set(keeper.held))
        verdict = self._audit()
        return WorkerStatus(
            checks=self._checks(member, restoring, len(assigned)),
            records={
                "applied": books.applied,
                "duplicate": books.duplicate,
                "too_late": books.too_late,
                "dead_lettered": books.dead_lettered,
            },
            gpu_samples_late=books.late_gpu_samples,
            costs_capped=books.capped_costs,
            rows_stored=dict(totals.rows),
            checkpoints=totals.checkpoints,
            inserts_refused=totals.refused,
            backlog_bytes=keeper.backlog_bytes,
            shards_held=len(keeper.held),
            shards_restoring=restoring,
            checkpoint_age_ms=self._checkpoint_age_ms(),
            watermark_age_ms=self._watermark_age_ms(),
            courier_pending=self._pending(),
            books_balanced={} if verdict is None else balanced(verdict),
            audit_age_ms=None if verdict is None else max(self._clock.now_ms() - verdict.as_of_ms, 0),
            canary=canary_of(self._canary(), self._clock.now_ms()),
        )

    def _books(self) -> Books:
        """What this process counted: shards come with the books of their whole life."""
        now = {held: held.shard.books.plus(Books()) for held in self._keeper.held.values()}
        for held, books in self._held.items():
            if held not in now:
                self._left = self._left.plus(_since(self._first[held], books))
        total = self._left
        for held, books in now.items():
            total = total.plus(_since(self._first.setdefault(held, books), books))
        self._held = now
        return total

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
        return reached, joined, shards

    def _checkpoint_age_ms(self) -> int | None:
        now_ms, totals = self._clock.monotonic_ms(), self._keeper.totals
        if totals.checkpoints > self._checkpoints or (self._keeper.held and self._keeper.backlog_bytes == 0):
            self._checkpoints, self._stored_ms = totals.checkpoints, now_ms
        return None if self._stored_ms is None else now_ms - self._stored_ms

    def _watermark_age_ms(self) -> int | None:
        newest: list[int] = []
        for held in self._keeper.held.values():
            by_topic: Mapping[str, int] = getattr(held.shard, "newest_ms", {})  # the engine's shards have it
            newest += (ms for ms in by_topic.values() if ms > 0)
        return self._clock.now_ms() - max(newest) if newest else None


def _since(first: Books, last: Books) -> Books:
    return Books(*(getattr(last, name) - getattr(first, name) for name in Books.__struct_fields__))


def balanced(verdict: SeenVerdict) -> dict[str, bool]:
    """Whether each check holds of everything that it was made on."""
    found: dict[str, bool] = {}
    for finding in verdict.findings:
        found[finding.check] = found.get(finding.check, True) and finding.ok
    return found


def canary_of(canary: SeenCanary | None, now_ms: int) -> Canary | None:
    """What there is to say of the canary now."""
    if canary is None:
        return None
    right_ms = canary.right_at_ms
    return Canary(
        runs=canary.runs,
        wrong=canary.wrong,
        late=canary.late,
        right_age_ms=None if right_ms is None else max(now_ms - right_ms, 0),
        latency_ms=canary.latency_ms,
        error_ratio=canary.error_ratio,
    )
