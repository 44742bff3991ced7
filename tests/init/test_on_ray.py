"""`trainfare init ray` beside a real Ray with made-up GPUs: its first job costs what Ray's own times say."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.collect.ray.record import Cluster, _until_ready, running_node
from tests.collect.ray.test_quickstart import _RAY
from tests.init.started import StartedMeter
from tests.kafka.broker import _free_ports

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(not (Path(_RAY) / "ray").exists(), reason="no Ray: RAY=FOLDER names its programs"),
]
_USD_PER_GPU_MS = Decimal("0.000001")  # $3.60 an hour


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    port, dashboard, client, agent = _free_ports(4)
    options = (
        f"--port={port}",
        f"--dashboard-port={dashboard}",
        "--num-cpus=4",
        "--num-gpus=4",
        "--node-name=n1",
    )
    ports = (f"--ray-client-server-port={client}", f"--dashboard-agent-listen-port={agent}")
    others = (f"--temp-dir={tmp_path}/r", '--resources={"accelerator_type:H100": 1}')
    with running_node(Path(_RAY) / "ray", tmp_path / "head.log", "--head", *options, *ports, *others):
        found = Cluster(f"http://127.0.0.1:{dashboard}", str(Path(_RAY) / "python"))
        _until_ready(found)
        yield found


@pytest.fixture
def meter(tmp_path: Path) -> Iterator[StartedMeter]:
    found = StartedMeter(tmp_path)
    try:
        yield found
    finally:
        found.stop()


def test_first_job_of_a_real_ray_costs_what_its_own_times_say(cluster: Cluster, meter: StartedMeter) -> None:
    words = ("trainfare", "init", "ray", "--yes", "--url", cluster.address, "--price", "H100=3.60")
    said = meter.run(*words, "--wait", 0)
    print(said)  # noqa: T201 - what a user sees
    assert f"found: Ray at {cluster.address}, 1 nodes" in said
    assert "  4 GPUs of type H100" in said
    job = cluster.submit("import time; time.sleep(5)", entrypoint_num_gpus=2, metadata={"owner": "ada"})

    def wanted() -> dict[str, tuple[str, Decimal]]:
        actors = cluster.ask("/logical/actors")["data"]["actors"].values()
        (of_job,) = (each for each in actors if each["name"] == f"_ray_internal_job_actor_{job}")
        held_ms = of_job["endTime"] - of_job["startTime"]
        return {job: ("completed", 2 * held_ms * _USD_PER_GPU_MS)}

    meter.until(lambda: cluster.status(job) == "SUCCEEDED")
    meter.until_metered(wanted)
    again = meter.run(*words, "--wait", 60)
    print(again)  # noqa: T201 - what a user sees
    assert "trainfare-collect-ray: runs" in again
    assert any(line.startswith(job) and "completed" in line for line in again.splitlines())
