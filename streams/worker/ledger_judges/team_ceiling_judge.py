"""Judges the rule `team_ceiling` at whole five minutes: reads what teams pay, and steps one alert for each of them.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from schemas.columns import rows_of
from schemas.durations import HOUR_MS
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.ledger_rule_records import settings_of
from streams.engine.ledger_rules.episodes import hourly_changes
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.team_ceiling import EVERY_MS, NAME, TEAM, TeamJob, finding, holds, limit_nano
from streams.worker.ledger_judges import team_ceiling_sql
from streams.worker.ledger_judges.instants import instants_of
from streams.worker.ledger_judges.job_use import AlertedJobs
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore

_SLOTS_PER_HOUR = HOUR_MS // EVERY_MS


class TeamCeilingJudge:
    """Call `judge` for successive spans of whole minutes."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def judge(self, controls: Controls, firing: Sequence[Alert], since_ms: int, until_ms: int) -> list[Alert]:
        """The changes at the whole five minutes in (since_ms, until_ms]."""
        instants = instants_of(since_ms, until_ms, EVERY_MS)
        if not instants:
            return []
        limits = _Limits(controls)
        found = self._found(limits, instants, controls) if limits.least_nano else ()
        return hourly_changes(firing, found, instants)

    def _found(self, limits: _Limits, instants: range, controls: Controls) -> Iterator[LedgerFinding]:
        bound = {"from_ms": instants[0] - EVERY_MS, "to_ms": instants[-1]}
        least = {"least_nano": limits.least_nano // _SLOTS_PER_HOUR}
        rows = rows_of(self._store.query(team_ceiling_sql.BY_TEAM, {**bound, **least}))
        teams = sorted({row["team"] for row in rows})
        paid: dict[tuple[str, int], dict[str, int]] = {}
        for row in named_rows(self._store, team_ceiling_sql.BY_JOB, "teams", teams, **bound):
            paid.setdefault((row["team"], row["slot"]), {})[row["job_id"]] = row["nano"]
        jobs = AlertedJobs(self._store, sorted({job_id for each in paid.values() for job_id in each}))
        for (team, slot), of_jobs in sorted(paid.items()):
            at_ms, of = (slot + 1) * EVERY_MS, limits.of(team)
            if not of.enabled or limit_nano(of.thresholds) > sum(of_jobs.values()) * _SLOTS_PER_HOUR:
                continue
            found = [
                TeamJob(job_id, nano * _SLOTS_PER_HOUR, jobs.planned(controls, job_id, at_ms - 1))
                for job_id, nano in sorted(of_jobs.items())
            ]
            if holds(found, of.thresholds, controls.acknowledged_for(team, at_ms - 1)):
                yield finding(of, team, found, at_ms)


class _Limits:
    """The settings of each team: those of its own records, else of records for all teams."""

    def __init__(self, controls: Controls) -> None:
        records = [record for record in controls.fleet_rules if record.rule == NAME]
        own = {record.match[TEAM] for record in records if record.match}
        self._all = settings_of(NAME, [record for record in records if not record.match])
        self._own: Mapping[str, LedgerSettings] = {
            team: settings_of(NAME, [record for record in records if record.match.get(TEAM) == team])
            for team in sorted(own)
        }
        limits = [limit_nano(each.thresholds) for each in (self._all, *self._own.values()) if each.enabled]
        self.least_nano = min((each for each in limits if each), default=0)

    def of(self, team: str) -> LedgerSettings:
        """The settings of a team."""
        return self._own.get(team, self._all)


def is_dealt_with(controls: Controls, alert: Alert, at_ms: int) -> bool:
    """Whether somebody has acknowledged what a team pays, or its limit is gone or above what its alert tells of."""
    of = _Limits(controls).of(alert.subject_name)
    limit = limit_nano(of.thresholds) if of.enabled else 0
    is_known = controls.acknowledged_for(alert.subject_name, at_ms - 1)
    return bool(is_known) or not 0 < limit <= alert.usd_nano_per_hour
