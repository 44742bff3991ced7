"""GET /api/v1/commitments answers what the command does; a file goes through a worker as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from streams.calendar import Calendar
from tests.bills.test_commitments import RESERVED, T0, put, use
from tests.cli.command import trainfare
from tests.web.serving import Client, served


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with commitments that a command has loaded, and hours of use."""
    path, meter = tmp_path / "c.toml", tmp_path / "meter"
    path.write_text(RESERVED, encoding="utf-8")
    done = trainfare("commitments", "load", path, "--data", meter)
    assert done.code == 0, done.err
    assert done.out == f"{path}: 1 commitments; 1 new, 0 changed, 0 removed\n"
    store = ClickHouseStore(Embedded(data_dir=meter))
    put(store, use(T0, "a", 2, "8", gpu_type="H100"))
    store.close()
    return meter


def test_the_route_says_what_the_command_says(data: Path) -> None:
    shown = trainfare(
        "commitments", "show", "--by", "team", "--per", "day", "--data", data, "--format", "json"
    )
    covered = trainfare(
        "commitments", "show", "--coverage", "--per", "day", "--data", data, "--format", "json"
    )
    assert (shown.code, covered.code) == (0, 0), shown.err + covered.err

    async def work(client: Client) -> Any:
        for wrong in ("by=x", "per=x", "limit=0", "from=2026-10-02&to=2026-10-01", "x=1"):
            await client.get(f"/api/v1/commitments?{wrong}", 400)
        (one,) = (await client.get("/api/v1/commitments"))["rows"]
        assert (one["commitment_id"], one["team"]) == ("ri-1", "platform")
        return await client.get("/api/v1/commitments?by=team&per=day")

    store = ClickHouseStore(Embedded(data_dir=data))
    try:
        found = served(store, work)
    finally:
        store.close()
    assert found["rows"] == json.loads(shown.out)
    assert found["coverage"] == json.loads(covered.out)
    assert found["rows"][0]["used_usd"] == "7.142857142000000000"


def test_nobody_is_said_to_be_unallocated_and_none_is_said(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "n.toml"
    path.write_text(RESERVED.replace('team = "platform"', ""), encoding="utf-8")
    assert "  ri-1: changed" in trainfare("commitments", "load", path, "--data", data).out
    assert "unallocated" in trainfare("commitments", "show", "--by", "team", "--data", data).out
    none = trainfare("commitments", "show", "--month", "2020-01", "--data", data)
    assert "no commitments in this time" in none.err


def test_the_route_of_coverage_says_what_the_command_says(data: Path) -> None:
    shown = trainfare("coverage", "--data", data, "--format", "json")
    worst = trainfare("coverage", "--worst", "--data", data, "--format", "json")

    async def work(client: Client) -> Any:
        await client.get("/api/v1/coverage?by=team", 400)
        return await client.get("/api/v1/coverage")

    store = ClickHouseStore(Embedded(data_dir=data))
    try:
        found = served(store, work)
    finally:
        store.close()
    assert (found["rows"], found["worst"]) == (json.loads(shown.out), json.loads(worst.out))
    assert [each["name"] for each in found["worst"]] == ["owner", "team", "project", "cost_centre"]


@pytest.mark.parametrize("path", ["coverage", "savings", "carbon", "commitments", "idle"])
def test_dates_are_by_the_calendar_of_the_settings_as_those_of_commands_are(data: Path, path: str) -> None:
    berlin = Calendar(zone="Europe/Berlin")

    async def work(client: Client) -> list[tuple[int, int]]:
        asked = ("", "&fiscal=1", "&fiscal=0", "&tz=UTC", "&tz=Asia/Tokyo")
        answers = [await client.get(f"/api/v1/{path}?from=2026-06-01&to=2026-06-02{each}") for each in asked]
        await client.get(f"/api/v1/{path}?fiscal=2", 400)
        return [(each["from_ms"], each["to_ms"]) for each in answers]

    store = ClickHouseStore(Embedded(data_dir=data))
    try:
        found = served(store, work, calendar=berlin)
    finally:
        store.close()
    utc = 1_780_272_000_000  # 2026-06-01T00:00Z
    hours = [-2, -2, 0, 0, -9]
    assert found == [(utc + each * 3_600_000, utc + (each + 24) * 3_600_000) for each in hours]
