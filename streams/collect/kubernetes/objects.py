"""What is read of the API's JSON: of pods and nodes only the fields named here.

A pod's environment, arguments and most annotations may hold secrets: they are not read.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

_FIRST_S: Final = 946_684_800  # 2000; events are not older
_LAST_S: Final = 10_413_792_000  # 2300

Time = datetime | None
Quantity = str | int | float


class OwnerReference(msgspec.Struct, rename="camel"):
    """An object that another one belongs to."""

    kind: str
    name: str
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class ObjectMeta(msgspec.Struct, rename="camel"):
    """What all objects have."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: Time = None
    deletion_timestamp: Time = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class Resources(msgspec.Struct):
    """What a container may use, and what is set aside for it."""

    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None


class Container(msgspec.Struct, rename="camel"):
    """A container as it is asked for."""

    resources: Resources | None = None
    restart_policy: str | None = None


class PodClaim(msgspec.Struct, rename="camel"):
    """A ResourceClaim that a pod names, or that is made for it from a template: then its status has the name."""

    name: str = ""
    resource_claim_name: str | None = None


class PodSpec(msgspec.Struct, rename="camel"):
    """A pod as it is asked for, and the node it is bound to."""

    node_name: str | None = None
    host_network: bool = False
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    priority_class_name: str | None = None
    resource_claims: list[PodClaim] | None = None


class Terminated(msgspec.Struct, rename="camel"):
    """How a container ended."""

    exit_code: int = 0
    reason: str | None = None
    started_at: Time = None
    finished_at: Time = None


class Running(msgspec.Struct, rename="camel"):
    """Since when a container runs."""

    started_at: Time = None


class ContainerState(msgspec.Struct):
    """One of these, or neither while it waits."""

    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, rename="camel"):
    """A container as it is."""

    state: ContainerState | None = None
    last_state: ContainerState | None = None


class ObjectCondition(msgspec.Struct, rename="camel"):
    """One of the conditions of a pod or a node."""

    type: str
    status: str
    reason: str | None = None
    last_transition_time: Time = None


class PodAddress(msgspec.Struct):
    """One of a pod's addresses."""

    ip: str = ""


class PodStatus(msgspec.Struct, rename="camel"):
    """A pod as it is."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    start_time: Time = None
    conditions: list[ObjectCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    resource_claim_statuses: list[PodClaim] | None = None
    pod_ips: list[PodAddress] | None = msgspec.field(name="podIPs", default=None)


class Pod(msgspec.Struct):
    """A pod."""

    metadata: ObjectMeta
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class Taint(msgspec.Struct, rename="camel"):
    """What keeps pods off a node."""

    key: str
    effect: str = ""
    time_added: Time = None


class NodeSpec(msgspec.Struct, rename="camel"):
    """A node as it is asked for."""

    provider_id: str = msgspec.field(name="providerID", default="")
    unschedulable: bool = False
    taints: list[Taint] | None = None


class NodeStatus(msgspec.Struct):
    """A node as it is."""

    capacity: dict[str, Quantity] | None = None
    conditions: list[ObjectCondition] | None = None


class Node(msgspec.Struct):
    """A node."""

    metadata: ObjectMeta
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class WatchEvent(msgspec.Struct):
    """A line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and the object."""

    type: str
    object: msgspec.Raw


class Bookmark(msgspec.Struct):
    """The object of a BOOKMARK."""

    metadata: ObjectMeta


class ErrorStatus(msgspec.Struct):
    """The object of an ERROR."""

    code: int = 0
    message: str = ""


def seconds(at: Time) -> int:
    """A time in seconds since 1970; 0 where there is none, which Go may write as the year 1.

    Raises:
        ValueError: It is before 2000 or after 2299, or has no zone.
    """
    if at is None or at.year == 1:
        return 0
    if at.tzinfo is None:
        raise ValueError(f"the time {at} has no zone")
    found = int(at.timestamp())
    if not _FIRST_S <= found < _LAST_S:
        raise ValueError(f"{at} is no time of this century")
    return found


def condition(conditions: list[ObjectCondition] | None, type_: str) -> ObjectCondition | None:
    """A condition that holds; None where it does not, or is not known."""
    for each in conditions or ():
        if each.type == type_ and each.status == "True":
            return each
    return None
