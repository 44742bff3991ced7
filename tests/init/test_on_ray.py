"""`trainfare init ray` beside a real Ray with made-up GPUs, and beside its recorded answers: a first job costs what Ray's own times say."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from streams.clock import SystemClock
from streams.collect.ray.api import ACTORS, JOBS
from tests.collect.ray.record import Cluster, _until_ready, running_node
from tests.collect.ray.test_quickstart import _RAY
from tests.collect.ray.world import Dashboard, recorded
from tests.init.started import StartedMeter
from tests.kafka.broker import _free_ports

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]
#: Looks of the recording: both nodes are there and no job is yet; one job is completed, and one has failed.
_BEGUN: Final = 2
_ENDED: Final = 9
_MS: Final = re.compile(r"\b1[78]\d{11}(\d{6})?\b")
_USD_PER_GPU_MS = Decimal("0.000001")  # $3.60 an hour


def held(answers: dict[str, Any], job: dict[str, Any]) -> Decimal:
    """What the GPUs of a job's supervisor cost, by Ray's own times."""
    name = f"_ray_internal_job_actor_{job['submission_id']}"
    listed = [each for each in answers[ACTORS]["data"]["actors"].values() if each["name"] == name]
    if not listed:  # a dashboard lists an actor some seconds late
        return Decimal(-1)
    (actor,) = listed
    # A supervisor that is still alive has an end of 0.
    held_ms = min(actor["endTime"] or job["end_time"], job["end_time"]) - actor["startTime"]
    return Decimal(round(held_ms * actor["requiredResources"]["GPU"])) * _USD_PER_GPU_MS


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    short = tmp_path_factory.mktemp("r")  # Ray has sockets below it, whose paths have at most 107 bytes
    port, dashboard, client, agent = _free_ports(4)
    options = (
        f"--port={port}",
        f"--dashboard-port={dashboard}",
        "--num-cpus=4",
        "--num-gpus=4",
        "--node-name=n1",
    )
    ports = (f"--ray-client-server-port={client}", f"--dashboard-agent-listen-port={agent}")
    others = (f"--temp-dir={short}", '--resources={"accelerator_type:H100": 1}')
    with running_node(Path(_RAY) / "ray", short / "head.log", "--head", *options, *ports, *others):
        found = Cluster(f"http://127.0.0.1:{dashboard}", str(Path(_RAY) / "python"))
        _until_ready(found)
        yield found


@pytest.mark.skipif(not (Path(_RAY) / "ray").exists(), reason="no Ray: RAY=FOLDER names its programs")
def test_first_job_of_a_real_ray_costs_what_its_own_times_say(cluster: Cluster, meter: StartedMeter) -> None:
    init = meter.begin("ray", "--url", cluster.address, "--price", "H100=3.60")
    assert f"found: Ray at {cluster.address}, 1 node" in meter.said()
    assert "  4 GPUs of type H100" in meter.said()
    job = cluster.submit("import time; time.sleep(5)", entrypoint_num_gpus=2, metadata={"owner": "ada"})

    def wanted() -> dict[str, tuple[str, Decimal]]:
        answers = {JOBS: cluster.ask(JOBS), ACTORS: cluster.ask(ACTORS)}
        (ended,) = (each for each in answers[JOBS] if each["submission_id"] == job)
        return {job: ("completed", held(answers, ended))}

    meter.until(lambda: cluster.status(job) == "SUCCEEDED")
    meter.until_metered(wanted)
    assert init.wait(900) == 0, meter.said()
    print(meter.said())  # noqa: T201 - what a user sees
    assert any(line.startswith(job) and "completed" in line for line in meter.said().splitlines())


def shifted(answers: dict[str, Any], by_ms: int) -> dict[str, Any]:
    """The answers with all of their times, in ms and ns, so much later."""

    def later(found: re.Match[str]) -> str:
        return str(int(found[0]) + by_ms * (10**6 if found[1] else 1))

    moved: dict[str, Any] = json.loads(_MS.sub(later, json.dumps(answers)))
    return moved


def test_first_jobs_of_a_recorded_ray_cost_what_its_own_times_say(meter: StartedMeter) -> None:
    clock, looks = SystemClock(), recorded()
    dashboard = Dashboard(shifted(looks[_BEGUN]["answers"], clock.now_ms() - looks[_BEGUN]["time_ms"]))
    try:
        prices = ("--price", "H100=3.60", "--price", "A100=3.60")
        init = meter.begin("ray", "--url", dashboard.address, *prices)
        since = tomllib.loads((meter.directory / "collect.toml").read_text())["ray"]["since"]
        by_ms = round(since.timestamp() * 1000) + 5_000 - looks[_BEGUN]["time_ms"]
        answers = shifted(looks[_ENDED]["answers"], by_ms)
        meter.until(lambda: clock.now_ms() > looks[_ENDED]["time_ms"] + by_ms)
        dashboard.answers = answers
        ended = {job["status"]: job for job in answers[JOBS] if job["status"] in ("SUCCEEDED", "FAILED")}
        done, failed = ended["SUCCEEDED"], ended["FAILED"]
        wanted = {
            done["submission_id"]: ("completed", held(answers, done)),
            "sweep-1": ("failed", held(answers, failed)),
        }
        meter.until_metered(lambda: wanted)
        assert all(usd > 0 for _, usd in wanted.values())
        assert init.wait(900) == 0, meter.said()
        print(meter.said())  # noqa: T201 - what a user sees
        assert any(line.startswith("sweep-1 ") and "failed" in line for line in meter.said().splitlines())
    finally:
        dashboard.close()
