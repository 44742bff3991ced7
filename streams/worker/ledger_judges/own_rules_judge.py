"""Judges rules of one's own by SQL: each statement in a confined process, as `trainfare sql` runs it, with less time.

A statement that is refused, fails or takes too long changes no alert: it is counted, and logged once until it is another fault.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from schemas.durations import MINUTE_MS
from schemas.escaping import visible
from sinks.clickhouse import ClickHouseStore
from sinks.errors import QueriesOff, SinkError
from sinks.query import arrow
from sinks.query.limits import OWN_NICE, QueryLimits
from sinks.query.pool import QueryPool
from sinks.target import query_source
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.own_rule_records import PREFIX, OwnRule
from streams.engine.alerts.resolving import resolved
from streams.engine.ledger_rules.episodes import hourly_changes
from streams.engine.ledger_rules.flapping import as_judged
from streams.engine.ledger_rules.own_rule_findings import OwnRuleError, own_findings
from streams.engine.rules.finding import LedgerFinding
from streams.engine.rules.rule import JOB
from streams.worker.ledger_judges.known_alerts import KnownAlerts
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore

logger = logging.getLogger(__name__)

#: The others wait meanwhile.
LIMITS: Final = QueryLimits(time_ms=10_000, result_rows=10_000, result_bytes=8 * 2**20, nice=OWN_NICE)
_LOGGED_CHARS: Final = 300
_WHOSE: Final = "SELECT job_id, owner, team, project FROM jobs FINAL WHERE job_id IN {jobs:Array(String)}"

#: Answers a statement: its columns by name.
Ask = Callable[[str], Mapping[str, Sequence[object]]]
#: Hears of a rule how many of how many instants of a span are judged.
Heard = Callable[[str, int, int], None]


class FailedRule(NamedTuple):
    """A rule by SQL that could not be judged, or only in part: how often, and why at last."""

    rule: str
    times: int
    reason: str


class ConfinedQueries:
    """Asks the store in processes of its own, which end when they are idle for long; `close` ends them at once."""

    def __init__(self, store: SqlStore, limits: QueryLimits = LIMITS) -> None:
        self._store = store
        self._limits = limits
        self._pool: QueryPool | None = None

    def __call__(self, sql: str) -> Mapping[str, Sequence[object]]:
        """The columns of the answer; blocks.

        Raises:
            SinkError: The statement is refused, has failed or took too long, or nothing can answer.
        """
        if not isinstance(self._store, ClickHouseStore):
            raise QueriesOff("this store runs no SQL of users")
        if self._pool is None:
            self._pool = QueryPool(query_source(self._store.target), self._limits)
        answered = self._pool.new_run().answer(sql, {}, "arrow")
        with os.fdopen(answered.descriptor, "rb") as file:
            file.seek(0)
            result = arrow.decode(file.read())
        return dict(zip(result.names, result.columns, strict=True))

    def close(self) -> None:
        """End its processes."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


class OwnRulesJudge:
    """Call `judge` for successive spans of minutes, after the other rules across jobs; all calls block."""

    def __init__(
        self, store: SqlStore, known_alerts: KnownAlerts, ask: Ask, heard: Heard | None = None
    ) -> None:
        """`heard`: a long log has thousands of instants, each a statement of its own."""
        self._store = store
        self._heard = heard
        self._known_alerts = known_alerts
        self._ask = ask
        self._said: dict[str, str] = {}  # the last fault of each rule
        #: How often each rule failed, and left out rows.
        self.failed: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}  # why, at last

    def failures(self) -> list[FailedRule]:
        """The rules that failed, or left out rows, by name."""
        return [
            FailedRule(PREFIX + name, self.failed[name], self._reasons[name]) for name in sorted(self.failed)
        ]

    def judge(self, controls: Controls, since_ms: int, until_ms: int) -> list[Alert]:
        """The changes at the instants of (since_ms, until_ms] of each rule; not whether they are silenced."""
        self._known_alerts.read_firing()
        known = as_judged(self._known_alerts.firing())
        firing = [alert for alert in known if alert.rule.startswith(PREFIX)]
        rules = {rule.rule: rule for rule in controls.own_rules}
        first_ms = since_ms + MINUTE_MS
        changes = [
            resolved(alert, max(first_ms, alert.changed_ms + 1))
            for alert in firing
            if alert.rule not in rules
        ]
        for rule in rules.values():
            mine = [alert for alert in firing if alert.rule == rule.rule]
            instants = rule.instants(since_ms, until_ms)
            for number, at_ms in enumerate(instants, 1):
                found = self._found(rule, at_ms)
                if self._heard is not None:
                    self._heard(rule.rule, number, len(instants))
                if found is None:
                    continue  # nobody knows: it stays as it is
                now = hourly_changes(mine, found, [at_ms])
                over = {alert.alert_id for alert in now}
                mine = [alert for alert in mine if alert.alert_id not in over]
                mine += [alert for alert in now if alert.resolved_ms is None]
                changes += now
        return sorted(changes, key=lambda each: (each.changed_ms, each.rule, each.subject_name))

    def _found(self, rule: OwnRule, at_ms: int) -> list[LedgerFinding] | None:
        """Where a rule holds; None: nobody can say."""
        try:
            found, left_out = own_findings(rule, at_ms, self._ask(rule.statement(at_ms)))
        except (SinkError, OwnRuleError) as fault:
            self._fault(rule, str(fault))
            return None
        if left_out:
            reasons = Counter(left_out)
            words = "; ".join(f"{count} x {reason}" for reason, count in sorted(reasons.items()))
            self._fault(rule, f"left out of its answer: {words}")
        else:
            self._said.pop(rule.name, None)
        return list(self._with_owners(found))

    def _with_owners(self, found: Sequence[LedgerFinding]) -> Iterator[LedgerFinding]:
        """Yield the findings; of a job without an owner, team or project those that the job has."""
        jobs = [each.subject_name for each in found if each.subject_kind == JOB]
        known = {row["job_id"]: row for row in named_rows(self._store, _WHOSE, "jobs", jobs)}
        for each in found:
            row = known.get(each.subject_name) if each.subject_kind == JOB else None
            if row is not None:
                own = {name: getattr(each, name) or row[name] for name in ("owner", "team", "project")}
                each = each._replace(**own)
            yield each

    def _fault(self, rule: OwnRule, words: str) -> None:
        self.failed[rule.name] += 1
        self._reasons[rule.name] = reason = visible(words)[:_LOGGED_CHARS]
        if self._said.get(rule.name) != reason:
            self._said[rule.name] = reason
            logger.warning(
                "rule by SQL failed",
                extra={
                    "rule": rule.rule,
                    "reason": reason,
                    "runbook": "docs/trouble.md#rule-by-sql-failed",
                },
            )
