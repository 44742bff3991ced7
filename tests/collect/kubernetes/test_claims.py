"""Devices of ResourceClaims: how many GPUs a pod was allocated, by its claims and the ResourceSlices of its node."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.collect.kubernetes.cluster import Cluster
from tests.collect.kubernetes.objects import node, pod

CLAIMS = "/apis/resource.k8s.io/{version}/namespaces/research/resourceclaims/{name}"
SLICES = "/apis/resource.k8s.io/{version}/resourceslices"
H100 = "NVIDIA H100 80GB HBM3"
NVIDIA = "gpu.nvidia.com"


def device(name: str, type_: str = "gpu", product: str = H100, **more: str) -> dict[str, Any]:
    """A device as drivers of NVIDIA and AMD list it."""
    said = {"type": type_, "productName": product, "uuid": f"GPU-{name}", **more}
    return {"name": name, "attributes": {key: {"string": value} for key, value in said.items()}}


def slices(*devices: dict[str, Any], driver: str = NVIDIA) -> list[dict[str, Any]]:
    return [{"spec": {"driver": driver, "nodeName": "n1", "pool": {"name": "n1"}, "devices": list(devices)}}]


def claim(*devices: str, driver: str = NVIDIA, pods: int = 1, **of_each: Any) -> dict[str, Any]:
    results = [
        {"request": "r", "driver": driver, "pool": "n1", "device": each, **of_each} for each in devices
    ]
    reserved = [{"resource": "pods", "name": f"p{number}", "uid": f"u{number}"} for number in range(pods)]
    return {"status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}}


def dra_pod(name: str = "a", *claims: str, bound: int | None = 5, **more: Any) -> dict[str, Any]:
    found = pod(name, bound=bound, gpus="", **more)
    found["spec"]["resourceClaims"] = [{"name": each, "resourceClaimName": each} for each in claims]
    return found


def cluster_of(
    claims: dict[str, dict[str, Any]], found: list[dict[str, Any]], version: str = "v1"
) -> Cluster:
    cluster = Cluster()
    cluster.put("nodes", node(gpus=0))
    for name, each in claims.items():
        cluster.server.bodies[CLAIMS.format(version=version, name=name)] = json.dumps(each).encode()
    cluster.server.bodies[SLICES.format(version=version)] = json.dumps({"items": found}).encode()
    return cluster


def reasons(cluster: Cluster) -> dict[str, int]:
    return cluster.batches[-1].account.reasons


def held(cluster: Cluster, *pods: dict[str, Any]) -> float | None:
    """The GPUs of the job, as its last event has them; None without an event."""
    cluster.put("pods", *pods)
    counts = [each["gpu_count"] for each in cluster.poll(10) if each.get("gpu_count") is not None]
    return counts[-1] if counts else None


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_gpus_of_a_claim_are_held_from_the_binding_on(version: str) -> None:
    devices = [device("gpu-0"), device("gpu-1"), device("gpu-2")]
    if version == "v1beta1":
        devices = [{"name": each["name"], "basic": {"attributes": each["attributes"]}} for each in devices]
    cluster = cluster_of({"two": claim("gpu-0", "gpu-1")}, slices(*devices), version)
    cluster.put("pods", dra_pod("a", "two"))
    (allocated,) = [each for each in cluster.poll(10) if each["type"] == "allocated"]
    assert (allocated["gpu_count"], allocated["nodes"]) == (2, {"n1": 2})
    assert "resource_claims" not in reasons(cluster)
    assert any("fieldSelector=spec.nodeName%3Dn1" in each for each in cluster.server.requests)


def test_the_type_is_that_of_the_slice_where_no_label_has_it() -> None:
    cluster = cluster_of({"one": claim("gpu-0")}, slices(device("gpu-0")))
    plain = node(gpus=0)
    del plain["metadata"]["labels"]["nvidia.com/gpu.product"]
    cluster.put("nodes", plain)
    cluster.put("pods", dra_pod("a", "one"))
    assert [each["gpu_type"] for each in cluster.poll(10) if each["type"] == "allocated"] == [H100]


@pytest.mark.parametrize(
    ("found", "gpus"),
    [
        (slices(device("d", "mig", profile="1g.10gb")), 0.142),
        (slices(device("d", "mig", profile="3g.40gb")), 0.428),
        (slices(device("d", "mig", "NVIDIA A30", profile="1g.6gb")), 0.25),
        (slices(device("d", "amdgpu", "AMD_Instinct_MI300X_OAM"), driver=NVIDIA), 1),
    ],
)
def test_parts_of_gpus_and_others(found: list[dict[str, Any]], gpus: float) -> None:
    assert held(cluster_of({"one": claim("d")}, found), dra_pod("a", "one")) == gpus


def test_a_claim_from_a_template_is_named_in_the_status() -> None:
    made = dra_pod("a")
    made["spec"]["resourceClaims"] = [
        {"name": "gpu", "resourceClaimTemplateName": "single-gpu"},
        {"name": "none"},
    ]
    made["status"]["resourceClaimStatuses"] = [
        {"name": "gpu", "resourceClaimName": "a-gpu-x"},
        {"name": "none"},
    ]
    assert held(cluster_of({"a-gpu-x": claim("gpu-0")}, slices(device("gpu-0"))), made) == 1


@pytest.mark.parametrize(
    ("claims", "found", "said"),
    [
        ({}, slices(device("gpu-0")), "claim one: it cannot be read, or is not allocated"),
        (
            {"one": {"status": {}}},
            slices(device("gpu-0")),
            "claim one: it cannot be read, or is not allocated",
        ),
        ({"one": claim("gpu-0", pods=2)}, slices(device("gpu-0")), "several pods share its devices"),
        (
            {"one": claim("gpu-0", shareID="s")},
            slices(device("gpu-0")),
            "a share of device gpu.nvidia.com/n1/gpu-0",
        ),
        ({"one": claim("gpu-1")}, slices(device("gpu-0")), "is in no ResourceSlice of the node"),
        ({"one": claim("gpu-0")}, [], "is in no ResourceSlice of the node"),
        ({"one": claim("gpu-0")}, slices(device("gpu-0", "vfio")), "is of type 'vfio'"),
        ({"one": claim("p")}, slices(device("p", "amdgpu-partition")), "is of type 'amdgpu-partition'"),
        ({"one": {"status": {"allocation": 7}}}, slices(device("gpu-0")), "it cannot be read"),
        ({"one": claim("gpu-0")}, [{"spec": 7}], "is in no ResourceSlice of the node"),
    ],
)
def test_what_is_not_known_of_a_claim_is_said(claims: dict[str, Any], found: list[Any], said: str) -> None:
    cluster = cluster_of(claims, found)
    assert held(cluster, dra_pod("a", "one")) is None
    assert reasons(cluster)["resource_claims"] == 1
    (example,) = cluster.batches[-1].account.said
    assert example.startswith("pod research/a, claim one: ")
    assert said in example


@pytest.mark.parametrize("given", [claim("nic-0", driver="dra.net"), claim("gpu-0", adminAccess=True)])
def test_what_is_no_gpu_or_only_watches_one_is_none(given: dict[str, Any]) -> None:
    cluster = cluster_of({"one": given}, slices(device("gpu-0")))
    assert held(cluster, dra_pod("a", "one")) is None
    assert "resource_claims" not in reasons(cluster)


def test_a_claim_that_could_not_be_read_is_taken_later_from_the_binding_on() -> None:
    cluster = cluster_of({}, slices(device("gpu-0")))
    assert held(cluster, dra_pod("a", "one")) is None
    path = CLAIMS.format(version="v1", name="one")
    cluster.server.bodies[path] = json.dumps(claim("gpu-0")).encode()
    cluster.put("pods", dra_pod("a", "one", started=20))
    assert ("allocated", 5, 1) in [each[1:] for each in cluster.jobs(30)]
    assert "resource_claims" not in reasons(cluster)
    asked = len(cluster.server.requests)
    cluster.put("pods", dra_pod("a", "one", started=20, ended=40))
    cluster.poll(50)
    assert not [each for each in cluster.server.requests[asked:] if "resourceclaims" in each], (
        "known is known"
    )


def test_more_claims_than_a_pod_can_use_are_not_asked_for() -> None:
    cluster = cluster_of({}, [])
    assert held(cluster, dra_pod("a", *(f"c{number}" for number in range(33)))) is None
    assert not [each for each in cluster.server.requests if "resourceclaims" in each]
    assert reasons(cluster)["resource_claims"] == 1
