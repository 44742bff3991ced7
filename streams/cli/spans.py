"""Spans of time that commands are asked for, by dates or in relative words, in UTC or in the zone of a calendar.

The instant of asking is handed in.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Annotated, Final, NamedTuple

import typer

from schemas.escaping import visible
from streams.calendar import PLAIN, Calendar, month_named
from streams.costs.idle_nodes import ALWAYS_MS
from streams.costs.parts import HourSpan
from streams.costs.request import calendar_of, instant_of
from streams.errors import WrongUseError

LastOption = Annotated[
    str,
    typer.Option("--last", metavar="SPAN", help="Until now: 12h, 7d or 2w; the begun hour or day counts."),
]
LastWeekOption = Annotated[
    bool, typer.Option("--last-week", help="The week before this one, Monday to Sunday.")
]
MonthOption = Annotated[str, typer.Option("--month", metavar="MONTH", help="A month, e.g. 2026-10.")]

TzOption = Annotated[
    str,
    typer.Option(
        "--tz",
        metavar="ZONE",
        help="The time zone of days, weeks and months, e.g. Europe/Berlin (default: calendar.time_zone, else UTC).",
    ),
]

_LAST: Final = re.compile(r"([1-9][0-9]{0,5})([hdw])", re.ASCII)
_BY_NAME: Final = inspect.Parameter.KEYWORD_ONLY
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HOURS: Final = {"h": 1, "d": 24, "w": 7 * 24}


class Step(Enum):
    """What a command's spans consist of; the value is its length."""

    hour = timedelta(hours=1)
    day = timedelta(days=1)


class ResolvedSpan(NamedTuple):
    """Begin (included) and end (excluded), as `--from` and `--to` take them; empty: not limited."""

    first: str
    until: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSpan:
    """The options of a span, as they were given; `takes_span` makes them those of a command."""

    first: Annotated[str, typer.Option("--from", metavar="DATE", help="First hour, e.g. 2026-10-01.")] = ""
    until: Annotated[str, typer.Option("--to", metavar="DATE", help="First hour that does not count.")] = ""
    last: LastOption = ""
    last_week: LastWeekOption = False
    month: MonthOption = ""
    tz: TzOption = ""

    def resolved(self, now_ms: int, step: Step = Step.hour, calendar: Calendar = PLAIN) -> ResolvedSpan:
        """The span, of whole hours or of days of the calendar; `--from` and `--to` as they are.

        Raises:
            WrongUseError: An option is not understood, or several name a span.
        """
        given = {
            "--from or --to": self.first or self.until,
            "--last": self.last,
            "--last-week": self.last_week,
            "--month": self.month,
        }
        named = [name for name, value in given.items() if value]
        if len(named) > 1:
            raise WrongUseError(f"{named[1]}: {named[0]} names a span already; give one of them")
        now = _EPOCH + timedelta(milliseconds=now_ms)
        if self.last:
            return _last(self.last, now, step)
        if self.last_week:
            this = calendar.date_of(calendar.start_of("week", now_ms))
            return ResolvedSpan((this - timedelta(days=7)).isoformat(), this.isoformat())
        return (
            ResolvedSpan(*days_of_month(self.month, calendar))
            if self.month
            else ResolvedSpan(self.first, self.until)
        )

    def hours(self, now_ms: int, calendar: Calendar = PLAIN) -> HourSpan:
        """The hours of the span, in ms, by the midnights of a calendar; without bounds all there are.

        Raises:
            WrongUseError: An option is not understood, several name a span, a date is none, or the time is empty.
        """
        span = self.resolved(now_ms, calendar=calendar)
        begin_ms, end_ms = (
            instant_of("--from", span.first, calendar) or 0,
            instant_of("--to", span.until, calendar) or ALWAYS_MS,
        )
        if begin_ms >= end_ms:
            raise WrongUseError("--from: must be before --to")
        return HourSpan(begin_ms, end_ms)

    def in_zone(self, now_ms: int, usual: Calendar) -> tuple[HourSpan, Calendar]:
        """The hours of the span by the calendar of `--tz`, or else by the usual one, and that calendar.

        Raises:
            WrongUseError: As `hours`, or the zone is unknown.
        """
        calendar = calendar_of("--tz", self.tz, usual)
        return self.hours(now_ms, calendar), calendar


def takes_span(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a span in place of its parameter `asked`.

    Typer reads options from a signature: the fields of `AskedSpan` stand there where `asked` stood.
    """
    fields = inspect.signature(AskedSpan, eval_str=True).parameters

    def run(**given: object) -> None:
        command(asked=AskedSpan(**{name: given.pop(name) for name in fields}), **given)  # type: ignore[arg-type]  # Typer has converted them by the same annotations.

    own = inspect.signature(command, eval_str=True)
    parameters = [
        each
        for name, parameter in own.parameters.items()
        for each in (fields.values() if name == "asked" else (parameter,))
    ]
    run.__signature__ = own.replace(parameters=[each.replace(kind=_BY_NAME) for each in parameters])  # type: ignore[attr-defined]  # inspect.signature() looks for it.
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
    return run


def days_of_month(text: str, calendar: Calendar = PLAIN) -> tuple[str, str]:
    """The first day of a month of a calendar, and the day after its last one.

    Raises:
        WrongUseError: It is no month.
    """
    first = month_named(text)
    if first is None:
        raise WrongUseError(f"--month {visible(text[:80])}: expected a month such as 2026-10")
    begin, end = calendar.named_month(first.year, first.month)
    return begin.isoformat(), end.isoformat()


def _last(text: str, now: datetime, step: Step) -> ResolvedSpan:
    """The last hours or days up to the end of the one that has begun."""
    found = _LAST.fullmatch(text)
    if found is None or (step is Step.day and found[2] == "h"):
        units = "12h, 7d or 2w" if step is Step.hour else "7d or 2w (whole days)"
        raise WrongUseError(f"--last {visible(text[:80])}: expected a span such as {units}")
    length = timedelta(hours=int(found[1]) * _HOURS[found[2]])
    end = now - (now - _EPOCH) % step.value + step.value
    begin = _EPOCH if end - _EPOCH < length else end - length
    if step is Step.day:
        return ResolvedSpan(begin.date().isoformat(), end.date().isoformat())
    return ResolvedSpan(begin.isoformat(), end.isoformat())
