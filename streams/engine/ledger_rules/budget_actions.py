"""The escalation steps of a budget: which action is next for a job, and when.

It says what is to be stored and asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from streams.engine.alerts.budgets import Budget, EscalationStep, Override
from streams.engine.ledger_rules.periods import CalendarPeriod
from streams.engine.ledger_rules.subject import BudgetSubject, Run

PLANNED: Final = "planned"  # a dry run
REQUESTED: Final = "requested"
ACKNOWLEDGED: Final = "acknowledged"
REFUSED: Final = "refused"
OVERRIDDEN: Final = "overridden"
EXPIRED: Final = "expired"
#: States after which nothing more is sent.
FINAL: Final = frozenset({ACKNOWLEDGED, REFUSED, EXPIRED})
UNPRICED: Final = "it has GPU-time without a price, so its cost is not known"

ActionMode = Literal["dry_run", "live"]


class LiveJob(NamedTuple):
    """A job that can be acted on."""

    run: Run
    cluster: str = ""
    is_unpriced: bool = False


class DueAction(NamedTuple):
    """An action that is due for a job, and the state to be stored of it: planned, requested, or why it is neither."""

    key: str
    subject: BudgetSubject
    period: CalendarPeriod
    job: LiveJob
    escalation: EscalationStep
    following: EscalationStep | None
    mode: ActionMode
    state: str
    at_ms: int
    detail: str = ""


#: Instant of each state that is stored, of a request in one mode.
States = Mapping[str, int]


def action_key(budget: Budget, period: CalendarPeriod, job_id: str, step: EscalationStep) -> str:
    """The idempotency key: one per budget, period, job and action, in every process."""
    text = f"{budget.name}|{period.start_ms}|{job_id}|{step.action}"
    return "act_" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def next_due_action(
    subject: BudgetSubject,
    period: CalendarPeriod,
    ratio: float,
    job: LiveJob,
    at_ms: int,
    mode: ActionMode,
    grace_ms: int,
    overrides: Sequence[Override],
    states: Callable[[str], States],
) -> DueAction | None:
    """The next state to be stored of the job's escalation; None: nothing is due.

    `ratio`: the used share. `grace_ms`: between steps, of budgets that do not say. `states`: what is stored of a key in
    this mode.
    """
    taken_ms: int | None = None
    grace_ms = grace_ms if subject.budget.grace_ms is None else subject.budget.grace_ms
    for place, step in enumerate(subject.budget.escalation_steps):
        key = action_key(subject.budget, period, job.run.job_id, step)
        stored = states(key)
        began_ms = stored.get(PLANNED if mode == "dry_run" else REQUESTED)
        if began_ms is not None:
            taken_ms = began_ms
            continue
        if ratio < step.at_ratio or (taken_ms is not None and at_ms < taken_ms + grace_ms):
            return None
        following = (
            subject.budget.escalation_steps[place + 1]
            if place + 1 < len(subject.budget.escalation_steps)
            else None
        )
        state, detail = _state(subject, job, at_ms, mode, overrides)
        if state in stored:
            return None
        return DueAction(key, subject, period, job, step, following, mode, state, at_ms, detail)
    return None


def _state(
    subject: BudgetSubject, job: LiveJob, at_ms: int, mode: ActionMode, overrides: Sequence[Override]
) -> tuple[str, str]:
    for each in overrides:
        if each.covers(subject.budget.name, job.run.facts, at_ms):
            return OVERRIDDEN, f"override {each.name}: {each.reason}"
    if job.is_unpriced:
        return REFUSED, UNPRICED
    return (PLANNED, "dry run: nothing was sent") if mode == "dry_run" else (REQUESTED, "")


def due_action_of(
    subject: BudgetSubject, period: CalendarPeriod, job: LiveJob, key: str, at_ms: int
) -> DueAction | None:
    """A request that is stored as an escalation step; None: the budget has no such step any more."""
    steps = subject.budget.escalation_steps
    for place, step in enumerate(steps):
        if action_key(subject.budget, period, job.run.job_id, step) == key:
            following = steps[place + 1] if place + 1 < len(steps) else None
            return DueAction(key, subject, period, job, step, following, "live", REQUESTED, at_ms)
    return None


def is_over(budget: Budget, ratio: float) -> bool:
    """Whether the budget's first escalation step is reached."""
    return bool(budget.escalation_steps) and ratio >= budget.escalation_steps[0].at_ratio


def due_keys(subject: BudgetSubject, period: CalendarPeriod, job_id: str) -> Iterator[str]:
    """Yield the keys of all escalation steps of a job."""
    for step in subject.budget.escalation_steps:
        yield action_key(subject.budget, period, job_id, step)
