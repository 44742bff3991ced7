"""The rule `not_understood`: one alert for each cause for which entries of a source are not understood, while it stands.

A function of the records in the order of their log alone, so that any cut of it gives the same alerts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from schemas.durations import MINUTE_MS
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.resolving import resolved
from streams.engine.ledger_rules.episodes import opened
from streams.engine.rules.not_understood import SourceState, finding, subject_of

#: A source that says nothing for so long is not there any more: nobody can tell whether its causes are.
VALID_MS: Final = 24 * 3_600_000
#: Records of so long before the first minute to judge are needed.
READ_BACK_MS: Final = 2 * VALID_MS


def cause_changes(
    records: Iterable[SourceState], firing: Sequence[Alert], since_ms: int, until_ms: int, severity: str
) -> list[Alert]:
    """The changes up to `until_ms`, each at the whole minute after the record that makes it.

    Those of the day before `since_ms` are among them, for a record may be stored late: what is stored already is the caller's to leave out.

    Args:
        records: All records from `READ_BACK_MS` before `since_ms` on, by their offsets; none if the rule is off.
        firing: The alerts of this rule.
        since_ms: The last minute that was judged.
        until_ms: The last minute to judge.
        severity: That of alerts which open.
    """
    now = {alert.subject_name: alert for alert in firing}
    changes: list[Alert] = []
    standing: dict[str, set[str]] = {}
    for at_ms, record in _states(records, until_ms):
        before, causes = standing.get(record.name, set()), set(record.standing)
        standing[record.name] = causes
        if at_ms <= since_ms - VALID_MS:
            continue
        for reason in sorted(before - causes):
            alert = now.get(subject_of(record.name, reason))
            if alert is not None and alert.changed_ms < at_ms:
                changes.append(resolved(now.pop(alert.subject_name), at_ms))
        for reason in sorted(causes - before):
            if subject_of(record.name, reason) not in now:
                alert = opened(finding(record, reason, at_ms, severity))
                now[alert.subject_name] = alert
                changes.append(alert)
    there = {subject_of(name, reason) for name, causes in standing.items() for reason in causes}
    first_ms = since_ms + MINUTE_MS
    over = [alert for name, alert in sorted(now.items()) if name not in there and alert.changed_ms < first_ms]
    return [*changes, *(resolved(alert, first_ms) for alert in over)]


def _states(records: Iterable[SourceState], until_ms: int) -> Iterator[tuple[int, SourceState]]:
    """Yield what stands from each whole minute on: of one minute the last record, and nothing a day after the last one."""
    at: dict[str, dict[int, SourceState]] = {}
    for each in records:
        at.setdefault(each.name, {})[(each.at_ms // MINUTE_MS + 1) * MINUTE_MS] = each
    found: list[tuple[int, SourceState]] = []
    for of_source in at.values():
        minutes = sorted(of_source)
        for minute_ms, next_ms in zip(minutes, [*minutes[1:], None], strict=True):
            record, end_ms = of_source[minute_ms], minute_ms + VALID_MS
            found.append((minute_ms, record))
            if next_ms is None or next_ms > end_ms:
                found.append((end_ms, record._replace(standing={})))
    found.sort(key=lambda each: (each[0], each[1].name))
    yield from (each for each in found if each[0] <= until_ms)
