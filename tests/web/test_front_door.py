"""Bodies that do not come, or not all of them, beside honest ones from the same address: nothing is theirs until they send it."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from streams.keys import OutgoingRecord
from streams.web import http_protocol, ingest, listener, middleware, security
from streams.web.accept_filter import BODY_AWAITED_BYTES
from streams.web.ingest import BODY_MAX_BYTES, IN_FLIGHT_MAX_BYTES
from streams.web.token_guesses import FREE
from tests.web.raw import Raw, connected, connected_at_once, parsed, request, turns
from tests.web.serving import LOCAL, LOCAL_TOKEN, Client, served
from tests.web.test_hooks import GITHUB, GITLAB, SETTINGS, TOKEN, signed
from tests.web.test_hooks import post as post_hook
from tests.web.test_ingest import STARTED, WRITE, Log, post

GITHUB_HOOK, EVENTS = "/api/v1/hooks/github", "/api/v1/events?topic=jobs"
MESSAGE = json.dumps(GITHUB[0]).encode()
OTHER = "one-more-token-of-all-scopes"
JSON = "Content-Type: application/json"
ALL_OF_IT = f"Content-Length: {BODY_MAX_BYTES}"


async def opened(client: Client, count: int, path: str, *headers: str, body: bytes = b"") -> list[Raw]:
    """Connections that send a header and a part of its body, and then nothing."""
    raws = [await connected(client.server.url) for _ in range(count)]
    sent = request(path, JSON, *headers, method="POST", body=body)
    await asyncio.gather(*(raw.send(sent) for raw in raws))
    await client.get("/healthz")  # the server has had its turn
    return raws


async def signed_hook(client: Client) -> int:
    return (await post_hook(client, "github", MESSAGE, signed(MESSAGE)))[0]


def bearer(token: str) -> str:
    return f"Authorization: Bearer {token}"


# -- nothing is reserved ------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [ALL_OF_IT, "Transfer-Encoding: chunked"])
def test_bodies_that_are_announced_and_do_not_come_keep_no_webhook_out(length: str) -> None:
    async def work(client: Client) -> int:
        silent = await opened(client, 40, GITHUB_HOOK, length)
        found = await signed_hook(client)
        for raw in silent:
            raw.close()
        return found

    assert served(None, work, events=Log(), ci=SETTINGS) == 202


@pytest.mark.parametrize("mine", [OTHER, WRITE])
def test_bodies_that_do_not_come_keep_no_events_out_neither_of_another_token_nor_of_the_same(
    mine: str,
) -> None:
    async def work(client: Client) -> int:
        silent = await opened(client, 40, EVENTS, bearer(WRITE), ALL_OF_IT)
        found, _, _ = await post(client, STARTED, "?topic=jobs", Authorization=f"Bearer {mine}")
        for raw in silent:
            raw.close()
        return found

    assert served(None, work, events=Log(), write_token=WRITE, token=OTHER) == 202


# -- no handler for what may never come ---------------------------------------------------------------------

PIECES = [
    request(EVENTS, JSON, ALL_OF_IT, method="POST"),
    b"POST /api",
    request(EVENTS, method="POST", body=b"")[:-2],
]


@pytest.fixture
def handlers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The handlers that were made."""
    made: list[object] = []
    begin = http_protocol.HttpProtocol.connection_made

    def noted(self: http_protocol.HttpProtocol, transport: asyncio.BaseTransport) -> None:
        made.append(self)
        begin(self, transport)

    monkeypatch.setattr(http_protocol.HttpProtocol, "connection_made", noted)
    return made


@pytest.mark.parametrize("piece", PIECES)
def test_a_flood_of_unfinished_requests_keeps_no_whole_one_out(piece: bytes, handlers: list[object]) -> None:
    ask = request("/healthz", "Connection: close")

    async def work(client: Client) -> list[int]:
        raws = connected_at_once(client.server.url, *[piece] * 40, ask, *[piece] * 5, ask)
        found = [parsed(await raw.rest())[0] for raw in (raws[40], raws[-1])]
        for raw in raws:
            raw.close()
        return found

    assert served(None, work, max_connections_per_address=8) == [200, 200]
    assert len(handlers) <= 4 + 2, "as many as may be without pressure, and one for each that has asked"


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("size", [200, 300_000])
def test_under_pressure_a_request_in_pieces_is_answered_when_it_is_whole(
    size: int, chunked: bool, handlers: list[object]
) -> None:
    events = json.dumps(STARTED).encode().ljust(size, b" ")
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (size, events) if chunked else events
    whole = request(EVENTS, JSON, bearer(WRITE), length, "Connection: close", method="POST", body=body)
    cuts = [0, 20, len(whole) - len(body) - 1, len(whole) - len(body) + 10, len(whole) - 1, len(whole)]

    async def work(client: Client) -> tuple[int, int]:
        silent = connected_at_once(client.server.url, *[PIECES[0]] * 5)
        await turns()
        [raw] = connected_at_once(client.server.url, b"")
        before = len(handlers)
        for begin, end in itertools.pairwise(cuts):
            await raw.send(whole[begin:end])
            await turns()
            if size < BODY_AWAITED_BYTES:
                assert len(handlers) == before + (end == len(whole))
        found = parsed(await raw.rest())[0]
        for each in (*silent, raw):
            each.close()
        return found, len(silent)

    assert served(None, work, events=Log(), write_token=WRITE, max_connections_per_address=8) == (202, 5)


def test_who_leaves_in_the_middle_of_a_request_has_gone(handlers: list[object]) -> None:
    async def work(client: Client) -> bytes:
        silent = connected_at_once(client.server.url, *[PIECES[0]] * 5)
        await turns()
        before = len(handlers)
        [raw] = connected_at_once(client.server.url, b"GET /healthz HTTP/1.1\r\n")
        await turns()
        raw.line.shutdown(socket.SHUT_WR)
        found = await raw.rest()
        assert len(handlers) == before
        for each in (*silent, raw):
            each.close()
        return found

    assert served(None, work, max_connections_per_address=8) == b""


def test_a_socket_without_room_for_what_is_awaited_is_read(
    monkeypatch: pytest.MonkeyPatch, handlers: list[object]
) -> None:
    monkeypatch.setattr(listener, "awaited_bytes", lambda received: 2**30)  # more than the system ever holds

    async def work(client: Client) -> int:
        silent = connected_at_once(client.server.url, *[PIECES[0]] * 5)
        [raw] = connected_at_once(client.server.url, b"")
        events = json.dumps(STARTED).encode().ljust(BODY_MAX_BYTES, b" ")
        head = (JSON, bearer(WRITE), ALL_OF_IT, "Connection: close")
        await raw.send(request(EVENTS, *head, method="POST", body=events))
        found = parsed(await raw.rest())[0]
        for each in (*silent, raw):
            each.close()
        return found

    assert served(None, work, events=Log(), write_token=WRITE, max_connections_per_address=8) == 202


# -- bodies that stop shortly before their end --------------------------------------------------------------


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_that_stop_before_their_end_make_room_for_webhooks(chunked: bool) -> None:
    length = "Transfer-Encoding: chunked" if chunked else ALL_OF_IT
    part = b" " * (BODY_MAX_BYTES - 1)
    body = b"%x\r\n%s\r\n" % (len(part), part) if chunked else part

    async def work(client: Client) -> tuple[list[int], int]:
        stalled = await opened(client, 12, GITHUB_HOOK, length, body=body)
        found = [await signed_hook(client) for _ in range(5)]
        told = [parsed(await raw.until(b'"}}'))[0] for raw in stalled[:1]]
        for raw in stalled:
            raw.close()
        return found, told[0]

    assert served(None, work, events=Log(), ci=SETTINGS) == ([202] * 5, 503)


def test_bodies_that_stop_before_their_end_make_room_for_events_of_the_same_token() -> None:
    async def work(client: Client) -> list[int]:
        stalled = await opened(client, 12, EVENTS, bearer(WRITE), ALL_OF_IT, body=b" " * (BODY_MAX_BYTES - 1))
        found = [(await post(client, STARTED, "?topic=jobs"))[0] for _ in range(5)]
        for raw in stalled:
            raw.close()
        return found

    assert served(None, work, events=Log(), write_token=WRITE) == [202] * 5


@dataclass
class SlowForOthers(Log):
    """Takes what is of job `mine`, and holds all else back."""

    async def append(self, records: Sequence[OutgoingRecord]) -> None:
        if records[0].key != b"mine":
            await super().append(records)


def test_a_token_whose_events_all_wait_for_kafka_keeps_no_other_token_out() -> None:
    log = SlowForOthers(gate=asyncio.Event())
    big = json.dumps(STARTED).encode().ljust(BODY_MAX_BYTES, b" ")

    async def work(client: Client) -> tuple[int, int, int]:
        assert log.gate is not None
        waiting = [
            asyncio.create_task(post(client, big, "?topic=jobs"))
            for _ in range(IN_FLIGHT_MAX_BYTES // BODY_MAX_BYTES + 1)
        ]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        mine = {**STARTED, "job_id": "mine"}
        of_other = (await post(client, mine, "?topic=jobs", **LOCAL))[0]
        of_hook = await signed_hook(client) if log.gate.is_set() else 0
        log.gate.set()
        await asyncio.wait(waiting)
        return done.pop().result()[0], of_other, of_hook

    assert served(None, work, events=log, write_token=WRITE) == (503, 202, 0)


def test_a_token_takes_turns_with_others_however_many_of_its_requests_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    judged = ingest.IngestEndpoint.judged

    async def noted(self: ingest.IngestEndpoint, *given: Any) -> ingest.JudgedEvents:
        found = await judged(self, *given)
        order.append(found.records[0].key.decode())
        return found

    monkeypatch.setattr(ingest.IngestEndpoint, "judged", noted)
    many = [{**STARTED, "id": f"e{number}", "job_id": "many"} for number in range(5_000)]

    async def work(client: Client) -> int:
        flood = [asyncio.create_task(post(client, many, "?topic=jobs")) for _ in range(12)]
        await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
        found = (await post(client, {**STARTED, "job_id": "mine"}, "?topic=jobs", **LOCAL))[0]
        await asyncio.wait(flood)
        return found

    assert served(None, work, events=Log(), write_token=WRITE) == 202
    assert len(order) == 13
    assert order.index("mine") < 6


def test_bodies_of_queries_that_stop_hold_a_share_of_memory() -> None:
    part = b" " * (2**18 - 1)

    async def work(client: Client) -> tuple[int, int]:
        stalled = await opened(
            client, 30, "/api/v1/query", bearer(LOCAL_TOKEN), f"Content-Length: {2**18}", body=part
        )
        first = parsed(await stalled[0].until(b'"}}'))[0]
        held_bytes = client.server.queries.bodies.held_bytes
        for raw in stalled:
            raw.close()
        return first, held_bytes

    status, held_bytes = served(None, work)
    assert status == 503
    assert 0 < held_bytes <= 2 * 2**20


# -- what nobody has vouched for ----------------------------------------------------------------------------


def test_forged_webhooks_do_not_use_up_the_requests_of_signed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "BURST", 2)
    monkeypatch.setattr(ingest, "PER_S", 0)

    async def work(client: Client) -> list[int]:
        forged = [(await post_hook(client, "github", MESSAGE, {}))[0] for _ in range(FREE - 1)]
        right = json.dumps(GITLAB[0]).encode(), {"X-Gitlab-Event": "Job Hook", "X-Gitlab-Token": TOKEN}
        return [*forged, await signed_hook(client), (await post_hook(client, "gitlab", *right))[0]]

    assert served(None, work, events=Log(), ci=SETTINGS) == [401] * (FREE - 1) + [202, 202]


def test_a_wrong_token_of_gitlab_is_refused_before_its_body_comes() -> None:
    async def work(client: Client) -> int:
        [raw] = await opened(client, 1, "/api/v1/hooks/gitlab", "X-Gitlab-Token: no", ALL_OF_IT)
        found, _, _ = parsed(await raw.until(b'"}}'))
        raw.close()
        return found

    assert served(None, work, events=Log(), ci=SETTINGS) == 401


def test_a_refusal_that_is_delayed_holds_no_body(monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[BaseException | None] = []

    async def noted(_: web.BaseRequest, delay_s: float) -> None:
        assert delay_s
        faults.append(sys.exception())

    monkeypatch.setattr(middleware, "hold_back", noted)

    async def work(client: Client) -> list[int]:
        return [(await post_hook(client, "github", MESSAGE, {}))[0] for _ in range(FREE + 1)]

    assert served(None, work, events=Log(), ci=SETTINGS)[-1] == 429
    assert faults == [None], "the traceback of a fault keeps the body in memory"


def test_whoever_guesses_makes_room_for_others_of_the_same_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "GUESS_DELAY_S", 60.0)

    async def work(client: Client) -> int:
        for _ in range(FREE):
            await client.get(
                "/api/v1/jobs", 401, headers={"Authorization": "Bearer no", "Connection": "close"}
            )
        guessing = [await connected(client.server.url) for _ in range(3)]
        for raw in guessing:
            await raw.send(request("/api/v1/jobs", "Authorization: Bearer no"))
        await client.get("/healthz")
        found = [await connected(client.server.url) for _ in range(2)]
        for raw in found:
            await raw.send(request("/healthz", "Connection: close"))
        statuses = [parsed(await raw.rest())[0] for raw in found]
        for raw in guessing:
            raw.close()
        return statuses.count(200)

    assert served(None, work, token=OTHER, max_connections_per_address=4) == 2


def test_a_secret_that_was_shown_is_known_to_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    def noted(self: http_protocol.HttpProtocol) -> None:
        shown.append(self._connection.address)

    monkeypatch.setattr(http_protocol.HttpProtocol, "trust", noted)

    async def work(client: Client) -> list[int]:
        await client.get("/healthz")
        await client.get("/healthz", headers={"Authorization": "Bearer wrong"})
        await post_hook(client, "github", MESSAGE, {})
        counts = [len(shown)]
        await client.get("/healthz", headers={"Authorization": f"Bearer {LOCAL_TOKEN}"})
        counts.append(len(shown))
        await signed_hook(client)
        return [*counts, len(shown)]

    assert served(None, work, events=Log(), ci=SETTINGS) == [0, 1, 2]
