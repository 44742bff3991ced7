"""Parameters of the routes that sum hours: a level, the length of a cell, the hours, the time zone, how many rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from aiohttp import web

from streams.calendar import PLAIN, Calendar
from streams.costs.parts import HourSpan
from streams.costs.request import Period, calendar_of, instant_of
from streams.errors import WrongUseError
from streams.web.errors import ApiError

_LIMIT: Final = 1_000
_LIMIT_MAX: Final = 10_000
_PARAMETERS: Final = ("by", "fiscal", "from", "limit", "per", "to", "tz")


class SpanRequest(NamedTuple):
    """What is asked for."""

    level: str
    per: Period
    span: HourSpan
    limit: int
    calendar: Calendar

    def echo(self) -> dict[str, Any]:
        """What the answer says of it."""
        return {
            "by": self.level,
            "per": self.per,
            "from_ms": self.span.begin_ms,
            "to_ms": self.span.end_ms,
            "tz": self.calendar.zone,
        }


def calendar_asked(fiscal: Sequence[str], usual: Calendar) -> Calendar:
    """The calendar of the settings, which holds where a request names none; with `fiscal=0` that of UTC and plain months.

    Raises:
        WrongUseError: `fiscal` is neither 0 nor 1, or given twice.
    """
    if [*fiscal] not in ([], ["0"], ["1"]):
        raise WrongUseError("fiscal: expected 0 or 1, once")
    return PLAIN if [*fiscal] == ["0"] else usual


def span_request(
    request: web.Request, levels: Sequence[str], usual: Calendar, per: Period = Period.month
) -> SpanRequest:
    """The parameters, checked; the first level, `per` and the calendar are usual.

    Raises:
        ApiError: One is unknown, given twice or wrong.
    """
    given = request.query
    for name in given:
        if name not in _PARAMETERS or len(given.getall(name)) > 1:
            raise ApiError(400, f"parameter {name!r}: expected each of {', '.join(_PARAMETERS)} once")
    level = given.get("by", levels[0])
    if level not in levels:
        raise ApiError(400, f"by: got {level!r}, expected one of {', '.join(levels)}")
    length = given.get("per", per)
    if length not in tuple(Period):
        raise ApiError(400, f"per: got {length!r}, expected one of {', '.join(Period)}")
    limit = given.get("limit", str(_LIMIT))
    if not (limit.isascii() and limit.isdecimal() and 1 <= int(limit[:9]) <= _LIMIT_MAX):
        raise ApiError(400, f"limit: got {limit!r}, expected 1 to {_LIMIT_MAX}")
    try:
        calendar = calendar_of("tz", given.get("tz", ""), calendar_asked(given.getall("fiscal", []), usual))
        begin_ms, end_ms = (instant_of(name, given.get(name, ""), calendar) for name in ("from", "to"))
    except WrongUseError as wrong:
        raise ApiError(400, str(wrong)) from wrong
    if begin_ms is not None and end_ms is not None and begin_ms >= end_ms:
        raise ApiError(400, "from: must be before to")
    return SpanRequest(level, Period(length), HourSpan(begin_ms, end_ms), int(limit), calendar)
