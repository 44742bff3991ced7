"""What `trainfare serve` spends on events over HTTP: CPU seconds of its process, latency, and how far behind it ends.

`python -m loadtest.serve_ingest --per-s 20000 --seconds 30` prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

_READY_S: Final = 120.0
_CAUGHT_UP_S: Final = 120.0
_CLIENTS: Final = 4
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def bodies(events: int, batch: int, begin_ms: int, jobs: int = 200) -> Iterator[bytes]:
    """Yield requests of a fleet: the start of each job, then a sample of each of its GPUs a second."""
    lines = [
        {
            "topic": "jobs",
            "value": {
                "source": "load", "id": f"s{job}", "time_ms": begin_ms, "job_id": f"job-{job}", "type": "started",
                "gpu_count": 8, "owner": "ada", "team": "vision",
            },
        }
        for job in range(jobs)
    ]  # fmt: skip
    number = second = 0
    while number < events:
        for job in range(jobs):
            for gpu in range(8):
                value = {
                    "source": "load", "id": f"g{number}", "time_ms": begin_ms + second * 1000, "job_id": f"job-{job}",
                    "node": f"node-{job}", "gpu": f"g{gpu}", "interval_ms": 1000, "util_ratio": 0.9,
                }  # fmt: skip
                lines.append({"topic": "gpu", "value": value})
                number += 1
        second += 1
        while len(lines) >= batch:
            yield json.dumps(lines[:batch], separators=(",", ":")).encode()
            del lines[:batch]
    if lines:
        yield json.dumps(lines, separators=(",", ":")).encode()


def cpu_s(pid: int) -> float:
    """The CPU seconds of a process, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def at_quantile(values: Sequence[float], share: float) -> float:
    """The value below which a share of them is."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


class _Load:
    """Posts requests at a pace, from several connections."""

    def __init__(self, port: int, token: str, requests: Sequence[bytes], per_s: float) -> None:
        self._port = port
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._requests = iter(enumerate(requests))
        self._per_s = per_s
        self._lock = threading.Lock()
        self._begin_s = 0.0
        self.latency_ms: list[float] = []
        self.statuses: dict[int, int] = {}

    def run(self) -> float:
        """How many seconds it took."""
        self._begin_s = time.monotonic()
        clients = [threading.Thread(target=self._post_all) for _ in range(_CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        return time.monotonic() - self._begin_s

    def _post_all(self) -> None:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=30)
        while True:
            with self._lock:
                number, body = next(self._requests, (0, b""))
            if not body:
                return
            time.sleep(max(self._begin_s + number / self._per_s - time.monotonic(), 0))
            sent_s = time.monotonic()
            connection.request("POST", "/api/v1/events", body, self._headers)
            answer = connection.getresponse()
            answer.read()
            with self._lock:
                self.latency_ms.append((time.monotonic() - sent_s) * 1000)
                self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1


def measure(per_s: int, seconds: int, batch: int) -> dict[str, Any]:
    """Run one `serve` under load and return the figures."""
    with tempfile.TemporaryDirectory() as directory:
        data, port = Path(directory) / "data", _free_port()
        env = {**os.environ, "TRAINFARE_WEB_PORT": str(port), "TRAINFARE_KAFKA_PARTITIONS": "2"}
        command = [sys.executable, "-m", "streams.cli.main", "serve", "--data", str(data)]
        with (Path(directory) / "log").open("wb") as log:
            process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        try:
            _until_ready(port, process)
            requests = list(bodies(per_s * seconds, batch, time.time_ns() // 1_000_000 - seconds * 1000))
            idle_s, idle_cpu_s = 5.0, cpu_s(process.pid)
            time.sleep(idle_s)
            idle_cores = (cpu_s(process.pid) - idle_cpu_s) / idle_s
            before_s = cpu_s(process.pid)
            load = _Load(port, (data / "token").read_text().strip(), requests, per_s / batch)
            took_s = load.run()
            posted_s = cpu_s(process.pid)
            behind_s = _until_caught_up(port, data)
            metered_s = cpu_s(process.pid)
            log_bytes = sum(path.stat().st_size for path in (data / "log" / "events").glob("*.log"))
        finally:
            process.terminate()
            process.wait(30)
    events = per_s * seconds
    return {
        "events": events,
        "batch": batch,
        "events_per_s": round(events / took_s),
        "statuses": load.statuses,
        "latency_p50_ms": round(at_quantile(load.latency_ms, 0.5), 1),
        "latency_p99_ms": round(at_quantile(load.latency_ms, 0.99), 1),
        "idle_cores": round(idle_cores, 3),
        "cpu_us_per_event_while_posted": round((posted_s - before_s) / events * 1e6, 2),
        "cpu_us_per_event_until_metered": round((metered_s - before_s) / events * 1e6, 2),
        "caught_up_after_s": round(behind_s, 1),
        "log_bytes_per_event": round(log_bytes / events, 1),
    }


def _until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + _READY_S
    while time.monotonic() < deadline_s and process.poll() is None:
        try:
            urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise RuntimeError("serve did not become ready")


def _until_caught_up(port: int, data: Path) -> float:
    """How long it took until nothing of the log waited to be metered."""
    begin_s = time.monotonic()
    headers = {"Authorization": f"Bearer {(data / 'token').read_text().strip()}"}
    while time.monotonic() - begin_s < _CAUGHT_UP_S:
        with urlopen(Request(f"http://127.0.0.1:{port}/metrics", headers=headers), timeout=5) as page:
            lines = page.read().decode().splitlines()
        lag = [float(line.split()[-1]) for line in lines if line.startswith("trainfare_lag_records{")]
        if lag and not sum(lag):
            return time.monotonic() - begin_s
        time.sleep(0.2)
    raise RuntimeError("serve did not catch up")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--per-s", type=int, default=20_000)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--batch", type=int, default=500)
    given = parser.parse_args()
    sys.stdout.write(json.dumps(measure(given.per_s, given.seconds, given.batch), indent=2) + "\n")


if __name__ == "__main__":
    main()
