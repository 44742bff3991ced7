"""What pods hold that means money and is not read: counted, each pod once, with what mends it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import pytest

from streams.accounts.causes import REMEDIES
from streams.collect.kubernetes.not_read import NotRead, not_read_of_pod
from streams.collect.kubernetes.objects import Pod
from streams.collect.kubernetes.options import Options
from tests.collect.kubernetes.objects import pod
from tests.source_cases import source_case


def looked(*pods: dict[str, Any], **options: Any) -> list[NotRead]:
    given = Options(url="https://k", **options)
    found = (not_read_of_pod(msgspec.convert(each, Pod), given) for each in pods)
    return [each for each in found if each is not None]


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
    (found,) = looked(held)
    assert found == ("unknown_resource", f"pod research/a holds {resource}, which is read as no GPU")
    assert "`resources`" in REMEDIES[found.reason]
    assert looked(held, resources={resource: 1.0}) == []


@pytest.mark.parametrize(
    "resource",
    ["nvidia.com/gpu", "amd.com/gpu", "cpu", "rdma/hca", "vpc.amazonaws.com/efa", "example.com/input"],
)
def test_what_is_read_or_is_no_accelerator_is_not_said(resource: str) -> None:
    assert looked(pod("a", bound=1, resource=resource)) == []


def test_pods_that_hold_nothing_are_not_said() -> None:
    waiting, ended = pod("a", resource="google.com/tpu"), pod("b", bound=1, resource="google.com/tpu")
    ended["status"]["phase"] = "Succeeded"
    assert looked(waiting, ended) == []


def test_a_cluster_of_public_reports() -> None:
    items = json.loads((source_case("17-k8s-pods") / "pods.json").read_bytes())["items"]
    found = looked(*items)
    assert Counter(each.reason for each in found) == {"resource_claims": 1, "unknown_resource": 5}
    line = " ".join(each.said for each in found)
    for resource in (
        "aws.amazon.com/neuron",
        "google.com/tpu",
        "habana.ai/gaudi",
        "gpu.intel.com/i915",
        "vgpu",
    ):
        assert resource in line
    assert "ml/dra has ResourceClaims" in line
