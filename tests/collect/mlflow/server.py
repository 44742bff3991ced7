"""An MLflow server, and a meter, as far as the collector asks them; both in one process, over real HTTP."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

_API = "/api/2.0/mlflow"


class MlflowServer:
    """Runs as MLflow's JSON has them, and costs by job."""

    def __init__(self) -> None:
        self.experiments: list[dict[str, Any]] = []
        self.runs: list[dict[str, Any]] = []
        self.costs: dict[str, dict[str, Any]] = {}
        self.listed: set[str] | None = None  # jobs that the meter lists; None: all
        self.page_size = 1_000_000
        self.is_away = False
        self.meter_is_away = False
        self.asked: list[str] = []
        self.written: list[dict[str, Any]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send(*server.get(self.path))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                self._send(*server.post(self.path, body))

            def _send(self, status: int, document: Any) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def get(self, path: str) -> tuple[int, Any]:
        parts = urlsplit(path)
        self.asked.append(path)
        if parts.path.startswith("/api/v1/jobs"):
            return (503, {"error": "away"}) if self.meter_is_away else self._meter(parts.path)
        if self.is_away:
            return 503, {"error_code": "TEMPORARILY_UNAVAILABLE"}
        if parts.path == f"{_API}/runs/get":
            for run in self.runs:
                if run["info"]["run_id"] == parse_qs(parts.query)["run_id"][0]:
                    return 200, {"run": run}
            return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST"}
        return 404, {}

    def _meter(self, path: str) -> tuple[int, Any]:
        name = unquote(path.removeprefix("/api/v1/jobs").removeprefix("/"))
        if not name:
            jobs = [cost for key, cost in self.costs.items() if self.listed is None or key in self.listed]
            return 200, {"as_of_ms": 0, "jobs": jobs}
        if name not in self.costs:
            return 404, {"error": {"code": "not_found"}}
        return 200, {"job": self.costs[name], "attempts": []}

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if self.is_away:
            return 503, {"error_code": "TEMPORARILY_UNAVAILABLE"}
        if path == f"{_API}/experiments/search":
            return 200, self._page("experiments", self.experiments, body)
        if path == f"{_API}/runs/search":
            found = [run for run in self.runs if self._is_asked_for(run, body)]
            return 200, self._page("runs", found, body)
        if path == f"{_API}/runs/log-batch":
            self.written.append(body)
            self._log(body)
            return 200, {}
        return 404, {}

    def _page(self, name: str, entries: list[Any], body: dict[str, Any]) -> dict[str, Any]:
        first = int(body.get("page_token") or 0)
        last = first + min(body["max_results"], self.page_size)
        found: dict[str, Any] = {name: entries[first:last]} if entries[first:last] else {}
        if last < len(entries):
            found["next_page_token"] = str(last)
        return found

    def _is_asked_for(self, run: dict[str, Any], body: dict[str, Any]) -> bool:
        info = run["info"]
        assert body["run_view_type"] == "ALL"
        if info["experiment_id"] not in body["experiment_ids"]:
            return False
        if body["filter"] == "attributes.status = 'RUNNING'":
            return bool(info["status"] == "RUNNING")
        ended = re.fullmatch(r"attributes\.end_time >= (\d+)", body["filter"])
        assert ended, body["filter"]
        return bool((info.get("end_time") or 0) >= int(ended[1]))

    def _log(self, body: dict[str, Any]) -> None:
        """As MLflow does: of a metric the value of the highest step is the newest, then of the latest time."""
        (run,) = (run for run in self.runs if run["info"]["run_id"] == body["run_id"])
        for new in body["metrics"]:
            metrics = run["data"].setdefault("metrics", [])
            old = next((each for each in metrics if each["key"] == new["key"]), None)
            if old is None:
                metrics.append(dict(new))
            elif (new["step"], new["timestamp"]) >= (old["step"], old["timestamp"]):
                old.update(new)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
