"""Counts records that cannot be read yet because they lie behind the first offset of an open transaction.

The consumer learns them with each fetch response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from streams.topics import SHARD_TOPICS, full_name
from streams.transport.faust_types import TP, ConsumerNotStarted
from streams.worker.health.worker_status import Check
from streams.worker.ingest.watermarks import LogEnds

_TOPICS: Final = tuple(str(topic) for topic in SHARD_TOPICS)
_NAME: Final = "transactions"


class OpenTransactionWait(NamedTuple):
    """Records of one partition that wait for an open transaction."""

    topic: str
    number: int
    records: int
    age_ms: int  # since the readable end was first seen to stand still


class Transactions:
    """Poll about once a second; ages are of a clock that stops while nobody polls."""

    def __init__(self, consumer: Callable[[], LogEnds | None], topic_prefix: str, not_ready_ms: int) -> None:
        self._consumer = consumer
        self._prefix = topic_prefix
        self._not_ready_ms = not_ready_ms
        self._since: dict[tuple[str, int], tuple[int, int]] = {}  # readable end, since when (ms)
        self.waiting: list[OpenTransactionWait] = []

    def measure(self, shards: Iterable[int], watched_ms: int) -> None:
        """Update `waiting`."""
        self.waiting = []
        found: dict[tuple[str, int], tuple[int, int]] = {}
        for topic, number in ((topic, number) for number in shards for topic in _TOPICS):
            end = self._end(topic, number)
            if end is None or end[1] <= end[0]:
                continue
            readable, high_watermark = end
            before = self._since.get((topic, number))
            since_ms = before[1] if before is not None and before[0] == readable else watched_ms
            found[topic, number] = readable, since_ms
            self.waiting.append(
                OpenTransactionWait(topic, number, high_watermark - readable, watched_ms - since_ms)
            )
        self._since = found

    def _end(self, topic: str, number: int) -> tuple[int, int] | None:
        consumer = self._consumer()
        try:
            end = None if consumer is None else consumer.log_end(TP(full_name(topic, self._prefix), number))
        except ConsumerNotStarted:
            return None
        return None if end is None else (end.readable, end.high_watermark)

    def records(self) -> dict[str, int]:
        """The waiting records by topic."""
        return {topic: sum(each.records for each in self.waiting if each.topic == topic) for topic in _TOPICS}

    def age_ms(self) -> dict[str, int]:
        """How long the oldest have waited, by topic."""
        return {
            topic: max((each.age_ms for each in self.waiting if each.topic == topic), default=0)
            for topic in _TOPICS
        }

    @property
    def reason(self) -> str:
        """Describe a transaction that has held records back for too long; '' if there is none."""
        worst = max(self.waiting, key=lambda each: each.age_ms, default=None)
        if worst is None or worst.age_ms <= self._not_ready_ms:
            return ""
        where = f"{self._prefix}{worst.topic}/{worst.number}"
        return (
            f"{worst.records:,} records of {where} are held by an open transaction for {worst.age_ms // 1000} s: its producer must "
            "commit or abort it, or kafka-transactions.sh abort it"
        )

    def check(self) -> Check:
        """The readiness check."""
        return Check(_NAME, not self.reason, self.reason or "no open transaction holds records for long")
