"""Text that UTF-8 cannot have, and NUL, in each path, parameter, header and field of a body: a clear refusal or an answer, never a fault."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import SecretStr

from sinks.clickhouse import ClickHouseStore
from streams.config.serving import SignInSettings
from streams.keys import OutgoingRecord
from streams.web.routes import Route, Routes
from tests.web.marked_store import OWN_ALERT, OWN_JOB, token_of
from tests.web.raw import connected, request
from tests.web.serving import WALL_MS, Client, served
from tests.web.test_rows_by_team import marked
from tests.web.test_scopes import bearer

__all__ = ["marked"]

BOSS, BOSS_RECORD = token_of("boss", "admin")
LEAD, LEAD_RECORD = token_of("lead", "read", "query", teams=("vision",))
SENDER, SENDER_RECORD = token_of("sender", "ingest", "act", "limit", teams=("vision",))
RECORDS: Final = {**BOSS_RECORD, **LEAD_RECORD, **SENDER_RECORD}
#: As it stands in a request line: half a pair of surrogates, a byte that begins no character, a bare byte, NUL.
IN_A_PATH: Final = ("%ED%A0%80", "%FF", "\udcff", "%00", "%C0%AF")
#: As it stands in a text of JSON.
IN_JSON: Final = ("\\ud800", "\\udfff x", "x\\u0000y")
#: A body of each path that takes one, with every field that is a text.
BODIES: Final[dict[str, list[dict[str, Any]]]] = {
    "/api/v1/session": [],
    "/api/v1/sign_out": [],
    "/api/v1/bills/pieces": [],  # a file
    "/api/v1/hooks/github": [],  # signed by another
    "/api/v1/hooks/gitlab": [],
    "/v1/traces": [{"resourceSpans": [{"resource": {"attributes": [{"key": "trainfare.job_id", "value": {"stringValue": "a"}}, {"key": "trainfare.team", "value": {"stringValue": "a"}}]}, "scopeSpans": [{"spans": [{"name": "a", "traceId": "0" * 32, "spanId": "1" * 16, "startTimeUnixNano": "1", "endTimeUnixNano": "2"}]}]}]}],
    "/v1/metrics": [{"resourceMetrics": [{"resource": {"attributes": [{"key": "trainfare.job_id", "value": {"stringValue": "a"}}]}, "scopeMetrics": [{"metrics": [{"name": "a", "gauge": {"dataPoints": [{"asInt": "1", "timeUnixNano": "1"}]}}]}]}]}],
    "/api/v1/query": [{"sql": "SELECT {a:String}", "parameters": {"a": "x"}}, {"sql": "SELECT job_id FROM jobs WHERE team = {team:String}", "parameters": {"team": "x"}}],
    "/api/v1/controls": [
        {"kind": "ack", "alert_id": OWN_ALERT, "until_ms": WALL_MS + 1_000, "comment": "c"},
        {"kind": "silence", "team": "t", "owner": "o", "job_id": "j", "rule": "burn_fast", "until_ms": WALL_MS + 1_000, "comment": "c"},
        {"kind": "planned", "team": "t", "job_id": "j", "usd_per_hour": "1", "until_ms": WALL_MS + 1_000, "comment": "c"},
        {"kind": "budget", "name": "n", "team": "t", "experiment": "e", "usd": "1", "per": "month", "actions": ["notify", {"do": "stop", "at": 1.2}], "comment": "c"},
        {"kind": "override", "name": "n", "team": "t", "rule": "burn_fast", "comment": "c"},
        {"kind": "receipt", "owner": "o", "on": True, "comment": "c"},
        {"kind": "source", "name": "n", "polls": 1, "entries": {"metered": 1}, "standing": []},
        {"kind": "actions", "mode": "live", "comment": "c"},
    ],
    "/api/v1/sources": [{"kind": "source", "name": "n", "polls": 1, "entries": {"metered": 1}, "standing": []}],
    "/api/v1/approvals": [{"id": "x"}, {"link": "x"}],
    "/api/v1/act": [{"link": "x", "act": "ack", "hours": 1, "comment": "c"}],
    "/api/v1/tokens": [
        {"name": "n", "hash": "0" * 64, "scopes": ["ingest"], "teams": ["t"], "owners": ["o"], "sources": ["s"], "job_prefixes": ["j"], "topics": ["jobs"], "person": "p", "comment": "c"},
        {"name": "lead", "revoked": True, "comment": "c"},
        {"name": "lead", "rotate": True, "hash": "1" * 64, "comment": "c"},
    ],
    "/api/v1/prices": [{"prices": [{"sku": "s", "component": "gpu", "usd": "2", "per": "gpu_hour", "effective_ms": 0, "gpu_type": "H", "team": "t"}], "comment": "c"}],
    "/api/v1/receivers/test": [{"owner": "o"}],
    "/api/v1/events": [{"source": "s", "id": "i", "time_ms": WALL_MS, "type": "started", "job_id": "j", "team": "t", "owner": "o", "project": "p", "experiment": "e", "nodes": {"n": 1}, "gpu_count": 1, "gpu_type": "H", "labels": {"k": "v"}}],
    "/api/v1/bills": [{"upload": "u", "files": ["f.csv"], "format": "focus", "comment": "c"}],
    "/api/v1/bills/allocations": [{"months": ["2026-05"]}],
    "/api/v1/bills/withdrawals": [{"load_id": "0123456789ab"}],
    "/api/v1/closings": [{"month": "2026-05", "comment": "c"}],
}  # fmt: skip
ROUTES: Final = [route for route in Routes(None).table() if route.path != "/api/v1/stream"]  # type: ignore[arg-type]  # only the paths are looked at
_FIELD: Final = re.compile(r"\{([^}]+)\}")
#: Where a parameter has a grammar of its own.
_WITHIN: Final = (
    "/api/v1/costs?where=team={}",
    "/api/v1/costs?by=team&where=team!={}",
    "/api/v1/budgets/detail?budget={0}&kind=team&name={0}",
)
#: Parameters of paths that name none themselves.
_OTHERWISE: Final = ("to", "code", "state", "error", "iss", "token")
_BATCH: Final = 40


class _Taken:
    """Takes every record."""

    async def append(self, records: list[OutgoingRecord]) -> None:
        for each in records:
            each.value.decode()


def changed(body: Any, text: str) -> Iterator[Any]:
    """The body with each of its texts replaced in turn, names of fields too."""
    if isinstance(body, dict):
        for name, value in body.items():
            rest = {key: each for key, each in body.items() if key != name}
            yield {**rest, text: value}
            for each in changed(value, text):
                yield {**body, name: each}
    elif isinstance(body, list):
        for place, value in enumerate(body):
            for each in changed(value, text):
                yield [*body[:place], each, *body[place + 1 :]]
    elif isinstance(body, str):
        yield text


def bodies_of(path: str) -> list[bytes]:
    made = [body for text in ("@0@", "@1@", "@2@") for whole in BODIES[path] for body in changed(whole, text)]
    texts = [json.dumps(each) for each in made]
    for place, text in enumerate(IN_JSON):
        texts = [each.replace(f"@{place}@", text) for each in texts]
    # A byte that UTF-8 cannot have, too.
    return [each.encode() for each in texts] + [
        each.encode().replace(b"\\ud800", b"\xed\xa0\x80") for each in texts if "\\ud800" in each
    ]


def plain(route: Route) -> str:
    """The path with names that there are."""
    names = {"job_id:[^/]+": OWN_JOB, "alert_id:[^/]+": OWN_ALERT, "name:[^/]+": "own-experiment", "name": "top_jobs", "month:[^/]+": "2026-05", "path:.+": "app.js"}  # fmt: skip
    return _FIELD.sub(lambda found: names[found[1]], route.path)


async def lines_of(client: Client, route: Route) -> list[str]:
    """Request targets with such text at each place; a path says itself which parameters it has."""
    async with client.session.get(client.server.url + plain(route), params={"zz": "1"}, headers=bearer(BOSS), allow_redirects=False) as answer:  # fmt: skip
        said = re.search(r"'zz' is unknown; expected ([^\"]*)\"", await answer.text())
    known = said[1].split(", ") if said and said[1] else [*_OTHERWISE]
    found = []
    for text in IN_A_PATH:
        if "{" in route.path:
            found.append(_FIELD.sub(f"a{text}", route.path))
        found += [f"{plain(route)}?{text}=1", *(f"{plain(route)}?{name}={text}" for name in known)]
    return found


async def status_of(client: Client, data: bytes) -> tuple[int, bytes]:
    raw = await connected(client.server.url)
    try:
        await raw.send(data)
        answer = await raw.rest()
    finally:
        raw.close()
    return int(answer.split(b" ", 2)[1]), answer


def sent(target: str, token: str, *headers: str, method: str = "GET", body: bytes = b"") -> bytes:
    made = request(
        "@", f"Authorization: Bearer {token}", "Connection: close", *headers, method=method, body=body
    )
    return made.replace(b"@", target.encode("utf-8", "surrogateescape"), 1)


async def faults(client: Client, requests: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Those that are a fault of the worker's own, with their answers."""
    found = []
    for first in range(0, len(requests), _BATCH):
        part = requests[first : first + _BATCH]
        answers = await asyncio.gather(*(status_of(client, each) for each in part))
        found += [
            (each, answer)
            for each, (status, answer) in zip(part, answers, strict=True)
            if status in (500, 501)
        ]
    return found


def tried(store: ClickHouseStore | None, work: Any) -> Any:
    return served(store, work, filed=RECORDS, controls=_Taken(), events=_Taken(), act_link_key="k" * 32)


def test_every_path_that_takes_a_body_is_tried() -> None:
    assert {route.path for route in ROUTES if route.method == "POST"} == set(BODIES)


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("token", [BOSS, LEAD], ids=["boss", "lead"])
def test_no_path_or_parameter_makes_a_fault(marked: ClickHouseStore, token: str, part: int) -> None:
    async def work(client: Client) -> None:
        reads = [route for route in ROUTES if route.method == "GET"][part::4]
        lines = [line for route in reads for line in await lines_of(client, route)]
        lines += [each.format(text) for each in _WITHIN for text in IN_A_PATH]
        requests = [sent(line, token) for line in lines]
        assert len(requests) > 5 * len(reads)
        assert await faults(client, requests) == []

    tried(marked, work)


@pytest.mark.parametrize("path", BODIES)
def test_no_field_of_a_body_makes_a_fault(marked: ClickHouseStore, path: str) -> None:
    async def work(client: Client) -> None:
        requests = [
            sent(path, token, "Content-Type: application/json", f"Content-Length: {len(body)}", method="POST", body=body)
            for body in bodies_of(path)
            for token in (BOSS, SENDER)
        ]  # fmt: skip
        assert await faults(client, requests) == []

    tried(marked, work)


def test_a_text_of_no_utf8_is_refused_and_a_whole_pair_is_a_character(marked: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        for path in ("/api/v1/query", "/api/v1/controls", "/api/v1/tokens", "/api/v1/approvals"):
            for text in (b"\\ud800", b"\\uDC00", b"\xed\xa0\x80", b"\xff"):
                options: Any = {
                    "data": b'{"sql": "SELECT \'' + text + b"'\"}",
                    "headers": {**bearer(BOSS), "Content-Type": "application/json"},
                }
                async with client.session.post(client.server.url + path, **options) as answer:
                    assert (answer.status, b"expected " in await answer.read()) == (400, True), (path, text)
        body = {"sql": "SELECT {a:String} AS a", "parameters": {"a": "\U0001f600"}}
        assert (await client.ask(body))["rows"] == [["\U0001f600"]]

    tried(marked, work)


def test_no_header_makes_a_fault(tmp_path: Path) -> None:
    """Among them those of a proxy, which may pass on any name."""
    (tmp_path / "roles.toml").write_text('[[roles]]\ngroup = "all"\nrole = "admin"\n')
    secret = "what-the-proxy-shows-with-each-request"
    sign_in = SignInSettings(proxy_secret=SecretStr(secret), roles_file=tmp_path / "roles.toml")
    proxy = (f"X-Trainfare-Proxy-Secret: {secret}", "X-Forwarded-Email: @", "X-Forwarded-Groups: all")
    names = ("Authorization: Bearer", "Authorization:", "Cookie: trainfare_session=", "Cookie: trainfare_person=", "Cookie: a=", "X-Request-Id:", "Origin:", "Accept:", "Accept-Encoding:", "Content-Type:", "Content-Encoding:", "If-None-Match:", "Last-Event-ID:", "X-Forwarded-Proto:", "Sec-Fetch-Site:", "ce-id:", "ce-specversion:")  # fmt: skip

    async def work(client: Client) -> None:
        requests = [
            _raw(f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", f"{name} \udcff\udced\udca0\udc80", "Content-Length: 2")
            for name in names
            for method, path in (("GET", "/api/v1/whoami"), ("GET", "/"), ("POST", "/api/v1/events"), ("POST", "/api/v1/controls"))
        ]  # fmt: skip
        for path in ("/api/v1/whoami", "/api/v1/approvals", "/api/v1/changes"):
            shown = [each.replace("@", "\udcff x") for each in proxy]
            requests.append(_raw(f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close", *shown))
        assert await faults(client, requests) == []
        status, answer = await status_of(client, requests[-3])
        assert (status, b"person/" in answer) == (200, True), answer

    served(None, work, filed=RECORDS, controls=_Taken(), events=_Taken(), sign_in=sign_in)


def _raw(*lines: str) -> bytes:
    return (
        "\r\n".join(lines).encode("utf-8", "surrogateescape")
        + b"\r\n\r\n"
        + (b"{}" if "Content-Length: 2" in lines else b"")
    )
