"""The rule `silent_source`: when sources were silent for too long, by their records, and the changes of its alerts.

A function of the log times of the records alone, so that any cut of a log gives the same alerts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import NamedTuple

from schemas.durations import MINUTE_MS
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.resolving import resolved
from streams.engine.ledger_rules.episodes import opened
from streams.engine.rules.finding import LedgerSettings
from streams.engine.rules.silent_source import (
    LAST_RECORDS,
    LEAST_RECORDS,
    OVER_MS,
    TIMES_USUAL,
    SourceSilence,
    finding,
    long_ms,
)


class SourceRecordTime(NamedTuple):
    """A record of a source, or that it was forgotten, at its log time."""

    at_ms: int
    is_forgotten: bool = False


def silences(
    name: str, records: Sequence[SourceRecordTime], of: Mapping[str, float]
) -> Iterator[SourceSilence]:
    """Yield the spans in which the rule holds for a source, in order.

    Args:
        name: The source's.
        records: Its records by log time; of those before the first one that matters the last `LAST_RECORDS`.
        of: The thresholds of the rule.
    """
    last: list[int] = []
    for each, later in zip_longest(records, records[1:]):
        last = [] if each.is_forgotten else [*last, each.at_ms][-LAST_RECORDS:]
        if len(last) < LEAST_RECORDS:
            continue
        gaps = sorted(after - before for before, after in pairwise(last))
        twice_usual = gaps[(len(gaps) - 1) // 2] + gaps[len(gaps) // 2]
        silent_ms = max(long_ms(of), -(-TIMES_USUAL * twice_usual // 2))
        from_ms, until_ms = _minute_from(each.at_ms + silent_ms), _minute_from(each.at_ms + OVER_MS)
        if later is not None:  # a record counts at the minute after it
            until_ms = min(until_ms, _minute_from(later.at_ms + 1))
        if from_ms < until_ms:
            yield SourceSilence(name, each.at_ms, len(last), twice_usual // 2, silent_ms, from_ms, until_ms)


def silence_changes(
    found: Iterable[SourceSilence], firing: Iterable[Alert], since_ms: int, until_ms: int, of: LedgerSettings
) -> list[Alert]:
    """The changes at the whole minutes in (since_ms, until_ms].

    Args:
        found: The silences of each source in order, by the records before `until_ms`; none if the rule is off.
        firing: The alerts of this rule.
        since_ms: The last minute that was judged.
        until_ms: The last minute to judge.
        of: The settings of the rule.
    """
    of_source: dict[str, list[SourceSilence]] = {}
    for each in found:
        of_source.setdefault(each.name, []).append(each)
    now = {alert.subject_name: alert for alert in firing}
    changes = [
        change
        for name in sorted({*of_source, *now})
        for change in _changes(of_source.get(name, ()), now.get(name), since_ms + MINUTE_MS, until_ms, of)
    ]
    return sorted(changes, key=lambda each: each.changed_ms)


def _changes(
    found: Iterable[SourceSilence], fires: Alert | None, first_ms: int, last_ms: int, of: LedgerSettings
) -> Iterator[Alert]:
    quiet_ms = first_ms  # the first minute from which on the rule does not hold
    for each in found:
        begin_ms = max(each.from_ms, first_ms)
        if begin_ms >= each.until_ms or begin_ms > last_ms:
            continue
        # An alert of a minute that is judged again may have opened later.
        if fires is not None and (over_ms := max(quiet_ms, fires.changed_ms + MINUTE_MS)) < begin_ms:
            yield resolved(fires, over_ms)
            fires = None
        if fires is None:
            fires = opened(finding(of, each, begin_ms))
            yield fires
        quiet_ms = each.until_ms
    if fires is not None and (over_ms := max(quiet_ms, fires.changed_ms + MINUTE_MS)) <= last_ms:
        yield resolved(fires, over_ms)


def _minute_from(ms: int) -> int:
    """The first whole minute that is not before an instant."""
    return -(-ms // MINUTE_MS) * MINUTE_MS
