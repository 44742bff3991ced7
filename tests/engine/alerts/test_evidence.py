"""The evidence of an alert runs as it is, shows the window, and cannot be broken by a name."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from schemas.tables import ATTEMPTS, JOB_MINUTES, JOB_USAGE_MINUTES
from sinks.clickhouse import ClickHouseStore
from streams.engine.rules.evidence import (
    attempts_evidence,
    burn_evidence,
    decimal,
    quoted,
    unpriced_evidence,
)
from tests.engine.alerts.asked import ODD, at, dicts
from tests.engine.alerts.scene import (
    DRIFT,
    FAST,
    MINUTE_MS,
    SILENT,
    START_MS,
    SUSTAINED,
    UNPRICED,
    At,
    Scene,
)
from tests.sinks.rows import rows


def minute(job_id: str, ms: int, usd_of_minute: str, **values: Any) -> dict[str, Any]:
    """A minute of 8 GPUs."""
    usual = {"sku": "h100", "quantity": 8 * 1000 * MINUTE_MS}
    return {"job_id": job_id, "minute": at(ms), "cost_usd": Decimal(usd_of_minute), **usual, **values}


def fast(job_id: str) -> Any:
    scene = Scene()
    (alert,) = scene.see((0, FAST), job=job_id)
    return alert


def test_the_evidence_shows_the_window_beside_what_was_expected(store: ClickHouseStore) -> None:
    cost = [minute("j", START_MS - k * MINUTE_MS, "4") for k in range(1, 6)]
    cost += [minute("j", START_MS - k * MINUTE_MS, "0.5") for k in range(6, 60)]
    cost += [
        minute("j", START_MS - MINUTE_MS, "2", component="network", unit="bytes", sku="egress", quantity=5)
    ]
    cost += [minute("other", START_MS - k * MINUTE_MS, "9") for k in range(20)]
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *cost), "t")
    shown = dicts(store, fast("j").evidence_sql)
    assert len(shown) == 15
    assert shown[-1] == {
        "from_minute": at(START_MS - MINUTE_MS),
        "usd_per_hour": 360.0,
        "expected_usd_per_hour": Decimal(40),
        "cost_usd": Decimal(6),
        "gpu_cost_usd": Decimal(4),
        "traffic_cost_usd": Decimal(2),
        "gpus": 8.0,
        "skus": ["egress", "h100"],
    }
    assert [row["usd_per_hour"] for row in shown[:-1]] == [30.0] * 10 + [240.0] * 4


@pytest.mark.parametrize(("sort", "most"), [(FAST, 16), (SUSTAINED, 16), (DRIFT, 16)])
def test_the_evidence_of_any_window_fits_a_screen(store: ClickHouseStore, sort: At, most: int) -> None:
    cost = [minute("j", START_MS - k * MINUTE_MS, "1") for k in range(400)]
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *cost), "t")
    (alert,) = Scene().see((0, sort))
    shown = dicts(store, alert.evidence_sql)
    assert 14 <= len(shown) <= most
    assert {row["usd_per_hour"] for row in shown} == {60.0}
    minutes = sum(row["cost_usd"] for row in shown)
    assert 0 <= minutes - alert.window_ms // MINUTE_MS <= alert.window_ms // MINUTE_MS // 10


def test_the_evidence_of_unpriced_shows_what_a_price_could_match(store: ClickHouseStore) -> None:
    cost = [minute("j", START_MS + k * MINUTE_MS, "0", sku="") for k in range(30)]
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *cost, minute("j", START_MS, "1")), "t")
    (alert,) = Scene().see((0, UNPRICED))
    (row,) = dicts(store, alert.evidence_sql)
    assert row["attempt"] == 1
    assert (row["first_minute"], row["last_minute"]) == (at(START_MS), at(START_MS + 29 * MINUTE_MS))
    assert row["unpriced_gpu_h"] == 4.0
    assert {"cloud", "region", "cluster", "instance_type", "gpu_type", "purchase"} <= row.keys()


def test_the_evidence_of_a_silent_job_shows_what_was_heard_last(store: ClickHouseStore) -> None:
    paid = [minute("j", START_MS + k * MINUTE_MS, "2") for k in range(30)]
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *paid, minute("other", START_MS, "1")), "t")
    attempts = [{"job_id": "j", "attempt": 1, "state": "running"}, {"job_id": "other", "attempt": 1}]
    store.insert(ATTEMPTS, rows(ATTEMPTS, *attempts), "t")
    sampled = [{"job_id": "j", "attempt": 1, "minute": at(START_MS + k * MINUTE_MS)} for k in range(3)]
    store.insert(JOB_USAGE_MINUTES, rows(JOB_USAGE_MINUTES, *sampled), "t")
    (alert,) = Scene().see((0, SILENT))
    (row,) = dicts(store, alert.evidence_sql)
    assert (row["attempt"], row["state"], row["job_cost_usd"]) == (1, "running", 60)
    assert row["last_sampled"] == at(START_MS + 2 * MINUTE_MS)


@pytest.mark.parametrize("job_id", ODD)
def test_any_name_is_safely_quoted(store: ClickHouseStore, job_id: str) -> None:
    others = [minute(other, START_MS - MINUTE_MS, "9", sku="") for other in ODD if other != job_id]
    mine = minute(job_id, START_MS - MINUTE_MS, "3", sku="")
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, mine, *others), "t")
    store.insert(ATTEMPTS, rows(ATTEMPTS, *({"job_id": each, "attempt": 1} for each in ODD)), "t")
    burn = burn_evidence(job_id, START_MS, 900_000, 5)
    for sql in (burn, unpriced_evidence(job_id), attempts_evidence(job_id)):
        assert len(sql.splitlines()) == 1
        assert sql.isprintable()
        assert len(dicts(store, sql)) == 1
    (row,) = dicts(store, burn_evidence(job_id, START_MS, 900_000, 5))
    assert row["cost_usd"] == Decimal(3)
    assert dicts(store, f"SELECT {quoted(job_id)} AS text") == [{"text": job_id}]


def test_a_literal_of_money_is_exact(store: ClickHouseStore) -> None:
    (row,) = dicts(store, f"SELECT {decimal(10**18 - 1)} AS most, {decimal(5)} AS least")
    assert row == {"most": Decimal("999999999.999999999"), "least": Decimal("0.000000005")}
