"""The message about a week, field by field as it is sent.

A released field is never renamed or removed: receivers read these names.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from schemas.messages.alert import AlertSubject, Rfc3339Text, UsdText
from schemas.messages.receipt import InstantMs, ReceiptId, ReceiptLinks, Sentence, ShowCommand


class DigestDriver(Struct, frozen=True, kw_only=True):
    """A job's component whose cost changed much; the two effects sum to the change."""

    job_id: str
    component: str
    cost_usd: UsdText
    previous_usd: UsdText
    change_usd: UsdText
    price_effect_usd: UsdText
    quantity_effect_usd: UsdText


class DigestJob(Struct, frozen=True, kw_only=True):
    """What a job cost in the week."""

    job_id: str
    cost_usd: UsdText


class DigestAlerts(Struct, frozen=True, kw_only=True):
    """Alerts of one rule that nobody was notified of, as they were about too few dollars."""

    rule: str
    alerts: Annotated[int, Meta(ge=1, description="How many opened in the week.")]
    subjects: Annotated[list[str], Meta(description="The first of what they are about by name, 3 at most.")]


class DigestWeeklyData(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the jobs of an owner or a team cost in a week, and why it is not what they cost in the week before."""

    receipt_id: ReceiptId
    subject: AlertSubject
    owner: Annotated[str, Meta(description="Whose addresses get it.")]
    week: Annotated[str, Meta(pattern="^[0-9]{4}-W[0-9]{2}$", description="ISO week, UTC.")]
    from_ms: InstantMs
    until_ms: InstantMs
    jobs: Annotated[int, Meta(ge=0, description="Jobs that ran or cost something in the week.")]
    cost_usd: UsdText
    previous_usd: Annotated[UsdText, Meta(description="The cost of the week before.")]
    change_usd: UsdText
    change_ratio: Annotated[float | None, Meta(description="Change / previous; null: that was 0.")]
    lost_usd: UsdText
    unproductive_usd: Annotated[
        UsdText | None,
        Meta(description="GPU cost x the unproductive share of sampled GPU-time; null: nothing was sampled."),
    ]
    drivers: Annotated[list[DigestDriver], Meta(description="Largest changes first, 3 at most.")]
    largest: Annotated[list[DigestJob], Meta(description="Most expensive jobs first, 3 at most.")]
    small_alerts: Annotated[
        list[DigestAlerts],
        Meta(
            description="Alerts of severity digest, the rule with most of them first; absent: there are none."
        ),
    ] = []
    summary: Sentence
    command: ShowCommand | UnsetType = UNSET
    links: ReceiptLinks | UnsetType = UNSET


class DigestWeekly(Struct, frozen=True, kw_only=True):
    """A week is over."""

    type: Literal["digest.weekly"]
    timestamp: Rfc3339Text
    data: DigestWeeklyData
