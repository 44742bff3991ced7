"""A real HTTP endpoint that takes events as a worker does, and fails as told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from schemas.decode import decode
from schemas.invalid import Invalid


class FakeEndpoint:
    """Keeps each event once, by source and id."""

    def __init__(self) -> None:
        self.events: dict[tuple[str, str], dict[str, Any]] = {}
        self.topics: set[str] = set()
        self.tokens: set[str] = set()
        self.requests = 0
        self.received = 0  #: events, each as often as it came
        self.status = 202
        self.delay_s = 0.0
        self.drips_s = 0.0  #: between two bytes of the answer
        self.released = threading.Event()  #: ends every wait
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                endpoint.requests += 1
                endpoint.released.wait(endpoint.delay_s)
                endpoint.tokens.add(self.headers["authorization"])
                is_bad = not all(isinstance(event, dict) for event in body)
                status = 400 if is_bad and endpoint.status == 202 else endpoint.status
                refused = endpoint._take(body) if status == 202 else []
                answer = json.dumps({"accepted": len(body) - len(refused), "refused": refused}).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                for place in range(len(answer) if endpoint.drips_s else 0):
                    self.wfile.write(answer[place : place + 1])
                    if endpoint.released.wait(endpoint.drips_s):
                        return
                if not endpoint.drips_s:
                    self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """A client that goes away is what some tests are about."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _take(self, body: list[dict[str, Any]]) -> list[dict[str, Any]]:
        refused = []
        for index, event in enumerate(body):
            value = event["value"]
            self.received += 1
            found = decode(event["topic"], json.dumps(value).encode(), (), 2**53)
            if isinstance(found, Invalid):
                refused.append({"index": index, "reason": found.reason, "detail": found.detail})
            else:
                self.topics.add(event["topic"])
                self.events[value["source"], value["id"]] = value
        return refused

    def types(self) -> list[str]:
        return [event["type"] for event in list(self.events.values()) if "type" in event]

    def wait_for(self, kind: str, within_s: float = 30.0) -> None:
        """Wait until an event of a type is there."""
        deadline_s = time.monotonic() + within_s
        while kind not in self.types():
            assert time.monotonic() < deadline_s, f"no {kind}, but {self.types()}"
            time.sleep(0.01)

    @contextmanager
    def serving(self) -> Iterator[FakeEndpoint]:
        thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        thread.start()
        try:
            yield self
        finally:
            self.released.set()
            self._server.shutdown()
            self._server.server_close()
