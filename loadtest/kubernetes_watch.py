"""What the watch of a cluster takes: CPU of `collect kubernetes` at many pods and changes a second.

`python -m loadtest.kubernetes_watch --pods 5000 --changes 100 --seconds 60` prints one JSON object and exits with 1 if the
collector takes 20 % of a core or more. The server is a process of its own; the collector polls, publishes to nothing and
stores its position on disk as the command does. It counts CPU time, not time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from prometheus_client import CollectorRegistry

from streams.clock import SystemClock
from streams.collect.collector import CollectedEvent
from streams.collect.kubernetes.collector import open_collector
from streams.collect.kubernetes.options import Options
from streams.collect.metrics import CollectorMetrics
from streams.collect.position_file import PositionFile
from streams.collect.runner import CollectorRunner

LIMIT_RATIO: Final = 0.20
_PODS_PER_JOB: Final = 4
#: Fields that the API server sends and the collector does not read: a pod of a real cluster has some 8 kB.
_IGNORED_BYTES: Final = 6_000


def pod(number: int, generation: int, step: int, now: str) -> dict[str, Any]:
    """A pod: made, bound (step 1), running (2), ended (3)."""
    job = number // _PODS_PER_JOB
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"job-{job}-{generation}", "controller": True}
    meta: dict[str, Any] = {
        "name": f"pod-{number}-{generation}",
        "namespace": f"team-{job % 20}",
        "uid": f"{number:08}-0000-4000-8000-{generation:012}",
        "creationTimestamp": now,
        "labels": {"trainfare.io/owner": f"user-{job % 50}", "app": "train"},
        "ownerReferences": [{**owner, "uid": f"{job:08}-1111-4000-8000-{generation:012}"}],
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": "x" * _IGNORED_BYTES}}],
    }
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]
    }
    status: dict[str, Any] = {"phase": "Pending", "conditions": []}
    if step >= 1:
        spec["nodeName"] = f"node-{number % 1250}"
        status["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": now}]
    if step == 2:
        status |= {"phase": "Running", "containerStatuses": [{"state": {"running": {"startedAt": now}}}]}
    if step == 3:
        ended = {"exitCode": 0, "startedAt": now, "finishedAt": now}
        status |= {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": ended}}]}
    return {"metadata": meta, "spec": spec, "status": status}


def changes(pods: int) -> Sequence[tuple[str, int, int, int]]:
    """One round of changes: each pod ends, is removed, and another takes its place, is bound and runs."""
    steps = [("MODIFIED", 0, 3), ("DELETED", 0, 3), ("ADDED", 1, 0), ("MODIFIED", 1, 1), ("MODIFIED", 1, 2)]
    return [(type_, number, more, step) for number in range(pods) for type_, more, step in steps]


def serve(pods: int, changes_per_s: int, port: Connection) -> None:
    """Answer lists and watches of pods and nodes; changes come at a steady rate from the first watch on."""
    begin_s: list[float] = []
    round_ = changes(pods)
    start = now()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            kind = parts.path.rsplit("/", 1)[1]
            if "watch" in query:
                self.watch(kind, int(query["resourceVersion"]), int(query["timeoutSeconds"]))
                return
            begin = int(query.get("continue", 0))
            found = range(begin, min(begin + int(query["limit"]), pods if kind == "pods" else 1250))
            items = [pod(each, 0, 2, start) if kind == "pods" else node(each, start) for each in found]
            more = str(found.stop) if found.stop < (pods if kind == "pods" else 1250) else ""
            body = json.dumps(
                {"metadata": {"resourceVersion": "1", "continue": more}, "items": items}
            ).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def watch(self, kind: str, version: int, last_s: int) -> None:
            self.send_response(200)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            if kind == "pods":
                begin_s[:] = begin_s or [time.monotonic()]
                until_s = time.monotonic() + last_s
                for at in count(version):
                    due_s = begin_s[0] + at / changes_per_s
                    if due_s > until_s:
                        break
                    time.sleep(max(due_s - time.monotonic(), 0))
                    type_, number, more, step = round_[at % len(round_)]
                    found = pod(number, at // len(round_) + more, step, now())
                    version = at + 1
                    found["metadata"]["resourceVersion"] = str(version)
                    self.chunk({"type": type_, "object": found})
            self.chunk({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}})
            self.wfile.write(b"0\r\n\r\n")

        def chunk(self, event: dict[str, Any]) -> None:
            line = json.dumps(event).encode() + b"\n"
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    port.send(server.server_port)
    server.serve_forever()


def node(number: int, now_: str) -> dict[str, Any]:
    """A node with eight GPUs."""
    labels = {"nvidia.com/gpu.product": "H100", "karpenter.sh/capacity-type": "spot"}
    meta = {"name": f"node-{number}", "uid": f"node-{number}", "creationTimestamp": now_, "labels": labels}
    return {"metadata": meta, "status": {"capacity": {"nvidia.com/gpu": "8"}}}


def now() -> str:
    """The time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Counting:
    """A destination that counts."""

    def __init__(self) -> None:
        self.events = 0

    def publish(self, events: Sequence[CollectedEvent]) -> None:
        """Count events."""
        self.events += len(events)


def measure(pods: int, changes_per_s: int, seconds: int, directory: Path) -> dict[str, Any]:
    """The figures of a collector that runs so long."""
    here, there = multiprocessing.Pipe()
    arguments = (pods, changes_per_s, there)
    process = multiprocessing.get_context("spawn").Process(target=serve, args=arguments, daemon=True)
    process.start()
    try:
        options = Options(url=f"http://127.0.0.1:{here.recv()}")
        collector, published = open_collector(options), Counting()
        metrics = CollectorMetrics(collector.name, CollectorRegistry())
        with PositionFile(directory / "position", collector.name) as positions:
            runner = CollectorRunner(
                collector, published, positions, SystemClock(), metrics, jitter_ratio=lambda: 0.5
            )
            list_s = _cpu_s()
            runner.run_once()
            list_s = _cpu_s() - list_s
            of_list, watch_s, begin_s = published.events, _cpu_s(), time.monotonic()
            while time.monotonic() - begin_s < seconds:
                runner.run_once()
            watch_s, wall_s = _cpu_s() - watch_s, time.monotonic() - begin_s
            stored = positions.load() or {}
    finally:
        process.kill()
        process.join()
    return {
        "pods": pods,
        "changes_per_s": changes_per_s,
        "seconds": round(wall_s, 1),
        "list_cpu_s": round(list_s, 2),
        "list_events": of_list,
        "watch_events": published.events - of_list,
        "watch_cpu_ratio": round(watch_s / wall_s, 4),
        "changes_read_per_s": round(int(stored["pods_version"]) / wall_s, 1),
        "position_bytes": (directory / "position").stat().st_size,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Measure, print the figures, and return whether the limit was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=5_000)
    parser.add_argument("--changes", type=int, default=100, help="changes a second")
    parser.add_argument("--seconds", type=int, default=60)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        figures = measure(given.pods, given.changes, given.seconds, Path(directory))
    sys.stdout.write(json.dumps(figures) + "\n")
    return int(figures["watch_cpu_ratio"] >= LIMIT_RATIO)


if __name__ == "__main__":
    sys.exit(main())
