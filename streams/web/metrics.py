"""Builds the Prometheus page from the state of the worker and the store.

It has no state and no series per job: those are rows in ClickHouse.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from schemas.reasons import OUTCOMES, Reason
from streams.web import lag_metrics, server_metrics
from streams.web.server_metrics import ServerFacts
from streams.worker.health.worker_status import WorkerStatus

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
REASONS: Final = tuple(str(reason) for reason in Reason)
SEVERITIES: Final = ("page", "ticket", "digest")
DELIVERY_CALLS: Final = ("read_alerts", "read_deliveries", "store_deliveries")
_ALL: Final = "of the whole store, so the same from every worker."


@dataclass(frozen=True)
class StoreFacts:
    """Values read from the store now."""

    jobs_live: int
    usd_per_hour_now: float
    alerts_firing: Mapping[str, int] = field(default_factory=dict)
    deliveries: Mapping[str, int] = field(default_factory=dict)


def page(
    status: WorkerStatus,
    facts: StoreFacts | None,
    listeners: int,
    version: str,
    edge: ServerFacts = server_metrics.NOTHING,
) -> bytes:
    """The page; without `facts` the store did not answer in time, and its series are absent."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(status, facts, listeners, version, edge))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Page(Collector):
    def __init__(
        self, status: WorkerStatus, facts: StoreFacts | None, listeners: int, version: str, edge: ServerFacts
    ) -> None:
        self._status = status
        self._facts = facts
        self._listeners = listeners
        self._version = version
        self._edge = edge

    def collect(self) -> Iterable[Metric]:
        yield InfoMetricFamily(
            "trainfare_build",
            "The version that runs.",
            {"version": self._version, "python": platform.python_version()},
        )
        yield from _worker(self._status)
        yield _gauge("trainfare_stream_listeners", "Listeners of /api/v1/stream.", self._listeners)
        yield from server_metrics.collect(self._edge)
        yield _gauge(
            "trainfare_store_up",
            "Whether ClickHouse answered this scrape in time.",
            int(self._facts is not None),
        )
        if self._facts is not None:
            yield from _store(self._facts)


def _worker(status: WorkerStatus) -> Iterable[Metric]:
    yield from _read(status)
    yield from _stored(status)
    yield from _shards(status)
    yield from _proved(status)
    if status.notifier_pending is not None:
        yield _gauge(
            "trainfare_deliveries_pending", "Messages still to be delivered.", status.notifier_pending
        )
        yield _counters(
            "trainfare_delivery_faults",
            "Calls of the store that deliveries need and that failed; each is tried again.",
            "call",
            dict.fromkeys(DELIVERY_CALLS, 0) | dict(status.delivery_faults),
        )
    ready = GaugeMetricFamily("trainfare_ready", "Whether each check of /readyz holds.", labels=["check"])
    for check in status.checks:
        ready.add_metric([check.name], int(check.ok))
    yield ready


def _read(status: WorkerStatus) -> Iterable[Metric]:
    """Yield what came in, and what is still to be read."""
    yield from lag_metrics.collect(status)
    by_outcome = dict.fromkeys(OUTCOMES, 0) | dict(status.records)
    yield _counters(
        "trainfare_records", "Kafka records metered, by what became of them.", "outcome", by_outcome
    )
    yield _counter(
        "trainfare_trimmed_records", "Records read again though they were metered.", status.records_trimmed
    )
    yield _counter(
        "trainfare_other_workers_records",
        "Records of shards that had left when they came.",
        status.records_not_mine,
    )
    by_reason = dict.fromkeys(REASONS, 0) | dict(status.dead_letters)
    yield _counters("trainfare_dead_letters", "Records refused or too late, by reason.", "reason", by_reason)
    yield _counter(
        "trainfare_dead_letters_sampled_out",
        "Of them, those that were counted and not stored.",
        status.dead_letters_sampled_out,
    )
    yield _counter(
        "trainfare_refused_reference_records",
        "Prices and controls that were refused.",
        status.reference_refused,
    )
    yield _counter("trainfare_late_gpu_samples", "GPU samples too late to count.", status.gpu_samples_late)
    yield _counter(
        "trainfare_capped_costs", "Rows whose cost did not fit into Decimal(18, 9).", status.costs_capped
    )
    yield _counter(
        "trainfare_refetches", "Times that records were read again, lost on the way.", status.refetches
    )
    yield from _age(
        "trainfare_watermark_age_seconds",
        "By which the newest event metered is behind the clock.",
        status.watermark_age_ms,
    )
    yield _gauges(
        "trainfare_reference_lag_records",
        "Prices and controls in the log, not read yet.",
        "topic",
        status.reference_lag_records,
    )
    yield from _age("trainfare_price_age_seconds", "Time since the newest price came.", status.price_age_ms)


def _stored(status: WorkerStatus) -> Iterable[Metric]:
    yield _counters("trainfare_rows_stored", "Rows stored in ClickHouse.", "table", status.rows_stored)
    yield _counter("trainfare_checkpoints", "Checkpoints stored.", status.checkpoints)
    yield _counter(
        "trainfare_refused_inserts",
        "Checkpoints that the store did not take at once.",
        status.inserts_refused,
    )
    yield _counter(
        "trainfare_refused_commits", "Offsets that Kafka did not take; not needed.", status.commits_refused
    )
    yield _gauge("trainfare_backlog_bytes", "What was read and is not stored yet.", status.backlog_bytes)
    yield _gauge(
        "trainfare_backlog_limit_bytes", "The backlog at which reading pauses.", status.max_backlog_bytes
    )
    yield _gauge("trainfare_reading_paused", "Whether reading pauses for it.", int(status.reading_paused))
    yield from _age(
        "trainfare_checkpoint_age_seconds",
        "Time since all that was read was stored.",
        status.checkpoint_age_ms,
    )


def _shards(status: WorkerStatus) -> Iterable[Metric]:
    yield _gauge("trainfare_shards_held", "Shards in this worker's memory.", status.shards_held)
    yield _gauge("trainfare_shards_restoring", "Shards assigned and not loaded yet.", status.shards_restoring)
    yield from _age(
        "trainfare_snapshot_age_seconds",
        "Time since the snapshot of the shard where it is oldest.",
        status.snapshot_age_ms,
    )
    yield from _age(
        "trainfare_last_restore_duration_seconds", "What the last load of a shard took.", status.restore_ms
    )
    yield _counter("trainfare_rebalances", "Times that shards were assigned.", status.rebalances)
    yield _counter(
        "trainfare_phantom_rows", "Rows newer than the snapshot at a load, put right.", status.rows_phantom
    )
    yield _counter(
        "trainfare_swept_rows", "Rows of an earlier owner that came later, put right.", status.rows_swept
    )


def _proved(status: WorkerStatus) -> Iterable[Metric]:
    yield _gauges(
        "trainfare_books_balanced",
        "Whether each check of the last audit holds.",
        "check",
        status.books_balanced,
    )
    yield from _age("trainfare_audit_age_seconds", "Time since the last audit.", status.audit_age_ms)
    enabled = int(status.canary_enabled)
    yield _gauge("trainfare_canary_enabled", "Whether canary.enabled is set.", enabled)
    canary = status.canary
    if canary is None:
        return
    yield _counter("trainfare_canary_runs", "Canary runs that were looked for.", canary.runs)
    yield _counter("trainfare_canary_wrong", "Canary runs whose cost was wrong.", canary.wrong)
    yield _counter("trainfare_canary_late", "Canary runs whose cost came late.", canary.late)
    yield from _age(
        "trainfare_canary_right_age_seconds", "Time since a canary run was right.", canary.right_age_ms
    )
    yield from _age(
        "trainfare_canary_latency_seconds",
        "From the end of the last canary run to its stored cost.",
        canary.latency_ms,
    )
    if canary.error_ratio is not None:
        yield _gauge(
            "trainfare_canary_error_ratio", "By how much its cost was wrong, of it.", canary.error_ratio
        )


def _store(facts: StoreFacts) -> Iterable[Metric]:
    yield _gauge("trainfare_jobs_live", f"Jobs that hold GPUs or are sampled, {_ALL}", facts.jobs_live)
    yield _gauge(
        "trainfare_burn_usd_per_hour", f"What accrues at this instant, {_ALL}", facts.usd_per_hour_now
    )
    firing = GaugeMetricFamily("trainfare_alerts_firing", f"Alerts that fire, {_ALL}", labels=["severity"])
    for severity, count in (dict.fromkeys(SEVERITIES, 0) | dict(facts.alerts_firing)).items():
        firing.add_metric([severity], count)
    yield firing
    yield _counters(
        "trainfare_deliveries", f"Attempts to deliver an alert, {_ALL}", "outcome", facts.deliveries
    )


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(name, documentation, value=value)


def _gauges(name: str, documentation: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, documentation, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], float(value))
    return family


def _age(name: str, documentation: str, age_ms: int | None) -> Iterable[Metric]:
    """Yield nothing while the age is unknown."""
    if age_ms is not None:
        yield _gauge(name, documentation, age_ms / 1000)


def _counter(name: str, documentation: str, value: float) -> Metric:
    return CounterMetricFamily(name, documentation, value=value)


def _counters(name: str, documentation: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, documentation, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family
