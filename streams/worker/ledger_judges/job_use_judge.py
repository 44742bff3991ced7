"""Judges the rules about how the GPUs of jobs are used, instant by instant: one cause is one message.

What one of them opened in a span is not stored yet when the next one is judged there, and must be known to it all the same: else a
span of hours would open two alerts where spans of minutes open one. All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from schemas.columns import rows_of
from schemas.durations import DAY_MS, NEVER_MS
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.controls import Controls
from streams.engine.ledger_rules.episodes import hourly_changes
from streams.engine.rules import inefficient, spinning, straggler
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.registry import LEDGER_RULES
from streams.worker.ledger_judges import job_use_sql
from streams.worker.ledger_judges.inefficient_judge import InefficientJudge
from streams.worker.ledger_judges.instants import instants_of
from streams.worker.ledger_judges.job_use import Look, nothing
from streams.worker.ledger_judges.reader import SqlStore
from streams.worker.ledger_judges.spinning_judge import EVERY_MS, SpinningJudge
from streams.worker.ledger_judges.straggler_judge import StragglerJudge

#: In the order in which they are judged at an instant, with those that name the same cause: while one of these stands, none opens.
_SAME_CAUSE: Final[Mapping[str, tuple[str, ...]]] = {
    rule.name: tuple(name for name in rule.yields_to if name in LEDGER_RULES)
    for rule in (spinning.RULE, straggler.RULE, inefficient.RULE)
}
RULES: Final = tuple(_SAME_CAUSE)
_EVERY_MS: Final = {
    spinning.NAME: EVERY_MS,
    straggler.NAME: straggler.SLOT_MS,
    inefficient.NAME: inefficient.SLOT_MS,
}


class _JudgedRule(NamedTuple):
    """A rule in a span: when it is judged, and where it holds."""

    of: LedgerSettings
    firing: Sequence[Alert]
    instants: range
    look: Look
    found: list[LedgerFinding]


class JobUseJudge:
    """Call `judge` for successive spans of whole minutes."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._spinning = SpinningJudge(store)
        self._straggler = StragglerJudge(store)
        self._inefficient = InefficientJudge(store)

    def judge(
        self,
        known: Callable[[str], tuple[LedgerSettings, Sequence[Alert]]],
        since_ms: int,
        until_ms: int,
        controls: Controls,
    ) -> list[Alert]:
        """The changes in (since_ms, until_ms]; `known`: the settings of a rule, and its alerts that fire."""
        rules = {name: self._rule(name, *known(name), since_ms, until_ms, controls) for name in RULES}
        if any(rule.look is not nothing for rule in rules.values()):
            self._look(rules, since_ms)
        changes: list[Alert] = []
        for rule in rules.values():
            changes += hourly_changes(rule.firing, rule.found, rule.instants)
        return changes

    def _look(self, rules: Mapping[str, _JudgedRule], since_ms: int) -> None:
        """Add to each rule where it holds, instant by instant."""
        # What was stored after the span began is found again in it.
        stood_ms = self._ended(since_ms)
        for name, rule in rules.items():
            stood_ms.setdefault(name, {}).update(
                (alert.subject_name, NEVER_MS) for alert in rule.firing if alert.started_ms <= since_ms
            )
        for at_ms in sorted({at_ms for rule in rules.values() for at_ms in rule.instants}):
            for name, rule in rules.items():
                if at_ms not in rule.instants:
                    continue

                def is_explained(job_id: str, from_ms: int, by: Sequence[str] = _SAME_CAUSE[name]) -> bool:
                    return any(stood_ms[other].get(job_id, from_ms - 1) >= from_ms for other in by)

                found = [*rule.look(at_ms, is_explained)]
                of_rule = stood_ms[name]
                of_rule |= {job_id: at_ms for job_id, until_ms in of_rule.items() if until_ms == NEVER_MS}
                of_rule |= {each.subject_name: NEVER_MS for each in found}
                rule.found.extend(found)

    def _ended(self, since_ms: int) -> dict[str, dict[str, int]]:
        """When alerts of these rules ended last that had ended when the span began, by rule and job."""
        bound = {"rules": [*RULES], "from_ms": max(since_ms - DAY_MS, 0), "to_ms": since_ms}
        found: dict[str, dict[str, int]] = {}
        for row in rows_of(self._store.query(job_use_sql.ENDED, bound)):
            found.setdefault(row["rule"], {})[row["subject_name"]] = row["until_ms"]
        return found

    def _rule(
        self,
        name: str,
        of: LedgerSettings,
        firing: Sequence[Alert],
        since_ms: int,
        until_ms: int,
        controls: Controls,
    ) -> _JudgedRule:
        instants = instants_of(since_ms, until_ms, _EVERY_MS[name])
        look: Look = nothing
        if instants and of.enabled:
            if name == spinning.NAME:
                look = self._spinning.look(of, firing, instants)
            elif name == straggler.NAME:
                look = self._straggler.look(of, firing, instants)
            else:
                look = self._inefficient.look(of, firing, instants, controls)
        return _JudgedRule(of, firing, instants, look, [])
