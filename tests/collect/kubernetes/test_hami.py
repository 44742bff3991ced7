"""GPUs that HAMi splits: what a pod holds of them, and how many a node has."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from streams.collect.kubernetes.node_facts import NodeFacts, gpu_share, is_gpu, node_facts
from streams.collect.kubernetes.objects import Node, PodSpec
from streams.collect.kubernetes.options import Options
from streams.collect.kubernetes.requests import requests_of
from tests.source_cases import source_case

TEXT = "GPU-1,10,46068,100,NVIDIA-NVIDIA A40,0,true:GPU-2,10,46068,100,NVIDIA-NVIDIA A40,0,true:"
JSON = json.dumps([{"id": "GPU-1", "count": 10, "devmem": 46068, "devcore": 100, "type": "NVIDIA A40"}])
OPTIONS = [Options(url="https://k", resources=each) for each in (
    {}, {"nvidia.com/gpu": 0.1}, {"nvidia.com/gpucores": 0.01},
)]  # fmt: skip


def facts(register: str, offered: str = "20", options: Options = OPTIONS[0]) -> NodeFacts:
    annotations = {"hami.io/node-nvidia-register": register} if register else {}
    meta = {"name": "n", "creationTimestamp": "2026-09-21T14:13:20Z", "annotations": annotations}
    found = {"metadata": meta, "spec": {}, "status": {"capacity": {"nvidia.com/gpu": offered}}}
    return node_facts(msgspec.convert(found, Node), options)


def held_milli(spec: dict[str, Any], node: NodeFacts, options: Options = OPTIONS[0]) -> int:
    requests = requests_of(msgspec.convert(spec, PodSpec), lambda name: is_gpu(name, options))
    return int(gpu_share(requests.devices, node, options))


def pod(*limits: dict[str, str]) -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"limits": each}} for each in limits]}


@pytest.mark.parametrize("options", OPTIONS)
def test_quarters_of_a_gpu_are_not_whole_ones_whatever_resources_say(options: Options) -> None:
    case = source_case("16-k8s-hami")
    (node,) = json.loads((case / "nodes.json").read_bytes())["items"]
    found = node_facts(msgspec.convert(node, Node), options)
    assert found.gpu_milli == 8_000
    pods = json.loads((case / "pods.json").read_bytes())["items"]
    assert [held_milli(each["spec"], found, options) for each in pods] == [250] * 4


@pytest.mark.parametrize("register", [TEXT, JSON])
@pytest.mark.parametrize(
    ("limits", "milli"),
    [
        ({"gpucores": "30"}, 300),
        ({"gpu": "2", "gpucores": "30"}, 600),
        ({"gpucores": "30", "gpumem-percentage": "60"}, 600),
        ({"gpumem": "23034"}, 500),
        ({"gpucores": "10", "gpumem": "23034"}, 500),
        ({"gpucores": "0"}, 1000),
        ({"gpucores": "900"}, 1000),
        ({}, 1000),
    ],
)
def test_a_share_is_the_largest_of_cores_and_memory(
    register: str, limits: dict[str, str], milli: int
) -> None:
    named = {f"nvidia.com/{name}": count for name, count in ({"gpu": "1"} | limits).items()}
    assert held_milli(pod(named), facts(register)) == milli
    assert facts(register).gpu_milli == 2_000


def test_containers_add_up_and_memory_of_an_unknown_size_is_a_whole_gpu() -> None:
    share = {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "25"}
    assert held_milli(pod(share, share, {"nvidia.com/gpu": "1"}), facts(TEXT)) == 1_500
    assert held_milli(pod({"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3000"}), facts("")) == 2_000
    assert facts("", "20").gpu_milli == 20_000


@pytest.mark.parametrize("register", ["", "x", "[", "GPU-1,0,0,", "a,b,c,", "9" * 9000, '[{"count":-1}]'])
def test_an_annotation_that_says_nothing_leaves_the_node_as_its_capacity_is(register: str) -> None:
    assert facts(register).gpu_milli == 20_000


VOLCANO = "GPU-1,10,24000,NVIDIA-A40,true,hami-core:GPU-2,10,24000,NVIDIA-A40,true,hami-core"


@pytest.mark.parametrize(
    ("limits", "milli"),
    [
        ({"number": "1"}, 1000),
        ({"number": "2", "cores": "30"}, 600),
        ({"number": "1", "memory": "6000"}, 250),
        ({"number": "1", "memory-percentage": "40", "cores": "10"}, 400),
    ],
)
def test_shares_of_volcano(limits: dict[str, str], milli: int) -> None:
    capacity = {
        "volcano.sh/vgpu-number": "20",
        "volcano.sh/vgpu-memory": "48000",
        "volcano.sh/vgpu-cores": "200",
    }
    meta = {"name": "n", "annotations": {"volcano.sh/node-vgpu-register": VOLCANO}}
    node = node_facts(msgspec.convert({"metadata": meta, "status": {"capacity": capacity}}, Node), OPTIONS[0])
    assert node.gpu_milli == 2000
    asked = pod({f"volcano.sh/vgpu-{name}": count for name, count in limits.items()})
    assert held_milli(asked, node) == milli
