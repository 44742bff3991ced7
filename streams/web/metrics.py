"""The page of metrics: one look at the worker and at the store, in Prometheus' words.

It must not keep state of its own, and has no series per job: those are rows in ClickHouse.
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

from streams.web.status import WorkerStatus

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OUTCOMES: Final = ("applied", "duplicate", "too_late", "dead_lettered")
SEVERITIES: Final = ("page", "ticket")
_ALL: Final = "of the whole store, so the same from every worker."


@dataclass(frozen=True)
class StoreFacts:
    """What the store says at this moment."""

    jobs_live: int
    usd_per_hour_now: float
    alerts_firing: Mapping[str, int] = field(default_factory=dict)
    deliveries: Mapping[str, int] = field(default_factory=dict)


def page(status: WorkerStatus, facts: StoreFacts | None, listeners: int, version: str) -> bytes:
    """Return the page; without facts the store did not answer in time, and its series are absent."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(status, facts, listeners, version))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Page(Collector):
    def __init__(self, status: WorkerStatus, facts: StoreFacts | None, listeners: int, version: str) -> None:
        self._status = status
        self._facts = facts
        self._listeners = listeners
        self._version = version

    def collect(self) -> Iterable[Metric]:
        yield InfoMetricFamily(
            "trainfare_build",
            "The version that runs.",
            {"version": self._version, "python": platform.python_version()},
        )
        yield from _worker(self._status)
        yield _gauge("trainfare_stream_listeners", "Listeners of /api/v1/stream.", self._listeners)
        yield _gauge(
            "trainfare_store_up",
            "Whether ClickHouse answered this scrape in time.",
            int(self._facts is not None),
        )
        if self._facts is not None:
            yield from _store(self._facts)


def _worker(status: WorkerStatus) -> Iterable[Metric]:
    by_outcome = dict.fromkeys(OUTCOMES, 0) | dict(status.records)
    yield _counters(
        "trainfare_records", "Kafka records metered, by what became of them.", "outcome", by_outcome
    )
    yield _counters("trainfare_rows_stored", "Rows stored in ClickHouse.", "table", status.rows_stored)
    yield _counter(
        "trainfare_dead_letters",
        "Records refused or too late, each a row of `dead_letters`.",
        by_outcome["dead_lettered"] + by_outcome["too_late"],
    )
    yield _counter("trainfare_late_gpu_samples", "GPU samples too late to count.", status.gpu_samples_late)
    yield _counter(
        "trainfare_capped_costs", "Rows whose cost did not fit into Decimal(18, 9).", status.costs_capped
    )
    yield _counter("trainfare_checkpoints", "Checkpoints stored.", status.checkpoints)
    yield _counter(
        "trainfare_refused_inserts",
        "Checkpoints that the store did not take at once.",
        status.inserts_refused,
    )
    yield _gauge("trainfare_backlog_bytes", "What was read and is not stored yet.", status.backlog_bytes)
    yield _gauge("trainfare_shards_held", "Shards in this worker's memory.", status.shards_held)
    yield _gauge("trainfare_shards_restoring", "Shards assigned and not loaded yet.", status.shards_restoring)
    if status.checkpoint_age_ms is not None:
        age_s = status.checkpoint_age_ms / 1000
        yield _gauge("trainfare_checkpoint_age_seconds", "Time since all that was read was stored.", age_s)
    if status.watermark_age_ms is not None:
        age_s = status.watermark_age_ms / 1000
        yield _gauge(
            "trainfare_watermark_age_seconds", "By which the newest event metered is behind the clock.", age_s
        )
    if status.courier_pending is not None:
        yield _gauge(
            "trainfare_deliveries_pending", "Messages still to be delivered.", status.courier_pending
        )
    ready = GaugeMetricFamily("trainfare_ready", "Whether each check of /readyz holds.", labels=["check"])
    for check in status.checks:
        ready.add_metric([check.name], int(check.ok))
    yield ready


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


def _counter(name: str, documentation: str, value: float) -> Metric:
    return CounterMetricFamily(name, documentation, value=value)


def _counters(name: str, documentation: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, documentation, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family
