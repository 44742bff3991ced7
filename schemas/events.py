"""The events as the engine sees them: typed, validated and in integer units."""

from enum import IntEnum, StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from schemas.units import Per, Unit

PRICE_FIELDS: Final = (
    "cloud",
    "region",
    "zone",
    "cluster",
    "account",
    "instance_type",
    "gpu_type",
    "purchase",
)
"""What a job, a node or a sample can be priced by."""

TRAFFIC_FIELDS: Final = ("cloud", "region", "path", "direction", "op", "storage_class")
"""What an amount of traffic can be priced by, beside its job's team and project."""

FLOW_FIELDS: Final = ("path", "direction", "region", "dst_region", "op", "storage_class")
"""What tells rows of traffic of one price apart."""

MATCH_FIELDS: Final = (*PRICE_FIELDS, "team", "project", "path", "direction", "op", "storage_class", "label")
"""What a price can ask for."""


class JobType(IntEnum):
    """Lifecycle types; the numbers are the order of events of one instant."""

    queued = 0
    allocated = 1
    started = 2
    resumed = 3
    scaled = 4
    checkpointed = 5
    heartbeat = 6
    updated = 7
    suspended = 8
    preempted = 9
    failed = 10
    completed = 11
    cancelled = 12


class NodeType(IntEnum):
    """Node lifecycle types; the numbers are the order of events of one instant."""

    provisioned = 0
    ready = 1
    draining = 2
    terminated = 3


class Component(StrEnum):
    """The parts of a cost; members are named as on the wire."""

    gpu = "gpu"
    compute = "compute"
    network = "network"
    storage = "storage"
    license = "license"
    labor = "labor"
    overhead = "overhead"
    compliance = "compliance"


# gc=False: no event can be part of a reference cycle, so the garbage collector need not visit millions of them.


class JobEvent(Struct, frozen=True, gc=False):
    """A lifecycle event of an attempt. None: the event does not have the field."""

    source: str
    id: str
    time_ms: int
    job_id: str
    attempt: int
    type: JobType
    gpu_milli: int | None = None  # the sum of `nodes` if there is no `gpu_count`
    nodes: dict[str, int] | None = None  # node -> thousandths of a GPU held there
    fields: dict[str, str] = {}  # its PRICE_FIELDS
    instance_milli: int | None = None
    cpu_milli: int | None = None
    memory_milli: int | None = None  # GiB
    owner: str | None = None
    team: str | None = None
    project: str | None = None
    experiment: str | None = None
    labels: dict[str, str] | None = None
    reason: str | None = None
    holds_gpus: bool = False
    expected_nano_per_hour: int | None = None
    budget: dict[str, str | int | float] | None = None  # the known keys, unchanged
    deadline_ms: int | None = None
    quality: dict[str, float] | None = None
    progress: dict[str, float] | None = None
    gpus_requested: int | None = None
    run_id: str | None = None
    work_dir: str | None = None
    duration_ms: int | None = None  # of a checkpoint


class GpuEvent(Struct, frozen=True, gc=False):
    """Utilisation of the GPUs of one node over an interval that ends at `time_ms`."""

    source: str
    id: str  # '' when absent
    time_ms: int
    node: str
    job_id: str  # '' when the GPUs are idle
    attempt: int
    interval_ms: int
    gpus: list[str]  # not necessarily distinct
    util_ratio: list[float]
    sm_ratio: list[float] | None = None
    tensor_ratio: list[float] | None = None
    memory_used_mib: list[float] | None = None
    power_w: list[float] | None = None
    fields: dict[str, str] = {}  # its PRICE_FIELDS


class TrafficEvent(Struct, frozen=True, gc=False):
    """Amounts that a job moved, requested or stored over an interval that ends at `time_ms`."""

    topic: str  # 'network' or 'storage'
    source: str
    id: str
    time_ms: int
    job_id: str
    attempt: int
    interval_ms: int
    amounts: tuple[tuple[Unit, int], ...]  # bytes, requests; for mib_ms the stored MiB
    match: dict[str, str] = {}  # its TRAFFIC_FIELDS and FLOW_FIELDS


class NodeEvent(Struct, frozen=True, gc=False):
    """A lifecycle event of a node."""

    source: str
    id: str
    time_ms: int
    node: str
    type: NodeType
    gpu_milli: int | None = None
    fields: dict[str, str] = {}  # its PRICE_FIELDS
    team: str | None = None


class PriceEvent(Struct, frozen=True, gc=False):
    """One revision of a price."""

    source: str
    id: str
    time_ms: int
    sku: str
    component: Component
    usd_nano: int
    per: Per
    gpus: int  # for an instance_hour: the number of GPUs that the price covers, 0 if absent; otherwise 1
    effective_ms: int
    match: dict[str, str] = {}  # its MATCH_FIELDS


class ControlEvent(Struct, frozen=True, gc=False):
    """An owner's address, a budget, a silence or a planned rate; all empty: a deletion (see the key)."""

    source: str
    id: str
    time_ms: int
    kind: str
    name: str
    value: dict[str, object] = {}


Event: TypeAlias = JobEvent | GpuEvent | TrafficEvent | NodeEvent | PriceEvent | ControlEvent
