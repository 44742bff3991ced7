"""The words of the oracle: log lines, result tables, orders and exact arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
FUTURE_MS = 5 * MINUTE_MS  # "more than 5 min later than its append time, or in `replay` than the run's start"
PAID_AT_MOST_MS = 400 * DAY_MS  # "An attempt is paid for 400 days at most"
LARGEST_COST_NANO = 10**18 - 1  # "a cost beyond Decimal(18, 9) is capped"

# "order of the types as in this table read left to right and top to bottom"
JOB_TYPES = (
    "queued", "allocated", "started", "resumed", "scaled", "checkpointed", "heartbeat", "updated",
    "suspended", "preempted", "failed", "completed", "cancelled",
)  # fmt: skip
STARTS = ("allocated", "started", "resumed")  # "`resumed` counts as `started` wherever the word is used"
ENDS = ("preempted", "failed", "completed", "cancelled")
COMPONENTS = ("gpu", "compute", "network", "storage", "license", "labor", "overhead", "compliance")
NODE_TYPES = ("provisioned", "ready", "draining", "terminated")

PRICE_FIELDS = ("cloud", "region", "zone", "cluster", "account", "instance_type", "gpu_type", "purchase")
FLOW_FIELDS = ("path", "direction", "region", "dst_region", "op", "storage_class")
NO_FLOW = ("",) * len(FLOW_FIELDS)
TRAFFIC_FIELDS = ("cloud", "region", "path", "direction", "op", "storage_class")
MATCH_FIELDS = (*PRICE_FIELDS, "team", "project", "path", "direction", "op", "storage_class", "label")

Json = dict[str, Any]
Fields = tuple[str, ...]  # the price fields in the order of PRICE_FIELDS, '' where none is known
Context = tuple[tuple[str, str], ...]  # the match fields that an event or a job has, sorted


@dataclass(frozen=True)
class Line:
    """One record of the log; `valid` False marks what decoding must refuse, not the oracle's business."""

    topic: str  # without prefix
    value: Json | bytes
    headers: Mapping[str, str] | None = None
    partition: int = 0
    valid: bool = True


class LedgerKey(NamedTuple):
    minute: int  # time_ms // 60000, as everywhere in the tables
    job_id: str
    attempt: int
    node: str
    component: str
    phase: str
    sku: str
    price_effective_ms: int
    unit: str
    # Of traffic; '' otherwise.
    path: str = ""
    direction: str = ""
    region: str = ""
    dst_region: str = ""
    op: str = ""
    storage_class: str = ""


class LedgerRow(NamedTuple):
    quantity: int
    cost_nano: int
    lost_quantity: int
    lost_cost_nano: int


class HourKey(NamedTuple):
    job_id: str
    attempt: int
    hour: int  # time_ms // 3600000
    fields: Fields


class HourRow(NamedTuple):
    wall_clock_ms: int  # what no lower-numbered attempt covers; of a metered attempt its sampled seconds
    queued_ms: int
    starting_ms: int
    gpu_milli_ms: int
    lost_gpu_milli_ms: int
    unpriced_gpu_milli_ms: int
    sampled_gpu_ms: int
    productive_gpu_ms: int
    tensor_gpu_ms: int
    tensor_sampled_gpu_ms: int
    cost_nano: tuple[int, ...]  # in the order of COMPONENTS
    lost_cost_nano: int
    starting_lost_cost_nano: int  # part of it: of rows with phase `starting`
    wall_clock_by_minute: tuple[
        tuple[int, int], ...
    ] = ()  # (minute, ms) of `wall_clock_ms`, where there is any


class UsageRow(NamedTuple):
    sampled_gpu_s: int
    productive_gpu_ms: int
    tensor_gpu_ms: int
    tensor_sampled_gpu_s: int


class UnattributedRow(NamedTuple):
    sampled_s: int
    productive_ms: int


class NodeKey(NamedTuple):
    minute: int
    node: str
    sku: str
    price_effective_ms: int
    unit: str


class NodeRow(NamedTuple):
    quantity: int
    cost_nano: int


class NodeHourRow(NamedTuple):
    dimensions: tuple[str, ...]  # PRICE_FIELDS and team as they held last in the hour
    paid_ms: int
    starting_ms: int
    gpu_milli_ms: int
    unpriced_gpu_milli_ms: int
    cost_nano: int


class JobRow(NamedTuple):
    state: str
    attempts: int
    owner: str | None
    team: str | None
    project: str | None
    experiment: str | None
    labels: tuple[tuple[str, str], ...]
    wall_clock_ms: int
    quality: tuple[tuple[str, float], ...] = ()
    progress: tuple[tuple[str, float], ...] = ()
    run_id: str | None = None
    work_dir: str | None = None


class AttemptRow(NamedTuple):
    state: str
    wall_clock_ms: int  # of this attempt's time, what no lower-numbered attempt of the job covers


@dataclass
class Counts:
    """records in = applied + unattributed + duplicate + too late + dead-lettered; each record is in exactly one."""

    applied: int = 0
    duplicate: int = 0
    too_late: int = 0
    dead_lettered: int = 0
    unattributed: int = 0


@dataclass
class Tables:
    """What is compared; rows of quantity 0 are in none of the tables."""

    ledger: dict[LedgerKey, LedgerRow] = field(default_factory=dict)
    usage: dict[tuple[int, str, int], UsageRow] = field(default_factory=dict)
    unattributed: dict[tuple[int, str, str], UnattributedRow] = field(
        default_factory=dict
    )  # minute, node, GPU
    gpus: dict[tuple[str, int, str, str], None] = field(default_factory=dict)  # job, attempt, node, GPU
    hours: dict[HourKey, HourRow] = field(default_factory=dict)
    nodes: dict[NodeKey, NodeRow] = field(default_factory=dict)
    node_hours: dict[tuple[str, int], NodeHourRow] = field(default_factory=dict)  # node, hour
    jobs: dict[str, JobRow] = field(default_factory=dict)
    attempts: dict[tuple[str, int], AttemptRow] = field(default_factory=dict)
    dead: list[tuple[int, str]] = field(default_factory=list)  # (index in the log, reason)
    counts: Counts = field(default_factory=Counts)


def milli(number: float) -> int:
    """Thousandths of a number that has three decimals at most."""
    return round(number * 1000)


def usd_nano(text: str) -> int:
    """Nano-dollars of "a decimal string, up to 9 decimals"."""
    return int(Decimal(text) * 10**9)


def cost_nano(quantity: int, price_nano: int, divisor: int) -> int:
    """round_half_even(quantity x usd_nano / divisor), capped."""
    whole, rest = divmod(quantity * price_nano, divisor)
    if 2 * rest > divisor or (2 * rest == divisor and whole % 2 == 1):
        whole += 1
    return min(whole, LARGEST_COST_NANO)


def context_of(*parts: Mapping[str, str | None]) -> Context:
    """The match fields of a job or an event; a JSON null is an absent field."""
    merged = {name: value for part in parts for name, value in part.items() if value is not None}
    return tuple(sorted(merged.items()))
