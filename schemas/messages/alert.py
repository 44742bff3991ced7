"""The messages about alerts, field by field as they are sent.

A released field is never renamed or removed: receivers read these names.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

UsdText: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^-?[0-9]+(\.[0-9]{1,9})?$", description="US dollars, an exact decimal string."),
]
Rfc3339Text: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$",
        description="The instant of the change of status, UTC.",
    ),
]
LinkText: TypeAlias = Annotated[str, Meta(pattern=r"^https?://", description="An address for a browser.")]


class AlertSubject(Struct, frozen=True, kw_only=True):
    """What the alert is about."""

    kind: Annotated[str, Meta(description="`job`, `team`, `meter`...")]
    name: str


class AlertLinks(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a person goes on from the message; what is not configured is absent."""

    subject: Annotated[
        LinkText | UnsetType, Meta(description="The page of the subject at the instant of the change.")
    ] = UNSET
    runbook: Annotated[LinkText | UnsetType, Meta(description="What to do about this rule.")] = UNSET
    acknowledge: Annotated[
        LinkText | UnsetType, Meta(description="To say that somebody looks after this alert.")
    ] = UNSET
    silence: Annotated[LinkText | UnsetType, Meta(description="To silence this rule for the subject.")] = (
        UNSET
    )
    planned: Annotated[LinkText | UnsetType, Meta(description="To say that this rate is planned.")] = UNSET


class AlertData(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The alert as it was at the change of its status."""

    alert_id: Annotated[
        str, Meta(pattern="^al_[0-9a-f]{24}$", description="The same in all messages of an episode.")
    ]
    rule: str
    severity: Annotated[
        Literal["page", "ticket"], Meta(description="A page needs attention now, a ticket this week.")
    ]
    status: Literal["firing", "resolved"]
    subject: AlertSubject
    owner: Annotated[str, Meta(description="Empty: nobody, as for `team` and `project`.")]
    team: str
    project: str
    summary: Annotated[
        str, Meta(description="The alert in one sentence; characters that do not show are escaped.")
    ]
    usd_per_hour: UsdText
    expected_usd_per_hour: UsdText
    ratio: Annotated[
        float, Meta(description="Cost / expected cost over the window; 0 where a rule has none.")
    ]
    window_ms: Annotated[int, Meta(ge=0, description="Length of the rule's longer window; 0: it has none.")]
    cost_usd: Annotated[UsdText, Meta(description="The cost over the window, an exact decimal string.")]
    budget_usd: UsdText | None
    exhausted_in_s: int | None
    started_ms: Annotated[int, Meta(description="When the episode began, ms since 1970 UTC.")]
    evidence_sql: Annotated[str, Meta(description="A query that shows why, for `trainfare sql`.")]
    recipient: Annotated[
        str | UnsetType,
        Meta(
            description="Whose address this message is sent to: an owner, or `team/` and a team. Absent: `alerts.default_webhook`."
        ),
    ] = UNSET
    escalated_from: Annotated[
        str | UnsetType,
        Meta(
            description="Who had the page before it went on to `recipient`, as nobody acknowledged it. Absent: it did not go on."
        ),
    ] = UNSET
    links: AlertLinks | UnsetType = UNSET


class AlertFiring(Struct, frozen=True, kw_only=True):
    """An alert fires, for the first time or again."""

    type: Literal["alert.firing"]
    timestamp: Rfc3339Text
    data: AlertData


class AlertResolved(Struct, frozen=True, kw_only=True):
    """An alert has resolved."""

    type: Literal["alert.resolved"]
    timestamp: Rfc3339Text
    data: AlertData
