"""Judges the rule `incident`: reads which alerts have a cause that others may share.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from schemas.columns import rows_of
from schemas.durations import MINUTE_MS
from streams.engine.alerts.alert import Alert
from streams.engine.ledger_rules.incidents import EXPLAINED_MS, incident_changes
from streams.engine.rules.finding import LedgerSettings
from streams.engine.rules.incident import TOGETHER_MS, SharedAlert
from streams.engine.rules.rule import JOB
from streams.worker.ledger_judges.reader import SqlStore

#: Those of this rule are its own.
SHARED_ALERTS: Final = """
SELECT shared_cause, rule, severity, subject_kind, subject_name, owner, team, project,
    toUnixTimestamp64Milli(started) AS started_ms, toUnixTimestamp64Milli(resolved) AS resolved_ms,
    toUnixTimestamp64Milli(ticket_since) AS ticket_ms, toUnixTimestamp64Milli(page_since) AS page_ms,
    toInt64(toDecimal128(opened_usd_per_hour, 9) * 1000000000) AS nano_per_hour
FROM alerts FINAL
WHERE shared_cause != '' AND rule != 'incident' AND started < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')
    AND started >= fromUnixTimestamp64Milli(if(subject_kind = 'job', {from_ms:Int64}, {named_from_ms:Int64}), 'UTC')"""


class IncidentJudge:
    """Call `judge` for successive spans of whole minutes."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def judge(
        self,
        of: LedgerSettings,
        firing: Sequence[Alert],
        jumped: Iterable[Alert],
        span: tuple[int, int],
        operators: Mapping[str, str],
    ) -> list[Alert]:
        """Return the changes at the whole minutes of (since_ms, until_ms], the span.

        `jumped`: what `price_jump` tells in it, which is not stored yet; `operators`: owners by the name of their record.
        """
        since_ms, until_ms = (at_ms // MINUTE_MS * MINUTE_MS for at_ms in span)
        if until_ms <= since_ms or not (of.enabled or firing):
            return []
        first_ms = min([since_ms, *(alert.started_ms for alert in firing)]) - TOGETHER_MS
        bound = {
            "from_ms": max(first_ms, 0),
            "named_from_ms": max(since_ms - EXPLAINED_MS, 0),
            "to_ms": until_ms,
        }
        rows = [*rows_of(self._store.query(SHARED_ALERTS, bound))]
        named_ms: dict[str, list[int]] = {}
        for row in rows:
            if row["subject_kind"] != JOB:
                named_ms.setdefault(row["shared_cause"], []).append(row["started_ms"])
        for alert in jumped:
            named_ms.setdefault(alert.shared_cause, []).append(alert.started_ms)
        return incident_changes(_of_jobs(rows), firing, named_ms, since_ms, until_ms, of, operators)


def _of_jobs(rows: Sequence[Mapping[str, Any]]) -> Iterator[SharedAlert]:
    for row in rows:
        if row["subject_kind"] == JOB:
            yield SharedAlert(
                row["shared_cause"],
                row["rule"],
                row["severity"],
                row["subject_name"],
                row["owner"],
                row["team"],
                row["project"],
                row["started_ms"],
                row["resolved_ms"],
                row["nano_per_hour"],
                row["ticket_ms"],
                row["page_ms"],
            )
