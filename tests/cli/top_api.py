"""A worker's API with a scripted fleet, for tests and to look at: `python -m tests.cli.top_api --port 8799`.

Figures are functions of how often it was asked.
"""

from __future__ import annotations

import argparse
import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

T0_MS = 1_772_366_400_000
_TEAMS = ("vision", "language", "speech", "platform")
_OWNERS = ("ada", "grace", "barbara", "katherine", "hedy")
_STATES = ("running", "running", "running", "starting", "suspended")


def job(number: int, tick: int) -> dict[str, Any]:
    runaway = number == 3
    expected = 4.0 + 7.5 * number
    rate = expected * (8 if runaway else 1 + 0.6 * math.sin((number + tick / 10) * 0.9))
    if number % 9 == 8:
        rate = 0.0
    history = [
        [
            T0_MS + at * 60_000,
            max(0.0, expected * (8 if runaway and at > 40 else 1 + 0.5 * math.sin(number + at / 5))),
        ]
        for at in range(60)
    ]
    return {
        "job_id": f"{'sweep-lr' if number % 4 == 0 else 'pretrain-mixture-of-experts'}-{number:04d}",
        "owner": _OWNERS[number % 5],
        "team": _TEAMS[number % 4],
        "project": "atlas",
        "experiment": "",
        "state": _STATES[number % 5] if number % 9 != 8 else "completed",
        "attempts": 1 + number % 3,
        "gpu_count": 64 if runaway else 0.5 if number == 5 else 8 * (number % 4),
        "cluster": "helios",
        "region": "eu-west-1",
        "purchase": "spot",
        "gpu_type": "H100",
        "started_ms": T0_MS - 3_600_000,
        "ended_ms": T0_MS if number % 9 == 8 else None,
        "usd_per_hour_now": f"{rate:.9f}",
        "usd_per_hour": f"{rate:.9f}",
        "usd_per_hour_15m": f"{rate * 0.9:.9f}",
        "usd_per_hour_1h": f"{rate * 0.7:.9f}",
        "usd_per_hour_6h": f"{rate * 0.5:.9f}",
        "expected_usd_per_hour": f"{expected:.9f}" if number != 7 else "0.000000000",
        "ratio": rate / expected if number != 7 else None,
        "cost_usd": f"{expected * 13 * (number + 1) + tick:.9f}",
        "lost_cost_usd": "1.250000000",
        "gpu_h": 12.5,
        "productive_ratio": 0.83,
        "sparkline": history,
        "alerts": [{"alert_id": "al_1", "rule": "burn_fast", "severity": "page", "status": "firing"}]
        if runaway
        else [],
    }


def answers(tick: int, jobs: int = 40) -> dict[str, Any]:
    listed = [job(number, tick) for number in range(jobs)]
    as_of_ms = T0_MS + 1000 * tick
    total = sum(float(each["usd_per_hour_now"]) for each in listed)
    alert = {
        "alert_id": "al_1", "rule": "burn_fast", "severity": "page", "status": "firing", "owner": "katherine",
        "subject": {"kind": "job", "name": listed[3]["job_id"]}, "team": "platform", "project": "atlas",
        "started_ms": T0_MS - 80_000, "resolved_ms": None, "ratio": 8.0, "usd_per_hour": "212.000000000",
        "expected_usd_per_hour": "26.500000000", "cost_usd": "44.100000000", "window_ms": 900_000, "silenced": False,
        "summary": f"job {listed[3]['job_id']} burns 212.00 $/h, 8.0 times the expected 26.50 $/h, for 15 min; owner katherine",
        "evidence_sql": "SELECT 1", "deliveries": [],
    }  # fmt: skip
    calm = {**alert, "alert_id": "al_2", "rule": "unpriced", "severity": "ticket", "started_ms": T0_MS - 4_000_000,
            "summary": "job sweep-lr-0004 has GPU-time without a price",
            "subject": {"kind": "job", "name": listed[4]["job_id"]}}  # fmt: skip
    past = {**alert, "alert_id": "al_3", "rule": "burn_drift", "status": "resolved", "started_ms": T0_MS - 9_000_000,
            "resolved_ms": T0_MS - 4_000_000, "summary": "job sweep-lr-0008 burnt 1.7 times the expected"}  # fmt: skip
    burn = {
        "as_of_ms": as_of_ms, "usd_per_hour_now": f"{total:.9f}", "usd_per_hour": f"{total:.9f}",
        "usd_per_hour_15m": f"{total:.9f}", "usd_per_hour_1h": f"{total * 0.8:.9f}", "usd_per_hour_6h": "1.0",
        "expected_usd_per_hour": "1.0", "spend_today_usd": f"{12345 + tick:.9f}", "idle_gpu_ratio": 0.124,
        "jobs_live": jobs, "gpus_held": 392, "alerts_firing": 2, "history": [],
    }  # fmt: skip
    return {
        "/api/v1/jobs": {"as_of_ms": as_of_ms, "jobs": listed},
        "/api/v1/burn": burn,
        "/api/v1/alerts": {"alerts": [past, calm, alert]},
    }


class ScriptedApi:
    """The server and what it was asked; `status` and `body` make it misbehave."""

    def __init__(self, port: int = 0, token: str | None = None) -> None:
        self.token, self.status, self.body = token, 200, b""
        self.asked: list[tuple[str, str | None]] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = api.answer(self.path, self.headers.get("Authorization"))
                self.send_response(status)
                if status in (301, 302):
                    self.send_header("Location", "http://127.0.0.1:9/")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def answer(self, target: str, shown: str | None) -> tuple[int, bytes]:
        self.asked.append((target, shown))
        if self.status != 200 or self.body:
            return self.status, self.body
        if self.token is not None and shown != f"Bearer {self.token}":
            return 401, json.dumps(
                {"error": {"code": "unauthorized", "message": "a token is needed"}}
            ).encode()
        found = answers(len(self.asked) // 3).get(urlsplit(target).path)
        return (404, b"{}") if found is None else (200, json.dumps(found).encode())

    @contextmanager
    def serving(self) -> Iterator[ScriptedApi]:
        self._thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8799)
    parser.add_argument("--token")
    given = parser.parse_args()
    with ScriptedApi(given.port, given.token).serving():
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
