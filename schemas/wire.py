"""The records on the wire, one typed struct per topic."""

from typing import Annotated, Any, get_args

from msgspec import Meta, Struct

from schemas.events import Component
from schemas.units import Per
from schemas.wire_types import (
    MAX_ENTRIES,
    MAX_GPU_COUNT,
    MAX_GPUS,
    MAX_JOB_ID_BYTES,
    MAX_NAME_BYTES,
    MAX_NODES,
    MAX_PRICE_GPUS,
    MAX_SAMPLE_MS,
    AnyTimeMs,
    BudgetPeriod,
    ControlKind,
    Count,
    Doc,
    EndReason,
    GpuCount,
    Hours,
    IntervalMs,
    JobId,
    JobTypeName,
    NodeTypeName,
    Op,
    OptAction,
    OptAlertId,
    OptAmount,
    OptDirection,
    OptLabel,
    OptLevels,
    OptPath,
    OptPurchase,
    OptRatios,
    OptSaveMs,
    OptText,
    OptTimeMs,
    Ratios,
    Short,
    Text,
    TimeMs,
    Usd,
    WholeGpus,
    WireAmount,
    WireAttempt,
    one_of,
)


class Wire(Struct, kw_only=True, gc=False):
    """The fields of every record. A `specversion` marks a CloudEvent."""

    source: Annotated[Text, Doc("who sends the event, for example a collector and its host", "slurm/main")]
    time_ms: Annotated[
        TimeMs,
        Doc("event time: when it happened, or when the interval ended", 1780308000000, "ms since 1970 UTC"),
    ]
    specversion: Any = None


class PricedWire(Wire, kw_only=True, gc=False):
    """The price fields."""

    cloud: Annotated[OptText, Doc("cloud provider", "aws")] = None
    region: Annotated[OptText, Doc("region of the cloud, or site", "us-east-1")] = None
    zone: Annotated[OptText, Doc("zone of the region", "us-east-1a")] = None
    cluster: Annotated[OptText, Doc("cluster of the scheduler", "train-a")] = None
    account: Annotated[OptText, Doc("account that is billed", "123456789012")] = None
    instance_type: Annotated[OptText, Doc("type of the machine", "p5.48xlarge")] = None
    gpu_type: Annotated[OptText, Doc("type of the GPU", "H100")] = None
    purchase: Annotated[OptPurchase, Doc("how the capacity was bought", "spot")] = None


class BudgetWire(Struct, gc=False):
    """A job's own budget."""

    usd: Annotated[Usd, Doc("what the job may cost", "5000", "USD")] = None
    gpu_hours: Annotated[Hours, Doc("the GPU-time it may use", 1000, "GPU x h")] = None
    wall_clock_hours: Annotated[Hours, Doc("how long it may run", 72.5, "h")] = None
    action: Annotated[OptAction, Doc("what is to happen then", "checkpoint")] = None


class JobWire(PricedWire, kw_only=True, gc=False):
    """A record of `jobs`."""

    id: Annotated[Text, Doc("the event's id, unique within `source`", "e1")]
    job_id: Annotated[JobId, Doc("the job", "run-7")]
    type: Annotated[JobTypeName, one_of(get_args(JobTypeName)), Doc("what happened", "allocated")]
    attempt: Annotated[WireAttempt, Doc("number of the attempt; 1 if absent", 1, "number")] = None
    gpu_count: Annotated[
        GpuCount, Doc("GPUs of the attempt from now on, shares of a GPU included", 12.5, "GPUs")
    ] = None
    nodes: Annotated[
        Annotated[dict[Text, Annotated[float, Meta(ge=0, le=MAX_GPU_COUNT)]], Meta(max_length=MAX_NODES)]
        | None,
        Meta(
            description=f"an object of node -> GPUs, 0 to {MAX_GPU_COUNT} with at most three decimals, "
            f"of at most {MAX_NODES} nodes"
        ),
        Doc(
            "the GPUs held on each node; their sum must be `gpu_count`, if that is given",
            {"n1": 8, "n2": 4.5},
            "GPUs",
        ),
    ] = None
    gpus_requested: Annotated[
        WholeGpus,
        Doc(
            "how many GPUs the job is to hold when all of it has started: until then what it grows by is its [start](burn_rates.md#the-expected-rate)",
            16,
            "GPUs",
        ),
    ] = None
    instance_count: Annotated[Count, Doc("instances of the attempt", 2, "instances")] = None
    cpu_count: Annotated[Count, Doc("CPUs of the attempt", 288, "CPUs")] = None
    memory_gib: Annotated[Count, Doc("memory of the attempt", 3072, "GiB")] = None
    owner: Annotated[OptText, Doc("who gets the job's alerts", "ada")] = None
    team: Annotated[OptText, Doc("team that the job is charged to", "vision")] = None
    project: Annotated[OptText, Doc("project that the job is charged to", "segmentation")] = None
    experiment: Annotated[OptText, Doc("experiment that the job belongs to", "lr-sweep")] = None
    run_id: Annotated[
        OptText,
        Doc(
            "the run that the job is a part of, where a run that is submitted again is another job: [runs](runs.md)",
            "llama-7b-a",
        ),
    ] = None
    work_dir: Annotated[
        OptText,
        Doc(
            "the directory that it was submitted from: of jobs of one name it tells [runs](runs.md) apart",
            "/home/ada/llama",
        ),
    ] = None
    labels: Annotated[
        Annotated[dict[Short, Short], Meta(max_length=MAX_ENTRIES)] | None,
        Meta(
            description=f"an object of strings, at most {MAX_ENTRIES} of at most {MAX_NAME_BYTES} bytes of UTF-8"
        ),
        Doc("any other names for the job; a later object replaces the whole of it", {"stage": "pretraining"}),
    ] = None
    reason: Annotated[
        EndReason | None,
        one_of(get_args(EndReason)),
        Doc("why the attempt ended, on an ending event", "spot_reclaim"),
    ] = None
    holds_gpus: Annotated[
        bool | None,
        Meta(description="a boolean"),
        Doc("on `suspended`: the GPUs stay held and paid; false if absent", True),
    ] = None
    expected_usd_per_hour: Annotated[
        Usd, Doc("what the job is expected to cost per hour from now on", "98.32", "USD per hour")
    ] = None
    budget: Annotated[
        BudgetWire | None,
        Meta(description="an object of usd, gpu_hours, wall_clock_hours, action"),
        Doc("the job's own [budget](budgets.md)", {"usd": "5000", "action": "checkpoint"}),
    ] = None
    deadline_ms: Annotated[
        OptTimeMs,
        Doc(
            "when the job should be done: [`runaway_length`](rules.md#rules)",
            1780394400000,
            "ms since 1970 UTC",
        ),
    ] = None
    quality: Annotated[
        Annotated[dict[Short, float], Meta(max_length=MAX_ENTRIES)] | None,
        Meta(description=f"an object of name -> finite number, at most {MAX_ENTRIES}"),
        Doc(
            "measures of the model, such as a validation metric: of each name the newest is kept",
            {"accuracy": 0.75},
            "as you define",
        ),
    ] = None
    progress: Annotated[
        Annotated[dict[Short, float], Meta(max_length=MAX_ENTRIES)] | None,
        Meta(description=f"an object of name -> finite number, at most {MAX_ENTRIES}"),
        Doc(
            "how far the work has come, usually on `heartbeat` and `checkpointed`: of each name the newest is kept",
            {"step": 12000, "tokens": 3500000000},
            "as you define",
        ),
    ] = None
    duration_ms: Annotated[
        OptSaveMs,
        Doc(
            "on `checkpointed`: how long the save took, which is how long the work waited for it where it does; not read on other types",
            42000,
            "ms",
        ),
    ] = None


class GpuWire(PricedWire, kw_only=True, gc=False):
    """A record of `gpu`."""

    id: Annotated[OptText, Doc("not needed: repeated samples change nothing", "g1")] = None
    node: Annotated[Text, Doc("the node of the GPUs", "n1")]
    job_id: Annotated[
        str | None,
        Meta(description=f"a string of at most {MAX_JOB_ID_BYTES} bytes of UTF-8, empty when idle"),
        Doc("the job that has the GPUs; absent or empty where none has", "run-7"),
    ] = None
    attempt: Annotated[WireAttempt, Doc("number of the attempt; 1 if absent", 1, "number")] = None
    interval_ms: Annotated[
        int,
        Meta(ge=1, le=MAX_SAMPLE_MS, description=f"an integer from 1 to {MAX_SAMPLE_MS} (1 hour)"),
        Doc("length of the time that the sample stands for; it ends at `time_ms`", 10000, "ms"),
    ]
    gpus: Annotated[
        Annotated[list[Short], Meta(min_length=1, max_length=MAX_GPUS)] | None,
        Meta(description=f"an array of 1 to {MAX_GPUS} GPU ids (strings of at most {MAX_NAME_BYTES} bytes)"),
        Doc("the GPUs by their ids on the node; required unless `gpu` is given", ["0", "1"]),
    ] = None
    util_ratio: Annotated[
        Ratios, Doc("for each GPU, the share of the interval in which it did work", [0.75, 0.5], "ratio")
    ]
    sm_ratio: Annotated[OptRatios, Doc("for each GPU, how busy its SMs were", [0.5, 0.25], "ratio")] = None
    tensor_ratio: Annotated[
        OptRatios, Doc("for each GPU, how busy its tensor cores were", [0.25, 0.125], "ratio")
    ] = None
    memory_used_mib: Annotated[OptLevels, Doc("for each GPU, memory in use", [70000, 65536], "MiB")] = None
    power_w: Annotated[OptLevels, Doc("for each GPU, power drawn", [650, 512.5], "W")] = None
    gpu: Annotated[
        Short | None,
        Meta(description=f"one GPU id (a string of at most {MAX_NAME_BYTES} bytes)"),
        Doc("a single GPU, instead of `gpus`; the values are then single numbers or arrays of one", "0"),
    ] = None


class NetworkWire(Wire, kw_only=True, gc=False):
    """A record of `network`."""

    id: Annotated[Text, Doc("the amount's id, unique within `source`", "f1")]
    job_id: Annotated[JobId, Doc("the job", "run-7")]
    attempt: Annotated[WireAttempt, Doc("number of the attempt; 1 if absent", 1, "number")] = None
    interval_ms: Annotated[
        IntervalMs, Doc("the time over which the bytes moved; it ends at `time_ms`", 60000, "ms")
    ]
    bytes: Annotated[WireAmount, Doc("bytes that moved", 3000000001, "bytes")]
    path: Annotated[OptPath, Doc("which way they went; `unclassified` if absent", "internet")] = None
    direction: Annotated[OptDirection, Doc("out of the job or into it", "egress")] = None
    cloud: Annotated[OptText, Doc("cloud provider", "aws")] = None
    region: Annotated[OptText, Doc("region that they left", "us-east-1")] = None
    dst_region: Annotated[OptText, Doc("region that they went to; prices do not look at it", "eu-west-1")] = (
        None
    )


class StorageWire(Wire, kw_only=True, gc=False):
    """A record of `storage`."""

    id: Annotated[Text, Doc("the amount's id, unique within `source`", "s1")]
    job_id: Annotated[JobId, Doc("the job", "run-7")]
    attempt: Annotated[WireAttempt, Doc("number of the attempt; 1 if absent", 1, "number")] = None
    interval_ms: Annotated[
        IntervalMs, Doc("the time over which it happened; it ends at `time_ms`", 60000, "ms")
    ]
    op: Annotated[Op, one_of(get_args(Op)), Doc("what was done", "read")]
    requests: Annotated[OptAmount, Doc("requests made", 1200, "requests")] = None
    bytes: Annotated[
        OptAmount, Doc("bytes read or written; of `stored`, bytes kept", 1048576000, "bytes")
    ] = None
    storage_class: Annotated[OptText, Doc("class of the storage", "standard")] = None
    cloud: Annotated[OptText, Doc("cloud provider", "aws")] = None
    region: Annotated[OptText, Doc("region of the storage", "us-east-1")] = None


class NodeWire(PricedWire, kw_only=True, gc=False):
    """A record of `nodes`."""

    id: Annotated[Text, Doc("the event's id, unique within `source`", "k1")]
    node: Annotated[Text, Doc("the node", "n1")]
    type: Annotated[NodeTypeName, one_of(get_args(NodeTypeName)), Doc("what happened", "provisioned")]
    gpu_count: Annotated[GpuCount, Doc("GPUs of the node from now on", 8, "GPUs")] = None
    team: Annotated[OptText, Doc("team that the node is for, whose idle time it is", "vision")] = None


class PriceWire(PricedWire, kw_only=True, gc=False):
    """A record of `prices`."""

    id: Annotated[Text, Doc("the record's id", "h100-spot-2026-06")]
    sku: Annotated[Text, Doc("name of the price; its revisions share it", "aws.h100.spot")]
    component: Annotated[Component, one_of(tuple(Component)), Doc("which part of a cost it prices", "gpu")]
    usd: Annotated[
        Short,
        Meta(description="a decimal string in [0, 100000) with at most 9 decimals"),
        Doc("the price", "55.04", "USD per `per`"),
    ]
    per: Annotated[Per, one_of(tuple(Per)), Doc("what it is the price of", "instance_hour")]
    effective_ms: Annotated[
        AnyTimeMs, Doc("the instant from which it applies", 1780272000000, "ms since 1970 UTC")
    ]
    gpus: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_PRICE_GPUS)] | None,
        Meta(description=f"an integer from 1 to {MAX_PRICE_GPUS}"),
        Doc("of an `instance_hour`: the GPUs of the instance; one GPU costs `usd` / `gpus`", 8, "GPUs"),
    ] = None
    team: Annotated[OptText, Doc("team of the job", "vision")] = None
    project: Annotated[OptText, Doc("project of the job", "segmentation")] = None
    path: Annotated[OptPath, Doc("path of network traffic", "internet")] = None
    direction: Annotated[OptDirection, Doc("direction of network traffic", "egress")] = None
    op: Annotated[Op | None, one_of(get_args(Op)), Doc("operation of storage traffic", "read")] = None
    storage_class: Annotated[OptText, Doc("class of the storage", "standard")] = None
    label: Annotated[OptLabel, Doc("label of the job", "data_class=pii")] = None


class ControlWire(Wire, kw_only=True, gc=False):
    """The checked fields of `controls`; a record's other fields are stored unchanged."""

    id: Annotated[Text, Doc("the record's id", "c1")]
    kind: Annotated[ControlKind, one_of(get_args(ControlKind)), Doc("what the record sets", "planned")]
    name: Annotated[Text, Doc("its name within the kind; of an `owner`, the owner", "run-7-wide")]
    usd: Annotated[Usd, Doc("of a `budget`: the money", "10000", "USD")] = None
    usd_per_hour: Annotated[Usd, Doc("of a `planned`: the rate to expect", "440.33", "USD per hour")] = None
    gpu_hours: Annotated[Hours, Doc("of a `budget`: the GPU-time", 5000, "GPU x h")] = None
    wall_clock_hours: Annotated[Hours, Doc("of a `budget`: the run time", 720, "h")] = None
    per: Annotated[
        BudgetPeriod | None,
        one_of(get_args(BudgetPeriod)),
        Doc(
            "of a `budget`: how often it begins anew; `run`: each training run has it; `total` if absent",
            "month",
        ),
    ] = None
    period: Annotated[
        BudgetPeriod | None, one_of(get_args(BudgetPeriod)), Doc("the same as `per`", "month")
    ] = None
    action: Annotated[OptAction, Doc("of a `budget`: what is to happen then", "notify")] = None
    from_ms: Annotated[
        OptTimeMs,
        Doc(
            "of a `silence`, `planned` or `override`: first instant; since ever if absent",
            1780308000000,
            "ms since 1970 UTC",
        ),
    ] = None
    until_ms: Annotated[
        OptTimeMs,
        Doc(
            "of these and an `ack`: first instant after it; for ever if absent",
            1780394400000,
            "ms since 1970 UTC",
        ),
    ] = None
    alert_id: Annotated[
        OptAlertId, Doc("of an `ack`, which requires it: the alert", "al_8fe63f15d88e32e0d55fbafd")
    ] = None
    by: Annotated[
        OptText, Doc("who set it: of records that a worker writes, the token", "web.write_token")
    ] = None
