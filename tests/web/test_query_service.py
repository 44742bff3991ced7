"""Users' SQL on a server: taken in turn, cancelled with whoever asked, ended with the server."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from sinks.clickhouse import ClickHouseStore
from sinks.query import process
from sinks.query.arrow import MEDIA_TYPE
from sinks.query.limits import OWN_NICE, USERS_NICE
from streams.config.settings import QuerySettings
from streams.web import query, query_service
from streams.web.errors import ApiError
from streams.web.places import Client as Reader
from tests.logged import logged
from tests.query import priority
from tests.store_process import StoreProcess
from tests.web.serving import LOCAL_TOKEN, TOKEN, Client, run, served, serving

ENDLESS = {"sql": "SELECT sum(sipHash64(number)) FROM numbers(3900000000)"}
BEARER = {"Authorization": f"Bearer {LOCAL_TOKEN}"}
ONE = {"sql": "SELECT 1 AS one"}
#: More processor time than a process takes to load the engine: from here on it is its query's.
LOADED_S = 0.6


def processes() -> set[int]:
    """The query processes of this one."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"sinks.query.child" in (path / "cmdline").read_bytes():
                found.add(int(path.name))
    return found


def told_to(pid: int) -> bytes:
    """What a process was started with."""
    return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("environ", "cmdline"))


async def until_none_of(pids: set[int]) -> None:
    while processes() & pids:  # noqa: ASYNC110 - the kernel has no event for us
        await asyncio.sleep(0.02)


def cpu_s(pid: int) -> float:
    """The processor time that a process has used."""
    user, system = (
        Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[each] for each in (11, 12)
    )
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def busy_of(client: Client, before: set[int]) -> tuple[asyncio.Task[object], set[int]]:
    """A query that runs, and its process; one that is cancelled before that leaves an idle process to the pool."""
    task: asyncio.Task[object] = asyncio.create_task(client.ask(ENDLESS))
    found: set[int] = set()
    while not any(cpu_s(pid) > LOADED_S for pid in found):
        await asyncio.sleep(0.02)
        found = processes() - before
    return task, found


def test_a_query_ends_when_whoever_asked_leaves(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        before = processes()
        task, pids = await busy_of(client, before)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until_none_of(pids)
        assert (await client.ask(ONE))["rows"] == [[1]], "the next one is answered"

    served(store, work)


def test_queries_end_with_the_server(store: ClickHouseStore) -> None:
    async def go() -> set[int]:
        before = processes()
        async with serving(store) as client:
            task, pids = await busy_of(client, before)
        with pytest.raises((aiohttp.ClientError, AssertionError)):
            await task
        return pids

    pids = run(go())
    assert not processes() & pids


def test_one_client_leaves_a_turn_to_others(store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_service, "TURN_WITHIN_S", 0.05)

    async def work(client: Client) -> None:
        task, _ = await busy_of(client, processes())
        assert (await client.ask(ONE, 503))["error"]["code"] == "busy"
        monkeypatch.setattr(query_service, "TURN_WITHIN_S", 10.0)
        other = {"Authorization": f"Bearer {TOKEN}"}
        assert (await client.ask(ONE, headers=other))["rows"] == [[1]], "with another token"
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    served(store, work, query_token=TOKEN)


def test_a_page_asks_two_statements_of_the_product_at_once_and_leaves_a_turn_to_others(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_service, "TURN_WITHIN_S", 0.05)

    async def go() -> None:
        service = query_service.QueryService(lambda: store, QuerySettings())
        reader, other = Reader("", "1.1.1.1"), Reader("a token", "2.2.2.2")
        try:
            async with AsyncExitStack() as held:

                async def ask(client: Reader) -> None:
                    answer = service.answered("SELECT 1", {}, "json", client, is_own=True)
                    await held.enter_async_context(answer)

                for _ in range(2):
                    await ask(reader)
                with pytest.raises(ApiError, match="no query ended within"):
                    await ask(reader)
                await ask(other)
        finally:
            await service.close()

    run(go())


def test_what_the_product_asks_uses_a_second_core_and_what_users_ask_does_not(store: ClickHouseStore) -> None:
    sql = "EXPLAIN PIPELINE SELECT number, count() FROM numbers(1000) GROUP BY number"

    async def go() -> None:
        service = query_service.QueryService(lambda: store, QuerySettings())
        try:
            for is_own in (True, False):
                async with service.answered(sql, {}, "json", Reader("", "1.1.1.1"), is_own=is_own) as answer:
                    plan = os.pread(answer.descriptor, answer.size_bytes, 0).decode()
                assert ("Resize 1 → 2" in plan) is is_own, plan
        finally:
            await service.close()

    run(go())


def test_one_token_from_40_addresses_leaves_places_and_a_turn_to_others(store: ClickHouseStore) -> None:
    async def ask(session: aiohttp.ClientSession, url: str) -> int:
        async with session.post(url, json=ENDLESS, headers=BEARER) as answer:
            return answer.status

    async def work(client: Client) -> None:
        task, _ = await busy_of(client, processes())
        async with AsyncExitStack() as held:
            asked: list[asyncio.Task[int]] = []
            for number in range(40):
                connector = aiohttp.TCPConnector(local_addr=(f"127.0.1.{number + 1}", 0))
                session = await held.enter_async_context(aiohttp.ClientSession(connector=connector))
                asked.append(asyncio.create_task(ask(session, f"{client.server.url}/api/v1/query")))
            # Somebody was refused: as many wait as may.
            done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            assert {each.result() for each in done} == {503}
            other = {"Authorization": f"Bearer {TOKEN}"}
            assert (await client.ask(ONE, headers=other))["rows"] == [[1]], "with another token"
            for each in (task, *asked):
                each.cancel()
            await asyncio.gather(task, *asked, return_exceptions=True)

    served(store, work, query_token=TOKEN)


def test_who_reads_too_slowly_loses_the_turn(store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "SEND_WITHIN_S", 0.2)
    large = {"sql": "SELECT repeat('x', 1000) FROM numbers(50000)"}

    async def work(client: Client) -> None:
        url = f"{client.server.url}/api/v1/query"
        async with client.session.post(url, json=large, headers=BEARER, read_bufsize=1024) as answer:
            assert answer.status == 200, await answer.text()
            assert (await client.ask(ONE))["rows"] == [[1]], "its turn is free"
            with pytest.raises(aiohttp.ClientError):
                await answer.read()

    served(store, work, query=QuerySettings(max_concurrent=1))


def test_a_process_serves_one_client_only(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        before = processes()
        await client.ask(ONE)
        first = processes() - before
        await client.ask(ONE, headers={"Authorization": f"Bearer {TOKEN}"})
        assert not processes() & first
        assert len(processes() - before) == 1

    served(store, work, query_token=TOKEN)


def test_who_waits_too_long_for_a_turn_is_told_to_come_back(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_service, "TURN_WITHIN_S", 0.05)

    async def work(client: Client) -> None:
        task, _ = await busy_of(client, processes())
        error = (await client.ask(ONE, 503))["error"]
        assert error["code"] == "busy"
        assert "query.max_concurrent" in error["message"]
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    served(store, work, query=QuerySettings(max_concurrent=1))


@pytest.mark.parametrize(
    ("limit", "value"), [("WAITING_MAX", -2), ("WAITING_OF_TOKEN_MAX", 0), ("WAITING_OF_ADDRESS_MAX", 0)]
)
def test_only_so_many_wait(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(query_service, limit, value)

    async def work(client: Client) -> None:
        assert (await client.ask(ONE, 503))["error"]["code"] == "busy"

    served(store, work)


def test_figures_are_served_while_queries_take_all_turns(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        task, _ = await busy_of(client, processes())
        assert (await client.get("/api/v1/jobs"))["jobs"]
        assert (await client.get("/healthz"))["status"] == "ok"
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    served(store, work, query=QuerySettings(max_concurrent=1))


def test_costs_are_answered_while_queries_take_all_turns(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        task, _ = await busy_of(client, processes())
        assert (await client.get("/api/v1/costs?by=team"))["rows"]
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    served(store, work, query=QuerySettings(max_concurrent=1))


def test_one_process_makes_the_costs_of_all_and_is_no_users(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_START", priority.LOWERED)

    async def work(client: Client) -> None:
        before = processes()
        await client.get("/api/v1/costs?by=team", headers=BEARER)
        own = processes() - before
        await client.get("/api/v1/costs?by=owner", headers={"Authorization": f"Bearer {TOKEN}"})
        assert processes() - before == own
        await client.ask(ONE)
        (users,) = processes() - before - own
        assert [os.getpriority(os.PRIO_PROCESS, pid) for pid in (*own, users)] == [OWN_NICE, USERS_NICE]

    served(store, work, read_token=TOKEN)


def test_a_command_on_the_same_machine_is_not_starved_by_other_programs(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_START", priority.LOWERED)

    async def work(client: Client) -> None:
        before = processes()
        url, headers = f"{client.server.url}/api/v1/query", BEARER | {"Accept": MEDIA_TYPE}
        async with client.session.post(url, json=ONE, headers=headers) as answer:
            assert answer.status == 200, await answer.read()
        (started,) = processes() - before
        assert os.getpriority(os.PRIO_PROCESS, started) == OWN_NICE

    served(store, work)


def test_what_becomes_of_queries_is_counted(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        await client.ask(ONE)
        await client.ask({"sql": "DROP TABLE jobs"}, 400)
        await client.ask({"sql": "SELECT nothing FROM jobs"}, 400)
        page = (await client.get("/metrics", headers=BEARER)).decode()
        for outcome in ("answered", "refused", "failed"):
            assert f'trainfare_web_queries_total{{outcome="{outcome}"}} 1.0' in page
        assert "trainfare_web_queries_running 0.0" in page

    served(store, work)


def test_sql_can_be_switched_off(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        error = (await client.ask(ONE, 503))["error"]
        assert (error["code"], "query.enabled" in error["message"]) == ("queries_off", True)

    served(store, work, query=QuerySettings(enabled=False))


def test_before_the_store_is_open_nothing_is_run() -> None:
    async def work(client: Client) -> None:
        before = processes()
        assert (await client.ask(ONE, 503))["error"]["code"] == "starting"
        assert processes() == before

    served(None, work)


def test_a_process_is_kept_for_the_next_query_and_one_that_broke_a_limit_is_not(
    store: ClickHouseStore,
) -> None:
    async def work(client: Client) -> None:
        before = processes()
        await client.ask(ONE)
        first = processes() - before
        await client.ask(ONE)
        await client.ask({"sql": "SELECT nothing FROM jobs"}, 400)
        assert processes() - before == first
        await client.ask({"sql": "SELECT length(groupArray(repeat('x', 1000))) FROM numbers(10000000)"}, 400)
        await until_none_of(first)

    served(store, work, query=QuerySettings(max_memory_bytes=64 * 2**20))


def test_a_process_for_queries_holds_no_variable_of_the_worker(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINFARE_WEB_TOKEN", "planted-secret-of-the-worker")

    async def work(client: Client) -> None:
        before = processes()
        await client.ask(ONE)
        (pid,) = processes() - before
        told = told_to(pid)
        assert b"planted-secret" not in told
        assert LOCAL_TOKEN.encode() not in told

    served(store, work)


@pytest.mark.parametrize(
    ("user", "why"), [("", "set clickhouse.reader_user"), ("writer", "may do more than read"), ("reader", "")]
)
def test_on_a_server_the_user_is_looked_at_before_anybody_asks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, user: str, why: str
) -> None:
    async def work(client: Client) -> None:
        assert client.server._looking is not None
        await client.server._looking
        if why:
            error = (await client.ask(ONE, 503))["error"]
            assert error["code"] == "queries_off"
            assert why in error["message"]
        else:
            assert (await client.ask(ONE))["rows"] == [[1]]

    with StoreProcess(tmp_path) as front:
        store = ClickHouseStore(replace(front.target(), reader_user=user))
        try:
            served(store, work)
        finally:
            store.close()
    assert why in logged(caplog)
    assert bool(why) == ("reader_user" in logged(caplog))
