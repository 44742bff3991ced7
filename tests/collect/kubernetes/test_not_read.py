"""What pods hold that means money and is not read: counted, each pod once, with what mends it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import pytest

from streams.accounts.causes import REMEDIES
from streams.collect.kubernetes.node_facts import NodeFacts, unknown_node
from streams.collect.kubernetes.not_read import NotRead, not_read_of_node, not_read_of_pod
from streams.collect.kubernetes.objects import Node, Pod
from streams.collect.kubernetes.options import Options
from tests.collect.kubernetes.cluster import Cluster
from tests.collect.kubernetes.objects import node as node_of
from tests.collect.kubernetes.objects import pod
from tests.source_cases import source_case


def looked(*pods: dict[str, Any], **options: Any) -> list[NotRead]:
    given = Options(url="https://k", **options)
    found = (not_read_of_pod(msgspec.convert(each, Pod), given) for each in pods)
    return [each for each in found if each is not None]


@pytest.mark.parametrize(
    "resource",
    [
        "gpu.intel.com/xe",
        "gpu.intel.com/i915",
        "huawei.com/Ascend910",
        "nvidia.com/GRID_T4-1Q",
        "k8s.amazonaws.com/vgpu",
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
    [
        "nvidia.com/gpu",
        "amd.com/gpu",
        "google.com/tpu",
        "habana.ai/gaudi",
        "aws.amazon.com/neuron",
        "cpu",
        "rdma/hca",
        "vpc.amazonaws.com/efa",
        "example.com/input",
    ],
)
def test_what_is_read_or_is_no_accelerator_is_not_said(resource: str) -> None:
    assert looked(pod("a", bound=1, resource=resource)) == []


def test_a_share_of_no_gpu_is_said() -> None:
    """HAMi adds the number of GPUs where it is missing; where it has not, nothing was said."""
    (found,) = looked(pod("a", bound=1, resource="nvidia.com/gpumem", gpus="3000"))
    assert found == (
        "unknown_resource",
        "pod research/a holds nvidia.com/gpumem, and does not say of how many GPUs",
    )
    assert looked(pod("a", bound=1, resource="nvidia.com/gpumem"), resources={"nvidia.com/gpumem": 0.1}) == []


def test_pods_that_hold_nothing_are_not_said() -> None:
    waiting, ended = pod("a", resource="gpu.intel.com/xe"), pod("b", bound=1, resource="gpu.intel.com/xe")
    ended["status"]["phase"] = "Succeeded"
    assert looked(waiting, ended) == []


def test_a_cluster_of_public_reports() -> None:
    items = json.loads((source_case("17-k8s-pods") / "pods.json").read_bytes())["items"]
    found = looked(*items)
    assert Counter(each.reason for each in found) == {"unknown_resource": 2}
    line = " ".join(each.said for each in found)
    assert "gpu.intel.com/i915" in line
    assert "k8s.amazonaws.com/vgpu" in line


def test_a_cluster_of_public_reports_is_metered_where_the_api_says_how_many() -> None:
    case = source_case("17-k8s-pods")
    cluster = Cluster()
    cluster.put("nodes", *json.loads((case / "nodes.json").read_bytes())["items"])
    cluster.put("pods", *json.loads((case / "pods.json").read_bytes())["items"])
    cluster.poll(10**7)
    held = {
        event.value["job_id"].rsplit("/", 1)[1]: event.value["gpu_count"]
        for event in cluster.log.events
        if event.topic == "jobs" and event.value.get("gpu_count")
    }
    assert {name: held[name] for name in ("neuron", "tpu", "gaudi")} == {"neuron": 16, "tpu": 4, "gaudi": 8}
    account = cluster.batches[-1].account
    assert {name: account.reasons[name] for name in ("unknown_resource", "resource_claims")} == {
        "unknown_resource": 2,
        "resource_claims": 1,
    }
    assert any("pod ml/dra, claim gpu: it cannot be read" in each for each in account.said)


def test_cores_of_neuron_devices_are_said_where_the_node_does_not_tell() -> None:
    cores = msgspec.convert(pod("a", bound=1, resource="aws.amazon.com/neuroncore"), Pod)
    node = NodeFacts("", 0, {})
    found = not_read_of_pod(cores, Options(url="https://k"), node)
    assert found is not None
    assert found.reason == "unknown_resource"
    told = msgspec.structs.replace(node, core_milli=500)
    assert not_read_of_pod(cores, Options(url="https://k"), told) is None
    own = Options(url="https://k", resources={"aws.amazon.com/neuroncore": 0.25})
    assert not_read_of_pod(cores, own, node) is None


@pytest.mark.parametrize("resource", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb.shared"])
def test_what_pods_share_is_said_where_the_node_does_not_tell_how_many(resource: str) -> None:
    held, given = msgspec.convert(pod("a", bound=1, resource=resource), Pod), Options(url="https://k")
    found = not_read_of_pod(held, given, unknown_node(given))
    assert found is not None
    assert found.reason == "unknown_share"
    assert resource in found.said
    own = Options(url="https://k", resources={resource: 0.1})
    assert not_read_of_pod(held, own, unknown_node(own)) is None


@pytest.mark.parametrize(
    ("labels", "offered", "reason"),
    [
        ({"gpu.count": "1"}, "3", "gpu_count"),
        ({"gpu.count": "3"}, "3", ""),
        ({"gpu.count": "1", "gpu.replicas": "3"}, "3", ""),
        ({"gpu.count": "1", "gpu.replicas": "2"}, "3", "gpu_count"),
        ({"gpu.count": "0", "gpu.product": "NVIDIA-A30-MIG-INVALID"}, "0", "not_offered"),
    ],
)
def test_a_node_whose_gpus_and_labels_differ_is_said(
    labels: dict[str, str], offered: str, reason: str
) -> None:
    """NVIDIA/gpu-feature-discovery#27 and #66: of several models the labels name and count one."""
    given = node_of("n1", gpus=int(offered))
    given["metadata"]["labels"] |= {f"nvidia.com/{name}": text for name, text in labels.items()}
    found = not_read_of_node(msgspec.convert(given, Node), Options(url="https://k"))
    assert (found.reason if found else "") == reason


def test_a_node_whose_gpus_are_split_or_named_is_no_other_than_its_label() -> None:
    given = node_of("n1", gpus=10)
    given["metadata"]["labels"]["nvidia.com/gpu.count"] = "1"
    own = Options(url="https://k", resources={"nvidia.com/gpu": 0.1})
    assert not_read_of_node(msgspec.convert(given, Node), own) is None
    given["metadata"]["annotations"] = {"hami.io/node-nvidia-register": "GPU-1,10,46068,100,A,0,true:"}
    assert not_read_of_node(msgspec.convert(given, Node), Options(url="https://k")) is None


def test_a_node_with_vgpus_of_unknown_number_is_said() -> None:
    given = node_of("n1", gpus=0)
    given["status"]["capacity"]["volcano.sh/vgpu-number"] = "20"
    found = not_read_of_node(msgspec.convert(given, Node), Options(url="https://k"))
    assert found is not None
    assert "no annotation says how many" in found.said
    given["metadata"]["annotations"] = {"volcano.sh/node-vgpu-register": "GPU-1,10,24000,A40,true:"}
    assert not_read_of_node(msgspec.convert(given, Node), Options(url="https://k")) is None
