"""The last rows of the alerts that are judged on the ledger, as the table has them: the judge's only memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from sinks.rows import Rows
from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.alerts.openings import openings_of
from streams.engine.alerts.own_rule_records import PREFIX as OWN_RULES
from streams.engine.alerts.own_rule_records import PREFIX_END as OWN_RULES_END
from streams.engine.ledger_rules.flapping import Subject, subject_of
from streams.engine.rules.registry import BUDGET_NAMES, LEDGER_RULES
from streams.notify.history import StoredDeliveries

#: Rules whose alerts are kept by shard 0, whatever shards their jobs are in.
RULES: Final = (*BUDGET_NAMES, *LEDGER_RULES)
SHARD: Final = 0


class KnownAlerts:
    """Rows by alert id; `known` ids that have no row were looked for."""

    def __init__(self, store: Rows) -> None:
        self._records = StoredDeliveries(store)
        self._rows: dict[str, Alert | None] = {}
        self._found: list[Alert] = []
        self._is_read = False
        self._last: dict[Subject, str] = {}  # the alert of each subject whose rule opened last
        self._looked_for: set[Subject] = set()  # subjects whose last alerts were read

    def read_firing(self, since_ms: int | None = None) -> None:
        """Read what fires, and what changed since then if that is given, once; blocks."""
        if self._is_read:
            return
        found = self._records.firing_of_rules(RULES, SHARD)
        found += self._records.of_rules_between(OWN_RULES, OWN_RULES_END, SHARD)
        if since_ms is not None:
            # Read last: of an alert in both, this row is the newer one.
            found += self._records.changed_of_rules(RULES, SHARD, since_ms)
            found += self._records.of_rules_between(OWN_RULES, OWN_RULES_END, SHARD, since_ms)
        rows = {alert.alert_id: alert for alert in found}
        self.stored(rows.values())
        self._found += rows.values()
        self._is_read = True

    def last(self, alert_id: str) -> Alert | None:
        """The last known row."""
        return self._rows.get(alert_id)

    def missing(self, alert_ids: Iterable[str]) -> list[str]:
        """The ids that were never looked for."""
        return [each for each in alert_ids if each not in self._rows]

    def read(self, alert_ids: Collection[str]) -> None:
        """Look for these rows; blocks."""
        found = self._records.alerts_of(alert_ids)
        self._rows |= dict.fromkeys(alert_ids)
        self.stored(found.values())
        self._found += found.values()

    def firing(self) -> list[Alert]:
        """All that fire."""
        return [row for row in self._rows.values() if row is not None and row.status == FIRING]

    def last_of(self, subjects: Collection[Subject], since_ms: int) -> dict[Subject, Alert]:
        """The last alert of each of these subjects of which one fires, or changed at `since_ms` or later; blocks."""
        if unknown := sorted(set(subjects) - self._looked_for):
            rules, names = ({each[place] for each in unknown} for place in (0, 2))
            found = self._records.about_subjects(rules, names, max(since_ms, 0))
            self.stored(alert for alert in found if alert.alert_id not in self._rows)
            self._looked_for.update(unknown)
        rows = {each: self._rows[self._last[each]] for each in subjects if each in self._last}
        return {each: row for each, row in rows.items() if row is not None}

    def newest_ms(self) -> int:
        """The last instant at which something that fires began to; 0: nothing fires."""
        return max((row.changed_ms for row in self.firing()), default=0)

    def drain_found(self) -> list[Alert]:
        """The rows that were read since the last call: a former owner may have stored them and not sent them."""
        found, self._found = self._found, []
        return found

    def stored(self, alerts: Iterable[Alert]) -> None:
        """Take rows that the store has now."""
        for alert in alerts:
            self._rows[alert.alert_id] = alert
            subject = subject_of(alert)
            last = self._rows.get(self._last.get(subject, ""))
            if last is None or openings_of(last)[-1] <= openings_of(alert)[-1]:
                self._last[subject] = alert.alert_id
