"""Readiness says what is missing, to whom it may say where, and never hangs."""

from __future__ import annotations

import ast
import threading
from typing import Any

import pytest

from sinks.clickhouse import ClickHouseStore
from sinks.errors import StoreUnreachable
from streams.web import health
from streams.worker.health import transactions
from streams.worker.health.worker_status import Check, WorkerStatus
from tests.cli.command import ROOT
from tests.web.serving import BEARER, LOCAL_TOKEN, TOKEN, Client, served

GROUP = Check("group", True, "a member of consumer group g")


def readyz(store: ClickHouseStore | None, status: int, *checks: Check) -> Any:
    async def work(client: Client) -> Any:
        return await client.get("/readyz", status, headers=BEARER)

    return served(store, work, status=lambda: WorkerStatus(checks=checks), token=TOKEN)


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
                found = await client.get("/readyz", 503, headers=BEARER)
                assert "has not answered" in found["checks"][0]["detail"]
        finally:
            release.set()

    served(store, work, token=TOKEN)
    assert asked == 1, "one question at a time"


#: Everything that a detail may hold and that is nobody's business: address, user, path, words of an exception.
TELLING = "ada@broker-7.internal:9092 /var/lib/meter: ConnectionRefusedError(111)"


@pytest.mark.parametrize(
    ("headers", "settings"),
    [
        ({}, {}),
        ({}, {"token": TOKEN}),
        ({"Authorization": "Bearer not-this-one-of-16"}, {"token": TOKEN}),
        ({"Authorization": "Bearer for-metrics-alone-16"}, {"metrics_token": "for-metrics-alone-16"}),
        (BEARER, {"query_token": TOKEN}),
    ],
)
def test_without_a_token_that_may_read_reasons_are_words_alone(
    headers: dict[str, str], settings: dict[str, str]
) -> None:
    names = (*health.PUBLIC_REASONS, "one-that-comes-later")
    checks = (*(Check(name, False, TELLING) for name in names), Check("held", True, TELLING))

    async def work(client: Client) -> Any:
        return await client.get("/readyz", 503, headers=headers)

    found = served(None, work, status=lambda: WorkerStatus(checks=checks), **settings)
    told = {each["name"]: each["detail"] for each in found["checks"]}
    assert told == {**health.PUBLIC_REASONS, "one-that-comes-later": "does not hold", "held": "holds"}
    assert found["ready"] is False


def test_on_loopback_the_details_are_for_who_shows_a_token() -> None:
    checks = (Check("kafka", False, TELLING),)

    async def work(client: Client) -> list[str]:
        told = []
        for headers in ({}, {"Authorization": f"Bearer {LOCAL_TOKEN}"}):
            found = await client.get("/readyz", 503, headers=headers)
            told.append(found["checks"][0]["detail"])
        return told

    assert served(None, work, status=lambda: WorkerStatus(checks=checks)) == [
        health.PUBLIC_REASONS["kafka"],
        TELLING,
    ]


def test_every_check_of_a_worker_has_words_for_all() -> None:
    made = {
        node.args[0].value
        for path in (ROOT / "streams").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Check"
        if node.args and isinstance(node.args[0], ast.Constant)
    }
    assert {"kafka", "group", "shards"} <= made
    made.add(transactions._NAME)
    assert made <= set(health.PUBLIC_REASONS)


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


def test_polls_until_it_is_ready_are_no_warnings_and_later_ones_are(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(health, "RECENT_MS", 0)
    is_ready = False

    async def work(client: Client) -> list[str]:
        nonlocal is_ready
        levels = []
        for ready, status in ((False, 503), (True, 200), (False, 503)):
            is_ready = ready
            caplog.clear()
            await client.get("/readyz", status, headers=BEARER)
            levels += [each.levelname for each in caplog.records if each.getMessage() == "request"]
        return levels

    with caplog.at_level("DEBUG"):
        found = served(
            None, work, status=lambda: WorkerStatus(checks=(Check("shards", is_ready, ""),)), token=TOKEN
        )
    assert found == ["DEBUG", "DEBUG", "WARNING"]
