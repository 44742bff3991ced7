"""What is asked over HTTP: no redirect is followed, no answer is larger than allowed, and faults show no secret."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from streams.collect.collector import SourceUnavailableError
from streams.collect.http_source import BadStatusError, OutsideApi, checked_address, token_of
from streams.errors import WrongUseError, why_no_answer

TOKEN = "s3cret-token"


class Server:
    """Answers one thing; keeps what it was asked."""

    def __init__(self) -> None:
        self.status, self.body, self.wait_s = 200, b"{}", 0.0
        self.asked: list[tuple[str, str, str, bytes]] = []
        self.released = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                server.asked.append((self.command, self.path, self.headers.get("authorization", ""), body))
                server.released.wait(server.wait_s)
                self.send_response(server.status)
                self.send_header("location", "/elsewhere")
                self.send_header("content-length", str(len(server.body)))
                self.end_headers()
                self.wfile.write(server.body)

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """The client gave up, as one of the tests wants it."""

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.released.set()
    found.server.shutdown()
    found.server.server_close()


def test_it_asks_with_the_token_and_posts_json(server: Server) -> None:
    api = OutsideApi(server.address + "/base/", token=TOKEN)
    assert api.get("/a?b=c") == b"{}"
    assert api.post("/d", b'{"e": 1}') == b"{}"
    assert server.asked == [
        ("GET", "/base/a?b=c", f"Bearer {TOKEN}", b""),
        ("POST", "/base/d", f"Bearer {TOKEN}", b'{"e": 1}'),
    ]


@pytest.mark.parametrize("status", [301, 302, 307, 401, 404, 500, 503])
def test_another_status_is_named_and_no_redirect_followed(server: Server, status: int) -> None:
    server.status, server.body = status, b"no\x1b[31m" + b"x" * 10_000
    with pytest.raises(BadStatusError) as fault:
        OutsideApi(server.address, token=TOKEN).get("/a?secret=1")
    assert fault.value.status == status
    assert f"{server.address}/a answered {status}: no" in str(fault.value)
    assert "\x1b" not in str(fault.value)
    assert len(str(fault.value)) < 400
    assert "secret" not in str(fault.value)
    assert TOKEN not in str(fault.value)
    assert [path for _, path, *_ in server.asked] == ["/a?secret=1"]


def test_an_answer_has_a_size_at_most(server: Server) -> None:
    server.body = b"x" * 1000
    assert len(OutsideApi(server.address, bytes_at_most=1000).get("/")) == 1000
    with pytest.raises(SourceUnavailableError, match="more than 999 bytes; see max_response_mib"):
        OutsideApi(server.address, bytes_at_most=999).get("/")


def test_a_server_that_does_not_answer_is_given_up(server: Server) -> None:
    server.wait_s = 600
    with pytest.raises(SourceUnavailableError, match="no answer"):
        OutsideApi(server.address, timeout_s=0.2).get("/")
    with pytest.raises(SourceUnavailableError, match="no connection"):
        OutsideApi("http://127.0.0.1:1").get("/")


@pytest.mark.parametrize(
    "address", ["", "x", "ftp://x", "http://", "http://ada:pw@x", "http://x?y=z", "file:///etc/passwd"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="expected an address"):
        checked_address(address)


def test_a_token_is_one_word_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    assert token_of(None) == ""
    path.write_text(f"{TOKEN}\n")
    assert token_of(path) == TOKEN
    for text in ("", "two words", "é", "a\nb", "x" * 20_000):
        path.write_text(text)
        with pytest.raises(WrongUseError, match="holds no token") as fault:
            token_of(path)
        assert "words" not in str(fault.value)
    with pytest.raises(WrongUseError, match="No such file"):
        token_of(tmp_path / "absent")


def test_what_is_not_there_is_no_slow_answer() -> None:
    """It said that nothing came within 30 s, after a millisecond."""
    with pytest.raises(SourceUnavailableError, match="/api/version: no connection: Connection refused"):
        OutsideApi("http://127.0.0.1:1", timeout_s=30.0, bytes_at_most=1).get("/api/version")


def test_a_fault_without_words_of_the_system_is_named() -> None:
    assert why_no_answer(ValueError("secret")) == "ValueError"
