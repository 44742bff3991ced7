"""What a job costs, as attributes: of a real server's answers, and nothing at all where something is wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from trainfare.costs import cost_attributes

COST = {"job_id": "a/b c", "cost_usd": "12.500000000", "usd_per_hour_now": "98.32", "lost_cost_usd": "0"}


class Meter:
    """Answers one thing; keeps what it was asked."""

    def __init__(self) -> None:
        self.status, self.body, self.wait_s = 200, json.dumps({"job": COST}).encode(), 0.0
        self.asked: list[tuple[str, str]] = []
        self.released = threading.Event()
        meter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                meter.asked.append((self.path, self.headers.get("authorization", "")))
                meter.released.wait(meter.wait_s)
                self.send_response(meter.status)
                self.send_header("location", "http://127.0.0.1:1/")
                self.end_headers()
                self.wfile.write(meter.body)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """The client gave up, as one of the tests wants it."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()


@pytest.fixture
def meter() -> Iterator[Meter]:
    found = Meter()
    yield found
    found.released.set()
    found.server.shutdown()
    found.server.server_close()


def test_a_cost_is_three_attributes(meter: Meter, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {
        "trainfare.cost.usd": 12.5,
        "trainfare.cost.usd_per_hour": 98.32,
        "trainfare.cost.lost_usd": 0.0,
    }
    assert cost_attributes("a/b c", url=meter.url + "/", token="t") == wanted
    monkeypatch.setenv("TRAINFARE_URL", meter.url)
    monkeypatch.setenv("TRAINFARE_READ_TOKEN", "r")
    assert cost_attributes("run-7") == wanted
    assert meter.asked == [("/api/v1/jobs/a%2Fb%20c", "Bearer t"), ("/api/v1/jobs/run-7", "Bearer r")]


@pytest.mark.parametrize("status", [302, 401, 404, 500])
def test_other_answers_are_nothing(meter: Meter, status: int) -> None:
    meter.status = status
    assert cost_attributes("run-7", url=meter.url) == {}


@pytest.mark.parametrize("body", [b"", b"5", b"[]", b'{"job": 5}', b'{"job": {"cost_usd": "much"}}', b"\xff"])
def test_an_answer_of_another_form_is_nothing(meter: Meter, body: bytes) -> None:
    meter.body = body
    assert cost_attributes("run-7", url=meter.url) == {}


def test_what_is_not_known_is_left_out(meter: Meter) -> None:
    meter.body = json.dumps({"job": {**COST, "usd_per_hour_now": None, "lost_cost_usd": "NaN"}}).encode()
    assert cost_attributes("run-7", url=meter.url) == {"trainfare.cost.usd": 12.5}


def test_a_meter_that_does_not_answer_in_time_is_not_waited_for(meter: Meter) -> None:
    meter.wait_s = 600
    assert cost_attributes("run-7", url=meter.url, within_s=0.2) == {}


@pytest.mark.parametrize("url", ["", "ftp://x", "http://127.0.0.1:1", "http://[", "no address"])
def test_a_wrong_address_is_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINFARE_URL", raising=False)
    assert cost_attributes("run-7", url=url) == {}
