"""Judges the rule `clock_ahead` at whole five minutes: reads from whom records came that are ahead of the log.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from schemas.columns import rows_of, values_of
from streams.engine.alerts.alert import Alert
from streams.engine.rules.clock_ahead import EVERY_MS, AheadMinute, AheadRun, finding, read_back_ms, run_at
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.worker.ledger_judges.instants import changes_at, instants_of
from streams.worker.ledger_judges.reader import SqlStore

AHEAD_MINUTES: Final = """
SELECT source, toUnixTimestamp(minute) * 1000 AS minute_ms, toInt64(sum(records)) AS all_records,
       toInt64(sum(refused)) AS all_refused, max(most_ahead_ms) AS ahead_ms
FROM records_ahead FINAL
WHERE minute >= toDateTime({from_ms:Int64} / 1000, 'UTC') AND minute < toDateTime({to_ms:Int64} / 1000, 'UTC')
GROUP BY source, minute
ORDER BY source, minute
"""
AHEAD_NODES: Final = """
SELECT node FROM records_ahead FINAL
WHERE source = {source:String} AND node != '' AND minute >= toDateTime({from_ms:Int64} / 1000, 'UTC') AND minute < toDateTime({to_ms:Int64} / 1000, 'UTC')
GROUP BY node
ORDER BY max(most_ahead_ms) DESC, node
"""


class ClockAheadJudge:
    """Call `judge` for successive spans of whole minutes."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def judge(self, of: LedgerSettings, firing: Sequence[Alert], since_ms: int, until_ms: int) -> list[Alert]:
        """The changes at the whole five minutes in (since_ms, until_ms]."""
        return changes_at(instants_of(since_ms, until_ms, EVERY_MS), of, firing, self._found)

    def _found(self, of: LedgerSettings, firing: Sequence[Alert], instants: range) -> Iterator[LedgerFinding]:
        from_ms = instants[0] - read_back_ms(of.thresholds)
        open_for = {alert.subject_name for alert in firing}
        for source, minutes in self._minutes(from_ms, instants[-1]).items():
            for at_ms in instants:
                run = run_at(minutes, at_ms)
                # What fires goes on with its run, of which an older part may not have been read.
                if len(run) >= (1 if source in open_for else of.thresholds["minutes"]):
                    yield self._finding(of, source, run, at_ms, is_open=source in open_for)
                    open_for.add(source)
                else:
                    open_for.discard(source)

    def _minutes(self, from_ms: int, to_ms: int) -> dict[str, list[AheadMinute]]:
        found: dict[str, list[AheadMinute]] = {}
        bound = {"from_ms": max(from_ms, 0), "to_ms": to_ms}
        for row in rows_of(self._store.query(AHEAD_MINUTES, bound)):
            each = AheadMinute(row["minute_ms"], row["all_records"], row["all_refused"], row["ahead_ms"])
            found.setdefault(row["source"], []).append(each)
        return found

    def _finding(
        self, of: LedgerSettings, source: str, run: Sequence[AheadMinute], at_ms: int, *, is_open: bool
    ) -> LedgerFinding:
        if is_open:  # only that it still holds counts
            return LedgerFinding("clock_ahead", of.severity, "source", source, at_ms, "", "")
        bound = {"source": source, "from_ms": run[0].minute_ms, "to_ms": at_ms}
        nodes = [*values_of(self._store.query(AHEAD_NODES, bound).column("node"))]
        return finding(of, AheadRun(source, run, nodes), at_ms)
