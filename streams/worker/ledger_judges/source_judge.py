"""Judges the rule `not_understood`: reads what sources said of what they have read.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from schemas.columns import rows_of
from schemas.validate_sources import NOT_UNDERSTOOD
from streams.engine.alerts.alert import Alert
from streams.engine.ledger_rules.source_causes import READ_BACK_MS, cause_changes
from streams.engine.rules.finding import LedgerSettings
from streams.engine.rules.not_understood import SourceCause, SourceState
from streams.worker.ledger_judges.reader import SqlStore

SOURCE_RECORDS: Final = """
SELECT name, offset, toUnixTimestamp64Milli(time) AS at_ms, entry_class, reason, entries, example, standing
FROM sources FINAL
WHERE time >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC') AND time < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')
ORDER BY offset, entry_class, reason
"""


class SourceJudge:
    """Call `judge` for successive spans of whole minutes."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def judge(self, of: LedgerSettings, firing: Sequence[Alert], since_ms: int, until_ms: int) -> list[Alert]:
        """The changes up to `until_ms`, those of the day before `since_ms` among them."""
        records = self._records(since_ms - READ_BACK_MS, until_ms) if of.enabled else ()
        return cause_changes(records, firing, since_ms, until_ms, of.severity)

    def _records(self, from_ms: int, to_ms: int) -> Iterator[SourceState]:
        rows = rows_of(self._store.query(SOURCE_RECORDS, {"from_ms": max(from_ms, 0), "to_ms": to_ms}))
        for offset, of_record in groupby(rows, key=lambda row: int(row["offset"])):
            found: list[dict[str, Any]] = [*of_record]
            yield SourceState(
                found[0]["name"],
                offset,
                found[0]["at_ms"],
                sum(row["entries"] for row in found),
                {
                    row["reason"]: SourceCause(row["entries"], row["example"])
                    for row in found
                    if row["entry_class"] == NOT_UNDERSTOOD and row["standing"]
                },
            )
