"""A query that exceeded its time limit is no fault of the client's: 503 or 504 on every route, never 400."""

from __future__ import annotations

from typing import Any, cast

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from sinks.clickhouse import ClickHouseStore
from sinks.clickhouse.faults import mapped
from sinks.errors import query_failed
from streams.web.errors import of_store
from tests.web.serving import Client, served

CODES = {159: "TIMEOUT_EXCEEDED", 160: "TOO_SLOW"}
PATHS = (
    "jobs", "jobs?q=x&group=sweep&order=cost", "jobs/a", "jobs/a/explain", "jobs/a/rules", "job?id=..", "job/explain?id=..",
    "job/rules?id=..", "burn", "budgets", "headroom?team=t", "alerts",
)  # fmt: skip


class Slow:
    """A store that answers nothing in time."""

    target = "a slow store"

    def __init__(self, code: int) -> None:
        self._code = code

    def __getattr__(self, name: str) -> Any:
        def late(*_: object, **__: object) -> None:
            with mapped("the store"):
                said = f"Code: {self._code}. DB::Exception: too long. ({CODES[self._code]})"
                raise DatabaseError(said, code=self._code)

        return late


@pytest.mark.parametrize("code", CODES)
def test_on_every_route(code: int) -> None:
    async def work(client: Client) -> None:
        for path in PATHS:
            async with client.session.get(f"{client.server.url}/api/v1/{path}") as answer:
                assert answer.status in (503, 504), (path, await answer.text())

    served(cast("ClickHouseStore", Slow(code)), work)


@pytest.mark.parametrize("code", CODES.values())
def test_of_a_process_for_queries_too(code: str) -> None:
    """Costs and SQL of users: there it is the text that says so."""
    assert of_store(query_failed(f"Estimated query execution time is too long. ({code})")).status == 504
    assert of_store(query_failed("Unknown identifier `x`. (UNKNOWN_IDENTIFIER)")).status == 400
