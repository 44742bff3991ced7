"""The account of each poll of collectors of jobs and runs, on inputs made by hand: see `test_accounts`."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from streams.collect.mlflow.collector import open_collector as open_mlflow
from streams.collect.mlflow.options import Options as MlflowOptions
from streams.collect.ray.api import TASKS
from streams.collect.ray.collector import open_collector as open_ray
from streams.collect.ray.options import Options as RayOptions
from streams.collect.registry import open_collector
from streams.config.settings import KafkaSettings
from tests.collect.accounts import CREATED_MS, NOW_MS, accounted, counted, of_files
from tests.collect.ci.world import CiWorld, github_job, github_run, gitlab_job, text
from tests.collect.mlflow.server import MlflowServer
from tests.collect.mlflow.test_mlflow import cost, metric, run
from tests.collect.ray.test_ray import A, B, actor, answers, job, node, supervisor, task
from tests.collect.ray.test_ray import at as ray_ms
from tests.collect.ray.world import Dashboard
from tests.collect.training_jobs.world import sagemaker_documents
from tests.collect.wandb.world import WandbWorld


def test_jobs_of_ci(tmp_path: Path) -> None:
    world = CiWorld(tmp_path)
    hour_ms = 3_600_000
    labels = [["gpu-h100"], ["ubuntu-latest"], ["self-hosted", "gpu-a100-spot"], ["gpu-tools"], ["build-a64"]]
    jobs = [github_job(at, 1, "completed", CREATED_MS, labels=each) for at, each in enumerate(labels, 1)]
    old = github_job(8, 1, "completed", CREATED_MS - 40 * 24 * hour_ms)
    world.server.runs = [
        github_run(
            1, [*jobs, jobs[0] | {"id": 9, "run_attempt": 2}, old, {"id": "x"}], CREATED_MS, CREATED_MS
        ),
        {"id": "x", "created_at": text(CREATED_MS), "jobs": []},
    ]
    world.server.runs.append(world.server.runs[0])  # pages that moved meanwhile
    try:
        found = accounted(world.collector(), CREATED_MS + hour_ms)
    finally:
        world.close()
    assert counted(found) == {
        "metered": 1,
        "without_gpus": 3,
        "unlisted_label": 1,
        "malformed": 2,
        "copied": 1,
        "before_since": 1,
    }
    assert "gpu-a100-spot" in str(found)


def test_jobs_of_gitlab(tmp_path: Path) -> None:
    world = CiWorld(tmp_path, "gitlab")
    names = {"tag_list": ["linux"]}
    world.server.jobs = [
        gitlab_job(1, "success", CREATED_MS - 48 * 3_600_000), gitlab_job(2, "success", CREATED_MS),
        gitlab_job(3, "success", CREATED_MS, **names), gitlab_job(4, "success", CREATED_MS, tag_list=["a100"]),
        gitlab_job(5, "success", CREATED_MS + 7_200_000), {**gitlab_job(6, "success", CREATED_MS), "created_at": "x"},
    ]  # fmt: skip
    world.server.page_size = 10
    try:
        found = accounted(world.collector(), CREATED_MS + 3_600_000)
    finally:
        world.close()
    assert counted(found) == {
        "before_since": 1, "metered": 1, "without_gpus": 1, "unlisted_label": 1, "after_until": 1, "malformed": 1,
    }  # fmt: skip


def sagemaker_job(name: str, **changes: Any) -> str:
    return json.dumps({**sagemaker_documents()[0], "TrainingJobName": name, **changes})


def test_training_jobs(tmp_path: Path) -> None:
    resources = {"InstanceType": "ml.p99.48xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    texts = [
        sagemaker_job("a"),
        sagemaker_job("b", BillableTimeInSeconds=1),
        sagemaker_job("c", ResourceConfig=resources),
        "{}",
    ]
    listed = '{"TrainingJobs": [' + ", ".join(texts) + "]}"
    wanted = {"metered": 1, "billable_time": 1, "unknown_instance": 1, "malformed": 1}
    assert counted(of_files("sagemaker", listed, tmp_path)) == wanted
    command = [sys.executable, "-c", f"print({listed!r})"]
    config = tmp_path / "command.toml"
    config.write_text(f"[sagemaker]\ncommand = {json.dumps(command)}\n")
    collector = open_collector("sagemaker", config, KafkaSettings)
    batches = list(collector.poll(None, NOW_MS))
    assert counted(batches[-1].account) == wanted
    assert counted(accounted(collector, position=batches[-1].position)) == {"unchanged": 4}


def test_entries_of_ray(tmp_path: Path) -> None:
    del tmp_path
    jobs = [
        job("gpus", 0), job("cpus", 0, job_id="03000000"), job("over", -90_000, -80_000), job("odd", 0, status="EXPLODED"),
        job("attempt", 0, metadata={"trainfare.attempt": "many"}), job("", 0, type="DRIVER", submission_id=None, job_id="04000000"),
    ]  # fmt: skip
    heads = [
        supervisor("gpus", 1),
        supervisor("cpus", 1),
        actor(3),
        actor(3, gpus=0),
        actor(3, jobId="09000000"),
        actor(3, jobId=""),
        actor(3, requiredResources={"TPU": 4}),
    ]
    nodes = [
        node("n1", A, -3600),
        node("n2", B, -3600),
        node("n2", "c" * 56, -3600),
        node("n3", "d" * 56, -3600, gpus=0),
    ]
    found = answers(jobs, heads, tasks=[task(5, None), task(5, None, gpus=0)], nodes=nodes)
    found[TASKS]["data"]["result"]["total"] = 5
    dashboard = Dashboard(found)
    try:
        given = {"url": dashboard.address, "since": "2026-09-21", "interval_s": 1}
        read = [
            counted(accounted(open_ray(RayOptions.model_validate({**given, **more})), ray_ms(100)))
            for more in ({"include_nodes": True, "include_drivers": False}, {"include_drivers": True})
        ]
    finally:
        dashboard.close()
    jobs_and_holders = {
        "before_since": 1,
        "of_no_job": 4,
        "truncated": 3,
        "malformed": 2,
        "unknown_resource": 1,
    }
    # Metered: a job, two supervisors, an actor, a task; and a node.
    assert read[0] == {**jobs_and_holders, "metered": 6, "drivers": 1, "same_name": 2, "no_gpu": 2}
    assert read[1] == {**jobs_and_holders, "metered": 5, "nodes_off": 4, "no_gpu": 2}


def test_a_job_of_ray_whose_gpus_are_shown_late(tmp_path: Path) -> None:
    del tmp_path
    first = answers([job("j1", 0)], [supervisor("j1", 1), actor(3)])
    dashboard = Dashboard(first)
    try:
        given = {"url": dashboard.address, "since": "2026-09-21", "interval_s": 1}
        collector = open_ray(RayOptions.model_validate(given))
        (batch,) = collector.poll(None, ray_ms(60))
        dashboard.answers = answers([job("j1", 0)], [supervisor("j1", 1), actor(3), actor(20)])
        found = accounted(collector, ray_ms(120), batch.position)
    finally:
        dashboard.close()
    assert counted(found)["late_holdings"] == 1


class RefusingServer(MlflowServer):
    """Takes no metrics."""

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path.endswith("log-batch"):
            return 403, {"error_code": "PERMISSION_DENIED"}
        return super().post(path, body)


def test_runs_of_mlflow(tmp_path: Path) -> None:
    del tmp_path
    server = RefusingServer()
    server.experiments = [{"experiment_id": "1", "name": "sft"}]
    server.runs = [
        run("own", 0), run("of-job", 0, tags={"trainfare.job_id": "17"}), run("odd", 0, start_time=-5),
        run("many", 0, tags={"trainfare.attempt": "0"}), run("over", -90_000, 60),
        run("no-gpus", 0, tags={"trainfare.gpus": "0"}), run("backwards", 2_000, 100), run("silent", -90_000),
        run("unnamed", 0, tags={"trainfare.gpus": "0"}, metrics=[metric("system/gpu_0_utilization", 50.0, 22)]),
    ]  # fmt: skip
    server.meter_is_away = True
    given = {
        "url": server.address,
        "trainfare_url": server.address,
        "since": "2026-09-21T12:01:00Z",
        "interval_s": 1,
    }
    try:
        read = [
            counted(accounted(open_mlflow(MlflowOptions.model_validate({**given, **more})), ray_ms(100)))
            for more in ({}, {"standalone_runs": False})
        ]
        server.meter_is_away, server.listed = False, set()
        server.runs = [run(f"r{number}", 0) for number in range(202)]
        server.costs = {"r0": cost("r0", "2")}
        many = accounted(open_mlflow(MlflowOptions.model_validate(given)), ray_ms(100))
    finally:
        server.close()
    assert read[0] == {
        "metered": 2, "malformed": 2, "before_since": 1, "cost_not_written": 1,
        "no_gpus_named": 1, "no_times": 1, "unnamed_gpus": 1, "no_end": 1,
    }  # fmt: skip
    assert read[1] == {
        "metered": 1,
        "malformed": 1,
        "before_since": 1,
        "standalone_runs": 6,
        "cost_not_written": 1,
    }
    assert counted(many) == {"metered": 202, "cost_not_written": 2}


def test_runs_of_wandb(tmp_path: Path) -> None:
    world = WandbWorld(tmp_path)
    now_ms = world.turn(world.states - 1)
    for number, content in enumerate((b"", b"no file of W&B's, of more than a few bytes")):
        folder = world.folder / f"offline-run-20260101_00000{number}-x{number}"
        folder.mkdir()
        (folder / f"run-x{number}.wandb").write_bytes(content)
    torn = world.folder / "offline-run-20260101_000009-x9"
    torn.mkdir()
    (torn / "run-x9.wandb").symlink_to("/proc/self/mem")  # a file that fails to be read, whoever reads it
    total = len([*world.folder.glob("*/*.wandb")]) - 1
    whole = accounted(world.collector(), now_ms)
    assert counted(whole) == {"metered": total - 2, "empty": 1, "malformed": 1, "unreadable": 1}
    alone = counted(accounted(world.collector(standalone_runs=False), now_ms))
    assert alone["standalone_runs"] + alone["metered"] == total - 2
    odd = world.collector()
    # As a run's own trainfare.purchase may name it; the table is checked when it is read.
    vars(odd)["_options"] = vars(odd)["_options"].model_copy(update={"price_fields": {"purchase": "cheap"}})
    cheap = counted(accounted(odd, now_ms))
    assert cheap["malformed"] > 1, "there is no such purchase"
    assert sum(cheap.values()) == total + 1
    later = datetime.fromtimestamp(now_ms / 1000 + 86_400, UTC)
    assert counted(accounted(world.collector(since=later), now_ms + 86_500_000))["before_since"] > 0
