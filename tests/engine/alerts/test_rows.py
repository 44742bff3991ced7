"""Alerts as rows of the table, and the ids of messages about them."""

from __future__ import annotations

import re
from decimal import Decimal

from schemas.tables import ALERTS, SCHEMAS
from sinks.clickhouse import ClickHouseStore
from streams.engine.alerts.alert import webhook_id
from streams.engine.alerts.rows import alerts_table
from streams.engine.state.dimensions import AlertDimensions
from tests.engine.alerts.asked import at, dicts
from tests.engine.alerts.scene import FAST, HOUR_MS, START_MS, USUAL, At, Scene


def test_a_row_holds_the_alert(store: ClickHouseStore) -> None:
    scene = Scene()
    scene.dimensions = {"j": AlertDimensions("j", owner="ann", team="nlp", project="p")}
    opened, resolved = scene.see((0, FAST), (0, At(m5=6, m15=3)), (0, USUAL))
    store.insert(ALERTS, alerts_table([opened], 7, 1), "a")
    (row,) = dicts(store, "SELECT * FROM alerts FINAL")
    assert row["resolved"] is None
    store.insert(ALERTS, alerts_table([opened, resolved], 7, 2), "b")
    (row,) = dicts(store, "SELECT * FROM alerts FINAL")
    assert row == {
        "alert_id": opened.alert_id,
        "rule": "burn_fast",
        "severity": "digest",
        "status": "resolved",
        "subject_kind": "job",
        "subject_name": "j",
        "owner": "ann",
        "team": "nlp",
        "project": "p",
        "started": at(START_MS),
        "resolved": at(START_MS + 20_000),
        "ratio": 3.0,
        "usd_per_hour": Decimal(120),
        "expected_usd_per_hour": Decimal(40),
        "cost_usd": Decimal(30),
        "window_ms": 900_000,
        "summary": resolved.summary,
        "evidence_sql": resolved.evidence_sql,
        "held": at(START_MS + 10_000),
        "changed": at(START_MS + 20_000),
        "firings": 1,
        "silenced": False,
        "budget_usd": None,
        "exhausted_in_s": None,
        "shared_cause": "",
        "opened_usd_per_hour": Decimal(0),
        "margins": "",
        "ticket_since": None,
        "page_since": None,
        "stood_since": None,
        "openings": [],
        "quiet_since": None,
        "shard": 7,
        "version": 2,
    }


def test_a_table_has_the_schema_and_one_row_an_alert() -> None:
    assert alerts_table([], 0, 1).schema == SCHEMAS[ALERTS]
    scene = Scene()
    alerts = scene.see((0, FAST), (0, USUAL), (0, FAST), (HOUR_MS, USUAL), (0, FAST))
    table = alerts_table(alerts, 0, 1)
    assert table["status"].to_pylist() == ["resolved", "firing"]
    assert table["firings"].to_pylist() == [2, 1]


def test_a_message_has_one_id_per_change_of_status() -> None:
    first = webhook_id("al_1", "firing", START_MS)
    assert re.fullmatch(r"msg_[0-9a-f]{24}", first)
    assert first == webhook_id("al_1", "firing", START_MS)
    others = {webhook_id("al_2", "firing", START_MS), webhook_id("al_1", "resolved", START_MS)}
    assert len({first, webhook_id("al_1", "firing", START_MS + 1), *others}) == 4
