"""When alerts of some rules stood that name the cause of others: these are not judged, or without what those tell of."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from schemas.columns import rows_of
from schemas.durations import HOUR_MS, NEVER_MS
from streams.engine.alerts.alert import Alert
from streams.worker.ledger_judges.reader import SqlStore

#: Rules by the hour look at so many hours before.
_READ_BACK_MS: Final = 168 * HOUR_MS
_EPISODES: Final = """
SELECT alert_id, subject_name, toUnixTimestamp64Milli(started) AS started_ms, toUnixTimestamp64Milli(resolved) AS resolved_ms
FROM alerts FINAL
WHERE rule IN {rules:Array(String)} AND started <= fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')
    AND (resolved IS NULL OR resolved >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC'))
ORDER BY alert_id"""


def named_episodes(
    store: SqlStore,
    rules: Collection[str],
    parameters: tuple[str, str, str],
    changes: Iterable[Alert],
    from_ms: int,
    to_ms: int,
) -> dict[str, list[Any]]:
    """The subjects of these rules' alerts in the span, and when they stood, as parameters of a statement; blocks.

    `changes`: what is not stored yet, of any rules.
    """
    bound = {"rules": sorted(rules), "from_ms": max(from_ms - _READ_BACK_MS, 0), "to_ms": to_ms}
    found: dict[str, tuple[str, int, int]] = {}
    for row in rows_of(store.query(_EPISODES, bound)):
        until_ms = NEVER_MS if row["resolved_ms"] is None else row["resolved_ms"]
        found[row["alert_id"]] = row["subject_name"], row["started_ms"], until_ms
    for alert in changes:
        if alert.rule in rules:
            until_ms = NEVER_MS if alert.resolved_ms is None else alert.resolved_ms
            found[alert.alert_id] = alert.subject_name, alert.started_ms, until_ms
    return {name: [each[place] for each in found.values()] for place, name in enumerate(parameters)}
