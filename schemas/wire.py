"""The records as they are on the wire, one typed struct per topic.

It must not relate fields to one another: here stands only what one field by itself may be.
Each field's description is what a refusal says was expected there. Numbers follow JSON strictly:
an integer field takes 5 but neither 5.0 nor 5e0, a number takes both, and a boolean is no number.
"""

from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from msgspec import Meta, Struct

from schemas.events import Component
from schemas.units import Per

MIN_TIME_MS: Final = 946_684_800_000  # 2000-01-01
MAX_TIME_MS: Final = 10_413_791_999_999  # the end of 2299, where DateTime64 ends
MAX_GPU_COUNT: Final = 100_000
MAX_COUNT: Final = (
    100_000_000_000  # of instances, CPUs, GiB: its thousandths x the ms of a minute fit 64 bits
)
MAX_EXACT: Final = 2**53  # the largest amount: what a JSON number holds exactly everywhere
MAX_GPUS: Final = 1_024  # in one sample
MAX_JOB_ID_BYTES: Final = 200
MAX_NAME_BYTES: Final = 256  # of any other name, id or label, as UTF-8
MAX_ENTRIES: Final = 64  # labels, match fields, measures of quality
MAX_NODES: Final = 16_384  # MAX_GPU_COUNT at eight a node are 12,500
MAX_COMMENT_BYTES: Final = 1_024
MAX_KEY_BYTES: Final = 512  # of a Kafka key: one that is longer is of a record that is refused
MAX_ADDRESS_BYTES: Final = 2_048  # of a webhook or Slack
MAX_SAMPLE_MS: Final = 3_600_000
MAX_INTERVAL_MS: Final = 31 * 86_400_000
MAX_ATTEMPT: Final = 2**31 - 1
MAX_PRICE_GPUS: Final = 1_000_000

Purchase: TypeAlias = Literal["on_demand", "spot", "reserved", "on_prem"]
Path: TypeAlias = Literal["same_zone", "cross_zone", "cross_region", "internet", "unclassified"]
Direction: TypeAlias = Literal["egress", "ingress"]
Op: TypeAlias = Literal["read", "write", "list", "delete", "stored"]
EndReason: TypeAlias = Literal[
    "spot_reclaim", "preemption", "out_of_memory", "node_failure", "user_error", "timeout", "unknown"
]
BudgetAction: TypeAlias = Literal["notify", "checkpoint", "suspend", "stop"]
BudgetPeriod: TypeAlias = Literal["month", "week", "day", "total"]
ControlKind: TypeAlias = Literal["owner", "budget", "silence", "planned"]
JobTypeName: TypeAlias = Literal[
    "queued", "allocated", "started", "resumed", "scaled", "checkpointed", "heartbeat", "updated",
    "suspended", "preempted", "failed", "completed", "cancelled"
]  # fmt: skip
NodeTypeName: TypeAlias = Literal["provisioned", "ready", "draining", "terminated"]


def _one_of(names: tuple[str, ...]) -> Meta:
    return Meta(description="one of " + ", ".join(names))


# Characters are counted here, as they are read; `schemas.limits` counts bytes where some take more than one.
_Short: TypeAlias = Annotated[str, Meta(max_length=MAX_NAME_BYTES)]
Text: TypeAlias = Annotated[
    _Short,
    Meta(min_length=1, description=f"a string that is not empty, of at most {MAX_NAME_BYTES} bytes of UTF-8"),
]
OptText: TypeAlias = Annotated[
    _Short | None, Meta(description=f"a string of at most {MAX_NAME_BYTES} bytes of UTF-8")
]
TimeMs: TypeAlias = Annotated[
    int, Meta(ge=MIN_TIME_MS, description=f"an integer of ms since 1970, from {MIN_TIME_MS} (2000-01-01) on")
]
AnyTimeMs: TypeAlias = Annotated[
    int, Meta(ge=0, le=MAX_TIME_MS, description=f"an integer of ms since 1970, from 0 to {MAX_TIME_MS}")
]
OptTimeMs: TypeAlias = Annotated[
    Annotated[int, Meta(ge=0, le=MAX_TIME_MS)] | None,
    Meta(description=f"an integer of ms since 1970, from 0 to {MAX_TIME_MS}"),
]
JobId: TypeAlias = Annotated[
    str, Meta(min_length=1, description=f"a string of 1 to {MAX_JOB_ID_BYTES} bytes of UTF-8")
]
WireAttempt: TypeAlias = Annotated[
    Annotated[int, Meta(ge=1, le=MAX_ATTEMPT)] | None,
    Meta(description=f"an integer from 1 to {MAX_ATTEMPT}"),
]
WireAmount: TypeAlias = Annotated[
    int, Meta(ge=0, le=MAX_EXACT, description=f"an integer from 0 to {MAX_EXACT} (2^53)")
]
OptAmount: TypeAlias = Annotated[
    Annotated[int, Meta(ge=0, le=MAX_EXACT)] | None,
    Meta(description=f"an integer from 0 to {MAX_EXACT} (2^53)"),
]
IntervalMs: TypeAlias = Annotated[
    int, Meta(ge=0, le=MAX_INTERVAL_MS, description=f"an integer from 0 to {MAX_INTERVAL_MS} (31 days)")
]
GpuCount: TypeAlias = Annotated[
    Annotated[float, Meta(ge=0, le=MAX_GPU_COUNT)] | None,
    Meta(description=f"a number from 0 to {MAX_GPU_COUNT} with at most three decimals"),
]
Count: TypeAlias = Annotated[
    Annotated[float, Meta(ge=0, le=MAX_COUNT)] | None,
    Meta(description=f"a number from 0 to {MAX_COUNT} with at most three decimals"),
]
Hours: TypeAlias = Annotated[
    Annotated[int, Meta(ge=0, le=MAX_EXACT)] | Annotated[float, Meta(ge=0, le=MAX_EXACT)] | None,
    Meta(description=f"a number from 0 to {MAX_EXACT}"),
]
Usd: TypeAlias = Annotated[
    _Short | int | float | None,
    Meta(description="a number or a decimal string of dollars in [0, 1000000000) with at most 9 decimals"),
]
_Ratio: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
_Level: TypeAlias = Annotated[float, Meta(ge=0, le=MAX_EXACT)]
Ratios: TypeAlias = Annotated[
    list[_Ratio] | _Ratio, Meta(description="an array of numbers from 0 to 1, or one number")
]
OptRatios: TypeAlias = Annotated[
    list[_Ratio] | _Ratio | None, Meta(description="an array of numbers from 0 to 1, or one number")
]
OptLevels: TypeAlias = Annotated[
    list[_Level] | _Level | None,
    Meta(description=f"an array of numbers from 0 to {MAX_EXACT}, or one number"),
]
OptPurchase: TypeAlias = Annotated[Purchase | None, _one_of(get_args(Purchase))]
OptPath: TypeAlias = Annotated[Path | None, _one_of(get_args(Path))]
OptDirection: TypeAlias = Annotated[Direction | None, _one_of(get_args(Direction))]
OptAction: TypeAlias = Annotated[BudgetAction | None, _one_of(get_args(BudgetAction))]


class Wire(Struct, kw_only=True, gc=False):
    """What every record has. A `specversion` says that the record is a CloudEvent."""

    source: Text
    time_ms: TimeMs
    specversion: Any = None


class PricedWire(Wire, kw_only=True, gc=False):
    """The price fields."""

    cloud: OptText = None
    region: OptText = None
    zone: OptText = None
    cluster: OptText = None
    account: OptText = None
    instance_type: OptText = None
    gpu_type: OptText = None
    purchase: OptPurchase = None


class BudgetWire(Struct, gc=False):
    """A job's own budget."""

    usd: Usd = None
    gpu_hours: Hours = None
    wall_clock_hours: Hours = None
    action: OptAction = None


class JobWire(PricedWire, kw_only=True, gc=False):
    """A record of `jobs`."""

    id: Text
    job_id: JobId
    type: Annotated[JobTypeName, _one_of(get_args(JobTypeName))]
    attempt: WireAttempt = None
    gpu_count: GpuCount = None
    nodes: Annotated[
        Annotated[dict[Text, Annotated[float, Meta(ge=0, le=MAX_GPU_COUNT)]], Meta(max_length=MAX_NODES)]
        | None,
        Meta(
            description=f"an object of node -> GPUs, 0 to {MAX_GPU_COUNT} with at most three decimals, "
            f"of at most {MAX_NODES} nodes"
        ),
    ] = None
    instance_count: Count = None
    cpu_count: Count = None
    memory_gib: Count = None
    owner: OptText = None
    team: OptText = None
    project: OptText = None
    experiment: OptText = None
    labels: Annotated[
        Annotated[dict[_Short, _Short], Meta(max_length=MAX_ENTRIES)] | None,
        Meta(
            description=f"an object of strings, at most {MAX_ENTRIES} of at most {MAX_NAME_BYTES} bytes of UTF-8"
        ),
    ] = None
    reason: Annotated[EndReason | None, _one_of(get_args(EndReason))] = None
    holds_gpus: Annotated[bool | None, Meta(description="a boolean")] = None
    expected_usd_per_hour: Usd = None
    budget: Annotated[
        BudgetWire | None, Meta(description="an object of usd, gpu_hours, wall_clock_hours, action")
    ] = None
    deadline_ms: OptTimeMs = None
    quality: Annotated[
        Annotated[dict[_Short, float], Meta(max_length=MAX_ENTRIES)] | None,
        Meta(description=f"an object of name -> finite number, at most {MAX_ENTRIES}"),
    ] = None


class GpuWire(PricedWire, kw_only=True, gc=False):
    """A record of `gpu`."""

    id: OptText = None
    node: Text
    job_id: Annotated[
        str | None,
        Meta(description=f"a string of at most {MAX_JOB_ID_BYTES} bytes of UTF-8, empty when idle"),
    ] = None
    attempt: WireAttempt = None
    interval_ms: Annotated[
        int, Meta(ge=1, le=MAX_SAMPLE_MS, description=f"an integer from 1 to {MAX_SAMPLE_MS} (1 hour)")
    ]
    gpus: Annotated[
        Annotated[list[_Short], Meta(min_length=1, max_length=MAX_GPUS)] | None,
        Meta(description=f"an array of 1 to {MAX_GPUS} GPU ids (strings of at most {MAX_NAME_BYTES} bytes)"),
    ] = None
    util_ratio: Ratios
    sm_ratio: OptRatios = None
    tensor_ratio: OptRatios = None
    memory_used_mib: OptLevels = None
    power_w: OptLevels = None
    gpu: Annotated[
        _Short | None, Meta(description=f"one GPU id (a string of at most {MAX_NAME_BYTES} bytes)")
    ] = None


class NetworkWire(Wire, kw_only=True, gc=False):
    """A record of `network`."""

    id: Text
    job_id: JobId
    attempt: WireAttempt = None
    interval_ms: IntervalMs
    bytes: WireAmount
    path: OptPath = None
    direction: OptDirection = None
    cloud: OptText = None
    region: OptText = None
    dst_region: OptText = None


class StorageWire(Wire, kw_only=True, gc=False):
    """A record of `storage`."""

    id: Text
    job_id: JobId
    attempt: WireAttempt = None
    interval_ms: IntervalMs
    op: Annotated[Op, _one_of(get_args(Op))]
    requests: OptAmount = None
    bytes: OptAmount = None
    storage_class: OptText = None
    cloud: OptText = None
    region: OptText = None


class NodeWire(PricedWire, kw_only=True, gc=False):
    """A record of `nodes`."""

    id: Text
    node: Text
    type: Annotated[NodeTypeName, _one_of(get_args(NodeTypeName))]
    gpu_count: GpuCount = None


class PriceWire(PricedWire, kw_only=True, gc=False):
    """A record of `prices`."""

    id: Text
    sku: Text
    component: Annotated[Component, _one_of(tuple(Component))]
    usd: Annotated[_Short, Meta(description="a decimal string in [0, 100000) with at most 9 decimals")]
    per: Annotated[Per, _one_of(tuple(Per))]
    effective_ms: AnyTimeMs
    gpus: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_PRICE_GPUS)] | None,
        Meta(description=f"an integer from 1 to {MAX_PRICE_GPUS}"),
    ] = None
    team: OptText = None
    project: OptText = None
    path: OptPath = None
    direction: OptDirection = None
    op: Annotated[Op | None, _one_of(get_args(Op))] = None
    storage_class: OptText = None


class ControlWire(Wire, kw_only=True, gc=False):
    """The fields of `controls` that are judged here; a record's others are kept as they are."""

    id: Text
    kind: Annotated[ControlKind, _one_of(get_args(ControlKind))]
    name: Text
    usd: Usd = None
    usd_per_hour: Usd = None
    gpu_hours: Hours = None
    wall_clock_hours: Hours = None
    period: Annotated[BudgetPeriod | None, _one_of(get_args(BudgetPeriod))] = None
    action: OptAction = None
    from_ms: OptTimeMs = None
    until_ms: OptTimeMs = None
