"""Dashboards over the API: whoever may read asks for shipped panels, and for nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from sinks.clickhouse import ClickHouseStore
from streams.config.settings import QuerySettings
from streams.panels.panel import POINTS_MAX, STEPS_S, step_of
from streams.panels.registry import DASHBOARDS, PANELS
from streams.web import panels as panels_of
from streams.web import places
from streams.web.panels import RANGES_S, Range, board_asked, filled, write_board
from streams.web.query_service import QueryService
from tests.web.log import AS_OF_MS, COST_A
from tests.web.serving import Client, run, served

DAY_MS = 86_400_000
RANGE = f"from_ms={AS_OF_MS - DAY_MS}&to_ms={AS_OF_MS}"


def get(store: ClickHouseStore | None, path: str, status: int = 200, **options: Any) -> Any:
    async def work(client: Client) -> Any:
        return await client.get(f"/api/v1/{path}", status)

    return served(store, work, **options)


def test_the_dashboards_say_what_their_panels_answer() -> None:
    found = get(None, "dashboards")["dashboards"]
    assert [board["name"] for board in found] == ["executive", "oncall", "debug"]
    assert {panel["name"] for board in found for panel in board["panels"]} == set(PANELS)
    assert all(panel["answers"].endswith(".") for board in found for panel in board["panels"])


def test_names_are_of_one_panel_each() -> None:
    assert sum(len(board.panels) for board in DASHBOARDS) == len(PANELS)


def test_a_panel_has_its_rows_exactly_and_its_sql(store: ClickHouseStore) -> None:
    found = get(store, f"panels/top_jobs?{RANGE}")
    rows = [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
    costs = {row["job"]: row["cost"] for row in rows}
    assert costs["a"] == COST_A
    assert (found["to_ms"], found["step_ms"]) == (AS_OF_MS, 900_000)
    again = get(store, f"panels/months?{RANGE}")
    assert sum(Decimal(row[1]) for row in again["rows"]) == sum(map(Decimal, costs.values()))
    assert "{" not in found["sql"]


async def lines(client: Client, path: str) -> list[dict[str, Any]]:
    async with client.session.get(f"{client.server.url}/api/v1/{path}") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        return [json.loads(line) async for line in answer.content]


@pytest.mark.parametrize(("board", "range_"), [("executive", "24h"), ("oncall", "30d"), ("debug", "1h")])
def test_a_dashboard_has_each_of_its_panels_as_that_is_by_itself(
    store: ClickHouseStore, board: str, range_: str
) -> None:
    async def work(client: Client) -> None:
        head, *found = await lines(client, f"dashboards/{board}?range={range_}&job=a")
        assert head["to_ms"] == AS_OF_MS + 1_000
        assert head["to_ms"] - head["from_ms"] == RANGES_S[range_] * 1_000
        names = [panel.name for each in DASHBOARDS if each.name == board for panel in each.panels]
        assert sorted(each["name"] for each in found) == sorted(names)
        for each in found:
            asked = f"from_ms={head['from_ms']}&to_ms={head['to_ms']}&job=a"
            assert each == await client.get(f"/api/v1/panels/{each['name']}?{asked}")

    served(store, work)


def test_a_panel_that_fails_says_so_and_the_others_come(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = replace(PANELS["months"], sql="SELECT throwIf(1)")
    first, *others = DASHBOARDS
    panels = tuple(broken if each.name == "months" else each for each in first.panels)
    monkeypatch.setattr(panels_of, "DASHBOARDS", (replace(first, panels=panels), *others))

    async def work(client: Client) -> None:
        _, *found = await lines(client, "dashboards/executive")
        faults = {each["name"]: each["error"]["status"] for each in found if "error" in each}
        assert faults == {"months": 400}
        assert len(found) == len(panels)

    served(store, work)


def test_before_anything_has_happened_a_dashboard_has_no_range() -> None:
    written: list[bytes] = []

    async def write(line: bytes) -> None:
        written.append(line)

    async def work() -> None:
        service = QueryService(lambda: None, QuerySettings())
        asked = board_asked("oncall", {}, by_team=False)
        await write_board(asked, 0, "", service, places.Client(), write)
        await service.close()

    run(work())
    (head,) = map(json.loads, written)
    assert (head["as_of_ms"], head["from_ms"], head["to_ms"]) == (0, None, None)


def test_a_job_is_bound_and_quoted(store: ClickHouseStore) -> None:
    found = get(store, f"panels/job_facts?{RANGE}&job=a")
    assert len(found["rows"]) == 1
    hostile = "x' OR 1=1 --"
    assert get(store, f"panels/job_facts?{RANGE}&job={hostile}")["rows"] == []
    sql = filled(PANELS["job_facts"], Range(1, 2, 1), "a\\'; DROP")
    assert "job_id = 'a\\\\\\'; DROP'" in sql


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        (f"panels/nothing?{RANGE}", 404, "panel 'nothing': there is none"),
        ("panels/burn?from_ms=1", 400, "to_ms is missing"),
        ("panels/burn?from_ms=5&to_ms=x", 400, "to_ms: got 'x'"),
        ("panels/burn?from_ms=5&to_ms=5", 400, "from_ms must be before to_ms"),
        ("panels/burn?from_ms=0&to_ms=1780308000000", 400, "by 1,830 days at most"),
        (f"panels/job_cost?{RANGE}", 400, "is about one job: name it"),
        (f"panels/burn?{RANGE}&sql=SELECT", 400, "parameter 'sql' is unknown"),
        ("dashboards/nothing", 404, "dashboard 'nothing': there is none"),
        ("dashboards/oncall?range=2y", 400, "range: got '2y', expected one of 1h, 24h, 30d, 1y"),
        ("dashboards/debug?range=1h", 400, "is about one job: name it"),
        ("dashboards/oncall?to_ms=1", 400, "parameter 'to_ms' is unknown"),
    ],
)
def test_what_is_wrong_is_said(path: str, status: int, message: str) -> None:
    assert message in get(None, path, status)["error"]["message"]


@pytest.mark.parametrize("range_s", [1, 3_600, 86_400, 30 * 86_400, 365 * 86_400])
def test_a_range_has_steps_that_can_be_read(range_s: int) -> None:
    step_s = step_of(1_780_308_000, 1_780_308_000 + range_s)
    assert step_s in STEPS_S
    assert range_s / step_s <= POINTS_MAX
