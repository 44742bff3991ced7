"""`trainfare init kubernetes` beside a real kube-apiserver: its first jobs cost what their pods held, and its manifests are taken.

It has the rights of the chart's collectors alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.collect.kubernetes.apiserver import ApiServerProcess, missing, running
from tests.collect.kubernetes.record import Player
from tests.collect.kubernetes.test_real_apiserver import _PATHS
from tests.deploy.chart import manifests
from tests.init.started import StartedMeter

_MISSING = missing()
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)}"),
]
_LABELS = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "topology.kubernetes.io/region": "us-east-1",
    "node.kubernetes.io/instance-type": "p5.48xlarge",
}
_PODS = "/api/v1/namespaces/research/pods"
_USD_PER_GPU_S = Decimal("0.001")  # $3.60 an hour


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServerProcess]:
    with running(tmp_path / "k") as found:
        for each in manifests():
            if each["kind"] in _PATHS:
                found.send("POST", _PATHS[each["kind"]], each)
        for name in ("research", "trainfare"):
            found.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        yield found


def held(pod: dict[str, Any]) -> tuple[str, Decimal]:
    """How a pod ended, and what it costs from its binding to the end of its container."""
    (bound,) = (each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    begin, end = (datetime.fromisoformat(each) for each in (bound["lastTransitionTime"], ended["finishedAt"]))
    gpus = int(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
    state = "failed" if ended["exitCode"] else "completed"
    return state, gpus * int((end - begin).total_seconds()) * _USD_PER_GPU_S


def test_first_jobs_of_a_real_cluster_cost_what_their_pods_held(
    server: ApiServerProcess, meter: StartedMeter
) -> None:
    player = Player(server)
    player.node("n1", _LABELS, {"nvidia.com/gpu": "8"}, "aws:///us-east-1a/i-0")
    login = ("--url", server.url, "--token-file", server.token_file, "--ca-file", server.ca_file)
    init = meter.begin("kubernetes", *login, "--price", "NVIDIA-H100-80GB-HBM3=3.60")
    assert f"found: Kubernetes at {server.url}, 1 node" in meter.said()
    assert "  8 GPUs of type " in meter.said()
    assert "  clouds: aws" in meter.said()
    for name, gpus in (("first", 2), ("second", 4)):
        player.pod(name, gpus)
        player.bind(name, "n1")
        player.start(name)
    meter.until(lambda: len(meter.metered()) == 2)
    player.end("first", 0)
    player.end("second", 1)
    pods = {name: server.send("GET", f"{_PODS}/{name}") for name in ("first", "second")}

    def wanted() -> dict[str, tuple[str, Decimal]]:
        return {job: held(pods[job.rpartition("/")[2]]) for job in meter.metered()}

    meter.until_metered(wanted)
    assert init.wait(900) == 0, meter.said()
    print(meter.said())  # noqa: T201 - what a user sees
    (first, *_) = (line.split() for line in meter.said().splitlines() if line.startswith("research/"))
    assert Decimal(first[3]) in {usd for _, usd in map(held, pods.values())}
    secret = yaml.safe_load((meter.directory / "kubernetes/collector-token.yaml").read_text())
    server.send("POST", "/api/v1/namespaces/trainfare/secrets?fieldValidation=Strict", secret)
    values = yaml.safe_load((meter.directory / "kubernetes/values.yaml").read_text())
    assert secret["metadata"]["name"] in str(values)
