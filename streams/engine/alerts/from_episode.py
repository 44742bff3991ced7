"""Builds an alert row from an episode that the kernel reports."""

from __future__ import annotations

from typing import NamedTuple

from schemas.durations import BEGINNING_MS, HOUR_MS
from streams.engine.alerts.alert import FIRING, RESOLVED, Alert, alert_id
from streams.engine.alerts.episodes import Opening
from streams.engine.alerts.summary import AlertFigures, summary
from streams.engine.kernels.bill import MAX_COST_NANO
from streams.engine.kernels.episode import (
    BURN_RULES,
    HELD,
    OPENED,
    RAISED,
)
from streams.engine.rules.job_view import EvidenceOf
from streams.engine.rules.registry import JOB_RULES, NAMES, WINDOW_MS
from streams.engine.rules.rule import JOB
from streams.engine.state.dimensions import AlertDimensions

# Rounds away the last bits of a ratio, which depend on the order of summation.
_RATIO_DIGITS = 9


class EpisodeFigures(NamedTuple):
    """An episode at a change; the fields of the kernel's EPISODE, in its order."""

    open: int
    started_ms: int
    fired_ms: int
    cleared_ms: int
    held_ms: int
    firings: int
    elapsed_ms: int
    cost_nano: float
    expected_nano: float
    short_ratio: float
    silenced: int
    opening_1_ms: int
    opening_2_ms: int
    opening_3_ms: int
    flaps: int
    quiet_ms: int
    again_ms: int
    level: int
    ticket_ms: int
    page_ms: int
    known_nano: float
    reported_ms: int


class Rates(NamedTuple):
    """What a job pays at the tick of a change, in nano-dollars per hour."""

    now_nano: int = 0
    extra_nano: int = 0  # above the expected rate


def alert_of(
    rule: int,
    kind: int,
    at_ms: int,
    then: EpisodeFigures,
    silenced: bool,
    severity: str,
    dimensions: AlertDimensions,
    cause: str = "",
    rates: Rates = Rates(),  # noqa: B008 - immutable
    opening: Opening = Opening(),  # noqa: B008 - as above
) -> Alert:
    """Build the row after a change of this kind at `at_ms`.

    `cause`: why the rule holds, in a few words; `rates`: what the job pays then; `opening`: what the episode began with.
    """
    name, job_id, window_ms = NAMES[rule], dimensions.job_id, WINDOW_MS[rule]
    shown = AlertFigures(
        rule=name,
        kind=kind,
        started_ms=then.started_ms,
        at_ms=at_ms,
        firings=then.firings,
        usd_nano_per_hour=_per_hour(then.cost_nano, then.elapsed_ms),
        expected_nano_per_hour=_per_hour(then.expected_nano, then.elapsed_ms),
        cost_nano=_nano(then.cost_nano),
        expected_nano=_nano(then.expected_nano),
        elapsed_ms=then.elapsed_ms,
        ratio=0.0 if rule >= BURN_RULES else round(then.cost_nano / then.expected_nano, _RATIO_DIGITS),
        short_ratio=then.short_ratio,
        cause=cause,
        now_nano_per_hour=rates.now_nano,
        extra_nano_per_hour=rates.extra_nano,
        flaps=bool(then.flaps),
    )
    fires = kind in (OPENED, HELD, RAISED)
    return Alert(
        alert_id=alert_id(name, JOB, job_id, then.started_ms),
        rule=name,
        severity=severity,
        status=FIRING if fires else RESOLVED,
        subject_kind=JOB,
        subject_name=job_id,
        owner=dimensions.owner,
        team=dimensions.team,
        project=dimensions.project,
        started_ms=then.started_ms,
        resolved_ms=None if fires else at_ms,
        ratio=shown.ratio,
        usd_nano_per_hour=shown.usd_nano_per_hour,
        expected_nano_per_hour=shown.expected_nano_per_hour,
        cost_nano=shown.cost_nano,
        window_ms=window_ms,
        summary=summary(shown, dimensions),
        evidence_sql=JOB_RULES[rule].evidence(
            EvidenceOf(job_id, then.held_ms, window_ms, shown.expected_nano_per_hour)
        ),
        held_ms=then.held_ms,
        changed_ms=then.fired_ms if fires else at_ms,
        firings=then.firings,
        silenced=silenced,
        shared_cause=opening.shared_cause,
        opened_nano_per_hour=_nano(opening.opened_nano_per_hour),
        ticket_ms=_instant(then.ticket_ms),
        page_ms=_instant(then.page_ms),
        stood_ms=_instant(opening.stood_ms),
    )


def _instant(at_ms: int) -> int | None:
    return None if at_ms == BEGINNING_MS else at_ms


def _nano(value: float) -> int:
    """Round to nano-dollars, capped to what the tables hold."""
    return min(round(value), MAX_COST_NANO)


def _per_hour(cost_nano: float, elapsed_ms: int) -> int:
    return _nano(cost_nano * HOUR_MS / elapsed_ms) if elapsed_ms > 0 else 0
