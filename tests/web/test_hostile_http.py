"""What an outsider sends by hand: other spellings of a path, requests behind requests, headers of a proxy, cookies that nobody gave."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from pydantic import SecretStr

from streams.config.serving import SignInSettings
from tests.web.approvals import Kept
from tests.web.marked_store import token_of
from tests.web.raw import connected
from tests.web.serving import Client, served

SECRET: Final = "what-the-proxy-shows-with-each-request"
VIEWER, RECORD = token_of("viewer", "read", "query", teams=("vision",))
_HEAD: Final = ("Host: localhost", "Connection: close")
_OF: Final = f"Authorization: Bearer {VIEWER}"
_WHO: Final = "GET /api/v1/whoami HTTP/1.1"
_PROXY: Final = (f"X-Trainfare-Proxy-Secret: {SECRET}", "X-Forwarded-Groups: all")
#: Spellings of a path that a viewer may not read; a proxy may let them pass where it stops the plain one.
PATHS: Final = (
    "/api/v1/changes", "//api/v1/changes", "/api//v1/changes", "/api/v1/changes/", "/api/v1/%63hanges", "/%61pi/v1/changes",
    "/api%2fv1%2fchanges", "/api/v1/jobs/../changes", "/api/v1/./changes", "/API/v1/changes", "/api/v1/changes;x=1", "/api/v1/changes?",
    "/api/v1/changes%3f", "/api/v1/changes#x", "http://localhost/api/v1/changes", "http://evil.example/api/v1/changes",
    "/healthz/../api/v1/changes", "/static/../api/v1/changes", "/static/%2e%2e/%2e%2e/%2e%2e/etc/passwd", "/static/..%5c..%5cetc",
    "/api/v1/jobs%2f..%2fchanges", "/\\api/v1/changes",
)  # fmt: skip
#: By what is tried: lines of a request, and the statuses of all answers on the connection.
REQUESTS: Final[dict[str, tuple[tuple[str, ...], bytes, list[int]]]] = {
    **{f"{method} of a path": ((f"{method} /api/v1/changes HTTP/1.1", *_HEAD, _OF), b"", [status]) for method, status in (("HEAD", 403), ("OPTIONS", 405), ("TRACE", 405), ("PUT", 405), ("DELETE", 405), ("PATCH", 405), ("CONNECT", 404), ("get", 400), ("FOO", 400))},
    "HEAD of the stream": (("HEAD /api/v1/stream HTTP/1.1", *_HEAD, _OF), b"", [405]),
    "nobody behind a token": ((_WHO, _HEAD[0], _OF, "", _WHO, *_HEAD), b"", [200, 401]),
    "nobody behind a person": ((_WHO, _HEAD[0], *_PROXY, "X-Forwarded-Email: a@x", "", _WHO, *_HEAD, "X-Forwarded-Email: a@x"), b"", [200, 401]),
    "two lengths": (("POST /api/v1/controls HTTP/1.1", *_HEAD, _OF, "Content-Length: 4", "Content-Length: 5"), b"{}xx", [400]),
    "a length and pieces": (("POST /api/v1/controls HTTP/1.1", *_HEAD, _OF, "Content-Length: 4", "Transfer-Encoding: chunked"), b"0\r\n\r\nGET /api/v1/changes HTTP/1.1\r\n\r\n", [400]),
    "pieces, with a blank": (("POST /api/v1/controls HTTP/1.1", *_HEAD, _OF, "Transfer-Encoding : chunked"), b"0\r\n\r\n", [400]),
    "a token, with a blank": ((_WHO, *_HEAD, f"Authorization : Bearer {VIEWER}"), b"", [400]),
    "two tokens": ((_WHO, *_HEAD, "Authorization: Bearer x", _OF), b"", [401]),
    "two hosts": ((_WHO, *_HEAD, "Host: evil.example", _OF), b"", [400]),
    "no host": (("GET /api/v1/whoami HTTP/1.0", _OF), b"", [403]),
    "another host": ((_WHO, "Host: localhost.evil.example", _HEAD[1], _OF), b"", [403]),
    "a person of a host": ((_WHO, "Host: localhost@evil.example", _HEAD[1], _OF), b"", [403]),
    "a cookie of 15 KB": ((_WHO, *_HEAD, "Cookie: " + "a=b; " * 3_000), b"", [400]),
    "200 headers": ((_WHO, *_HEAD, *(f"X-{number}: 1" for number in range(200))), b"", [400]),
    "a person without the secret": ((_WHO, *_HEAD, "X-Forwarded-Email: a@x", "X-Forwarded-Groups: all"), b"", [401]),
    "a person with none": ((_WHO, *_HEAD, "X-Trainfare-Proxy-Secret: ", "X-Forwarded-Email: a@x", "X-Forwarded-Groups: all"), b"", [401]),
    "a person with another": ((_WHO, *_HEAD, f"X-Trainfare-Proxy-Secret: {SECRET.upper()}", "X-Forwarded-Email: a@x", "X-Forwarded-Groups: all"), b"", [401]),
    "the secret by another name": ((_WHO, *_HEAD, f"X_Trainfare_Proxy_Secret: {SECRET}", "X-Forwarded-Email: a@x", "X-Forwarded-Groups: all"), b"", [401]),
    "two secrets": ((_WHO, *_HEAD, "X-Trainfare-Proxy-Secret: x", *_PROXY, "X-Forwarded-Email: a@x"), b"", [401]),
    "two persons": ((_WHO, *_HEAD, *_PROXY, "X-Forwarded-Email: a@x", "X-Forwarded-Email: b@x"), b"", [400]),
    "a person of no group": ((_WHO, *_HEAD, _PROXY[0], "X-Forwarded-Email: a@x"), b"", [403]),
    "the cookie of a token": ((_WHO, *_HEAD, f"Cookie: trainfare_session=99999999999.{'0' * 64}.viewer"), b"", [401]),
    "the cookie of a person": ((_WHO, *_HEAD, f"Cookie: trainfare_person={'x' * 43}"), b"", [401]),
}  # fmt: skip


def answered(folder: Path, lines: tuple[str, ...], body: bytes = b"") -> tuple[list[int], bytes]:
    """The statuses of what comes back, and all of it; nothing is written."""
    roles, log = folder / "roles.toml", Kept()
    roles.write_text('[[roles]]\ngroup = "all"\nrole = "admin"\n')
    sign_in = SignInSettings(proxy_secret=SecretStr(SECRET), roles_file=roles)

    async def work(client: Client) -> bytes:
        raw = await connected(client.server.url)
        await raw.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        found = await raw.rest()
        raw.close()
        return found

    found = served(None, work, filed=RECORD, controls=log, events=log, sign_in=sign_in)
    assert log.records == []
    return [int(each) for each in re.findall(rb"HTTP/1\.[01] ([0-9]{3}) ", found)], found


@pytest.mark.parametrize("who", ["nobody", "viewer"])
@pytest.mark.parametrize("path", PATHS)
def test_no_spelling_of_a_path_is_let_in(tmp_path: Path, path: str, who: str) -> None:
    statuses, found = answered(
        tmp_path, (f"GET {path} HTTP/1.1", *_HEAD, *([_OF] if who == "viewer" else []))
    )
    assert statuses in ([404], [403 if who == "viewer" else 401]), found
    assert b"root:" not in found


@pytest.mark.parametrize("tried", REQUESTS)
def test_what_is_sent_by_hand_is_refused(tmp_path: Path, tried: str) -> None:
    lines, body, expected = REQUESTS[tried]
    statuses, found = answered(tmp_path, lines, body)
    assert statuses == expected, found


def test_a_person_of_a_proxy_is_no_token(tmp_path: Path) -> None:
    """Whatever a proxy passes on as a name, it is never that of a token."""
    statuses, found = answered(tmp_path, (_WHO, *_HEAD, *_PROXY, "X-Forwarded-Email: token/boss"))
    assert statuses == [200]
    assert b'"token":"person/' in found
    assert b"token/boss" not in found
