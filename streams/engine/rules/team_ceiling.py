"""`team_ceiling`: the jobs of a team cost more per hour together than the team may that nobody planned.

What each of its jobs paid in five minutes is handed in. It is off until a record sets a limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import rounded_usd, sentence, short, unheeded
from streams.engine.rules.rule import PAGE, LedgerRule, Margin, Threshold, from_threshold_on

NAME: Final = "team_ceiling"
TEAM: Final = "team"
EVERY_MS: Final = 5 * MINUTE_MS
#: What a job pays up to so many times its planned rate does not count, in tenths.
_PLANNED_TENTHS: Final = 12


class TeamJob(NamedTuple):
    """A job of a team: what it pays per hour, and the rate that is planned for it; 0: none is."""

    job_id: str
    nano_per_hour: int
    planned_nano: int = 0

    @property
    def counted_nano(self) -> int:
        """What of it counts: all, unless it is planned."""
        is_planned = self.planned_nano and 10 * self.nano_per_hour <= _PLANNED_TENTHS * self.planned_nano
        return 0 if is_planned else self.nano_per_hour


def counted(jobs: Sequence[TeamJob]) -> int:
    """What a team pays per hour that nobody planned."""
    return sum(each.counted_nano for each in jobs)


def limit_nano(of: Mapping[str, float]) -> int:
    """The ceiling in nano-dollars per hour; 0: there is none."""
    return round(of["usd_per_hour"] * NANO_PER_USD)


def holds(jobs: Sequence[TeamJob], of: Mapping[str, float], acknowledged_nano: int = 0) -> bool:
    """Whether the team is at its ceiling or above it, and pays more than somebody has acknowledged."""
    limit, paid = limit_nano(of), counted(jobs)
    return limit > 0 and paid >= limit and 10 * paid > _PLANNED_TENTHS * acknowledged_nano


def finding(of: LedgerSettings, team: str, jobs: Sequence[TeamJob], at_ms: int) -> LedgerFinding:
    """The sentence and the evidence of a team."""
    rate, limit = counted(jobs), limit_nano(of.thresholds)
    dearest = sorted(jobs, key=lambda each: (-each.counted_nano, each.job_id))
    running = [each for each in dearest if each.counted_nano]

    def said(at_most: int) -> str:
        many = f"{len(running):,} jobs" if len(running) > 1 else "1 job"
        first = f"{short(dearest[0].job_id, at_most)} {rounded_usd(dearest[0].counted_nano)}/h"
        return (
            f"team {short(team, at_most)} pays {rounded_usd(rate)}/h for {many} (most: {first}), over its ceiling of {rounded_usd(limit)}/h;"
            f" stop, shrink or plan them, else {unheeded(rate, at_ms)}"
        )

    return LedgerFinding(
        NAME, of.severity, TEAM, team, at_ms, sentence(said), _evidence(team, at_ms),
        rate / limit, rate, rate * EVERY_MS // HOUR_MS, team=team, margins=(*margins(of.thresholds, jobs),),
    )  # fmt: skip


def _evidence(team: str, at_ms: int) -> str:
    """SQL for what the team's jobs have paid per hour in the last five minutes, the dearest first."""
    since, until = (f"toDateTime({each // 1000:d}, 'UTC')" for each in (at_ms - EVERY_MS, at_ms))
    return (
        "SELECT l.job_id AS job_id, any(l.owner) AS owner, any(l.state) AS state, sum(l.cost_usd) * 12 AS usd_per_hour FROM ledger AS l"
        f" WHERE l.team = {quoted(team)} AND l.component NOT IN ('network', 'storage') AND l.minute >= {since} AND l.minute < {until}"
        " GROUP BY job_id ORDER BY usd_per_hour DESC, job_id LIMIT 50"
    )


def margins(of: Mapping[str, float], jobs: Sequence[TeamJob]) -> list[Margin]:
    """How far a team is from its ceiling."""
    limit = of["usd_per_hour"]
    value = counted(jobs) / NANO_PER_USD if limit else None
    return [from_threshold_on("dollars per hour that nobody planned", value, limit)]


RULE: Final = LedgerRule(
    name=NAME,
    title="Team above the ceiling",
    severity=PAGE,
    about="`team`",
    holds="its jobs together paid `usd_per_hour` or more in the last five minutes, without traffic, and without jobs that pay up to 1.2 times"
    " what is planned for them; only with a record that sets it",
    runbook="runbook.md#above-the-ceiling",
    thresholds={
        "usd_per_hour": Threshold(
            0, 0, 1e9, "dollars per hour that the jobs of a team pay together; 0: not looked at"
        ),
    },
    window_ms=EVERY_MS,
    match_fields=(TEAM,),
    each="team",
    finding=finding,
    margins=margins,
)
