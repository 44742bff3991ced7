"""The types of fields on the wire, and their limits.

The `Meta` of a type describes in a refusal what was expected; the `Doc` at a record's field is its
description in docs/events.md. Numbers follow JSON strictly: an integer field accepts 5 but neither 5.0 nor
5e0, a number accepts both, and a boolean is no number.
"""

from typing import Annotated, Final, Literal, TypeAlias, get_args

from msgspec import Meta, Struct

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
MAX_ENTRIES: Final = 64  # labels, match fields, measures
MAX_NODES: Final = 16_384  # MAX_GPU_COUNT at eight a node are 12,500
MAX_COMMENT_BYTES: Final = 1_024
#: Of the statement of a rule by SQL.
MAX_SQL_BYTES: Final = 8_192
MAX_KEY_BYTES: Final = 512  # of a Kafka key: a record with a longer one is refused
MAX_ADDRESS_BYTES: Final = 2_048  # of a webhook or Slack
MAX_SAMPLE_MS: Final = 3_600_000
MAX_INTERVAL_MS: Final = 31 * 86_400_000
MAX_SAVE_MS: Final = 86_400_000  # of one checkpoint
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
BudgetPeriod: TypeAlias = Literal["month", "week", "day", "total", "run"]
ControlKind: TypeAlias = Literal[
    "owner",
    "budget",
    "silence",
    "planned",
    "override",
    "ack",
    "rule",
    "receipt",
    "operator",
    "team",
    "source",
    "token",
    "request",
    "deed",
]
JobTypeName: TypeAlias = Literal[
    "queued", "allocated", "started", "resumed", "scaled", "checkpointed", "heartbeat", "updated",
    "suspended", "preempted", "failed", "completed", "cancelled"
]  # fmt: skip
NodeTypeName: TypeAlias = Literal["provisioned", "ready", "draining", "terminated"]


class Doc(Struct, frozen=True, eq=False):
    """The description of a field in docs/events.md. Decoding ignores it."""

    meaning: str
    example: object
    unit: str = ""  # of a number


def one_of(names: tuple[str, ...]) -> Meta:
    """Describe in a refusal which names are valid."""
    return Meta(description="one of " + ", ".join(names))


# Characters are counted here, during decoding; `schemas.limits` counts bytes if some take more than one.
Short: TypeAlias = Annotated[str, Meta(max_length=MAX_NAME_BYTES)]
Text: TypeAlias = Annotated[
    Short,
    Meta(min_length=1, description=f"a string that is not empty, of at most {MAX_NAME_BYTES} bytes of UTF-8"),
]
OptText: TypeAlias = Annotated[
    Short | None, Meta(description=f"a string of at most {MAX_NAME_BYTES} bytes of UTF-8")
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
OptAlertId: TypeAlias = Annotated[
    Annotated[str, Meta(pattern="^al_[0-9a-f]{24}\\Z")] | None,
    Meta(description="`al_` and 24 hexadecimal digits"),
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
OptSaveMs: TypeAlias = Annotated[
    Annotated[int, Meta(ge=0, le=MAX_SAVE_MS)] | None,
    Meta(description=f"an integer from 0 to {MAX_SAVE_MS} (1 day)"),
]
GpuCount: TypeAlias = Annotated[
    Annotated[float, Meta(ge=0, le=MAX_GPU_COUNT)] | None,
    Meta(description=f"a number from 0 to {MAX_GPU_COUNT} with at most three decimals"),
]
WholeGpus: TypeAlias = Annotated[
    Annotated[int, Meta(ge=0, le=MAX_GPU_COUNT)] | None,
    Meta(description=f"a whole number from 0 to {MAX_GPU_COUNT}"),
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
    Short | int | float | None,
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
OptPurchase: TypeAlias = Annotated[Purchase | None, one_of(get_args(Purchase))]
OptLabel: TypeAlias = Annotated[
    Annotated[str, Meta(pattern="^[^=]+=", max_length=MAX_NAME_BYTES)] | None,
    Meta(description=f"a label as key=value, of at most {MAX_NAME_BYTES} bytes of UTF-8"),
]
OptPath: TypeAlias = Annotated[Path | None, one_of(get_args(Path))]
OptDirection: TypeAlias = Annotated[Direction | None, one_of(get_args(Direction))]
OptAction: TypeAlias = Annotated[BudgetAction | None, one_of(get_args(BudgetAction))]
