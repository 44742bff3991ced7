"""The rules of alerts about the meter itself, and their episodes (docs/trouble.md)."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec.structs import replace

from streams.engine.alerts.alert import FIRING, Alert, alert_id
from streams.engine.alerts.openings import flaps, summary_of, with_opening
from streams.engine.alerts.resolving import resolved
from streams.engine.kernels.episode_steps import QUIET_MS, REOPENS_MS
from streams.engine.rules.rule import PAGE

#: The kind of the subject; the subject's name says which part.
METER: Final = "meter"

CANARY_WRONG: Final = "canary_wrong"
CANARY_LATE: Final = "canary_late"
BOOKS_UNBALANCED: Final = "books_unbalanced"
CLOCK_WRONG: Final = "clock_wrong"
SHARDS_UNOWNED: Final = "shards_unowned"
#: What people read in place of the names.
TITLES: Final = {
    CANARY_WRONG: "Probe at a wrong cost",
    CANARY_LATE: "Probe late",
    BOOKS_UNBALANCED: "Records not accounted for",
    CLOCK_WRONG: "The meter's clock is wrong",
    SHARDS_UNOWNED: "Shards without a worker",
}

CANARY_EVIDENCE: Final = (
    "SELECT time, job_id, shard, outcome, expected_usd, found_usd, delay_ms, detail"
    " FROM canary FINAL ORDER BY time DESC LIMIT 15"
)


#: A clock independent of the worker's, where ClickHouse runs on another machine.
CLOCK_EVIDENCE: Final = "SELECT now64(3) AS clickhouse_time"

#: How far each shard has been metered.
OWNERS_EVIDENCE: Final = "SELECT * FROM books FINAL ORDER BY shard, topic, partition"


def books_evidence(shard: int) -> str:
    """Return SQL for the shard's record accounting by topic."""
    return f"SELECT * FROM books FINAL WHERE shard = {shard:d} ORDER BY topic, partition"  # noqa: S608 - a number


class MeterFinding(NamedTuple):
    """Whether a rule holds for a subject at an instant (ms since 1970), with its summary and figures."""

    rule: str
    subject: str
    holds: bool
    at_ms: int
    summary: str = ""
    evidence_sql: str = ""
    cost_nano: int = 0
    ratio: float = 0.0
    is_off: bool = False  # what looks at it was switched off: it does not stay open


def is_due(last: Alert | None, at_ms: int) -> bool:
    """Whether an alert that flaps is over by then, if its rule does not hold: it was quiet for long enough."""
    return last is not None and last.quiet_ms is not None and at_ms >= last.quiet_ms + QUIET_MS


def after(last: Alert | None, found: MeterFinding) -> Alert | None:
    """The alert's next row; None if nothing changes. `last`: the last row of that rule and subject."""
    fires = last is not None and last.status == FIRING
    if not (fires or found.holds):
        return None
    # Later than the last change, whatever the clock: messages are ordered by it.
    at_ms = found.at_ms if last is None else max(found.at_ms, last.changed_ms + 1)
    if last is not None and fires:
        if found.holds:
            if last.quiet_ms is None:
                return None
            return replace(last, quiet_ms=None, held_ms=at_ms, openings=with_opening(last, at_ms))
        if found.is_off or not flaps(last) or is_due(last, at_ms):
            return resolved(last, at_ms)
        return replace(last, quiet_ms=at_ms) if last.quiet_ms is None else None
    again = last is not None and last.resolved_ms is not None and at_ms - last.resolved_ms <= REOPENS_MS
    started_ms = last.started_ms if again and last is not None else at_ms
    alert = Alert(
        alert_id=alert_id(found.rule, METER, found.subject, started_ms),
        rule=found.rule,
        severity=PAGE,
        status=FIRING,
        subject_kind=METER,
        subject_name=found.subject,
        owner="",
        team="",
        project="",
        started_ms=started_ms,
        resolved_ms=None,
        ratio=found.ratio,
        usd_nano_per_hour=0,
        expected_nano_per_hour=0,
        cost_nano=found.cost_nano,
        window_ms=0,
        summary=found.summary,
        evidence_sql=found.evidence_sql,
        held_ms=at_ms,
        changed_ms=at_ms,
        firings=last.firings + 1 if again and last is not None else 1,
        silenced=False,
        openings=with_opening(last, at_ms),
    )
    return replace(alert, summary=summary_of(alert))
