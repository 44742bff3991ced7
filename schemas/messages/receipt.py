"""The messages about jobs that ended and about weeks, field by field as they are sent.

A released field is never renamed or removed: receivers read these names.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from schemas.messages.alert import LinkText, Rfc3339Text, UsdText

RatioNumber: TypeAlias = Annotated[float, Meta(ge=0)]
ReceiptId: TypeAlias = Annotated[
    str, Meta(pattern="^rc_[0-9a-f]{24}$", description="The same in every attempt and process.")
]
Sentence: TypeAlias = Annotated[
    str, Meta(description="The message in one sentence; characters that do not show are escaped.")
]
InstantMs: TypeAlias = Annotated[int, Meta(ge=0, description="ms since 1970 UTC.")]


class ReceiptLinks(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a person goes on from the message; what is not configured is absent."""

    subject: Annotated[
        LinkText | UnsetType, Meta(description="The page of the job when it ended, or of the fleet.")
    ] = UNSET
    runbook: Annotated[LinkText | UnsetType, Meta(description="What the figures mean.")] = UNSET


ShowCommand: TypeAlias = Annotated[
    str,
    Meta(pattern="^trainfare receipts show rc_[0-9a-f]{24}$", description="Shows it again, from the store."),
]


class ReceiptExpected(Struct, frozen=True, kw_only=True):
    """The job's rate against the expected one, over the same minutes."""

    usd_per_hour: UsdText
    ratio: Annotated[float, Meta(ge=0, description="Cost / expected cost.")]


class ReceiptKind(Struct, frozen=True, kw_only=True):
    """Its cost against that of similar completed jobs."""

    jobs: Annotated[int, Meta(ge=1)]
    same: Annotated[dict[str, str], Meta(description="What they have in common.")]
    median_usd: UsdText
    ratio: Annotated[float | None, Meta(description="Its cost / the median; null: the median is 0.")]


class ReceiptCheaper(Struct, frozen=True, kw_only=True):
    """What would have cost less, by the prices of the time."""

    purchase: str
    cost_usd: UsdText
    saved_usd: UsdText


class ReceiptRun(Struct, frozen=True, kw_only=True):
    """The training run that the job is a part of: its jobs up to this one's end."""

    name: str
    jobs: Annotated[int, Meta(ge=2)]
    cost_usd: UsdText
    lost_usd: UsdText


class JobEndedData(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job cost, what of it was lost, and what it is to be held against."""

    receipt_id: ReceiptId
    job_id: str
    owner: str
    team: str
    project: str
    experiment: str
    state: Literal["completed", "cancelled", "preempted", "failed"]
    started_ms: InstantMs | None
    ended_ms: InstantMs
    attempts: Annotated[int, Meta(ge=0)]
    preemptions: Annotated[int, Meta(ge=0)]
    failures: Annotated[int, Meta(ge=0)]
    wall_clock_ms: Annotated[int, Meta(ge=0, description="Run time over all attempts.")]
    cost_usd: UsdText
    usd_per_hour: Annotated[
        UsdText | None, Meta(description="Cost per hour of run time; null: it never ran.")
    ]
    lost_usd: UsdText
    lost_ratio: Annotated[RatioNumber | None, Meta(description="Lost / cost; null: it cost nothing.")]
    productive_ratio: Annotated[
        RatioNumber | None, Meta(description="Productive / sampled GPU-time; null: nothing was sampled.")
    ]
    is_unpriced: Annotated[bool, Meta(description="Some GPU-time has no price: the cost is too low.")]
    expected: Annotated[ReceiptExpected | None, Meta(description="Null: nothing was expected.")]
    kind: Annotated[ReceiptKind | None, Meta(description="Null: too few similar jobs.")]
    cheaper: Annotated[ReceiptCheaper | None, Meta(description="Null: nothing, or it is not known.")]
    run: Annotated[ReceiptRun | UnsetType, Meta(description="Absent: no other job is of its run.")] = UNSET
    summary: Sentence
    command: ShowCommand | UnsetType = UNSET
    links: ReceiptLinks | UnsetType = UNSET


class JobEnded(Struct, frozen=True, kw_only=True):
    """A job has ended."""

    type: Literal["job.ended"]
    timestamp: Rfc3339Text
    data: JobEndedData
