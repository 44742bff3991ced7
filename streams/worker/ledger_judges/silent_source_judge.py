"""Judges the rule `silent_source` at whole minutes: reads when sources reported.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from schemas.columns import rows_of
from schemas.validate_sources import NODE_PREFIXES, PRICES_PREFIX
from streams.engine.alerts.alert import Alert
from streams.engine.ledger_rules.source_silences import SourceRecordTime, silence_changes, silences
from streams.engine.rules.finding import LedgerSettings
from streams.engine.rules.silent_source import LAST_RECORDS, OVER_MS, SourceSilence, long_ms
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore

_RECORD: Final = "name, offset, toUnixTimestamp64Milli(any(time)) AS at_ms, max(removed) AS is_forgotten"
_IS_FOLLOWED: Final = "NOT arrayExists(each -> startsWith(name, each), {others:Array(String)})"
_BEFORE: Final = "time < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')"
#: The sources that said nothing for long at any minute of the span, if only for as long as is needed at least.
QUIET_SOURCES: Final = f"""
SELECT name, toInt64(count()) AS records
FROM
(
    SELECT name, at_ms, is_forgotten, leadInFrame(at_ms, 1, {{to_ms:Int64}}) OVER w AS next_ms
    FROM
    (
        SELECT {_RECORD} FROM sources
        WHERE time >= fromUnixTimestamp64Milli({{from_ms:Int64}}, 'UTC') AND {_BEFORE} AND {_IS_FOLLOWED}
        GROUP BY name, offset
    )
    WINDOW w AS (PARTITION BY name ORDER BY at_ms, offset ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
)
GROUP BY name
HAVING countIf(NOT is_forgotten AND next_ms > {{since_ms:Int64}} AND next_ms - at_ms >= {{least_ms:Int64}}) > 0
ORDER BY name
"""  # noqa: S608 - of constants, values bound
#: The last records of some of them.
RECORDS: Final = f"""
SELECT name, at_ms, is_forgotten
FROM
(
    SELECT {_RECORD} FROM sources WHERE name IN {{names:Array(String)}} AND {_BEFORE} GROUP BY name, offset
    ORDER BY at_ms DESC, offset DESC LIMIT {{most:UInt64}} BY name
)
ORDER BY name, at_ms, offset
"""  # noqa: S608 - of constants, values bound


class SilentSourceJudge:
    """Call `judge` for successive spans of whole minutes."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def judge(self, of: LedgerSettings, firing: Sequence[Alert], since_ms: int, until_ms: int) -> list[Alert]:
        """The changes at the whole minutes in (since_ms, until_ms]."""
        found = self._silences(of.thresholds, since_ms, until_ms) if of.enabled else ()
        return silence_changes(found, firing, since_ms, until_ms, of)

    def _silences(self, of: Mapping[str, float], since_ms: int, until_ms: int) -> Iterator[SourceSilence]:
        bound = {
            "from_ms": max(since_ms - OVER_MS, 0),
            "since_ms": since_ms,
            "to_ms": until_ms,
            "least_ms": long_ms(of),
            "others": [PRICES_PREFIX, *NODE_PREFIXES],
        }
        quiet = {row["name"]: row["records"] for row in rows_of(self._store.query(QUIET_SOURCES, bound))}
        # All of the span, and those before that say how often the first of these was usual.
        most = max(quiet.values(), default=0) + LAST_RECORDS
        rows = named_rows(self._store, RECORDS, "names", [*quiet], to_ms=until_ms, most=most)
        for name, of_source in groupby(rows, key=lambda row: str(row["name"])):
            records = [SourceRecordTime(row["at_ms"], bool(row["is_forgotten"])) for row in of_source]
            yield from silences(name, records, of)
