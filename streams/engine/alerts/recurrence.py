"""When a control recurs: on weekdays, between hours of a time zone; daylight saving time is that of the zone.

A day is the one on which the hours begin. A time that the clocks skip counts as so much later as they are put forward; of one
that comes twice the first is meant where the hours begin, the last where they end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from schemas.durations import DAY_MS, MINUTE_MS
from schemas.refusal import nearest, shown
from streams.engine.alerts.malformed import MalformedControlError, all_of, refuse_any

WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
#: The fields of a record that say when it recurs.
FIELDS: Final = frozenset({"weekdays", "hours", "time_zone"})
_HOURS: Final = re.compile(r"(\d\d):(\d\d)-(\d\d):(\d\d)")
_DAY_MINUTES: Final = 24 * 60
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: The instants that a date can say, with days to spare; outside nothing recurs.
_FIRST_MS: Final = 0
_LAST_MS: Final = 250_000_000_000_000


class Recurrence(NamedTuple):
    """Hours of some weekdays; `until_minute` is after `from_minute`, and may be on the next day."""

    weekdays: tuple[int, ...]  # 0: Monday
    from_minute: int  # of the day
    until_minute: int
    time_zone: str

    def spans(self, first_ms: int, last_ms: int) -> Iterator[tuple[int, int]]:
        """Yield the spans [from_ms, until_ms) that have an instant in [first_ms, last_ms], in order."""
        first_ms, last_ms = max(first_ms, _FIRST_MS), min(last_ms, _LAST_MS)
        zone = _zone(self.time_zone)
        for number in range(first_ms // DAY_MS - 3, last_ms // DAY_MS + 3 if last_ms >= first_ms else 0):
            day = date.fromordinal(_EPOCH.toordinal() + number) if number >= 0 else None
            if day is None or day.weekday() not in self.weekdays:
                continue
            from_ms = _instant_ms(day, self.from_minute, zone, fold=0)
            until_ms = _instant_ms(day, self.until_minute, zone, fold=1)
            if from_ms < until_ms and from_ms <= last_ms and first_ms < until_ms:
                yield from_ms, until_ms

    def covers(self, at_ms: int) -> bool:
        """Whether the instant is in one of them."""
        return any(True for _ in self.spans(at_ms, at_ms))

    @property
    def words(self) -> str:
        """When it recurs, in words."""
        days = ", ".join(WEEKDAYS[day] for day in self.weekdays) if len(self.weekdays) < 7 else "each day"
        return f"{days} {_clock(self.from_minute)}-{_clock(self.until_minute)} {self.time_zone}"


def recurrence_of(value: Mapping[str, object]) -> Recurrence | None:
    """The recurrence of a record; None: it has none.

    Raises:
        MalformedControlError: A field is invalid; the message names it, and what is allowed.
    """
    weekdays, hours, zone = (value.get(name) for name in ("weekdays", "hours", "time_zone"))
    if weekdays is None and hours is None:
        if zone is not None:
            raise MalformedControlError("time_zone: it is that of `weekdays` or `hours`; set one of them")
        return None
    days, minutes, name = all_of(lambda: _weekdays(weekdays), lambda: _hours(hours), lambda: _zone_name(zone))
    return Recurrence(days, *minutes, name)


def _weekdays(given: object) -> tuple[int, ...]:
    if given is None:
        return tuple(range(len(WEEKDAYS)))
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise MalformedControlError(f'weekdays: got {shown(given)}, expected a list as ["mon", "tue"]')
    refuse_any(
        f"weekdays: got {shown(day)}, expected some of {', '.join(WEEKDAYS)}{nearest(day, WEEKDAYS)}"
        for day in given
        if day not in WEEKDAYS
    )
    return tuple(sorted({WEEKDAYS.index(str(day)) for day in given}))


def _hours(given: object) -> tuple[int, int]:
    if given is None:
        return 0, _DAY_MINUTES
    found = _HOURS.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise MalformedControlError(f'hours: got {shown(given)}, expected two times of day as "22:00-06:00"')
    hours = [int(found[place]) * 60 + int(found[place + 1]) for place in (1, 3)]
    for place, minutes in ((1, hours[0]), (3, hours[1])):
        if int(found[place + 1]) > 59 or minutes > _DAY_MINUTES:
            said = f"{found[place]}:{found[place + 1]}"
            raise MalformedControlError(f"hours: there is no {said}, a day is from 00:00 to 24:00")
    begin, end = hours[0] % _DAY_MINUTES, hours[1]
    if begin == end:
        raise MalformedControlError(
            "hours: they begin and end at the same time; leave them out for whole days"
        )
    return begin, end if end > begin else end + _DAY_MINUTES


def _zone_name(given: object) -> str:
    if given is None:
        return "UTC"
    if not isinstance(given, str) or given not in _zones():
        raise MalformedControlError(
            f"time_zone: got {shown(given)}, expected a name of the IANA time zone database, as Europe/Berlin"
            f"{nearest(given, _zones())}"
        )
    return given


@cache
def _zones() -> tuple[str, ...]:
    return tuple(sorted(available_timezones()))


@cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _instant_ms(day: date, minute: int, zone: ZoneInfo, *, fold: int) -> int:
    """The instant of a minute of a day in a zone; a minute from 24:00 on is one of the next day."""
    days, minute = divmod(minute, _DAY_MINUTES)
    at = time(minute // 60, minute % 60)
    local = datetime.combine(day + timedelta(days=days), at, tzinfo=zone)
    # A skipped time is as with fold=0, by the offset before: with fold=1 it would be before the clocks change.
    skipped = local.replace(fold=0).utcoffset() < local.replace(fold=1).utcoffset()  # type: ignore[operator]  # a zone has one
    instant = local.replace(fold=0 if skipped else fold).astimezone(UTC)
    return (instant - _EPOCH) // timedelta(minutes=1) * MINUTE_MS


def _clock(minute: int) -> str:
    if minute > _DAY_MINUTES:
        minute -= _DAY_MINUTES
    return f"{minute // 60:02}:{minute % 60:02}"
