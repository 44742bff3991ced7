"""Records what a real MLflow holds while runs come and go: `python -m tests.collect.mlflow.record FILE.jsonl.xz --mlflow BIN`.

BIN is the folder with the programs of an MLflow (`pip install mlflow`, into an environment of its own). The runs are made by
its own client. A line is one look: `{"time_ms": ms, "experiments": answer, "runs": answer}`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from tests.collect.recordings import EVIL, write_looks
from tests.kafka.broker import _free_ports

_PATIENCE_S: Final = 300.0
_API: Final = "/api/2.0/mlflow"
#: Runs of all kinds; before each look it waits for a line.
_TRAINING: Final = """
import time, mlflow
from mlflow.tracking import MlflowClient
def look():
    print(".", flush=True)
    input()
mlflow.set_experiment("lr-sweep")
look()
gpus = {"trainfare.gpus": "2", "trainfare.gpu_type": "H100", "trainfare.team": "vision"}
first = mlflow.start_run(run_name="first", tags=gpus)
mlflow.log_params({"lr": 0.1, "password": "hunter2"})
look()
mlflow.log_metrics({"loss": 1.0, "epoch": 0, "system/gpu_0_power": 300.0}, step=10)
mlflow.log_metric("broken", float("nan"), step=10)
look()
mlflow.log_metrics({"loss": 0.5, "epoch": 1}, step=20)
time.sleep(1)
mlflow.end_run()
look()
attached = mlflow.start_run(run_name="attached", tags={"trainfare.job_id": "17_3", "trainfare.attempt": "2"})
mlflow.log_metric("accuracy", 0.75, step=5)
look()
mlflow.end_run()
failed = mlflow.start_run(run_name=EVIL, tags={**gpus, "trainfare.owner": "grace"})
time.sleep(1)
mlflow.end_run("FAILED")
look()
mlflow.start_run(run_id=first.info.run_id)
look()
mlflow.log_metric("loss", 0.4, step=15)
mlflow.log_metric("loss", 0.3, step=30)
look()
mlflow.end_run()
mlflow.set_experiment("other")
parent = mlflow.start_run(run_name="parent")
child = mlflow.start_run(run_name="child", nested=True, tags={"trainfare.gpus": "0.5"})
look()
mlflow.end_run("KILLED")
mlflow.set_tag("trainfare.gpus", "4")
look()
MlflowClient().delete_run(parent.info.run_id)
look()
"""


class TrackingApi:
    """A server's REST API."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, path: str, body: dict[str, Any]) -> Any:
        data = json.dumps(body).encode()
        request = urllib.request.Request(
            self.address + _API + path, data, {"content-type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def look(self) -> dict[str, Any]:
        time_ms = time.time_ns() // 10**6
        experiments = self.ask("/experiments/search", {"max_results": 100})
        ids = [each["experiment_id"] for each in experiments["experiments"]]
        runs = self.ask("/runs/search", {"experiment_ids": ids, "max_results": 100, "run_view_type": "ALL"})
        return {"time_ms": time_ms, "experiments": experiments, "runs": {"runs": [], **runs}}


@contextmanager
def running_server(programs: Path, folder: Path) -> Iterator[str]:
    """A server of MLflow, from its start to its end; its address."""
    (port,) = _free_ports(1)
    command = [
        str(programs / "mlflow"),
        "server",
        *("--host=127.0.0.1", f"--port={port}", "--workers=1"),
        *(f"--backend-store-uri=sqlite:///{folder}/runs.db", f"--artifacts-destination={folder}/artifacts"),
    ]
    with (folder / "server.log").open("wb") as log:
        environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        }
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environment
        )
    try:
        address = f"http://127.0.0.1:{port}"
        _until_ready(TrackingApi(address))
        yield address
    finally:
        server.terminate()
        server.wait(60)


def _until_ready(api: TrackingApi) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline_s:
        try:
            api.look()
        except (urllib.error.URLError, OSError):
            time.sleep(1)
        else:
            return
    raise TimeoutError("MLflow does not answer")


@contextmanager
def training(python: Path, address: str, script: str) -> Iterator[tuple[IO[str], IO[str]]]:
    """A script with MLflow's client; its standard output and input."""
    environment = {
        **os.environ,
        "MLFLOW_TRACKING_URI": address,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "USER": "ada",
    }
    with subprocess.Popen(
        [str(python), "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**environment, "LOGNAME": "ada"},
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.stdout, process.stdin


def main() -> None:
    """Record the runs into a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--mlflow", type=Path, required=True)
    given = parser.parse_args()
    looks: list[dict[str, Any]] = []
    script = f"EVIL = {EVIL!r}\n{_TRAINING}"
    with tempfile.TemporaryDirectory() as folder, running_server(given.mlflow, Path(folder)) as address:
        api = TrackingApi(address)
        with training(given.mlflow / "python", address, script) as (output, steps):
            for line in output:
                if line.strip() == ".":  # the client prints lines of its own, too
                    time.sleep(2)
                    looks.append(api.look())
                    steps.write("\n")
                    steps.flush()
        time.sleep(2)
        looks.append(api.look())
    write_looks(given.file, looks)


if __name__ == "__main__":
    main()
