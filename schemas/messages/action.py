"""The message that asks a receiver to act on a job because of a budget, field by field as it is sent.

A released field is never renamed or removed: receivers read these names.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from schemas.messages.alert import AlertSubject, Rfc3339Text, UsdText

ActionName: TypeAlias = Literal["notify", "checkpoint", "suspend", "stop"]


class ActionBudget(Struct, frozen=True, kw_only=True):
    """The budget that is used up, and by how much."""

    name: Annotated[str, Meta(description="Empty: the job's own.")]
    subject: AlertSubject
    per: str
    period_start_ms: Annotated[int, Meta(ge=0, description="ms since 1970 UTC; 0: of all time.")]
    limit_usd: UsdText | None
    spent_usd: UsdText
    used_ratio: Annotated[float, Meta(ge=0, description="The largest share of a limit that is used.")]


class ActionJob(Struct, frozen=True, kw_only=True):
    """The job to act on."""

    job_id: str
    cluster: str
    owner: str
    team: str
    project: str
    experiment: str


class ActionData(Struct, frozen=True, kw_only=True):
    """What is asked for, of which job, and why."""

    idempotency_key: Annotated[
        str, Meta(pattern="^act_[0-9a-f]{24}$", description="The same in every attempt: act once.")
    ]
    action: ActionName
    job: ActionJob
    budget: ActionBudget
    alert_id: Annotated[str, Meta(pattern="^al_[0-9a-f]{24}$", description="The alert that explains it.")]
    grace_s: Annotated[int, Meta(ge=0, description="The next action is asked for after so many seconds.")]
    next_action: ActionName | None
    reason: Annotated[str, Meta(description="Why, in one sentence; characters that do not show are escaped.")]


class ActionRequested(Struct, frozen=True, kw_only=True):
    """A budget asks for an action on a job."""

    type: Literal["action.requested"]
    timestamp: Rfc3339Text
    data: ActionData
