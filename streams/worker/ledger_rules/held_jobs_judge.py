"""Judges at whole five minutes the rules about jobs that hold what they cannot: `double_held` and `after_node`.

One cause is one message: while one of them fires for a job, another one opens none for it. All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from schemas.durations import MINUTE_MS
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.ledger_rule_records import LedgerRuleRecord, settings_of
from streams.engine.ledger_rules.episodes import lasting_changes
from streams.engine.rules import after_node, double_held
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.worker.ledger_rules import held_jobs_sql
from streams.worker.ledger_rules.after_node_finder import after_node_findings
from streams.worker.ledger_rules.double_held_finder import double_held_findings
from streams.worker.ledger_rules.named_rows import named_rows
from streams.worker.ledger_rules.reader import SqlStore

EVERY_MS: Final = 5 * MINUTE_MS
#: Samples may come so late: whether a job is alive is looked at before.
_SAMPLES_LATE_MS: Final = 2 * EVERY_MS
#: Where each rule holds; of one job at one instant the first one counts.
_FINDERS: Final[Mapping[str, Callable[[SqlStore, LedgerSettings, range], Iterable[LedgerFinding]]]] = {
    double_held.RULE.name: double_held_findings,
    after_node.RULE.name: after_node_findings,
}
RULES: Final = tuple(_FINDERS)


class HeldJobsJudge:
    """Call `judge` for successive spans of whole minutes."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def judge(
        self, records: Iterable[LedgerRuleRecord], firing: Sequence[Alert], since_ms: int, until_ms: int
    ) -> list[Alert]:
        """The changes at the whole five minutes in (since_ms, until_ms]. `records`: the settings in force."""
        instants = range(since_ms // EVERY_MS * EVERY_MS + EVERY_MS, until_ms + 1, EVERY_MS)
        if not instants:
            return []
        known = [*records]
        settings = {rule: settings_of(rule, known) for rule in RULES}
        enabled = {rule for rule, of in settings.items() if of.enabled}
        found = [*self._found({rule: settings[rule] for rule in RULES if rule in enabled}, instants)]
        jobs = sorted({alert.subject_name for alert in firing} | {each.subject_name for each in found})
        lasting = self._lasting(jobs, instants)
        return lasting_changes(
            firing,
            found,
            lambda alert, at_ms: alert.rule in enabled and (alert.subject_name, at_ms) in lasting,
            instants,
        )

    def _found(self, settings: Mapping[str, LedgerSettings], instants: range) -> Iterator[LedgerFinding]:
        """The findings of all rules, those of the first rule last: of one job and instant the last one counts."""
        for rule in reversed([*settings]):
            yield from _FINDERS[rule](self._store, settings[rule], instants)

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
