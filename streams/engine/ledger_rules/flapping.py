"""Alerts that open again and again: the fourth opening within three hours stays open until an hour of quiet, whatever the rule.

It stands between a rule's judge and what is stored and sent. A judge sees its rule alone: `as_judged` says what holds for it, and
`alert_rows` makes of its changes the rows of alerts. All that it knows stands in these rows, so that any cut of a log gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from schemas.durations import MINUTE_MS
from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.alerts.openings import flaps, openings_of, summary_of, with_opening
from streams.engine.alerts.resolving import resolved
from streams.engine.kernels.episode_steps import QUIET_MS
from streams.engine.ledger_rules.episodes import raised
from streams.engine.rules.rule import is_above

#: What ends one that flaps at once, as its job's end, is looked at so often.
_EVERY_MS: Final = 5 * MINUTE_MS

#: A rule, and the kind and the name of what its alert is about.
Subject: TypeAlias = tuple[str, str, str]
#: Whether what an alert is about is over at an instant, or somebody has dealt with it: then it does not stay open.
IsOver: TypeAlias = Callable[[Alert, int], bool]


def subject_of(alert: Alert) -> Subject:
    """What an alert's episodes belong to."""
    return alert.rule, alert.subject_kind, alert.subject_name


def changed_ms(alert: Alert) -> int:
    """When the row last changed, be it that nobody is notified of that."""
    return max(alert.changed_ms, alert.held_ms, alert.quiet_ms or 0)


def as_judged(firing: Iterable[Alert]) -> list[Alert]:
    """The alerts of which the rule holds, as its judge knows them: each begins where its rule opened last."""
    return [
        replace(
            alert, started_ms=openings_of(alert)[-1], changed_ms=max(alert.changed_ms, openings_of(alert)[-1])
        )
        for alert in firing
        if alert.quiet_ms is None
    ]


def alert_rows(
    changes: Iterable[Alert],
    firing: Iterable[Alert],
    last: Mapping[Subject, Alert],
    span: tuple[int, int],
    is_over: IsOver,
) -> list[Alert]:
    """The rows that changes of judges make, in order: of alerts that open, end, begin to be quiet or are so no more.

    Args:
        changes: Of some rules, those of a subject in order.
        firing: What fires of these rules, as it is stored.
        last: The last alerts of the subjects of which something opens.
        span: The last minute that was judged, and the last one to judge.
        is_over: Asked of alerts that are open as they flap alone.
    """
    of_subject: dict[Subject, list[tuple[int, Alert]]] = {}
    for place, each in enumerate(changes):
        of_subject.setdefault(subject_of(each), []).append((place, each))
    stored: dict[Subject, list[Alert]] = {}
    for alert in firing:
        stored.setdefault(subject_of(alert), []).append(alert)
    quiet = {
        subject for subject, alerts in stored.items() if any(each.quiet_ms is not None for each in alerts)
    }
    found: list[_Placed] = []
    for subject in sorted(quiet | of_subject.keys()):
        alerts = stored.get(subject, [])
        known = [*alerts, last[subject]] if subject in last else alerts
        now = max(known, key=lambda alert: openings_of(alert)[-1], default=None)
        of_one = _SubjectRows(now, alerts, span, is_over)
        found += of_one.rows(of_subject.get(subject, ()))
    return [each.row for each in sorted(found, key=lambda each: (each.at_ms, each.place))]


class _Placed(NamedTuple):
    """A row, and its place among others: its instant, and the place of the change that made it; -1: none did."""

    at_ms: int
    place: int
    row: Alert


class _SubjectRows:
    """The steps of one subject, whose last alert is `now`."""

    def __init__(
        self, now: Alert | None, firing: Iterable[Alert], span: tuple[int, int], is_over: IsOver
    ) -> None:
        self._now = now
        self._firing = {alert.alert_id: alert for alert in firing}  # as they are stored
        self._goes_on_as: dict[
            str, str
        ] = {}  # by the id of an episode nobody is notified of: the alert that goes on by it
        self._since_ms, self._until_ms = span
        self._is_over = is_over

    def rows(self, changes: Iterable[tuple[int, Alert]]) -> Iterator[_Placed]:
        """Yield the rows of what changed, and of what ends by itself."""
        for place, each in changes:
            yield from self._ended_before(each.changed_ms)
            row = self._opened(each) if each.status == FIRING else self._closed(each)
            if row is not None:
                yield _Placed(each.changed_ms, place, row)
        yield from self._ended_before(self._until_ms + 1)

    def _ended_before(self, before_ms: int) -> Iterator[_Placed]:
        now = self._now
        if now is None or now.quiet_ms is None or now.status != FIRING:
            return
        end_ms = now.quiet_ms + QUIET_MS
        first_ms = max(self._since_ms, now.quiet_ms) // _EVERY_MS * _EVERY_MS + _EVERY_MS
        looks = range(first_ms, min(before_ms, end_ms), _EVERY_MS)
        over_ms = next((at_ms for at_ms in looks if self._is_over(now, at_ms)), end_ms)
        if over_ms < before_ms:
            self._now = resolved(now, over_ms)
            yield _Placed(over_ms, -1, self._now)

    def _opened(self, each: Alert) -> Alert | None:
        now, at_ms = self._now, each.changed_ms
        openings = openings_of(now)
        if at_ms in openings:
            return None  # a new owner judges again what it knows
        if openings and at_ms < openings[-1]:  # what is known late
            self._firing[each.alert_id] = each
            return each
        is_same = now is not None and now.status == FIRING and each.alert_id == now.alert_id
        if now is None or now.status != FIRING or not (is_same or flaps(now)):
            now = replace(each, openings=with_opening(now, at_ms))
            self._now = replace(now, summary=summary_of(now))
            self._firing[each.alert_id] = self._now
            return self._now
        openings = now.openings if is_same else with_opening(now, at_ms)
        if is_above(each.severity, now.severity):  # what is more urgent is sent, however often it came before
            now = raised(now, each)
        self._now = replace(now, openings=openings, quiet_ms=None, held_ms=at_ms, stood_ms=each.stood_ms)
        self._firing[now.alert_id] = self._now
        self._goes_on_as[each.alert_id] = now.alert_id
        return self._now

    def _closed(self, each: Alert) -> Alert | None:
        now, at_ms = self._now, each.changed_ms
        if now is None or each.started_ms != openings_of(now)[-1]:
            other = self._firing.get(self._goes_on_as.get(each.alert_id, each.alert_id))
            if other is None or other is now or each.started_ms != openings_of(other)[-1]:
                return None
            del self._firing[other.alert_id]
            return resolved(other, at_ms)
        if now.status != FIRING:
            return each
        if not flaps(now) or self._is_over(now, at_ms):
            self._now = resolved(now, at_ms)
        elif now.quiet_ms is None:
            self._now = replace(now, quiet_ms=at_ms)
        else:
            return None
        return self._now
