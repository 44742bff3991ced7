"""Judges at whole five minutes the rules about jobs that hold what they cannot: `metered_twice`, `double_held`, `after_node`.

One cause is one message: while one of them fires for a job, another one opens none for it. All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from schemas.durations import HOUR_MS, MINUTE_MS
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.ledger_rule_records import LedgerRuleRecord, settings_of
from streams.engine.ledger_rules.episodes import lasting_changes
from streams.engine.rules import after_node, double_held, metered_twice, silent_job
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.worker.ledger_judges import held_jobs_sql
from streams.worker.ledger_judges.after_node_finder import after_node_findings
from streams.worker.ledger_judges.double_held_finder import double_held_findings
from streams.worker.ledger_judges.instants import instants_of
from streams.worker.ledger_judges.job_use import AlertedJobs
from streams.worker.ledger_judges.metered_twice_finder import metered_twice_findings
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore

EVERY_MS: Final = 5 * MINUTE_MS
#: Samples may come so late: whether a job is alive is looked at before.
_SAMPLES_LATE_MS: Final = 2 * EVERY_MS
#: They tell of an end that was lost.
_OF_LOST_ENDS: Final = (double_held.RULE.name, after_node.RULE.name)
#: Of one job at one instant the first one counts.
RULES: Final = (metered_twice.RULE.name, double_held.RULE.name, after_node.RULE.name)


class HeldJobsJudge:
    """Call `judge` for successive spans of whole minutes."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def judge(
        self, records: Iterable[LedgerRuleRecord], firing: Sequence[Alert], since_ms: int, until_ms: int
    ) -> list[Alert]:
        """The changes at the whole five minutes in (since_ms, until_ms]. `records`: the settings in force."""
        instants = instants_of(since_ms, until_ms, EVERY_MS)
        if not instants:
            return []
        known = [*records]
        settings = {rule: settings_of(rule, known) for rule in RULES}
        lasts = {rule for rule, of in settings.items() if of.enabled and rule != metered_twice.RULE.name}
        found = self._found(settings, firing, range(instants[0] - EVERY_MS, instants.stop, EVERY_MS))
        jobs = sorted({alert.subject_name for alert in firing} | {each.subject_name for each in found})
        lasting = self._lasting(jobs, instants)
        return lasting_changes(
            firing,
            found,
            lambda alert, at_ms: alert.rule in lasts and (alert.subject_name, at_ms) in lasting,
            self._what_opens(found, instants),
            instants,
        )

    def _what_opens(self, found: Sequence[LedgerFinding], instants: range) -> Callable[[LedgerFinding], bool]:
        """Whether a finding is new: `silent_job` names an end that was lost, too, 10 min after the job was heard of.

        Of a job that was heard of in the hour before, the next instant is waited for, so that `silent_job` comes first.
        """
        held = {(each.subject_name, each.at_ms) for each in found if each.rule in _OF_LOST_ENDS}
        jobs = sorted({each.subject_name for each in found if each.rule in _OF_LOST_ENDS})
        known = AlertedJobs(self._store, jobs, (silent_job.RULE.name,))
        bound = {"from_ms": instants[0] - HOUR_MS, "to_ms": instants[-1]}
        heard_ms: dict[str, list[int]] = {}
        for row in named_rows(self._store, held_jobs_sql.ALIVE, "jobs", jobs, **bound):
            heard_ms.setdefault(row["job_id"], []).append(row["begin_ms"])

        def is_new(each: LedgerFinding) -> bool:
            job_id, at_ms = each.subject_name, each.at_ms
            if each.rule not in _OF_LOST_ENDS:
                return True
            is_heard = any(at_ms - HOUR_MS <= sampled_ms < at_ms for sampled_ms in heard_ms.get(job_id, ()))
            is_heard = is_heard or bool(known.about(job_id)["progress"])
            if is_heard and (job_id, at_ms - EVERY_MS) not in held:
                return False
            return not known.stood(job_id, at_ms)

        return is_new

    def _found(
        self, settings: Mapping[str, LedgerSettings], firing: Iterable[Alert], instants: range
    ) -> list[LedgerFinding]:
        """The findings of the rules that are on, those of the first rule last: of one job and instant the last one counts."""
        twice, double, after = (settings[rule] for rule in RULES)
        known = [alert for alert in firing if alert.rule == metered_twice.RULE.name]
        same = [*metered_twice_findings(self._store, twice, instants, known)] if twice.enabled else []
        twins: dict[int, set[str]] = {}
        for each in same:
            twins.setdefault(each.at_ms, set()).add(each.subject_name)
        held = [*double_held_findings(self._store, double, instants, twins)] if double.enabled else []
        gone = [*after_node_findings(self._store, after, instants)] if after.enabled else []
        return [*gone, *held, *same]

    def _lasting(self, jobs: Sequence[str], instants: range) -> set[tuple[str, int]]:
        """Each of these jobs, and the instants before which it was paid and not seen alive."""
        bound = {"from_ms": instants[0] - EVERY_MS - _SAMPLES_LATE_MS, "to_ms": instants[-1]}
        paid, alive = (
            {(row["job_id"], row["begin_ms"]) for row in named_rows(self._store, sql, "jobs", jobs, **bound)}
            for sql in (held_jobs_sql.PAID, held_jobs_sql.ALIVE)
        )
        return {
            (job_id, begin_ms + EVERY_MS)
            for job_id, begin_ms in paid
            if (job_id, begin_ms - _SAMPLES_LATE_MS) not in alive
        }
