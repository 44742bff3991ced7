"""Metrics of a collector for Prometheus."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from streams.accounts.account import Account, EntryClass
from streams.collect.collector import CollectedEvent


class CollectorMetrics:
    """Counts of one collector."""

    def __init__(self, name: str, registry: CollectorRegistry) -> None:
        self._name = name
        self._events = Counter(
            "trainfare_collector_events",
            "Events published and acknowledged, repeated ones included.",
            ("collector", "topic"),
            registry=registry,
        )
        self._failures = Counter(
            "trainfare_collector_failures",
            "Polls that ended early, by what was away.",
            ("collector", "part"),
            registry=registry,
        )
        self._read = Counter(
            "trainfare_collector_read",
            "Entries that a source listed, by what became of each and by the rule or reason, at each poll again.",
            ("collector", "class", "reason"),
            registry=registry,
        )
        for entry_class in EntryClass:
            self._read.labels(name, entry_class, "")
        self._unattributed = Counter(
            "trainfare_collector_unattributed_bytes",
            "Bytes that a source reported and that belong to no job, by reason.",
            ("collector", "reason"),
            registry=registry,
        )
        self._polled = Gauge(
            "trainfare_collector_last_poll_timestamp_seconds",
            "When the last complete poll ended.",
            ("collector",),
            registry=registry,
        )
        for part in ("source", "destination"):
            self._failures.labels(name, part)

    def published(self, events: Sequence[CollectedEvent]) -> None:
        """Count acknowledged events."""
        for topic, count in Counts(event.topic for event in events).items():
            self._events.labels(self._name, topic).inc(count)

    def failed(self, part: str) -> None:
        """Count a poll that ended early."""
        self._failures.labels(self._name, part).inc()

    def read(self, account: Account) -> None:
        """Count what became of all that a poll read."""
        for (entry_class, reason), count in account.counts.items():
            self._read.labels(self._name, entry_class, reason).inc(count)

    def unattributed(self, bytes_by_reason: Mapping[str, int]) -> None:
        """Count bytes that belong to no job."""
        for reason, count in bytes_by_reason.items():
            self._unattributed.labels(self._name, reason).inc(count)

    def polled(self, at_ms: int) -> None:
        """Record a complete poll."""
        self._polled.labels(self._name).set(at_ms / 1000)
