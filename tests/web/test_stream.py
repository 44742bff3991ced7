"""Server-sent events: computed once for all listeners, only while there are any, and none is waited for."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import aiohttp
import pytest

from sinks.clickhouse import ClickHouseStore
from streams.web.errors import ApiError
from streams.web.places import Client as Who
from streams.web.stream import PIECE_BYTES, Broadcaster
from tests.web.serving import BEARER, TOKEN, Client, run, served


async def events(answer: aiohttp.ClientResponse, count: int) -> list[tuple[str, Any]]:
    """The next events of a stream."""
    found: list[tuple[str, Any]] = []
    name = ""
    while len(found) < count:
        line = (await answer.content.readline()).decode().rstrip("\n")
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            found.append((name, json.loads(line.removeprefix("data: "))))
    return found


def test_two_listeners_share_one_computation(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        url = f"{client.server.url}/api/v1/stream"
        async with client.session.get(url) as one, client.session.get(url) as other:
            assert one.content_type == "text/event-stream"
            assert one.headers["Cache-Control"] == "no-store"
            first, second = await asyncio.gather(events(one, 2), events(other, 2))
        assert first == second
        assert client.server.broadcaster.computed in (2, 3)
        name, snapshot = first[0]
        assert name == "snapshot"
        assert set(snapshot) == {"burn", "jobs", "alerts", "speed", "may_act"}
        assert snapshot["speed"] == 1
        assert [job["job_id"] for job in snapshot["jobs"]][:2] == ["b", "a"]
        assert snapshot["burn"]["usd_per_hour_now"] == "12.500000001"
        assert snapshot["alerts"][1]["deliveries"][1]["outcome"] == "delivered"

    served(store, work)


def test_nothing_is_computed_for_nobody(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        broadcaster = client.server.broadcaster
        async with client.session.get(f"{client.server.url}/api/v1/stream") as answer:
            await events(answer, 1)
            assert broadcaster.listeners == 1
        while broadcaster.listeners:  # noqa: ASYNC110  # the server learns of it by its next write
            await asyncio.sleep(0.01)
        computed = broadcaster.computed
        await client.get("/healthz")
        assert broadcaster.computed == computed

    served(store, work)


def test_listeners_are_let_go_when_the_server_stops(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        async with client.session.get(f"{client.server.url}/api/v1/stream") as answer:
            await events(answer, 1)
            stopping = asyncio.ensure_future(client.server.stop())
            assert await answer.content.read() is not None  # to its end
            await asyncio.wait_for(stopping, 5)

    served(store, work)


def test_a_store_that_is_away_is_told_and_the_stream_goes_on() -> None:
    async def work(client: Client) -> None:
        async with client.session.get(f"{client.server.url}/api/v1/stream") as answer:
            (name, fault), _ = await events(answer, 2)
            assert (name, fault["error"]["code"]) == ("fault", "starting")

    served(None, work)


class Listener:
    """Takes what is written, as slowly as it is told to."""

    def __init__(self, pause_s: float = 0.0) -> None:
        self.written: list[bytes] = []
        self.pause_s = pause_s

    async def write(self, data: memoryview) -> None:
        self.written.append(bytes(data))
        await asyncio.sleep(self.pause_s)


def listener(name: str) -> Who:
    return Who(name, f"address of {name}")


@pytest.mark.parametrize("shared", ["token", "address"])
def test_one_token_or_address_leaves_seats_to_others(shared: str) -> None:
    """However many of the other it comes with."""
    broadcaster = Broadcaster(lambda: asyncio.sleep(0, "x"), listeners_max=64, per_client_max=8)
    with ExitStack() as held:
        for number in range(48):
            pair = ("one", f"other-{number}")
            held.enter_context(broadcaster.seat(Who(*(pair if shared == "token" else pair[::-1]))))
        with (
            pytest.raises(ApiError, match=f"with this {shared}") as caught,
            broadcaster.seat(Who(*(("one", "new") if shared == "token" else ("new", "one")))),
        ):
            pass
        assert caught.value.status == 429
        for number in range(16):
            held.enter_context(broadcaster.seat(listener(f"somebody-{number}")))


def test_one_listener_too_many_is_refused() -> None:
    broadcaster = Broadcaster(lambda: asyncio.sleep(0, "x"), listeners_max=4, per_client_max=2)
    with ExitStack() as held:
        for store_reader in ("ada", "grace", "ada", "grace"):
            held.enter_context(broadcaster.seat(listener(store_reader)))
        with pytest.raises(ApiError, match="4 listen already") as caught:
            held.enter_context(broadcaster.seat(listener("joan")))
    assert (caught.value.status, caught.value.code) == (503, "too_many_listeners")
    with broadcaster.seat(listener("joan")):
        pass
    broadcaster.close()
    with pytest.raises(ApiError, match="stopping"), broadcaster.seat(listener("joan")):
        pass


def test_one_client_cannot_take_every_place() -> None:
    broadcaster = Broadcaster(lambda: asyncio.sleep(0, "x"), listeners_max=64, per_client_max=2)
    with ExitStack() as held:
        for store_reader in ("ada", "ada", "grace"):
            held.enter_context(broadcaster.seat(listener(store_reader)))
        with pytest.raises(ApiError, match="2 listen already with this token") as caught:
            held.enter_context(broadcaster.seat(listener("ada")))
    assert (caught.value.status, caught.value.retry_after_s) == (429, 5)
    with broadcaster.seat(listener("ada")):
        pass


def test_places_are_by_token_and_address_and_are_given_back() -> None:
    async def work(client: Client) -> None:
        url = f"{client.server.url}/api/v1/stream"
        async with AsyncExitStack() as held:
            for _ in range(2):
                await held.enter_async_context(client.session.get(url, headers=BEARER))
            await client.get("/api/v1/stream", 429, headers=BEARER)
            other = {"Authorization": "Bearer another-who-may-read"}
            answer = await held.enter_async_context(client.session.get(url, headers=other))
            assert answer.status == 200, "another token has places of its own"
        while client.server.broadcaster.listeners:  # noqa: ASYNC110  # the server learns of it by itself
            await asyncio.sleep(0.01)
        async with client.session.get(url, headers=BEARER) as answer:
            assert answer.status == 200

    served(None, work, token=TOKEN, read_token="another-who-may-read", max_streams_per_client=2)


def test_a_large_snapshot_goes_out_in_pieces() -> None:
    async def work() -> None:
        broadcaster = Broadcaster(lambda: asyncio.sleep(0, "x" * 300_000), interval_s=60)
        pieces: list[memoryview] = []

        async def write(piece: memoryview) -> None:
            pieces.append(piece)
            if sum(map(len, pieces)) > 300_000:
                broadcaster.close()

        await broadcaster.serve(write)
        assert max(map(len, pieces)) <= PIECE_BYTES
        whole = {id(piece.obj) for piece in pieces[1:]}
        assert len(whole) == 1, "all of them look into one snapshot"
        assert b"".join(pieces).endswith(b'x"\n\n')

    run(work())


def test_a_slow_listener_misses_snapshots_and_holds_up_nobody() -> None:
    async def work() -> None:
        count = 0

        async def make() -> int:
            nonlocal count
            count += 1
            return count

        broadcaster = Broadcaster(make, interval_s=0.01)
        quick, slow = Listener(), Listener(pause_s=0.2)
        tasks = [asyncio.ensure_future(broadcaster.serve(each.write)) for each in (quick, slow)]
        while len(slow.written) < 4:  # noqa: ASYNC110  # written by the task above
            await asyncio.sleep(0.01)
        broadcaster.close()
        await asyncio.gather(*tasks)
        assert len(quick.written) > 3 * len(slow.written)
        numbers = [int(data.rpartition(b"data: ")[2]) for data in slow.written[1:]]
        assert numbers == sorted(set(numbers)), "each newer than the one before"

    run(work())


def test_silence_is_filled_with_comments() -> None:
    async def work() -> None:
        async def never() -> None:
            await asyncio.Event().wait()

        broadcaster = Broadcaster(never, keep_alive_s=0.01)
        listener = Listener()
        task = asyncio.ensure_future(broadcaster.serve(listener.write))
        while len(listener.written) < 3:  # noqa: ASYNC110  # written by the task above
            await asyncio.sleep(0.01)
        broadcaster.close()
        await task
        assert listener.written[1] == b": still here\n\n"

    run(work())


def test_a_fault_of_ours_does_not_end_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async def broken() -> None:
            raise ZeroDivisionError("inside")

        broadcaster = Broadcaster(broken, interval_s=0.01)
        listener = Listener()
        task = asyncio.ensure_future(broadcaster.serve(listener.write))
        while len(listener.written) < 3:  # noqa: ASYNC110  # written by the task above
            await asyncio.sleep(0.01)
        broadcaster.close()
        await task
        assert b'"internal"' in listener.written[1]
        assert b"inside" not in listener.written[1]

    run(work())
    assert "inside" in caplog.text
