"""GET /api/v1/budgets/detail: a budget's levels, its spend hour by hour, its dearest jobs, every action; the override by the API."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import pytest

from schemas.budget_tables import ACTIONS, BUDGET_USE
from schemas.tables import ALERTS
from sinks.clickhouse import ClickHouseStore
from streams.costs.budgets import USED
from streams.engine.ledger_rules.budget_now import levels_of
from streams.web.control_record import control_record
from tests.sinks.rows import instant, rows
from tests.web.live import alert, put
from tests.web.log import COST_A, T0_MS
from tests.web.serving import Client, served

NOW = instant("2026-03-01 12:04")
MONTH = instant("2026-03-01 00:00")
NONE = instant("1970-01-01 00:00")
HOUR_MS = 3_600_000


def get(store: ClickHouseStore, status: int = 200, **given: str) -> Any:
    async def work(client: Client) -> Any:
        return await client.get(f"/api/v1/budgets/detail?{urlencode(given)}", status)

    return served(store, work)


@pytest.fixture(scope="module", autouse=True)
def stored(store: ClickHouseStore) -> None:
    usual = {"time": NOW, "period_start": MONTH, "period_end": instant("2026-04-01 00:00"), "per": "month", "version": 1}  # fmt: skip
    used = (
        {**usual, "budget": "vision", "subject_kind": "team", "subject_name": "vision", "match": [("team", "vision")], "limit_usd": Decimal(1), "used_usd": Decimal(COST_A), "used_ratio": 0.83},
        {**usual, "budget": "all", "subject_kind": "fleet", "limit_usd": Decimal(100), "used_ratio": 0.02},
        {**usual, "budget": "each", "subject_kind": "job", "subject_name": "b", "per": "run", "period_start": NONE, "period_end": NONE, "match": [("team", "speech")], "limit_usd": Decimal(1), "used_ratio": 0.4},
    )  # fmt: skip
    store.insert(BUDGET_USE, rows(BUDGET_USE, *used), "budgets in detail")
    asked = {"time": NOW, "budget": "vision", "period_start": MONTH, "job_id": "a", "version": 1, "mode": "live", "used_ratio": 0.83}  # fmt: skip
    given = (
        {**asked, "idempotency_key": "1", "rung": "checkpoint", "state": "requested"},
        {
            **asked,
            "idempotency_key": "1",
            "rung": "checkpoint",
            "state": "acknowledged",
            "attempt": 1,
            "detail": "204",
        },
        {**asked, "idempotency_key": "2", "rung": "stop", "state": "requested", "period_start": NONE},
    )
    store.insert(ACTIONS, rows(ACTIONS, *given), "actions in detail")
    answer = store.ask(USED, {})
    row = next(each for each in (dict(zip(answer.names, each, strict=True)) for each in answer.rows()) if each["budget"] == "vision")  # fmt: skip
    levels = dict(levels_of(row))
    fired = [alert(levels["50"], rule="budget_used", status="resolved", resolved=NOW, changed=NOW), alert(levels["80"], rule="budget_used")]  # fmt: skip
    put(store, ALERTS, fired, "levels")


def test_what_was_spent_is_the_ledgers_sum_to_the_nano_dollar(store: ClickHouseStore) -> None:
    found = get(store, budget="vision", kind="team", name="vision")
    assert found["budget"]["used"]["usd"]["used"] == COST_A
    assert found["spend"] == [[T0_MS // HOUR_MS * HOUR_MS, COST_A]]
    assert [(each["job_id"], each["usd"], each["owner"]) for each in found["jobs"]] == [("a", COST_A, "ada")]
    assert (found["jobs_left_out"], found["step_ms"]) == (0, HOUR_MS)


def test_minutes_after_the_one_that_was_judged_do_not_count(store: ClickHouseStore) -> None:
    found = get(store, budget="all", kind="fleet", name="")
    sql = "SELECT toString(sum(cost_usd)) AS usd FROM job_minutes FINAL WHERE minute < toDateTime('2026-03-01 12:04:00', 'UTC') AND quantity != 0 AND job_id NOT LIKE '%canary%'"  # fmt: skip
    (booked,) = store.query(sql)["usd"].to_pylist()
    assert sum(Decimal(usd) for _, usd in found["spend"]) == Decimal(booked) > 0
    assert {each["job_id"] for each in found["jobs"]} == {"a", "b"} | {
        each["job_id"] for each in found["jobs"]
    }


def test_a_budget_per_run_is_that_of_one_job(store: ClickHouseStore) -> None:
    assert [each["job_id"] for each in get(store, budget="each", kind="job", name="b")["jobs"]] == ["b"]


def test_levels_have_their_alerts(store: ClickHouseStore) -> None:
    levels = get(store, budget="vision", kind="team", name="vision")["levels"]
    assert [each["level"] for each in levels] == ["50", "80", "100", "forecast"]
    assert [each["alert"] and each["alert"]["status"] for each in levels] == [
        "resolved",
        "firing",
        None,
        None,
    ]


def test_every_state_of_an_action_of_the_period(store: ClickHouseStore) -> None:
    actions = get(store, budget="vision", kind="team", name="vision")["actions"]
    assert {(each["rung"], each["state"], each["detail"]) for each in actions} == {
        ("checkpoint", "requested", ""),
        ("checkpoint", "acknowledged", "204"),
    }


def test_a_budget_that_nobody_judged_is_named(store: ClickHouseStore) -> None:
    assert (
        "no minute has judged it" in get(store, 404, budget="none", kind="team", name="x")["error"]["message"]
    )
    assert "unknown" in get(store, 400, team="x")["error"]["message"]


@pytest.mark.parametrize("until_ms", [T0_MS + HOUR_MS, T0_MS - HOUR_MS])
def test_an_override_is_written_and_ended_by_its_name(until_ms: int) -> None:
    asked = {
        "kind": "override",
        "name": "page/vision",
        "budget": "vision",
        "until_ms": until_ms,
        "reason": "due",
    }
    record = control_record(asked, "web.write_token", T0_MS)
    assert (record.kind, record.name, record.key) == ("override", "page/vision", b"override/page/vision")
