"""A real MLflow server and client: a run is read, its cost is written back, and is still there after it is resumed."""

from __future__ import annotations

import json
import os
import shutil
import time
import urllib.request
from datetime import date
from pathlib import Path
from typing import Any, Final

import pytest

from streams.collect.mlflow.collector import open_collector
from streams.collect.mlflow.options import Options
from tests.collect.mlflow.record import running_server, training
from tests.collect.mlflow.server import MlflowServer

_PROGRAMS: Final = Path(os.environ.get("MLFLOW") or Path(shutil.which("mlflow") or "absent/mlflow").parent)
_SCRIPT: Final = """
import mlflow
mlflow.set_experiment("lr-sweep")
with mlflow.start_run(run_id={run!r}, tags={{"trainfare.gpus": "2"}}) as run:
    mlflow.log_metric("loss", {loss}, step={step})
    print("run", run.info.run_id, flush=True)
    input()
"""


@pytest.mark.skipif(
    not (_PROGRAMS / "mlflow").exists(),
    reason="no MLflow: pip install mlflow into an environment of its own, MLFLOW=FOLDER names its programs",
)
@pytest.mark.timeout(900)
def test_costs_are_written_into_a_real_server_and_survive_a_resume(tmp_path: Path) -> None:
    meter = MlflowServer()
    try:
        with running_server(_PROGRAMS, tmp_path) as address:
            collector = open_collector(
                Options(
                    url=address,
                    trainfare_url=meter.address,
                    interval_s=1,
                    cost_interval_s=1,
                    since=date(2026, 1, 1),
                )
            )
            position, events = None, []

            def poll() -> None:
                nonlocal position
                for batch in collector.poll(position, time.time_ns() // 10**6):
                    events.extend(batch.events)
                    position = batch.position
                    assert not batch.account.said

            run_id: str | None = None
            for attempt, (loss, step, usd) in enumerate([(1.0, 120, "1.5"), (0.9, 100, "4.25")], 1):
                script = _SCRIPT.format(run=run_id, loss=loss, step=step)
                with training(_PROGRAMS / "python", address, script) as (output, steps):
                    run_id = next(line.split()[1] for line in output if line.startswith("run "))
                    meter.costs[run_id] = {
                        "job_id": run_id,
                        "cost_usd": usd,
                        "usd_per_hour_now": "7.2",
                        "lost_cost_usd": "0.5",
                    }
                    poll()
                    shown = _metrics(address, run_id)
                    assert shown["cost_usd"] == float(usd), attempt
                    assert (shown["usd_per_hour"], shown["lost_usd"]) == (7.2, 0.5)
                    steps.write("\n")
                    steps.flush()
                    output.read()
                poll()
            assert run_id is not None
            assert _metrics(address, run_id)["cost_usd"] == 4.25
            assert _written(address, run_id) == [1.5, 4.25]
    finally:
        meter.close()
    life = [
        (value["type"], value["attempt"])
        for _, value in events
        if value["type"] not in {"heartbeat", "updated"}
    ]
    assert life == [("started", 1), ("completed", 1), ("resumed", 2), ("completed", 2)]


def _ask(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def _metrics(address: str, run_id: str) -> dict[str, float]:
    run = _ask(f"{address}/api/2.0/mlflow/runs/get?run_id={run_id}")["run"]
    return {each["key"]: each["value"] for each in run["data"]["metrics"]}


def _written(address: str, run_id: str) -> list[float]:
    """All values of a run's cost, in their order."""
    history = _ask(f"{address}/api/2.0/mlflow/metrics/get-history?run_id={run_id}&metric_key=cost_usd")
    return [each["value"] for each in sorted(history["metrics"], key=lambda each: each["timestamp"])]
