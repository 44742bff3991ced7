"""What pods hold that means money and is not read: counted, each pod once, with what mends it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from streams.collect.kubernetes.not_read import NotRead
from streams.collect.kubernetes.objects import Pod
from streams.collect.kubernetes.options import Options
from tests.collect.kubernetes.objects import pod
from tests.source_cases import source_case


def looked(*pods: dict[str, Any], **options: Any) -> NotRead:
    found = NotRead(Options(url="https://k", **options))
    for each in pods:
        found.look(msgspec.convert(each, Pod))
    return found


@pytest.mark.parametrize(
    "resource",
    [
        "aws.amazon.com/neuroncore",
        "google.com/tpu",
        "habana.ai/gaudi",
        "gpu.intel.com/xe",
        "volcano.sh/vgpu-number",
    ],
)
def test_an_accelerator_that_is_not_read_is_said_with_what_mends_it(resource: str) -> None:
    held = pod("a", bound=1, resource=resource)
    found = looked(held, held, pod("b", bound=1, resource=resource))
    assert found.reasons() == {"unknown_resource": 2}
    (line,) = found.said()
    assert f"2 {resource} (research/a)" in line
    assert "`resources`" in line
    assert looked(held, resources={resource: 1.0}).reasons() == {}


@pytest.mark.parametrize(
    "resource",
    ["nvidia.com/gpu", "amd.com/gpu", "cpu", "rdma/hca", "vpc.amazonaws.com/efa", "example.com/input"],
)
def test_what_is_read_or_is_no_accelerator_is_not_said(resource: str) -> None:
    assert looked(pod("a", bound=1, resource=resource)).said() == []


def test_pods_that_hold_nothing_are_not_said() -> None:
    waiting, ended = pod("a", resource="google.com/tpu"), pod("b", bound=1, resource="google.com/tpu")
    ended["status"]["phase"] = "Succeeded"
    assert looked(waiting, ended).said() == []


def test_a_cluster_of_public_reports() -> None:
    items = json.loads((source_case("17-k8s-pods") / "pods.json").read_bytes())["items"]
    found = looked(*items)
    assert found.reasons() == {"resource_claims": 1, "unknown_resource": 5}
    (line,) = found.said()
    for resource in (
        "aws.amazon.com/neuron",
        "google.com/tpu",
        "habana.ai/gaudi",
        "gpu.intel.com/i915",
        "vgpu",
    ):
        assert resource in line
    assert "1 ResourceClaims (ml/dra)" in line
