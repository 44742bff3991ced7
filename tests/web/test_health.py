"""Readiness says what is missing, where, and never hangs."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sinks.clickhouse import ClickHouseStore
from sinks.errors import StoreUnreachable
from streams.web import health
from streams.web.status import Check, WorkerStatus
from tests.web.serving import Client, served

GROUP = Check("group", True, "a member of consumer group g")


def readyz(store: ClickHouseStore | None, status: int, *checks: Check) -> Any:
    async def work(client: Client) -> Any:
        return await client.get("/readyz", status)

    return served(store, work, status=lambda: WorkerStatus(checks=checks))


def test_ready(store: ClickHouseStore) -> None:
    found = readyz(store, 200, GROUP, Check("clickhouse", True, "as it was at the start"))
    assert found["ready"] is True
    assert [(each["name"], each["ok"]) for each in found["checks"]] == [("group", True), ("clickhouse", True)]
    assert str(store.target) == found["checks"][1]["detail"], "asked anew, not remembered"


def test_a_check_that_does_not_hold_is_shown_with_its_reason(store: ClickHouseStore) -> None:
    found = readyz(store, 503, Check("shards", False, "3 of 8 shards are being restored"))
    assert found["ready"] is False
    assert found["checks"][0]["detail"] == "3 of 8 shards are being restored"


def test_before_the_store_is_open_the_workers_own_checks_stand() -> None:
    waiting = Check("clickhouse", False, "waiting for ClickHouse at http://ch:8123")
    found = readyz(None, 503, waiting)
    assert found["checks"] == [{"name": "clickhouse", "ok": False, "detail": waiting.detail}]


def test_a_store_that_refuses_is_named(store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise StoreUnreachable("ClickHouse at http://ch:8123 does not answer: refused")

    monkeypatch.setattr(store, "ask", away)
    found = readyz(store, 503, GROUP)
    assert found["checks"][1] == {
        "name": "clickhouse",
        "ok": False,
        "detail": "ClickHouse at http://ch:8123 does not answer: refused",
    }


def test_a_store_that_hangs_is_not_waited_for(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    release = threading.Event()

    def hangs(*_: object) -> None:
        nonlocal asked
        asked += 1
        release.wait(30)
        raise StoreUnreachable("gone")

    monkeypatch.setattr(store, "ask", hangs)
    monkeypatch.setattr(health, "_WITHIN_S", 0.05)

    async def work(client: Client) -> None:
        try:
            for _ in range(3):
                found = await client.get("/readyz", 503)
                assert "has not answered" in found["checks"][0]["detail"]
        finally:
            release.set()

    served(store, work)
    assert asked == 1, "one question at a time"


def test_alive_while_no_restart_helps(store: ClickHouseStore) -> None:
    async def work(client: Client) -> Any:
        return await client.get("/healthz")

    still = WorkerStatus(checks=(Check("progress", False, "shard 3 has folded nothing for 75 s"),))
    assert served(store, work, status=lambda: still) == {"status": "ok"}
    assert served(None, work) == {"status": "ok"}, "a store that is away is not mended by a restart"


def test_a_worker_that_only_a_restart_helps_says_so() -> None:
    async def work(client: Client) -> Any:
        return await client.get("/healthz", 503)

    reason = "the group has been left for 301 s although Kafka and ClickHouse answer"
    found = served(None, work, status=lambda: WorkerStatus(stuck=reason))
    assert found == {"status": "stuck", "detail": reason}
