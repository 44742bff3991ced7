"""The APIs of GitHub and GitLab as far as the collectors ask them, over real HTTP: pages, limits and faults. After their pages, not recorded."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "a-token-that-may-read"


class CiServer:
    """Jobs as webhooks would tell of them; `faults` are answers that come first."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []  # of GitHub, with `jobs`
        self.jobs: list[dict[str, Any]] = []  # of GitLab
        self.runners: dict[int, list[str]] = {}
        self.page_size = 2
        self.results_at_most = 1_000
        self.is_away = False
        self.next_address = ""
        self.faults: list[tuple[int, dict[str, str]]] = []
        self.asked: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                given = self.headers.get("authorization") or self.headers.get("private-token")
                status, headers, document = server.answer(self.path, given)
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/api"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, target: str, token: str | None) -> tuple[int, dict[str, str], Any]:
        parts = urlsplit(target)
        path = parts.path.removeprefix("/api").split("/")
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if self.is_away:
            return 502, {}, {"message": "away"}
        if self.faults:
            return (*self.faults.pop(0), {"message": "not now"})
        if token not in (TOKEN, f"Bearer {TOKEN}"):
            return 401, {}, {"message": "Bad credentials"}
        match path[1:]:
            case ["repos", "acme", "vision", "actions", "runs"]:
                first, last = query["created"].split("..")
                found = [run for run in self.runs if first <= run["created_at"] <= last]
                shown = [{key: run[key] for key in run if key != "jobs"} for run in found]
                page, headers = self._page(shown[: self.results_at_most], target, query)
                return 200, headers, {"total_count": len(found), "workflow_runs": page}
            case ["repos", "acme", "vision", "actions", "runs", number, "jobs"]:
                run = next(run for run in self.runs if str(run["id"]) == number)
                page, headers = self._page(run["jobs"], target, query)
                return 200, headers, {"total_count": len(run["jobs"]), "jobs": page}
            case ["projects", name] if unquote(name) in ("acme/ml/vision", "380"):
                return 200, {}, {"id": 380, "path_with_namespace": "acme/ml/vision"}
            case ["projects", _, "jobs"]:
                page, headers = self._page(sorted(self.jobs, key=lambda job: -job["id"]), target, query)
                return 200, headers, page
            case ["projects", _, "pipelines", number, "jobs"]:
                found = [job for job in self.jobs if str(job["pipeline"]["id"]) == number]
                page, headers = self._page(found, target, query)
                return 200, headers, page
            case ["runners", number] if int(number) in self.runners:
                return 200, {}, {"id": int(number), "tag_list": self.runners[int(number)]}
        return 404, {}, {"message": "Not Found"}

    def _page(
        self, found: list[dict[str, Any]], target: str, query: dict[str, str]
    ) -> tuple[list[dict[str, Any]], dict[str, str]]:
        number = int(query.get("page", "1"))
        end = number * self.page_size
        headers = {}
        if end < len(found):
            base = target.partition("&page=")[0]
            at = (self.next_address or self.address) + base.removeprefix("/api")
            headers["Link"] = f'<{self.address}/x>; rel="prev", <{at}&page={number + 1}>; rel="next"'
        return found[end - self.page_size : end], headers

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
