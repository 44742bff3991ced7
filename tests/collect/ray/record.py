"""Records what a real Ray answers while jobs of all kinds run: `python -m tests.collect.ray.record FILE.jsonl.xz --ray BIN`.

BIN is the folder with the programs of a Ray that has the dashboard (`pip install "ray[default]"`, into an environment of
its own). The script starts a head and a second node with made-up GPUs. A line is one look at them:
`{"time_ms": ms, "answers": {path: answer}}`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from streams.collect.ray.api import ACTORS, GROUPS, JOBS, NODES, TASKS
from tests.collect.recordings import EVIL, write_looks
from tests.kafka.broker import _free_ports

_PATIENCE_S: Final = 600.0
_PATHS: Final = (JOBS, ACTORS, GROUPS, TASKS, NODES)
#: A group of two GPUs; an actor in it, another one outside that dies and comes back, and a task; all go one by one.
_GROUPS: Final = """
import os, time, ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as In
ray.init()
group = placement_group([{"GPU": 1, "CPU": 1}] * 2, strategy="STRICT_PACK")
ray.get(group.ready())
@ray.remote(num_gpus=0.5, num_cpus=0, max_restarts=1)
class Actor:
    def ready(self): pass
    def die(self): os._exit(1)
inside, outside = Actor.options(scheduling_strategy=In(group)).remote(), Actor.remote()
ray.get([inside.ready.remote(), outside.ready.remote()])
@ray.remote(num_gpus=1, num_cpus=0)
def task(): time.sleep(3)
ray.get(task.remote())
try: ray.get(outside.die.remote())
except Exception: pass
time.sleep(4)
remove_placement_group(group)
time.sleep(4)
ray.kill(outside)
time.sleep(2)
"""
#: An actor on the second node, which is switched off.
_LOSES: Final = """
import time, ray
ray.init()
@ray.remote(num_gpus=1, num_cpus=0, accelerator_type="A100")
class Actor:
    def ready(self): pass
actor = Actor.remote()
while True:
    ray.get(actor.ready.remote())
    time.sleep(1)
"""
#: A driver that nobody submitted, with a task.
_BY_HAND: Final = """
import time, ray
ray.init()
@ray.remote(num_gpus=2)
def task(): time.sleep(8)
ray.get(task.remote())
"""


class Cluster:
    """Ray's dashboard."""

    def __init__(self, address: str, python: str) -> None:
        self.address = address
        self._python = python

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.address + path, data, {"content-type": "application/json"}, method="POST" if data else "GET"
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def submit(self, script: str, **options: Any) -> str:
        words = [self._python, "-c", script.replace("'", '"')]
        body = {"entrypoint": " ".join([*words[:2], f"'{words[2]}'"]), **options}
        return str(self.ask("/api/jobs/", body)["submission_id"])

    def stop(self, job: str) -> None:
        self.ask(f"/api/jobs/{job}/stop", {})

    def status(self, job: str) -> str:
        return str(self.ask(f"/api/jobs/{job}")["status"])

    def look(self) -> dict[str, Any]:
        return {"time_ms": time.time_ns() // 10**6, "answers": {path: self.ask(path) for path in _PATHS}}


class Recorder:
    """Looks at the cluster about once a second, keeps what shows something in another state than the look before."""

    def __init__(self, cluster: Cluster) -> None:
        self.looks: list[dict[str, Any]] = []
        self._cluster = cluster

    def until(self, done: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            look = self._cluster.look()
            if not self.looks or _states(look) != _states(self.looks[-1]):
                self.looks.append(look)
            if done():
                return
            if time.monotonic() > deadline_s:
                raise TimeoutError(json.dumps(self._cluster.ask("/api/jobs/"), indent=1))
            time.sleep(1)

    def wait(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= end_s)

    def last(self) -> None:
        """Keep the last look in any case."""
        self.looks.append(self._cluster.look())


def _states(look: Mapping[str, Any]) -> list[Any]:
    jobs, actors, groups, tasks, nodes = (look["answers"][path] for path in _PATHS)
    return [
        [(job["status"], job["job_id"]) for job in jobs],
        [(key, actor["state"], actor["startTime"]) for key, actor in actors["data"]["actors"].items()],
        *([entry["state"] for entry in each["data"]["result"]["result"]] for each in (groups, tasks, nodes)),
    ]


def scenario(
    cluster: Cluster, recorder: Recorder, driver: Callable[[str], Any], lose: Callable[[], object]
) -> None:
    """Submit jobs of all kinds and wait for their ends."""

    def are_in(status: str, *jobs: str) -> Callable[[], bool]:
        return lambda: all(cluster.status(job) == status for job in jobs)

    named = {"owner": "ada", "team": "vision", "project": EVIL}
    ok = cluster.submit("import time; time.sleep(6)", entrypoint_num_gpus=1, metadata=named)
    sweep = {"metadata": {"owner": "grace", "trainfare.job_id": "sweep-1"}, "entrypoint_num_gpus": 0.5}
    bad = cluster.submit("import sys, time; time.sleep(3); sys.exit(3)", **sweep)
    recorder.until(are_in("SUCCEEDED", ok))
    recorder.until(are_in("FAILED", bad))
    again = cluster.submit("import time; time.sleep(4)", **sweep)
    groups = cluster.submit(_GROUPS, metadata={"owner": "ada"})
    cluster.submit("pass", entrypoint_num_gpus=64)  # waits to the end
    recorder.until(are_in("SUCCEEDED", again, groups))
    lost = cluster.submit(_LOSES, entrypoint_num_gpus=1)
    stopped = cluster.submit("import time; time.sleep(600)", entrypoint_num_gpus=1)
    broken = cluster.submit("pass", runtime_env={"conda": "no-such-environment"}, entrypoint_num_gpus=1)
    recorder.until(are_in("RUNNING", stopped, lost))
    by_hand = driver(_BY_HAND)
    recorder.until(lambda: _has_actor_on_n2(cluster))
    recorder.wait(2)
    cluster.stop(stopped)
    lose()
    recorder.until(are_in("FAILED", lost))
    recorder.until(are_in("FAILED", broken))
    recorder.until(lambda: by_hand.poll() is not None)
    recorder.until(
        lambda: all(node["state"] == "DEAD" for node in _nodes(cluster) if node["node_name"] == "n2")
    )
    recorder.wait(15)
    recorder.last()


def _nodes(cluster: Cluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.ask(NODES)["data"]["result"]["result"]
    return found


def _has_actor_on_n2(cluster: Cluster) -> bool:
    n2 = {node["node_id"] for node in _nodes(cluster) if node["node_name"] == "n2"}
    actors = cluster.ask("/logical/actors")["data"]["actors"].values()
    return any(actor["address"]["nodeId"] in n2 and actor["state"] == "ALIVE" for actor in actors)


@contextmanager
def running_node(ray: Path, log: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """One node of Ray, from its start to its end."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            [str(ray), "start", "--block", "--disable-usage-stats", *options],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PATH": f"{ray.parent}:{os.environ['PATH']}", "RAY_USAGE_STATS_ENABLED": "0"},
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def main() -> None:
    """Record the scenario into a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--ray", type=Path, required=True)
    given = parser.parse_args()
    python, ray = given.ray / "python", given.ray / "ray"
    port, dashboard = _free_ports(2)
    head = ("--head", f"--port={port}", f"--dashboard-port={dashboard}", "--num-cpus=8", "--num-gpus=4")
    n2 = (f"--address=127.0.0.1:{port}", "--num-cpus=8", "--num-gpus=2", "--node-name=n2")
    with tempfile.TemporaryDirectory(prefix="ray") as text:
        folder = Path(text)
        workers = ("--min-worker-port=30000", "--max-worker-port=30999")
        with running_node(
            ray,
            folder / "head.log",
            *head,
            *workers,
            "--node-name=n1",
            f"--temp-dir={folder}/t",
            '--resources={"accelerator_type:H100": 1}',
        ):
            cluster = Cluster(f"http://127.0.0.1:{dashboard}", str(python))
            _until_ready(cluster)
            recorder = Recorder(cluster)
            others = (
                "--min-worker-port=31000",
                "--max-worker-port=31999",
                '--resources={"accelerator_type:A100": 1}',
            )
            with running_node(ray, folder / "n2.log", *n2, *others) as second:
                recorder.until(lambda: len(_nodes(cluster)) == 2)

                def driver(script: str) -> subprocess.Popen[bytes]:
                    environment = {**os.environ, "RAY_ADDRESS": f"127.0.0.1:{port}"}
                    return subprocess.Popen([str(python), "-c", script], env=environment)

                scenario(cluster, recorder, driver, second.terminate)
    write_looks(given.file, recorder.looks)


def _until_ready(cluster: Cluster) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline_s:
        try:
            cluster.look()
        except (urllib.error.URLError, OSError):
            time.sleep(1)
        else:
            return
    raise TimeoutError("the dashboard does not answer")


if __name__ == "__main__":
    main()
