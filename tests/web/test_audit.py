"""What the worker found when it audited itself last, as JSON for programs and as text for people."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from pydantic import SecretStr

from streams.clock import SystemClock
from streams.config.live import WebSettings
from streams.selfcheck.audit.verdict import AuditFinding, Book, Verdict
from streams.web.last_audit import LastAudit
from streams.web.server import WebServer
from streams.worker.health.worker_status import WorkerStatus
from tests.web.serving import TOKEN, Client

NOW_MS = 1_704_067_200_000
GOOD = AuditFinding(
    "books", "all partitions", "no difference", "none", ok=True, detail="7 records are accounted for"
)
BAD = AuditFinding("dead_letters", "gpu/0", "2", "1", ok=False, detail="of 2 dead letters 1 is lost")
BOOK = Book("jobs", 3, 0, 9, 7, 5, 1, 0, 1)


def run(verdict: Verdict | None, path: str, status: int, token: str | None = None) -> object:
    @asynccontextmanager
    async def served() -> AsyncIterator[Client]:
        settings = WebSettings(port=0, token=SecretStr(TOKEN) if token is not None else None)
        audited = LastAudit(verdict, NOW_MS + 12_500)
        server = WebServer(
            settings, lambda: None, WorkerStatus, SystemClock().monotonic_ms, audit=lambda: audited
        )
        await server.start()
        try:
            async with aiohttp.ClientSession() as session:
                yield Client(server, session)
        finally:
            await server.stop()

    async def go() -> object:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with served() as client:
            return await client.get(path, status, headers=headers)

    return asyncio.run(asyncio.wait_for(go(), 30))


def test_the_verdict_as_json_with_every_finding_and_the_books() -> None:
    found = run(Verdict(NOW_MS, (GOOD, BAD), (BOOK,)), "/api/v1/audit", 200)
    assert isinstance(found, dict)
    assert (found["ok"], found["age_ms"], found["as_of_ms"]) == (False, 12_500, NOW_MS)
    assert found["findings"][1] == {
        "check": "dead_letters",
        "subject": "gpu/0",
        "expected": "2",
        "found": "1",
        "ok": False,
        "detail": "of 2 dead letters 1 is lost",
    }
    assert found["books"][0]["records_in"] == 7
    assert found["books"][0]["balance"] == 0


def test_the_verdict_as_text_says_ok_or_fails_a_probe() -> None:
    assert run(Verdict(NOW_MS, (GOOD,), (BOOK,)), "/audit", 200) == (
        b"balanced, 12 s ago\n\nok    books            7 records are accounted for\n\n"
        b"partition  next  records in  applied  unattributed  duplicate  too late  dead-lettered  balance\n"
        b"jobs/3        9           7        5             0          1         0              1       ok\n"
    )
    text = run(Verdict(NOW_MS, (GOOD, BAD), (BOOK,)), "/audit", 503)
    assert isinstance(text, bytes)
    assert text.startswith(b"NOT BALANCED: 1 fault, 12 s ago\n")
    assert b"FAIL  dead_letters     of 2 dead letters 1 is lost\n" in text


@pytest.mark.parametrize("path", ["/audit", "/api/v1/audit"])
def test_before_the_first_audit_it_says_so(path: str) -> None:
    found = run(None, path, 503)
    assert isinstance(found, dict)
    assert "has not audited its books yet" in found["error"]["message"]


@pytest.mark.parametrize("path", ["/audit", "/api/v1/audit"])
def test_books_are_figures_and_asked_for_with_the_token(path: str) -> None:
    verdict = Verdict(NOW_MS, (GOOD,), (BOOK,))
    run(verdict, path, 401, "")
    run(verdict, path, 200, TOKEN)
