"""What a pod's resources are in GPUs, what a node's labels say of it, and whose a pod is."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.collect.kubernetes.node_facts import gpu_share, is_gpu, node_facts, unknown_share
from streams.collect.kubernetes.objects import Node, ObjectMeta, PodSpec
from streams.collect.kubernetes.options import Options
from streams.collect.kubernetes.owners import identity_of
from streams.collect.kubernetes.quantities import mebibytes, milli, quantity
from streams.collect.kubernetes.requests import requests_of
from tests.collect.kubernetes.cluster import Cluster
from tests.collect.kubernetes.objects import node, owner, pod

OPTIONS = Options(url="https://k", cluster="c1", resources={"nvidia.com/gpucores": 0.01})


def facts(labels: dict[str, str], capacity: dict[str, str] | None = None, **spec: Any) -> Any:
    meta = {"name": "n", "uid": "u", "creationTimestamp": "2026-09-21T14:13:20Z", "labels": labels}
    found = {"metadata": meta, "spec": spec, "status": {"capacity": capacity or {}}}
    return node_facts(msgspec.convert(found, Node), OPTIONS)


MPS = "nvidia.com/gpu.sharing-strategy"
MIG_SHARED = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED", "nvidia.com/gpu.replicas": "4"}  # fmt: skip
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


@pytest.mark.parametrize(
    ("labels", "resource", "count", "expected_milli"),
    [
        (H100, "nvidia.com/gpu", 2, 2000),
        ({}, "amd.com/gpu", 1, 1000),
        (H100, "nvidia.com/mig-1g.10gb", 1, 142),
        (H100, "nvidia.com/mig-3g.40gb", 2, 857),
        (H100, "nvidia.com/mig-1g.10gb", 7, 1000),
        (H100, "nvidia.com/mig-7g.80gb", 1, 1000),
        (H100, "nvidia.com/mig-1g.10gb.me", 1, 142),
        ({"nvidia.com/gpu.product": "NVIDIA-A30"}, "nvidia.com/mig-1g.6gb", 1, 250),
        ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-2g.10gb"}, "nvidia.com/gpu", 1, 285),
        ({**H100, "nvidia.com/gpu.replicas": "4"}, "nvidia.com/gpu", 1, 250),
        ({**H100, "nvidia.com/gpu.replicas": "4"}, "nvidia.com/gpu.shared", 3, 750),
        ({**H100, "nvidia.com/gpu.replicas": "3"}, "nvidia.com/gpu.shared", 3, 1000),
        ({**H100, "nvidia.com/gpu.replicas": "3", MPS: "mps"}, "nvidia.com/gpu", 2, 666),
        ({**H100, "nvidia.com/gpu.replicas": "many"}, "nvidia.com/gpu", 1, 1000),
        ({**H100, "nvidia.com/gpu.replicas": "0"}, "nvidia.com/gpu", 1, 1000),
        (H100, "nvidia.com/gpucores", 50, 500),
        (MIG_SHARED, "nvidia.com/gpu.shared", 28, 1000),
        (MIG_SHARED, "nvidia.com/gpu", 7, 250),
    ],
)
def test_devices_are_thousandths_of_gpus(
    labels: dict[str, str], resource: str, count: int, expected_milli: int
) -> None:
    assert is_gpu(resource, OPTIONS)
    assert int(gpu_share({resource: count}, facts(labels), OPTIONS)) == expected_milli


GKE = "cloud.google.com/gke-accelerator"
GKE_PART = "cloud.google.com/gke-gpu-partition-size"
GKE_SHARED = "cloud.google.com/gke-max-shared"
MIG_REPLICAS = {**H100, "nvidia.com/mig-1g.10gb.replicas": "4", "nvidia.com/mig-1g.10gb.count": "7"}


@pytest.mark.parametrize(
    ("labels", "capacity", "share_milli"),
    [
        # NVIDIA/k8s-device-plugin#732: the label says 1, and the node offers the GPU 50 times.
        (
            {**H100, "nvidia.com/gpu.count": "1", "nvidia.com/gpu.replicas": "1"},
            {"nvidia.com/gpu.shared": "50"},
            20,
        ),
        (
            {**H100, "nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "4"},
            {"nvidia.com/gpu.shared": "8"},
            250,
        ),
        # NVIDIA/k8s-device-plugin#1433: GPUs cut by their memory.
        (
            {**H100, "nvidia.com/gpu.count": "1", "nvidia.com/gpu.replicas": "16384"},
            {"nvidia.com/gpu": "16384"},
            0,
        ),
        # bottlerocket-os/bottlerocket#4418: four instances of each of 8 GPUs, each shared by 4.
        (
            {**MIG_SHARED, "nvidia.com/gpu.count": "32", "nvidia.com/gpu.replicas": "1"},
            {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "128"},
            35,
        ),
        (MIG_REPLICAS, {"nvidia.com/mig-1g.10gb.shared": "28"}, 35),
        (MIG_REPLICAS, {"nvidia.com/mig-1g.10gb": "28"}, 35),
        # GKE's own device plugin (terraform-google-modules/terraform-google-kubernetes-engine#1506).
        ({GKE: "nvidia-tesla-t4", f"{GKE_SHARED}-clients-per-gpu": "3"}, {"nvidia.com/gpu": "3"}, 333),
        ({GKE: "nvidia-tesla-a100", GKE_PART: "1g.5gb"}, {"nvidia.com/gpu": "7"}, 142),
        ({GKE: "nvidia-rtx-pro-6000", GKE_PART: "1g.24gb"}, {"nvidia.com/gpu": "4"}, 250),
        (
            {GKE: "nvidia-tesla-a100", GKE_PART: "1g.5gb", f"{GKE_SHARED}-clients-per-gpu": "2"},
            {"nvidia.com/gpu": "14"},
            71,
        ),
        # Products with fewer slices than seven (NVIDIA/mig-parted#224).
        (
            {"nvidia.com/gpu.product": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"},
            {"nvidia.com/mig-1g.24gb": "4"},
            250,
        ),
        ({"nvidia.com/gpu.product": "NVIDIA-H100-NVL"}, {"nvidia.com/mig-1g.24gb": "7"}, 142),
        ({}, {"nvidia.com/mig-2g.12gb": "2"}, 500),
        (
            {**H100, "nvidia.com/mig-3g.40gb.count": "2"},
            {"nvidia.com/mig-3g.40gb.shared": "6", "nvidia.com/mig-3g.40gb": "0"},
            142,
        ),
    ],
)
def test_what_pods_share_is_a_share_of_it_be_it_a_gpu_or_a_mig_instance(
    labels: dict[str, str], capacity: dict[str, str], share_milli: int
) -> None:
    found = facts(labels, capacity)
    resource = max(capacity, key=lambda name: int(capacity[name]))
    assert int(gpu_share({resource: 1}, found, OPTIONS)) == share_milli
    assert int(gpu_share({resource: int(capacity[resource])}, found, OPTIONS)) % 1000 in (0, 571, 857)
    assert not unknown_share([resource], found, OPTIONS)
    whole = int(gpu_share({resource: int(capacity[resource])}, found, OPTIONS))
    assert found.gpu_milli == int(labels.get("nvidia.com/gpu.count", 0)) * 1000 or found.gpu_milli == whole


def test_a_pod_may_hold_thousands_of_shares_and_no_thousands_of_gpus() -> None:
    """NVIDIA/k8s-device-plugin#1433: 4,096 of 16,384 shares are a quarter of a GPU."""
    labels = {"nvidia.com__gpu.replicas": "16384", "nvidia.com__gpu.count": "1"}
    cluster = Cluster()
    cluster.put("nodes", node("n1", 16_384, **labels))
    cluster.put("pods", pod("a", bound=1, gpus="4096"))
    assert cluster.jobs(10)[-1][-1] == 0.25
    whole = Cluster()
    whole.put("nodes", node("n1", 8))
    whole.put("pods", pod("a", bound=1, gpus="1025"))
    whole.poll(10)
    account = whole.batches[-1].account
    assert account.reasons == {"malformed": 1}
    assert "more GPUs than a node can have" in str(account.said)


@pytest.mark.parametrize(
    "resource", ["cpu", "memory", "nvidia.com/mig-9g.1gb", "nvidia.com/gpu.x", "rdma/ib"]
)
def test_other_resources_are_no_gpus(resource: str) -> None:
    assert not is_gpu(resource, OPTIONS)


@pytest.mark.parametrize(
    ("labels", "capacity", "gpus_milli"),
    [
        (H100, {"nvidia.com/gpu": "8"}, 8000),
        (
            {**H100, "nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "4"},
            {"nvidia.com/gpu": "8"},
            2000,
        ),
        ({**H100, "nvidia.com/gpu.replicas": "4"}, {"nvidia.com/gpu": "8"}, 2000),
        (
            {**H100, "nvidia.com/gpu.replicas": "3"},
            {"nvidia.com/gpu": "2", "nvidia.com/gpu.shared": "3"},
            3000,
        ),
        (
            {**H100, "nvidia.com/gpu.count": "1"},
            {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "7"},
            1000,
        ),
        ({**H100, "nvidia.com/gpu.count": "8"}, {"nvidia.com/gpu": "0"}, 0),
        (
            {"nvidia.com/gpu.product": "A100-MIG-1g.5gb", "nvidia.com/gpu.count": "7"},
            {"nvidia.com/gpu": "7"},
            1000,
        ),
        ({}, {"cpu": "4"}, 0),
    ],
)
def test_a_node_has_the_gpus_that_its_driver_counts(
    labels: dict[str, str], capacity: dict[str, str], gpus_milli: int
) -> None:
    assert facts(labels, capacity).gpu_milli == gpus_milli


@pytest.mark.parametrize(
    ("labels", "provider", "fields"),
    [
        (
            {
                "node.kubernetes.io/instance-type": "p5.48xlarge",
                "topology.kubernetes.io/region": "us-east-1",
                "topology.kubernetes.io/zone": "us-east-1a",
                "karpenter.sh/capacity-type": "spot",
                "karpenter.k8s.aws/instance-gpu-name": "h100",
            },
            "aws:///us-east-1a/i-0",
            {
                "cloud": "aws",
                "region": "us-east-1",
                "zone": "us-east-1a",
                "instance_type": "p5.48xlarge",
                "gpu_type": "h100",
                "purchase": "spot",
            },
        ),
        (
            {"eks.amazonaws.com/capacityType": "ON_DEMAND"},
            "aws:///z/i",
            {"cloud": "aws", "purchase": "on_demand"},
        ),
        ({"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK"}, "", {"purchase": "reserved"}),
        (
            {
                "cloud.google.com/gke-nodepool": "a3",
                "cloud.google.com/gke-accelerator": "nvidia-h100-80gb",
                "cloud.google.com/gke-spot": "true",
            },
            "gce://my-project/us-central1-a/gke-1",
            {"cloud": "gcp", "account": "my-project", "gpu_type": "nvidia-h100-80gb", "purchase": "spot"},
        ),
        ({"cloud.google.com/gke-nodepool": "a3"}, "", {"purchase": "on_demand"}),
        (
            {"kubernetes.azure.com/scalesetpriority": "spot", "nvidia.com/gpu.product": "Tesla-T4-SHARED"},
            "azure:///subscriptions/x",
            {"cloud": "azure", "purchase": "spot", "gpu_type": "Tesla-T4"},
        ),
        (
            {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"},
            "",
            {"gpu_type": "NVIDIA-A100-SXM4-40GB"},
        ),
        ({"nvidia.com/gpu.product": "NVIDIA-A30-MIG-INVALID"}, "", {"gpu_type": "NVIDIA-A30"}),
        ({}, "kind://docker/x", {}),
    ],
)
def test_labels_are_price_fields(labels: dict[str, str], provider: str, fields: dict[str, str]) -> None:
    assert facts(labels, providerID=provider).fields == {"cluster": "c1", **fields}


def test_a_node_comes_drains_returns_and_goes() -> None:
    cluster = Cluster(cluster="c1")
    bare = node("n1", 0)
    cluster.put("nodes", bare, node("web", 0))
    assert cluster.poll(40) == []
    cluster.put("nodes", node("n1"))  # the device plugin has come up
    found = cluster.poll(100)
    assert [(each["type"], each["time_ms"], each["gpu_count"], each["cluster"]) for each in found] == [
        ("provisioned", 1_790_000_000_000, 8, "c1")
    ]
    cluster.put("nodes", {**node("n1"), "spec": {"unschedulable": True}})
    assert [(each["type"], each["time_ms"]) for each in cluster.poll(200)] == [
        ("draining", 1_790_000_100_000)
    ]
    cluster.put("nodes", node("n1"))
    assert [each["type"] for each in cluster.poll(300)] == ["ready"]
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule", "timeAdded": "2026-09-21T14:20:00Z"}
    cluster.put("nodes", {**node("n1"), "spec": {"taints": [taint]}})
    assert [(each["type"], each["time_ms"]) for each in cluster.poll(500)] == [
        ("draining", 1_790_000_400_000)
    ]
    again = node("n1")
    again["metadata"] |= {"uid": "another", "creationTimestamp": "2026-09-21T14:25:00Z"}
    cluster.put("nodes", again)
    assert [(each["type"], each["time_ms"]) for each in cluster.poll(800)] == [
        ("terminated", 1_790_000_700_000),
        ("provisioned", 1_790_000_700_000),
    ]
    cluster.delete("nodes", again)
    assert [(each["type"], each["time_ms"]) for each in cluster.poll(900)] == [
        ("terminated", 1_790_000_800_000)
    ]
    cluster.server.close()


def held(spec: dict[str, Any]) -> Any:
    return requests_of(msgspec.convert(spec, PodSpec), lambda name: name == "g")


def container(gpus: int, cpu: str = "0", always: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {"resources": {"limits": {"g": gpus}, "requests": {"cpu": cpu}}}
    return {**found, "restartPolicy": "Always"} if always else found


def test_a_pod_holds_what_the_scheduler_sets_aside() -> None:
    spec = {
        "containers": [container(2, "500m"), container(1, "1")],
        "initContainers": [container(1, "100m", always=True), container(8, "4")],
    }
    assert held(spec).devices == {"g": 9}  # the init container runs beside the sidecar that stands before it
    assert held(spec).cpu_milli == 4100
    assert held({"containers": spec["containers"]}).devices == {"g": 3}
    limits_only = {"containers": [{"resources": {"limits": {"g": "1", "memory": "64Gi", "cpu": 2}}}]}
    assert held(limits_only) == ({"g": 1}, 2000, 65_536)
    assert held({}) == ({}, 0, 0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("500m", "0.5"),
        ("1e3", 1000),
        ("1E3", 1000),
        ("2Ki", 2048),
        ("1.5Gi", 3 * 2**29),
        ("3k", 3000),
    ],
)
def test_quantities(text: str, value: str | int) -> None:
    assert quantity(text) == Decimal(value)


@given(st.integers(0, 10**9))
def test_a_quantity_in_any_unit_is_the_same(number: int) -> None:
    assert milli(f"{number}m") == number == milli(number) // 1000 == mebibytes(f"{number}Mi")
    assert quantity(f"{number}u") * 1000 == quantity(f"{number}m")


@given(st.text(max_size=80))
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert 0 <= quantity(text) <= 2**60


KUBEFLOW = {"training.kubeflow.org/job-name": "bert", "training.kubeflow.org/replica-type": "worker"}


@pytest.mark.parametrize(
    ("labels", "owners", "job_id", "kind", "is_grouped"),
    [
        ({}, [], "research/uid-a/a", "Pod", False),
        ({}, owner("Job", "train", "12345678-9"), "research/12345678/train", "Job", False),
        (
            {"pod-template-hash": "5f"},
            owner("ReplicaSet", "llm-5f", "1"),
            "research/Deployment/llm",
            "Deployment",
            False,
        ),
        ({}, owner("StatefulSet", "db", "87654321-0"), "research/87654321/db", "StatefulSet", False),
        ({"trainfare.io/job-id": "run-7"}, owner("Job", "train"), "run-7", "Job", True),
        (
            {"ray.io/cluster": "r"},
            owner("RayCluster", "r", "abcdefgh-1"),
            "research/abcdefgh/r",
            "RayCluster",
            True,
        ),
        (
            {
                "ray.io/cluster": "r-x1",
                "ray.io/originated-from-crd": "RayJob",
                "ray.io/originated-from-cr-name": "r",
            },
            owner("RayCluster", "r-x1", "abcdefgh-1"),
            "research/RayJob/r",
            "RayJob",
            True,
        ),
        (
            KUBEFLOW,
            owner("PyTorchJob", "bert", "pppppppp-1", "kubeflow.org/v1"),
            "research/pppppppp/bert",
            "PyTorchJob",
            True,
        ),
        (
            {**KUBEFLOW, "training.kubeflow.org/job-role": "worker"},
            owner("MPIJob", "bert", "m", "kubeflow.org/v2beta1"),
            "research/MPIJob/bert",
            "MPIJob",
            True,
        ),
        (
            {**KUBEFLOW, "training.kubeflow.org/job-role": "launcher"},
            owner("Job", "bert-launcher", "l"),
            "research/MPIJob/bert",
            "MPIJob",
            True,
        ),
        (
            {"volcano.sh/job-name": "v"},
            owner("Job", "v", "vvvvvvvv-1", "batch.volcano.sh/v1alpha1"),
            "research/vvvvvvvv/v",
            "Volcano",
            True,
        ),
        (
            {"leaderworkerset.sigs.k8s.io/name": "l"},
            owner("StatefulSet", "l-0"),
            "research/LeaderWorkerSet/l",
            "LeaderWorkerSet",
            True,
        ),
        ({"kueue.x-k8s.io/pod-group-name": "g"}, [], "research/PodGroup/g", "PodGroup", True),
    ],
)
def test_the_top_of_a_pods_owners_is_its_job(
    labels: dict[str, str], owners: list[dict[str, Any]], job_id: str, kind: str, is_grouped: bool
) -> None:
    meta = msgspec.convert(pod("a", labels=labels, owners=owners)["metadata"], ObjectMeta)
    found = identity_of(meta, Options(url="https://k", job_id_label="trainfare.io/job-id"))
    assert (found.job_id, found.kind, found.is_grouped) == (job_id, kind, is_grouped)
    east = identity_of(
        meta, Options(url="https://k", job_id_label="trainfare.io/job-id", job_id_prefix="east/")
    )
    assert east.job_id == f"east/{job_id}"


def test_who_makes_a_pod_names_no_job_unless_that_is_allowed() -> None:
    meta = msgspec.convert(pod("a", labels={"trainfare.io/job-id": "others"})["metadata"], ObjectMeta)
    assert identity_of(meta, Options(url="https://k")).job_id == "research/uid-a/a"


@given(st.text(min_size=1, max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_an_id_is_never_too_long(name: str, namespace: str, uid: str) -> None:
    meta = ObjectMeta(name=name, namespace=namespace, uid=uid)
    options = Options(url="https://k", job_id_prefix="p" * 64)
    assert 0 < len(identity_of(meta, options).job_id.encode("utf-8", "replace")) <= 200


NEURON = {
    "aws.amazon.com/neuron": "16",
    "aws.amazon.com/neurondevice": "16",
    "aws.amazon.com/neuroncore": "32",
}


@pytest.mark.parametrize(
    ("capacity", "devices", "held_milli", "node_milli"),
    [
        ({"habana.ai/gaudi": "8"}, {"habana.ai/gaudi": 3}, 3000, 8000),
        ({"google.com/tpu": "4"}, {"google.com/tpu": 4}, 4000, 4000),
        (NEURON, {"aws.amazon.com/neuron": 2}, 2000, 16_000),
        (NEURON, {"aws.amazon.com/neurondevice": 2}, 2000, 16_000),
        (NEURON, {"aws.amazon.com/neuroncore": 5}, 2500, 16_000),
        ({"aws.amazon.com/neuroncore": "32"}, {"aws.amazon.com/neuroncore": 5}, 0, 0),
        (
            {"aws.amazon.com/neuroncore": "0", "aws.amazon.com/neuron": "1"},
            {"aws.amazon.com/neuron": 1},
            1000,
            1000,
        ),
    ],
)
def test_other_accelerators_where_the_api_says_how_many(
    capacity: dict[str, str], devices: dict[str, int], held_milli: int, node_milli: int
) -> None:
    found = facts({}, capacity)
    assert all(is_gpu(name, OPTIONS) for name in devices)
    assert (int(gpu_share(devices, found, OPTIONS)), found.gpu_milli) == (held_milli, node_milli)


@pytest.mark.parametrize(
    ("labels", "capacity", "type_"),
    [
        ({}, {"habana.ai/gaudi": "8"}, "Gaudi"),
        ({}, NEURON, "Neuron"),
        ({"karpenter.k8s.aws/instance-accelerator-name": "trainium"}, NEURON, "trainium"),
        ({}, {"google.com/tpu": "4"}, "TPU"),
        (
            {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice"},
            {"google.com/tpu": "4"},
            "tpu-v5-lite-podslice",
        ),
        ({}, {"cpu": "4"}, None),
    ],
)
def test_their_type_is_the_nodes_else_the_resources(
    labels: dict[str, str], capacity: dict[str, str], type_: str | None
) -> None:
    assert facts(labels, capacity).fields.get("gpu_type") == type_
