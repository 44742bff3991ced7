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


class Endpoint:
    """Keeps each event once, by source and id."""

    def __init__(self) -> None:
        self.events: dict[tuple[str, str], dict[str, Any]] = {}
        self.tokens: set[str] = set()
        self.requests = 0
        self.status = 202
        self.delay_s = 0.0
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                endpoint.requests += 1
                time.sleep(endpoint.delay_s)
                endpoint.tokens.add(self.headers["authorization"])
                refused = endpoint._take(body) if endpoint.status == 202 else []
                answer = json.dumps({"accepted": len(body) - len(refused), "refused": refused}).encode()
                self.send_response(endpoint.status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _take(self, body: list[dict[str, Any]]) -> list[dict[str, Any]]:
        refused = []
        for index, event in enumerate(body):
            value = event["value"]
            found = decode(event["topic"], json.dumps(value).encode(), (), 2**53)
            if isinstance(found, Invalid):
                refused.append({"index": index, "reason": found.reason, "detail": found.detail})
            else:
                self.events[value["source"], value["id"]] = value
        return refused

    def types(self) -> list[str]:
        return [event["type"] for event in self.events.values()]

    @contextmanager
    def serving(self) -> Iterator[Endpoint]:
        thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
