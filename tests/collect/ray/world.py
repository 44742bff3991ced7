"""Ray as it was recorded: its dashboard answers over HTTP what it answered then (see `record.py`)."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from streams.collect.collector import Collector
from streams.collect.ray.collector import open_collector
from streams.collect.ray.options import Options
from tests.collect.recordings import looks_in

_HERE: Final = Path(__file__).parent
VERSION: Final = "2.60.0"


@cache
def recorded() -> Sequence[dict[str, Any]]:
    """Return the looks at a cluster."""
    return looks_in(_HERE / f"{VERSION}.jsonl.xz")


class Dashboard:
    """Answers paths with JSON documents; each test says which."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = dict(answers)
        self.is_away = False
        self.token = ""
        dashboard = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = dashboard.answer(self.path, self.headers.get("authorization", ""))
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, path: str, authorization: str) -> tuple[int, bytes]:
        if self.is_away:
            return 503, b"away"
        if self.token and authorization != f"Bearer {self.token}":
            return 401, b"Unauthorized: Missing authentication token"
        found = self.answers.get(path)
        return (404, b"") if found is None else (200, json.dumps(found).encode())

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _length(answer: Any) -> int:
    """Return how many entries an answer lists: itself, its actors, or the result of the state API."""
    if isinstance(answer, list):
        return len(answer)
    data = answer["data"]
    return len(data["actors"] if "actors" in data else data["result"]["result"])


class RayWorld:
    """Some of the looks at the cluster, in their order."""

    def __init__(self, directory: Path, every: int = 3, **options: Any) -> None:
        del directory
        looks = recorded()
        self._looks = (*looks[:-1:every], looks[-1])
        self._options = {"include_nodes": True, "interval_s": 1, "gpu_types": {"A100": "A100-40"}, **options}
        self.states = len(self._looks)
        self.dashboard = Dashboard({})
        self.turn(0)

    def collector(self) -> Collector:
        return open_collector(Options(url=self.dashboard.address, **self._options))

    def turn(self, state: int) -> int:
        look = self._looks[state]
        self.dashboard.answers = look["answers"]
        return int(look["time_ms"]) // 1000 * 1000

    def entries(self, state: int) -> int:
        """Count jobs, nodes and what holds GPUs: the entries of all lists."""
        return sum(map(_length, self._looks[state]["answers"].values()))

    def go_away(self) -> None:
        self.dashboard.is_away = True

    def come_back(self) -> None:
        self.dashboard.is_away = False

    def close(self) -> None:
        self.dashboard.close()
