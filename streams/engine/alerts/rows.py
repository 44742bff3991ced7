"""Alerts as rows of the table `alerts`."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import numpy as np
import pyarrow as pa

from schemas.column_types import MONEY
from schemas.columns import instants, money
from schemas.tables import ALERTS, SCHEMAS
from streams.engine.alerts.alert import Alert

_AS_THEY_ARE = (
    "alert_id",
    "rule",
    "severity",
    "status",
    "subject_kind",
    "subject_name",
    "owner",
    "team",
    "project",
    "ratio",
    "window_ms",
    "summary",
    "evidence_sql",
    "firings",
    "silenced",
    "shared_cause",
    "margins",
)


def alerts_table(alerts: Iterable[Alert], shard: int, version: int) -> pa.Table:
    """Build rows of the last state of each alert in `alerts` (in order of time)."""
    last = list({alert.alert_id: alert for alert in alerts}.values())
    columns: dict[str, object] = {name: [getattr(alert, name) for alert in last] for name in _AS_THEY_ARE}
    columns |= {
        "started": instants([alert.started_ms for alert in last]),
        "resolved": instants([alert.resolved_ms for alert in last]),
        "held": instants([alert.held_ms for alert in last]),
        "changed": instants([alert.changed_ms for alert in last]),
        "ticket_since": instants([alert.ticket_ms for alert in last]),
        "page_since": instants([alert.page_ms for alert in last]),
        "openings": [alert.openings for alert in last],
        "quiet_since": instants([alert.quiet_ms for alert in last]),
        "stood_since": instants([alert.stood_ms for alert in last]),
        "usd_per_hour": _money([alert.usd_nano_per_hour for alert in last]),
        "expected_usd_per_hour": _money([alert.expected_nano_per_hour for alert in last]),
        "cost_usd": _money([alert.cost_nano for alert in last]),
        "opened_usd_per_hour": _money([alert.opened_nano_per_hour for alert in last]),
        "budget_usd": _optional_money([alert.budget_nano for alert in last]),
        "exhausted_in_s": [_seconds(alert.exhausted_in_ms) for alert in last],
        "shard": pa.array(np.full(len(last), shard, np.uint16)),
        "version": pa.array(np.full(len(last), version, np.uint64)),
    }
    return pa.Table.from_pydict(columns, schema=SCHEMAS[ALERTS])


def _optional_money(nano: list[int | None]) -> pa.Array:
    return pa.array([None if each is None else Decimal(each).scaleb(-9) for each in nano], MONEY)


def _seconds(ms: int | None) -> int | None:
    return None if ms is None else ms // 1000


def _money(nano: list[int]) -> pa.Array:
    return money(np.array(nano, np.int64))
