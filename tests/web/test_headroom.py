"""GET /api/v1/headroom: what the budgets leave of the last judged minute, and nothing of those that are gone."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from schemas.budget_tables import BUDGET_USE
from sinks.clickhouse import ClickHouseStore
from tests.sinks.rows import instant, rows
from tests.web.serving import Client, served

NOW = instant("2026-03-01 10:05")


def get(store: ClickHouseStore, text: str, status: int = 200) -> Any:
    async def work(client: Client) -> Any:
        return await client.get(f"/api/v1/headroom?{text}", status)

    return served(store, work)


@pytest.fixture(autouse=True)
def budgets(store: ClickHouseStore) -> None:
    usual = {"per": "month", "time": NOW, "subject_kind": "team", "version": 1}
    given = (
        {"budget": "vision", "subject_name": "vision", "match": [("team", "vision")], "limit_usd": Decimal(100), "used_usd": Decimal("40.5"), "used_ratio": 0.405},
        {"budget": "ada", "subject_name": "ada", "match": [("team", "vision"), ("owner", "ada")], "limit_usd": Decimal(10), "used_usd": Decimal(12), "used_ratio": 1.2},
        {"budget": "fleet", "subject_kind": "fleet", "match": [], "limit_gpu_hours": 50.0, "used_gpu_hours": 20.0},
        {"budget": "gone", "subject_name": "vision", "match": [("team", "vision")], "limit_usd": Decimal(1), "time": instant("2026-03-01 10:01")},
        {"budget": "run", "subject_name": "j", "subject_kind": "job", "per": "run", "match": [("job_id", "j")], "limit_usd": Decimal(1)},
        {"budget": "run", "subject_name": "k", "subject_kind": "job", "per": "run", "match": [("job_id", "k")], "jobs": ["k", "again"], "limit_usd": Decimal(2)},
    )  # fmt: skip
    store.insert(BUDGET_USE, rows(BUDGET_USE, *({**usual, **each} for each in given)), "headroom")


def test_the_least_of_the_budgets_that_apply(store: ClickHouseStore) -> None:
    found = get(store, "team=vision")
    assert (found["headroom_usd"], found["headroom_gpu_hours"]) == ("59.500000000", 30.0)
    assert [each["budget"] for each in found["budgets"]] == ["vision", "fleet"]
    assert found["as_of_ms"] == int(NOW.timestamp() * 1000)


def test_an_overdrawn_budget_leaves_nothing(store: ClickHouseStore) -> None:
    assert get(store, "team=vision&owner=ada")["headroom_usd"] == "0.000000000"


def test_a_job_has_what_its_own_run_leaves(store: ClickHouseStore) -> None:
    found = get(store, "job=k&team=vision")
    assert found["headroom_usd"] == "2.000000000"
    assert [(each["budget"], each["per"]) for each in found["budgets"]] == [
        ("vision", "month"),
        ("fleet", "month"),
        ("run", "run"),
    ]
    assert get(store, "job=other")["headroom_usd"] is None
    # Another job of the same run.
    assert get(store, "job=again&team=vision")["budgets"] == found["budgets"]


def test_a_row_without_a_subject_says_that_no_budget_is_left(store: ClickHouseStore) -> None:
    later = {"time": instant("2026-03-01 10:06"), "subject_kind": "", "match": [], "limit_usd": Decimal(1)}
    store.insert(BUDGET_USE, rows(BUDGET_USE, later), "none")
    found = get(store, "team=vision")
    assert (found["headroom_usd"], found["budgets"], found["as_of_ms"]) == (None, [], None)


def test_without_a_budget_nothing_limits(store: ClickHouseStore) -> None:
    assert get(store, "team=nlp")["headroom_usd"] is None


def test_a_wrong_parameter_is_refused(store: ClickHouseStore) -> None:
    assert "team" in get(store, "", 400)["error"]["message"]
    assert "unknown" in get(store, "teem=vision", 400)["error"]["message"]
