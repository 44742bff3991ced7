"""GET /api/v1/idle: figures of nodes are those of `trainfare idle`, lost work that of `trainfare costs --metric m5`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from streams.costs.idle_report import FORGOTTEN, runs
from tests.cli.command import trainfare
from tests.web import idle_log
from tests.web.serving import TOKEN, Client, served

MONEY = ("node_cost_usd", "job_cost_usd", "idle_cost_usd", "overcommitted_cost_usd", "unattributed_cost_usd")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("idle")
    done = trainfare("replay", idle_log.write(root / "events.jsonl"), "--data", root / "meter")
    assert done.code == 0, done.err
    return root / "meter"


@pytest.fixture(scope="module")
def idle_store(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    copy = tmp_path_factory.mktemp("store") / "meter"
    shutil.copytree(data, copy, symlinks=True)
    opened = ClickHouseStore(Embedded(data_dir=copy))
    try:
        yield opened
    finally:
        opened.close()


def said(data: Path, *words: object) -> list[dict[str, Any]]:
    done = trainfare(*words, "--data", data, "--format", "json")
    assert done.code == 0, done.err
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def test_figures_are_those_of_the_commands_to_the_nano_dollar(
    data: Path, idle_store: ClickHouseStore
) -> None:
    async def work(client: Client) -> list[Any]:
        asked = ("by=node", "by=team&from=2026-03-01&to=2026-03-02", "by=cluster&to=2026-03-01T12:00")
        return [await client.get(f"/api/v1/idle?{each}") for each in asked]

    everything, first_day, morning = served(idle_store, work)
    assert everything["rows"] == said(data, "idle", "--by", "node")
    assert first_day["rows"] == said(
        data, "idle", "--by", "team", "--from", "2026-03-01", "--to", "2026-03-02"
    )
    assert morning["rows"] == said(data, "idle", "--by", "cluster", "--to", "2026-03-01T12:00")
    # The last full hour lies beyond the morning, and is asked for by itself.
    by_cluster = served(idle_store, lambda client: client.get("/api/v1/idle?by=cluster"))
    assert morning["last_hour"] == by_cluster["last_hour"]
    assert Decimal(morning["last_hour"]["node_cost_usd"]) > 0
    (m5,) = said(data, "costs", "--metric", "m5")
    assert everything["sums"]["lost_cost_usd"] == m5["lost_cost_usd"]
    assert everything["sums"]["retry_cost_usd"] == m5["retry_cost_usd"]
    assert [each["job_id"] for each in everything["lost"]] == ["b"]
    assert everything["lost"][0]["lost_cost_usd"] == m5["lost_cost_usd"]
    assert everything["lost"][0]["reasons"] == ["node_failure"]
    found = said(data, "idle", "--findings")
    forgotten = [(each["name"], each["cost_usd"]) for each in everything["forgotten"]]
    assert forgotten == [(each["name"], each["cost_usd"]) for each in found if each["finding"] == FORGOTTEN]
    assert everything["forgotten"][0]["since"] == "2026-03-01"
    assert [each["name"] for each in everything["unattributed"]] == ["n1"]
    assert [each["job_id"] for each in everything["hollow"]] == ["a"]
    assert everything["hollow"][0]["productive_ratio"] == pytest.approx(0.25)
    assert everything["has_nodes"]
    assert not any(everything["left_out"].values())


def test_lists_are_cut_and_sums_are_not(idle_store: ClickHouseStore) -> None:
    found = served(idle_store, lambda client: client.get("/api/v1/idle?by=node&limit=1"))
    whole = served(idle_store, lambda client: client.get("/api/v1/idle?by=node"))
    assert len(found["rows"]) == 1
    assert found["left_out"]["rows"] == 2
    assert found["sums"] == whole["sums"]
    assert set(MONEY) < set(whole["sums"])


@pytest.mark.parametrize(
    ("query", "said_of_it"),
    [
        ("by=owner", "by: got 'owner', expected one of team, cluster, gpu_type, node"),
        ("from=yesterday", "from: 'yesterday' is no date"),
        ("from=2026-03-02&to=2026-03-01", "from: must be before to"),
        ("limit=0", "limit: got '0', expected 1 to 1000"),
        ("node=n1", "parameter 'node': expected each of from, to, by, limit, tz, fiscal once"),
        ("by=node&by=team", "parameter 'by': expected each of"),
    ],
)
def test_what_is_wrong_is_named(idle_store: ClickHouseStore, query: str, said_of_it: str) -> None:
    error = served(idle_store, lambda client: client.get(f"/api/v1/idle?{query}", 400))["error"]
    assert said_of_it in error["message"]


def test_it_needs_the_scope_read(idle_store: ClickHouseStore) -> None:
    error = served(idle_store, lambda client: client.get("/api/v1/idle", 401), token=TOKEN)["error"]
    assert "scope `read`" in error["message"]


def test_since_when_is_the_last_run_of_days_without_a_gap() -> None:
    days = ("2026-03-01", "2026-03-04", "2026-03-05")
    rows = [{"finding": FORGOTTEN, "name": "n", "team": "", "period": day, "cost_usd": Decimal(2), "detail": day} for day in days]  # fmt: skip
    (found,) = runs(rows, FORGOTTEN)
    assert (found["since"], found["until"], found["days"], found["cost_usd"]) == (
        "2026-03-04",
        "2026-03-05",
        3,
        Decimal(6),
    )
    assert found["detail"] == "2026-03-05"
