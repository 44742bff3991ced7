"""Metrics of a collector for Prometheus. It must not serve them."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from streams.collect.collector import CollectedEvent

#: The reason where a collector tells none.
UNREADABLE: Final = "unreadable"


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
        self._skipped = Counter(
            "trainfare_collector_skipped",
            "What a source reported that was left out, by the reason, at each poll again.",
            ("collector", "reason"),
            registry=registry,
        )
        self._skipped.labels(name, UNREADABLE)
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

    def skipped(self, count: int, reasons: Mapping[str, int]) -> None:
        """Count what was left out, by reason; all of it is unreadable where the collector tells no reasons."""
        for reason, of_it in (reasons or {UNREADABLE: count}).items():
            self._skipped.labels(self._name, reason).inc(of_it)

    def unattributed(self, bytes_by_reason: Mapping[str, int]) -> None:
        """Count bytes that belong to no job."""
        for reason, count in bytes_by_reason.items():
            self._unattributed.labels(self._name, reason).inc(count)

    def polled(self, at_ms: int) -> None:
        """Record a complete poll."""
        self._polled.labels(self._name).set(at_ms / 1000)
