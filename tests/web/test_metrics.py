"""The page of metrics is read by Prometheus' own parser, and its names keep Prometheus' conventions."""

from __future__ import annotations

import re
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from schemas.reasons import Reason
from sinks.clickhouse import ClickHouseStore
from streams.fallbacks import WHAT
from streams.web import metrics
from streams.web.metrics import StoreFacts
from streams.web.server_metrics import ServerFacts
from streams.worker.health.worker_status import CanaryStatus, Check, WorkerStatus
from tests.web.serving import Client, served

STATUS = WorkerStatus(
    checks=(Check("kafka", True, "x"), Check("shards", False, "y")),
    records={"applied": 90, "unattributed": 7, "duplicate": 5, "too_late": 3, "dead_lettered": 2},
    gpu_samples_late=4,
    costs_capped=1,
    rows_stored={"job_minutes": 70, "jobs": 7},
    checkpoints=12,
    inserts_refused=2,
    backlog_bytes=4096,
    shards_held=3,
    shards_restoring=1,
    checkpoint_age_ms=1500,
    watermark_age_ms=250,
    notifier_pending=6,
    delivery_faults={"read_alerts": 3},
    lag_records={"gpu": 40, "jobs": 0},
    lag_ms={"gpu": 2500, "jobs": 0},
    shard_lag_records_max=30,
    no_progress_ms=61_000,
    reference_lag_records={"prices": 1},
    price_age_ms=90_000,
    snapshot_age_ms=3000,
    restore_ms=700,
    rebalances=8,
    max_backlog_bytes=8192,
    reading_paused=True,
    refetches=9,
    transaction_records={"gpu": 43},
    transaction_ms={"gpu": 84_500},
    fallbacks={"gpu_decoded": 44},
    clock_ahead_ms=-7_200_500,
    clock_faults=41,
    shards_rewound=42,
    shards_unowned=45,
    ledger_rules_lag_ms=95_500,
    own_rules_failed=46,
    rows_swept=10,
    rows_phantom=11,
    commits_refused=13,
    records_trimmed=14,
    records_not_mine=15,
    dead_letters={"future": 2, "too_late": 3},
    dead_letters_sampled_out=1,
    reference_refused=16,
    books_balanced={"ledger": False, "records": True},
    audit_age_ms=17_000,
    canary_enabled=True,
    canary=CanaryStatus(runs=18, wrong=1, late=2, right_age_ms=60_500, latency_ms=1250, error_ratio=0.002),
)
EDGE = ServerFacts(
    connections=21,
    refused={"address": 22, "all": 23},
    dropped={"header": 24, "body": 25, "idle": 26, "not_reading": 27, "evicted": 28},
    pauses=29,
    bodies_evicted=30,
    tokens_refused=31,
    queries={"answered": 32, "refused": 33},
    queries_running=34,
    explain_fallbacks={"too_large": 35},
)
FACTS = StoreFacts(2, 12.5, {"page": 1}, {"delivered": 5, "retrying": 2})


#: Each has few values, and none of a user's making: a series per job would be one for each of a million.
LABELS = {"call", "what", "outcome", "table", "topic", "reason", "severity", "check", "version", "python"}


def families(page: bytes) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(page.decode())}


def values(page: bytes) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families(page).values()
        for sample in family.samples
    }


def test_every_number_is_there() -> None:
    found = values(metrics.page(STATUS, FACTS, 3, "1.2.3", EDGE))
    expected: dict[tuple[str, ...], float] = {
        ("trainfare_records_total", "applied"): 90,
        ("trainfare_records_total", "unattributed"): 7,
        ("trainfare_records_total", "duplicate"): 5,
        ("trainfare_records_total", "too_late"): 3,
        ("trainfare_records_total", "dead_lettered"): 2,
        **{("trainfare_dead_letters_total", str(reason)): 0 for reason in Reason},
        ("trainfare_dead_letters_total", "future"): 2,
        ("trainfare_dead_letters_total", "too_late"): 3,
        ("trainfare_dead_letters_sampled_out_total",): 1,
        ("trainfare_refused_reference_records_total",): 16,
        ("trainfare_trimmed_records_total",): 14,
        ("trainfare_transaction_records", "gpu"): 43,
        ("trainfare_transaction_seconds", "gpu"): 84.5,
        **{("trainfare_fallbacks_total", what): 0 for what in WHAT},
        ("trainfare_fallbacks_total", "gpu_decoded"): 44,
        ("trainfare_clock_ahead_seconds",): -7200.5,
        ("trainfare_clock_faults_total",): 41,
        ("trainfare_rewound_shards_total",): 42,
        ("trainfare_shards_unowned",): 45,
        ("trainfare_ledger_rules_lag_seconds",): 95.5,
        ("trainfare_own_rules_failed_total",): 46,
        ("trainfare_other_workers_records_total",): 15,
        ("trainfare_refetches_total",): 9,
        ("trainfare_lag_records", "gpu"): 40,
        ("trainfare_lag_records", "jobs"): 0,
        ("trainfare_lag_seconds", "gpu"): 2.5,
        ("trainfare_lag_seconds", "jobs"): 0,
        ("trainfare_shard_lag_records_max",): 30,
        ("trainfare_no_progress_seconds",): 61,
        ("trainfare_reference_lag_records", "prices"): 1,
        ("trainfare_price_age_seconds",): 90,
        ("trainfare_refused_commits_total",): 13,
        ("trainfare_backlog_limit_bytes",): 8192,
        ("trainfare_reading_paused",): 1,
        ("trainfare_snapshot_age_seconds",): 3,
        ("trainfare_last_restore_duration_seconds",): 0.7,
        ("trainfare_rebalances_total",): 8,
        ("trainfare_phantom_rows_total",): 11,
        ("trainfare_swept_rows_total",): 10,
        ("trainfare_books_balanced", "ledger"): 0,
        ("trainfare_books_balanced", "records"): 1,
        ("trainfare_audit_age_seconds",): 17,
        ("trainfare_canary_enabled",): 1,
        ("trainfare_canary_runs_total",): 18,
        ("trainfare_canary_wrong_total",): 1,
        ("trainfare_canary_late_total",): 2,
        ("trainfare_canary_right_age_seconds",): 60.5,
        ("trainfare_canary_latency_seconds",): 1.25,
        ("trainfare_canary_error_ratio",): 0.002,
        ("trainfare_late_gpu_samples_total",): 4,
        ("trainfare_capped_costs_total",): 1,
        ("trainfare_rows_stored_total", "job_minutes"): 70,
        ("trainfare_rows_stored_total", "jobs"): 7,
        ("trainfare_checkpoints_total",): 12,
        ("trainfare_refused_inserts_total",): 2,
        ("trainfare_backlog_bytes",): 4096,
        ("trainfare_shards_held",): 3,
        ("trainfare_shards_restoring",): 1,
        ("trainfare_checkpoint_age_seconds",): 1.5,
        ("trainfare_watermark_age_seconds",): 0.25,
        ("trainfare_deliveries_pending",): 6,
        ("trainfare_delivery_faults_total", "read_alerts"): 3,
        ("trainfare_delivery_faults_total", "read_deliveries"): 0,
        ("trainfare_delivery_faults_total", "store_deliveries"): 0,
        ("trainfare_ready", "kafka"): 1,
        ("trainfare_ready", "shards"): 0,
        ("trainfare_stream_listeners",): 3,
        ("trainfare_web_connections",): 21,
        ("trainfare_web_connections_refused_total", "address"): 22,
        ("trainfare_web_connections_refused_total", "all"): 23,
        ("trainfare_web_connections_dropped_total", "header"): 24,
        ("trainfare_web_connections_dropped_total", "body"): 25,
        ("trainfare_web_connections_dropped_total", "idle"): 26,
        ("trainfare_web_connections_dropped_total", "not_reading"): 27,
        ("trainfare_web_connections_dropped_total", "evicted"): 28,
        ("trainfare_web_accept_pauses_total",): 29,
        ("trainfare_web_bodies_evicted_total",): 30,
        ("trainfare_web_tokens_refused_total",): 31,
        ("trainfare_web_queries_total", "answered"): 32,
        ("trainfare_web_queries_total", "refused"): 33,
        **{("trainfare_web_queries_total", name): 0 for name in ("failed", "cancelled", "busy", "off")},
        ("trainfare_web_events_total", "accepted"): 0,
        ("trainfare_web_queries_running",): 34,
        ("trainfare_explain_fallbacks_total", "too_large"): 35,
        **{("trainfare_explain_fallbacks_total", name): 0 for name in ("no_state", "differs")},
        ("trainfare_store_up",): 1,
        ("trainfare_jobs_live",): 2,
        ("trainfare_burn_usd_per_hour",): 12.5,
        ("trainfare_alerts_firing", "page"): 1,
        ("trainfare_alerts_firing", "ticket"): 0,
        ("trainfare_alerts_firing", "digest"): 0,
        ("trainfare_deliveries_total", "delivered"): 5,
        ("trainfare_deliveries_total", "retrying"): 2,
    }
    assert {key: found[key] for key in expected} == expected
    assert any(key[0] == "trainfare_build_info" and "1.2.3" in key for key in found)
    ours = {key for key in found if key[0].startswith("trainfare_") and key[0] != "trainfare_build_info"}
    assert ours == set(expected), "every series is looked at here"
    assert ("process_resident_memory_bytes",) in found


def test_names_keep_the_conventions() -> None:
    for name, family in families(metrics.page(STATUS, FACTS, 0, "1")).items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name), name
        assert family.documentation.endswith("."), name
        if not name.startswith("trainfare_"):
            continue
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter"), name
            assert not re.search(r"_(ms|milli|nano|mib)(_|$)", sample.name), "base units only"
            assert set(sample.labels) <= LABELS


def test_a_worker_that_has_done_nothing_shows_zeros() -> None:
    found = values(metrics.page(WorkerStatus(), None, 0, "1"))
    assert found["trainfare_records_total", "applied"] == 0
    assert found["trainfare_store_up",] == 0
    assert ("trainfare_checkpoint_age_seconds",) not in found
    assert ("trainfare_jobs_live",) not in found, "no answer is not zero"


def test_over_http(store: ClickHouseStore) -> None:
    async def work(client: Client) -> Any:
        async with client.session.get(f"{client.server.url}/metrics") as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            return await answer.read()

    found = values(served(store, work, status=lambda: STATUS))
    assert found["trainfare_store_up",] == 1
    assert found["trainfare_jobs_live",] == 1
    assert found["trainfare_burn_usd_per_hour",] == pytest.approx(12.500000001)
    assert found["trainfare_alerts_firing", "page"] == 1
    assert found["trainfare_deliveries_total", "delivered"] == 1
    assert found["trainfare_records_total", "applied"] == 90
    assert found["trainfare_web_connections",] == 1, "the one that asks"


def test_without_a_store_there_are_the_workers_own() -> None:
    async def work(client: Client) -> Any:
        return await client.get("/metrics")

    found = values(served(None, work, status=lambda: STATUS))
    assert (found["trainfare_store_up",], found["trainfare_backlog_bytes",]) == (0, 4096)
