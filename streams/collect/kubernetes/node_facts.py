"""What a node is by its labels: price fields from EKS, GKE, AKS and Karpenter, GPUs from NVIDIA's and AMD's. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final

import msgspec

from streams.collect.kubernetes import hami
from streams.collect.kubernetes.objects import Node, Quantity, seconds
from streams.collect.kubernetes.options import Options
from streams.collect.kubernetes.quantities import milli
from streams.collect.mig import slices_of
from streams.collect.values import event_text

_GKE_TYPE: Final = "cloud.google.com/gke-accelerator"
#: How GKE's own device plugin cuts a GPU, and how many pods share one, or one of its instances.
_GKE_PARTITION: Final = "cloud.google.com/gke-gpu-partition-size"
_GKE_CLIENTS: Final = "cloud.google.com/gke-max-shared-clients-per-gpu"
_GKE_PROFILE: Final = re.compile(r"()([1-8])g\.\d{1,4}gb.*")
_GPU_TYPES: Final = (
    "nvidia.com/gpu.product",
    _GKE_TYPE,
    "cloud.google.com/gke-tpu-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "eks.amazonaws.com/instance-gpu-name",
    "amd.com/gpu.product-name",
    "beta.amd.com/gpu.product-name",
    "karpenter.k8s.aws/instance-accelerator-name",
)
_REGIONS: Final = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_ZONES: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_INSTANCE_TYPES: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
#: Labels that say how a node was bought -> `purchase` by their value.
_PURCHASES: Final[Mapping[str, Mapping[str, str]]] = {
    "karpenter.sh/capacity-type": {"spot": "spot", "on-demand": "on_demand", "reserved": "reserved"},
    "eks.amazonaws.com/capacityType": {
        "SPOT": "spot",
        "ON_DEMAND": "on_demand",
        "CAPACITY_BLOCK": "reserved",
    },
    "cloud.google.com/gke-spot": {"true": "spot"},
    "cloud.google.com/gke-preemptible": {"true": "spot"},
    "cloud.google.com/gke-provisioning": {
        "spot": "spot",
        "preemptible": "spot",
        "standard": "on_demand",
        "reservation": "reserved",
    },
    "kubernetes.azure.com/scalesetpriority": {"spot": "spot", "regular": "on_demand"},
}
_CLOUDS: Final = {"aws": "aws", "gce": "gcp", "azure": "azure"}
_NEURONS: Final = ("aws.amazon.com/neuron", "aws.amazon.com/neurondevice")
#: Cores of Neuron devices; how many a device has follows from what the node has of both.
NEURON_CORE: Final = "aws.amazon.com/neuroncore"
#: Resources of which one is one accelerator -> its type where no label of the node has it.
_OTHERS: Final[Mapping[str, str]] = {
    "google.com/tpu": "TPU",
    "habana.ai/gaudi": "Gaudi",
    **dict.fromkeys(_NEURONS, "Neuron"),
}
_GPU: Final = "nvidia.com/gpu"
_WHOLE: Final = (_GPU, "amd.com/gpu", *_OTHERS)
#: Thousandths of GPUs of ResourceClaims, among a pod's devices.
CLAIMED: Final = "claimed.milli"
_SHARED: Final = f"{_GPU}.shared"
#: What the device plugin appends to the name of a resource that pods share, where it renames it.
_RENAMED: Final = ".shared"
#: "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb.me"; the first number is that of compute slices.
_MIG: Final = re.compile(r"nvidia\.com/mig-([1-8])g\.\d{1,4}gb[a-z.+-]{0,12}")
_MIG_PRODUCT: Final = re.compile(r"(.+)-MIG-([1-8])g\.\d{1,4}gb.*")
#: A product whose MIG instances are none that the device plugin can offer.
INVALID: Final = "-MIG-INVALID"
_REPLICAS_AT_MOST: Final = 100_000
_DEVICES_AT_MOST: Final = 1_024
_WHOLE_MILLI: Final = 1_000


class NodeFacts(msgspec.Struct, frozen=True, array_like=True):
    """A node: its GPUs, and what one of each resource is there.

    `share_milli` and `shared_milli` are what a position of version 0.1 has of one nvidia.com/gpu and nvidia.com/gpu.shared, rounded
    down; they count while `replicas` is 0. `slices` are the MIG slices of a GPU, `slices_of_one` those of one nvidia.com/gpu.
    """

    uid: str
    created_s: int
    fields: dict[str, str]
    gpu_milli: int = 0
    share_milli: int = 1000
    shared_milli: int = 1000
    slices: int = 7
    draining_s: int | None = None  # since when no pods are bound to it; 0: not known since when
    gpu_memory_mib: int = 0  # of one GPU, where HAMi or Volcano says it
    core_milli: int = 0  # what thousandths of a device one Neuron core is; 0: not known
    replicas: int = 0  # how many pods share one as nvidia.com/gpu, by time slicing or MPS
    slices_of_one: int = 0  # 0: it is whole
    shared_replicas: int = 0  # how many share one as nvidia.com/gpu.shared
    mig_replicas: dict[str, int] = {}  # how many share one MIG instance, by resource


def unknown_node(options: Options) -> NodeFacts:
    """What holds of a node that is not read."""
    found = {"cluster": options.cluster, **options.price_fields}
    return NodeFacts("", 0, {name: event_text(value) for name, value in found.items() if value})


def is_gpu(resource: str, options: Options) -> bool:
    """Whether a resource of a pod is a GPU or a part of one."""
    known = resource in _WHOLE or resource in (_SHARED, NEURON_CORE, hami.VGPU)
    return known or _MIG.fullmatch(resource) is not None or resource in options.resources


def unknown_share(resources: Iterable[str], node: NodeFacts, options: Options) -> str:
    """The first of some resources that pods share, and nothing says how many share one; each is then read as a whole one."""
    for name in resources:
        if name.endswith(_RENAMED) and is_gpu(name, options) and name not in options.resources:
            replicas = node.shared_replicas if name == _SHARED else node.mig_replicas.get(name, 1)
            if replicas <= 1 and node.shared_milli == _WHOLE_MILLI:
                return name
    return ""


def offered_over_count(node: Node, options: Options) -> str:
    """How a node offers more GPUs than its label counts, though no label says that pods share them; empty where it does not.

    Either they are of several models, of which the label counts one (NVIDIA/gpu-feature-discovery#27), or they are shared.
    """
    labels, capacity = node.metadata.labels or {}, node.status.capacity or {}
    counted = _number(labels.get(f"{_GPU}.count", ""), 0, _DEVICES_AT_MOST) or 0
    offered = milli(capacity.get(_GPU, 0)) // 1000
    is_split = (
        _GPU in options.resources
        or _GKE_PARTITION in labels
        or hami.split_of(node.metadata.annotations or {})[0]
    )
    if not counted or is_split or offered <= counted * _replicas(_GPU, labels, capacity):
        return ""
    return f"offers {offered} {_GPU} and counts {counted} by its label {_GPU}.count"


def gpu_share(devices: Mapping[str, int], node: NodeFacts, options: Options) -> Fraction:
    """The thousandths of GPUs that some devices are on a node, without those of ResourceClaims: exact, as a third of a GPU is none."""
    whole = sum(
        (
            count * _share_of_one(name, node, options)
            for name, count in devices.items()
            if name not in hami.HELD and name != CLAIMED
        ),
        Fraction(0),
    )
    return whole + hami.held_share(devices, node.gpu_memory_mib)


def node_facts(node: Node, options: Options) -> NodeFacts:
    """What is of interest of a node.

    Raises:
        ValueError: A time or quantity is none.
    """
    labels = node.metadata.labels or {}
    capacity = node.status.capacity or {}
    replicas = _replicas(_GPU, labels, capacity)
    product = labels.get("nvidia.com/gpu.product") or labels.get(_GKE_TYPE, "")
    profile = labels.get(_GKE_PARTITION, "")
    mig = _MIG_PRODUCT.fullmatch(product) or _GKE_PROFILE.fullmatch(profile)
    found = NodeFacts(
        uid=node.metadata.uid,
        created_s=seconds(node.metadata.creation_timestamp),
        fields=_price_fields(node, labels, options),
        slices=slices_of(product, profile),
        # Where shared ones have a name of their own, the others are whole.
        replicas=1 if capacity.get(_SHARED) else replicas,
        shared_replicas=replicas,
        slices_of_one=int(mig[2]) if mig else 0,
        draining_s=_draining_s(node),
        gpu_memory_mib=hami.split_of(node.metadata.annotations or {})[1],
        core_milli=_core_milli(node),
        mig_replicas={
            name: shared
            for name in capacity
            if _MIG.fullmatch(name)
            and (shared := _replicas(name.removesuffix(_RENAMED), labels, capacity)) > 1
            and (name.endswith(_RENAMED) or not capacity.get(name + _RENAMED))
        },
    )
    return msgspec.structs.replace(found, gpu_milli=_capacity_milli(node, labels, found, options))


def _core_milli(node: Node) -> int:
    capacity = node.status.capacity or {}
    cores = milli(capacity.get(NEURON_CORE, 0)) // 1000
    devices = max(milli(capacity.get(name, 0)) for name in _NEURONS)
    return min(devices // cores, 1000) if cores else 0


def _replicas(resource: str, labels: Mapping[str, str], capacity: Mapping[str, Quantity]) -> int:
    """How many pods share one of a resource, as its label has it.

    The label is 1 where who writes it does not know how the device plugin shares (NVIDIA/k8s-device-plugin#732): then
    it is how often the node offers each one that is counted.
    """
    said = labels.get(f"{resource}.replicas") or (labels.get(_GKE_CLIENTS, "") if resource == _GPU else "")
    replicas = _number(said, 1, _REPLICAS_AT_MOST) or 1
    counted = _number(labels.get(f"{resource}.count", ""), 0, _DEVICES_AT_MOST)
    if replicas > 1 or not counted:
        return replicas
    return max(milli(capacity.get(resource + _RENAMED, 0)) // 1000 // counted, 1)


def _share_of_one(resource: str, node: NodeFacts, options: Options) -> Fraction:
    mig = _MIG.fullmatch(resource)
    whole = Fraction(_WHOLE_MILLI * (node.slices_of_one or node.slices), node.slices)
    if resource in options.resources:
        return Fraction(round(options.resources[resource] * 1000))
    if resource == _GPU:
        if not node.replicas:
            return Fraction(node.share_milli)
        return whole / node.replicas
    if resource == _SHARED:
        return whole / node.shared_replicas if node.replicas else Fraction(node.shared_milli)
    if resource == NEURON_CORE:
        return Fraction(node.core_milli)
    if resource == hami.VGPU:
        return Fraction(0)  # how many of them are a GPU is not known
    if mig:
        slices = min(slices_of("", resource.partition("-")[2]), node.slices)
        return Fraction(int(mig[1]) * _WHOLE_MILLI, slices * node.mig_replicas.get(resource, 1))
    return Fraction(_WHOLE_MILLI)


def _capacity_milli(node: Node, labels: Mapping[str, str], facts: NodeFacts, options: Options) -> int:
    """The GPUs of a node: those that the driver counts, else what its resources are together."""
    devices = {
        name: milli(count) // 1000
        for name, count in (node.status.capacity or {}).items()
        if is_gpu(name, options)
    }
    counted = _number(labels.get(f"{_GPU}.count", ""), 0, _DEVICES_AT_MOST)
    if counted and any(devices.values()) and "-MIG-" not in labels.get("nvidia.com/gpu.product", ""):
        return counted * 1000
    neurons = max((devices.pop(name, 0) for name in _NEURONS), default=0)
    if neurons:
        devices |= {_NEURONS[0]: neurons, NEURON_CORE: 0}  # the same ones by three names
    split = hami.split_of(node.metadata.annotations or {})[0]
    parts = 0
    if split:
        parts = sum(devices.pop(name, 0) for name in hami.NUMBERS) * 1000 // split
    return parts + int(gpu_share(devices, facts, options))


def _price_fields(node: Node, labels: Mapping[str, str], options: Options) -> dict[str, str]:
    scheme, _, place = node.spec.provider_id.partition("://")
    capacity = node.status.capacity or {}
    type_ = first_label(labels, _GPU_TYPES) or next(
        (_OTHERS[name] for name in _OTHERS if name in capacity), ""
    )
    mig = _MIG_PRODUCT.fullmatch(type_)
    type_ = (mig[1] if mig else type_).removesuffix("-SHARED").removesuffix(INVALID)
    found = {
        "cloud": _CLOUDS.get(scheme, ""),
        "region": first_label(labels, _REGIONS),
        "zone": first_label(labels, _ZONES),
        "cluster": options.cluster,
        "account": place.split("/", 1)[0] if scheme == "gce" else "",
        "instance_type": first_label(labels, _INSTANCE_TYPES),
        "gpu_type": options.gpu_types.get(type_, type_),
        "purchase": _purchase(labels),
    }
    return {name: event_text(value) for name, value in {**found, **options.price_fields}.items() if value}


def _purchase(labels: Mapping[str, str]) -> str:
    for label, values in _PURCHASES.items():
        if found := values.get(labels.get(label, ""), ""):
            return found
    # GKE labels only what is not bought on demand.
    return "on_demand" if "cloud.google.com/gke-nodepool" in labels else ""


def _draining_s(node: Node) -> int | None:
    """Return since when the node takes no pods; 0 where nothing says when; None: it takes pods."""
    gone = ("node.kubernetes.io/unschedulable", "karpenter.sh/disrupted", "karpenter.sh/disruption")
    for taint in node.spec.taints or ():
        if taint.key in gone:
            return seconds(taint.time_added)
    return 0 if node.spec.unschedulable else None


def first_label(labels: Mapping[str, str], names: Sequence[str]) -> str:
    """Take the first of the named labels that says something; empty without one."""
    return next((labels[name] for name in names if labels.get(name)), "")


def _number(value: str, least: int, most: int) -> int | None:
    if not (value.isascii() and value.isdigit() and len(value) < 7):
        return None
    return min(max(int(value), least), most)
