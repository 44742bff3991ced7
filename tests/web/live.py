"""Burn rates, alerts and deliveries, put into a store as the engine and the notifier do."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from schemas.tables import ALERTS, BURN_RATES, DELIVERIES, SCHEMAS
from sinks.clickhouse import ClickHouseStore
from sinks.rows import Condition
from tests.sinks import canary_rows
from tests.web.log import AS_OF_MS, T0_MS

SECRET_RECEIVER = "https://hooks.example.com:443"


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def burn(job_id: str, at_ms: int, usd_per_hour: str, *, version: int = 1, **changes: str) -> dict[str, Any]:
    """A row in which every rate is the same, with changes."""
    rate = Decimal(usd_per_hour)
    names = ("usd_per_hour", "usd_per_hour_15m", "usd_per_hour_1h", "usd_per_hour_6h", "usd_per_hour_now")
    row: dict[str, Any] = {
        "time": at(at_ms),
        "job_id": job_id,
        "shard": 0,
        "version": version,
        "ratio_15m": 0.0,
    }
    row |= dict.fromkeys(names, rate) | {"expected_usd_per_hour": rate}
    return row | {name: Decimal(value) for name, value in changes.items()}


def alert(alert_id: str, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "alert_id": alert_id,
        "rule": "burn_fast",
        "severity": "page",
        "status": "firing",
        "subject_kind": "job",
        "subject_name": "b",
        "owner": "bob",
        "team": "speech",
        "project": "",
        "started": at(T0_MS + 400_000),
        "resolved": None,
        "ratio": 6.5,
        "usd_per_hour": Decimal("32.5"),
        "expected_usd_per_hour": Decimal(5),
        "cost_usd": Decimal("8.125"),
        "window_ms": 900_000,
        "summary": "job b burns 6.5 times what is expected",
        "evidence_sql": "SELECT 1",
        "held": at(T0_MS + 500_000),
        "changed": at(T0_MS + 400_000),
        "firings": 1,
        "silenced": False,
        "shared_cause": "",
        "opened_usd_per_hour": Decimal(0),
        "margins": "",
        "ticket_since": None,
        "page_since": None,
        "stood_since": None,
        "openings": [],
        "quiet_since": None,
        "shard": 0,
        "version": 1,
    }
    return row | changes


def delivery(alert_id: str, attempt: int, outcome: str, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "time": at(T0_MS + 400_000 + attempt * 1000),
        "alert_id": alert_id,
        "webhook_id": "msg_1",
        "status": "firing",
        "receiver": SECRET_RECEIVER,
        "attempt": attempt,
        "outcome": outcome,
        "http_status": 200 if outcome == "delivered" else 503,
        "detail": "",
        "version": attempt,
    }
    return row | changes


def put(store: ClickHouseStore, table: str, rows: Iterable[dict[str, Any]], token: str) -> None:
    store.insert(table, pa.Table.from_pylist(list(rows), schema=SCHEMAS[table]), token)


def only_ours(store: ClickHouseStore) -> None:
    """Take away what the replay judged by itself, and put in the rows that the tests know by hand."""
    for table in (BURN_RATES, ALERTS, DELIVERIES):
        store.delete(table, [Condition("version", ">=", 0)])
    rows = [
        burn("b", AS_OF_MS - 3 * 60_000, "5"),
        burn("b", AS_OF_MS - 2 * 60_000, "999", version=1),
        burn("b", AS_OF_MS - 2 * 60_000, "6", version=2),  # stands for the row before it
        burn(
            "b",
            AS_OF_MS,
            "10",
            usd_per_hour_now="12.500000001",
            usd_per_hour_1h="7",
            expected_usd_per_hour="5",
        ),
        burn("a", AS_OF_MS - 5 * 60_000, "0", usd_per_hour_1h="0.833333333"),
        burn("z", AS_OF_MS - 12 * 60_000, "100"),  # too old to count
    ]
    put(store, BURN_RATES, rows, "burn")
    canary_rows.load(store, at(AS_OF_MS - 86_400_000 - 60_000))  # to be seen nowhere, its second day today
    alerts = [
        alert("al_1"),
        alert("al_2", rule="unpriced", severity="ticket", subject_name="gone", ratio=0.0, changed=at(T0_MS)),
        alert("al_3", status="resolved", resolved=at(T0_MS + 450_000), changed=at(T0_MS + 450_000)),
    ]
    put(store, ALERTS, alerts, "alerts")
    put(store, DELIVERIES, [delivery("al_1", 1, "retrying"), delivery("al_1", 2, "delivered")], "deliveries")
