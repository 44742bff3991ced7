"""What pods and nodes have that means money and is not read as GPUs: other accelerators, and devices of ResourceClaims that are not known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from streams.accounts.accelerators import is_accelerator_resource
from streams.collect.kubernetes.hami import SHARES, VGPU, split_of
from streams.collect.kubernetes.node_facts import (
    INVALID,
    NEURON_CORE,
    NodeFacts,
    is_gpu,
    offered_over_count,
    unknown_share,
)
from streams.collect.kubernetes.objects import Node, Pod
from streams.collect.kubernetes.options import Options
from streams.collect.kubernetes.state import PodState

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_NAMES_SHOWN: Final = 8
#: By these KAI and Run:ai give a pod a share of a GPU, which a pod of theirs holds.
_SHARES: Final = ("gpu-fraction", "gpu-memory")


class NotRead(NamedTuple):
    """Why an object is not understood: one of `REMEDIES`, and what it has."""

    reason: str
    said: str


def not_read_of_pod(
    pod: Pod, options: Options, node: NodeFacts | None = None, claims_fault: str = ""
) -> NotRead | None:
    """What a pod on a node holds and nobody reads; None where all is read.

    `node`: where it runs, if that is of interest; `claims_fault`: what is not understood of its ResourceClaims.
    """
    if not pod.spec.node_name or pod.status.phase in _ENDED:
        return None
    name = f"pod {pod.metadata.namespace}/{pod.metadata.name}"[:300]
    if found := _unknown(_limits(pod), options):
        return NotRead("unknown_resource", f"{name} holds {found}, which is read as no GPU")
    shares = sorted(SHARES & {*_limits(pod)})
    if shares and not any(is_gpu(each, options) for each in _limits(pod)):
        return NotRead("unknown_resource", f"{name} holds {shares[0]}, and does not say of how many GPUs")
    if (
        node is not None
        and not node.core_milli
        and NEURON_CORE in _limits(pod)
        and NEURON_CORE not in options.resources
    ):
        said = f"{name} holds {NEURON_CORE}, and how many a device of its node has is not known"
        return NotRead("unknown_resource", said)
    if node is not None and (shared := unknown_share(_limits(pod), node, options)):
        said = (
            f"{name} holds {shared}, and how many pods share one is not known: it is metered as a whole one"
        )
        return NotRead("unknown_share", said)
    asked = next((each for each in _SHARES if (pod.metadata.annotations or {}).get(each)), "")
    if asked and not any(is_gpu(each, options) for each in _limits(pod)):
        said = f"{name} has a share of a GPU by its annotation {asked}"
        return NotRead("gpu_annotation", said)
    if claims_fault:
        return NotRead("resource_claims", f"{name}, {claims_fault}")
    return None


def over_committed(pod: PodState) -> NotRead | None:
    """What a pod asks for beyond what others left of its GPUs; None where it holds all of that, or has ended."""
    held_milli = int(pod.unclaimed)
    if pod.end_s or not pod.asked_milli or held_milli >= pod.asked_milli:
        return None
    said = f"pod {pod.name} asks for {pod.asked_milli / 1000:g} GPUs of node {pod.node}"[:300]
    return NotRead("over_committed", f"{said}, of which others left {held_milli / 1000:g}: that is metered")


def not_read_of_node(node: Node, options: Options) -> NotRead | None:
    """What a node offers and nobody reads; None where all is read."""
    offered = (name for name, count in (node.status.capacity or {}).items() if str(count) != "0")
    if found := _unknown(offered, options):
        return NotRead("unknown_resource", f"node {node.metadata.name} has {found}, which is read as no GPU")
    labels, capacity = node.metadata.labels or {}, node.status.capacity or {}
    counted = labels.get("nvidia.com/gpu.count", "0")
    offers = any(is_gpu(name, options) and str(n) != "0" for name, n in capacity.items())
    if labels.get("nvidia.com/gpu.product", "").endswith(INVALID) and not offers:
        return NotRead("not_offered", f"node {node.metadata.name} offers none: its MIG instances are invalid")
    if counted.strip("0") and not offers:
        said = f"node {node.metadata.name} has {counted[:20]} GPUs by its label nvidia.com/gpu.count, and offers none"
        return NotRead("not_offered", said)
    if over := offered_over_count(node, options):
        return NotRead("gpu_count", f"node {node.metadata.name} {over}")
    if VGPU in (node.status.capacity or {}) and not split_of(node.metadata.annotations or {})[0]:
        said = f"node {node.metadata.name} has {VGPU}, and no annotation says how many of them are a GPU"
        return NotRead("unknown_resource", said)
    return None


def _unknown(resources: Iterable[str], options: Options) -> str:
    """Resources with a vendor's domain that are accelerators by their names, and that are not read."""
    found = sorted(
        {
            resource[:100]
            for resource in resources
            if is_accelerator_resource(resource) and resource not in SHARES and not is_gpu(resource, options)
        }
    )
    return ", ".join(found[:_NAMES_SHOWN])


def _limits(pod: Pod) -> Iterator[str]:
    for each in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ())):
        yield from (each.resources.limits if each.resources else None) or ()
