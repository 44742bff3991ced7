"""GET /api/v1/budgets: what each budget has used, what was done because of it, and who set it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from schemas.budget_tables import ACTIONS, BUDGET_USE
from schemas.control_table import CONTROLS
from sinks.clickhouse import ClickHouseStore
from tests.sinks.rows import instant, rows
from tests.web.serving import Client, served

NOW = instant("2026-03-01 10:05")
MONTH = instant("2026-03-01 00:00")
NEXT_MONTH = instant("2026-04-01 00:00")
LATER = instant("2030-01-01 00:00")
NONE = instant("1970-01-01 00:00")
VISION: dict[str, Any] = {"budget": "vision", "subject_name": "vision", "match": [("team", "vision")], "limit_usd": Decimal(100)}  # fmt: skip


def ms(at: Any) -> int:
    return int(at.timestamp() * 1000)


def get(store: ClickHouseStore, status: int = 200, query: str = "") -> Any:
    async def work(client: Client) -> Any:
        return await client.get(f"/api/v1/budgets{query}", status)

    return served(store, work)


def insert(store: ClickHouseStore, table: str, *given: dict[str, Any]) -> None:
    store.insert(table, rows(table, *given), f"{table} {given}")


@pytest.fixture(autouse=True)
def stored(store: ClickHouseStore) -> None:
    usual = {"per": "month", "time": NOW, "period_start": MONTH, "period_end": NEXT_MONTH, "subject_kind": "team", "version": 1}  # fmt: skip
    run = {"per": "run", "period_start": NONE, "period_end": NONE, "subject_kind": "job"}
    given = (
        {**VISION, "used_usd": Decimal("90.5"), "used_ratio": 0.905, "usd_per_hour": Decimal(19)},
        {"budget": "slow", "match": [("team", "nlp")], "limit_usd": Decimal(100_000), "limit_gpu_hours": 50.0, "used_gpu_hours": 20.0, "used_ratio": 0.4, "usd_per_hour": Decimal(1)},
        {**run, "budget": "each", "subject_name": "j", "match": [("job_id", "j")], "jobs": ["j", "k"], "limit_usd": Decimal(10), "used_usd": Decimal(12), "used_ratio": 1.2, "usd_per_hour": Decimal(1)},
        {"budget": "gone", "limit_usd": Decimal(1), "time": instant("2026-03-01 10:01")},
        {"budget": "removed", "limit_usd": Decimal(1)},
    )  # fmt: skip
    insert(store, BUDGET_USE, *({**usual, **each} for each in given))
    asked = {"time": NOW, "budget": "vision", "period_start": MONTH, "rung": "stop", "mode": "dry_run", "state": "planned", "version": 1}  # fmt: skip
    insert(
        store,
        ACTIONS,
        {**asked, "idempotency_key": "1", "job_id": "a"},
        {**asked, "idempotency_key": "2", "job_id": "b"},
        {**asked, "idempotency_key": "3", "job_id": "j", "budget": "each", "period_start": NONE},
        {**asked, "idempotency_key": "4", "job_id": "k", "budget": "each", "period_start": NONE},
        {**asked, "idempotency_key": "6", "job_id": "l", "budget": "each", "period_start": NONE},
        {**asked, "idempotency_key": "5", "job_id": "a", "period_start": instant("2026-02-01 00:00")},
    )
    said = {"time": NOW, "kind": "budget", "source": "platform"}
    insert(
        store,
        CONTROLS,
        {**said, "offset": 1, "name": "vision", "by": "web.write_token", "comment": "agreed"},
        {**said, "offset": 2, "name": "removed", "removed": True},
        {**said, "offset": 3, "name": "new", "match": [("team", "nlp")]},
        {**said, "offset": 4, "name": "wrong", "fault": "usd: got 0"},
        {**said, "offset": 5, "kind": "override", "name": "paper", "match": [("budget", "vision")], "until": LATER, "comment": "due"},
        {**said, "offset": 6, "kind": "override", "name": "past", "match": [("budget", "slow")], "until": NOW},
    )  # fmt: skip


def test_each_budget_with_what_is_used_and_done(store: ClickHouseStore) -> None:
    found = get(store)
    assert found["as_of_ms"] == ms(NOW)
    each, vision, slow, new = found["budgets"]
    assert [one["budget"] for one in found["budgets"]] == ["each", "vision", "slow", "new"]
    assert vision["used"] == {"ratio": 0.905, "usd": {"used": "90.500000000", "limit": "100.000000000"}, "gpu_hours": None, "wall_clock_hours": None}  # fmt: skip
    # $9.50 at $19.00/h.
    assert vision["exhausted_ms"] == ms(NOW) + 1_800_000
    assert (vision["period_start_ms"], vision["period_end_ms"]) == (ms(MONTH), ms(NEXT_MONTH))
    assert vision["actions"] == [{"rung": "stop", "mode": "dry_run", "state": "planned", "jobs": 2, "time_ms": ms(NOW)}]  # fmt: skip
    assert vision["override"] == {"name": "paper", "until_ms": ms(LATER), "by": "platform", "reason": "due"}  # fmt: skip
    assert vision["set"] == {"by": "web.write_token", "time_ms": ms(NOW), "comment": "agreed"}
    assert (each["subject"], each["exhausted_ms"]) == ({"kind": "job", "name": "j"}, None)
    # Of the jobs of the run, and of no other run.
    assert ([one["jobs"] for one in each["actions"]], each["job_count"], vision["job_count"]) == (
        [2],
        2,
        None,
    )
    assert (slow["exhausted_ms"], slow["override"], slow["set"]) == (None, None, None)
    assert slow["used"]["gpu_hours"] == {"used": 20.0, "limit": 50.0}
    assert (new["used"], new["set"]["by"]) == (None, "platform")


def test_a_parameter_is_refused(store: ClickHouseStore) -> None:
    assert "unknown" in get(store, 400, "?team=vision")["error"]["message"]
