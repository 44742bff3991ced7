"""A question for costs: which metric, by which levels, per which period, from when to when.

It accepts names of fixed lists only; what a client chooses freely is bound as a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Final, TypeVar

from schemas.durations import DATETIME_END_MS, HOUR_MS
from schemas.escaping import visible
from schemas.events import PRICE_FIELDS
from streams.calendar import PERS, PLAIN, UTC_ZONE, Calendar
from streams.errors import WrongUseError

Choice = TypeVar("Choice", bound=StrEnum)
Default = TypeVar("Default", Decimal, None)

#: Levels of a job, and levels as they held in each hour.
JOB_LEVELS: Final = ("owner", "team", "project", "experiment")
HOUR_LEVELS: Final = PRICE_FIELDS
#: The cause of an attempt's end.
REASON: Final = "reason"
#: Levels of traffic, of metrics m6 and m7; `region` is where it went from.
STORAGE_LEVELS: Final = ("op", "storage_class", "region")
NETWORK_LEVELS: Final = ("path", "direction", "region", "dst_region")
TRAFFIC_LEVELS: Final = ("op", "storage_class", "path", "direction", "region", "dst_region")
#: Levels of nodes, of metric m3; `team` is the node's.
NODE: Final = "node"
NODE_LEVELS: Final = ("team", NODE, *HOUR_LEVELS)
LEVELS: Final = tuple(dict.fromkeys(("job", *JOB_LEVELS, *HOUR_LEVELS, REASON, *TRAFFIC_LEVELS, NODE)))
LABEL: Final = "label:"
#: What the rows of the ledger have besides; hours do not.
_LEDGER_COLUMNS: Final = ("component", "phase")
ROWS_MAX: Final = 10_000
_LEVELS_MAX: Final = 6
_CODE: Final = re.compile(r"[A-Z]{3}", re.ASCII)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_CONDITIONS_MAX: Final = 20
_NAME_MAX_BYTES: Final = 256
_USD_MAX: Final = Decimal(10) ** 9
PARAMETERS: Final = (
    "metric", "by", "per", "from", "to", "where", "compare", "drivers", "drivers_by_sku", "limit", "slo_usd_per_hour", "slo_target",
    "quality", "progress", "expected", "tz", "currency",
)  # fmt: skip


class Metric(StrEnum):
    """The metrics, M1 to M10, and the total with all components."""

    total = "total"
    m1 = "m1"
    m2 = "m2"
    m3 = "m3"
    m4 = "m4"
    m5 = "m5"
    m6 = "m6"
    m7 = "m7"
    m8 = "m8"
    m9 = "m9"
    m10 = "m10"


_LEVELS_OF: Final = {Metric.m6: STORAGE_LEVELS, Metric.m7: NETWORK_LEVELS}
TRAFFIC_METRICS: Final = tuple(_LEVELS_OF)


class Period(StrEnum):
    """The length of a cell in time; where days, weeks and months begin is said by a calendar."""

    hour = "hour"
    day = "day"
    week = "week"
    month = "month"
    all = "all"


@dataclass(frozen=True)
class CostRequest:
    """What to ask; `from_ms` and `to_ms` (exclusive) are whole hours, None: without bound."""

    metric: Metric = Metric.total
    by: tuple[str, ...] = ()
    per: Period = Period.all
    from_ms: int | None = None
    to_ms: int | None = None
    where: tuple[tuple[str, str], ...] = ()  # (level, its name)
    compare: bool = False
    drivers: int = 0  # how many to show; 0: none
    drivers_by_sku: bool = False
    limit: int = ROWS_MAX
    slo_usd_per_hour: Decimal | None = None
    slo_target: Decimal = Decimal("0.95")
    quality: str = ""  # of m9: the name of a measure that jobs report
    progress: str = ""
    expected: bool = False  # of m10: beside the expected rate
    calendar: Calendar = PLAIN
    currency: str = ""  # of the cost, beside dollars

    @property
    def has_own_cells(self) -> bool:
        """Whether its cells begin elsewhere than those of UTC."""
        return self.per in PERS and not self.calendar.is_plain


def levels_of(request: CostRequest) -> list[str]:
    """All levels that the request names."""
    return [*request.by, *(level for level, _ in request.where)]


def has_price_fields(request: CostRequest) -> bool:
    """Whether it names a price field: these are known by the hour; of traffic `region` is a level of its own."""
    apart = TRAFFIC_LEVELS if request.metric in TRAFFIC_METRICS else ()
    return any(level in HOUR_LEVELS and level not in apart for level in levels_of(request))


def request_of(
    given: Mapping[str, Sequence[str]], named: Callable[[str], str] = str, usual: Calendar = PLAIN
) -> CostRequest:
    """Parse a request from texts by the names of `PARAMETERS`; what is absent has its default.

    `named` returns a parameter's name as who asks writes it (`--from`); `usual` is the calendar of the settings, of which
    `tz` replaces the zone.

    Raises:
        WrongUseError: In one line, beginning with the parameter's name.
    """
    texts = {
        name: _single(name, values, named) for name, values in given.items() if name not in ("by", "where")
    }
    calendar = calendar_of(named("tz"), texts.get("tz", ""), usual)
    request = CostRequest(
        metric=_chosen(named("metric"), texts.get("metric", ""), Metric, Metric.total),
        by=_levels_of(named("by"), ",".join(given.get("by", ()))),
        per=_chosen(named("per"), texts.get("per", ""), Period, Period.all),
        from_ms=instant_of(named("from"), texts.get("from", ""), calendar),
        to_ms=instant_of(named("to"), texts.get("to", ""), calendar),
        where=_conditions_of(named("where"), given.get("where", ())),
        compare=_compare_of(named("compare"), texts.get("compare", "")),
        drivers=_count_of(named("drivers"), texts.get("drivers", ""), 0, 1_000),
        drivers_by_sku=_flag_of(named("drivers_by_sku"), texts.get("drivers_by_sku", "")),
        limit=_count_of(named("limit"), texts.get("limit", ""), ROWS_MAX, ROWS_MAX),
        slo_usd_per_hour=_decimal_of(
            named("slo_usd_per_hour"), texts.get("slo_usd_per_hour", ""), _USD_MAX, None
        ),
        slo_target=_decimal_of(named("slo_target"), texts.get("slo_target", ""), Decimal(1), Decimal("0.95")),
        quality=_measure_of(named("quality"), texts.get("quality", "")),
        progress=_measure_of(named("progress"), texts.get("progress", "")),
        expected=_flag_of(named("expected"), texts.get("expected", "")),
        calendar=calendar,
        currency=currency_of(named("currency"), texts.get("currency", "")),
    )
    _check(request, named)
    return request


def currency_of(name: str, text: str) -> str:
    """A code of a currency; empty: none is asked for.

    Raises:
        WrongUseError: In one line, beginning with the parameter's name.
    """
    if text and not _CODE.fullmatch(text):
        raise WrongUseError(f"{name}: got {_shown(text)}, expected a code such as EUR")
    return text


def calendar_of(name: str, zone: str, usual: Calendar) -> Calendar:
    """The usual calendar in another time zone; empty: as it is.

    Raises:
        WrongUseError: In one line, beginning with the parameter's name.
    """
    try:
        return replace(usual, zone=zone) if zone else usual
    except ValueError:
        raise WrongUseError(
            f"{name}: {_shown(zone)} is no time zone; expected a name of the IANA database such as Europe/Berlin, or {UTC_ZONE}"
        ) from None


def _single(name: str, values: Sequence[str], named: Callable[[str], str]) -> str:
    if name not in PARAMETERS:
        raise WrongUseError(f"parameter {_shown(name)} is unknown; expected {', '.join(PARAMETERS)}")
    if len(values) > 1:
        raise WrongUseError(f"{named(name)}: given twice")
    return values[0] if values else ""


def _chosen(name: str, text: str, choices: type[Choice], default: Choice) -> Choice:
    if not text:
        return default
    try:
        return choices(text)
    except ValueError:
        raise WrongUseError(f"{name}: got {_shown(text)}, expected one of {', '.join(choices)}") from None


def _levels_of(name: str, text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    for level in found:
        _check_level(name, level)
    if len(set(found)) < len(found) or len(found) > _LEVELS_MAX:
        raise WrongUseError(f"{name}: name each level once, {_LEVELS_MAX} at most; got {_shown(text)}")
    return found


def _conditions_of(parameter: str, texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    if len(texts) > _CONDITIONS_MAX:
        raise WrongUseError(f"{parameter}: {_CONDITIONS_MAX} conditions at most")
    found = []
    for text in texts:
        level, sign, name = text.partition("=")
        if not sign:
            raise WrongUseError(f"{parameter}: {_shown(text)} is no condition such as team=vision")
        _check_level(parameter, level)
        if not _is_name(name):
            raise WrongUseError(
                f"{parameter}: {level} takes a name of UTF-8, {_NAME_MAX_BYTES} bytes at most"
            )
        found.append((level, name))
    return tuple(found)


def _check_level(name: str, level: str) -> None:
    key = level.removeprefix(LABEL) if level.startswith(LABEL) else ""
    if level in _LEDGER_COLUMNS:
        raise WrongUseError(
            f"{name}: {level} is no level of costs; ask the view ledger for it: trainfare sql"
        )
    if level not in LEVELS and not (key and _is_name(key)):
        raise WrongUseError(
            f"{name}: level {_shown(level)} is unknown; one of {', '.join(LEVELS)}, {LABEL}KEY"
        )


def _is_name(text: str) -> bool:
    try:
        return len(text.encode()) <= _NAME_MAX_BYTES
    except UnicodeEncodeError:
        return False


def instant_of(name: str, text: str, calendar: Calendar = PLAIN) -> int | None:
    """Parse a date (its first instant) or an ISO instant to ms since 1970; empty: None. Without an offset it is of the calendar's zone.

    Raises:
        WrongUseError: In one line, beginning with the parameter's name.
    """
    if not text:
        return None
    try:
        if _DATE.fullmatch(text):
            day = date.fromisoformat(text)
            at_ms = calendar.instant_of(day) if 1970 <= day.year < 2106 else -1
        else:
            moment = datetime.fromisoformat(text)
            at_ms = round((moment if moment.tzinfo else calendar.moment(moment)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise WrongUseError(
            f"{name}: {_shown(text)} is no date such as 2026-10-01 or 2026-10-01T06:00"
        ) from None
    if at_ms % HOUR_MS or not 0 <= at_ms < DATETIME_END_MS:
        raise WrongUseError(f"{name}: {_shown(text)} is no whole hour (UTC) between 1970 and 2106")
    return at_ms


def _compare_of(name: str, text: str) -> bool:
    if text not in ("", "previous"):
        raise WrongUseError(f"{name}: got {_shown(text)}, expected previous")
    return bool(text)


def _flag_of(name: str, text: str) -> bool:
    if text not in ("", "0", "1"):
        raise WrongUseError(f"{name}: got {_shown(text)}, expected 0 or 1")
    return text == "1"


def _count_of(name: str, text: str, default: int, most: int) -> int:
    if not text:
        return default
    if len(text) > 9 or not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= most:
        raise WrongUseError(f"{name}: got {_shown(text)}, expected 1 to {most}")
    return int(text)


def _measure_of(name: str, text: str) -> str:
    if not _is_name(text):
        raise WrongUseError(f"{name}: expected a name of UTF-8, {_NAME_MAX_BYTES} bytes at most")
    return text


def _decimal_of(name: str, text: str, most: Decimal, default: Default) -> Decimal | Default:
    if not text:
        return default
    try:
        found = Decimal(text)
    except InvalidOperation:
        found = Decimal("NaN")
    if len(text) > 40 or not found.is_finite() or not 0 < found < most or found != round(found, 9):
        raise WrongUseError(
            f"{name}: got {_shown(text)}, expected a number above 0 and below {most}, 9 decimals at most"
        )
    return found


def _check(request: CostRequest, named: Callable[[str], str]) -> None:
    _check_levels(request, named)
    if request.from_ms is not None and request.to_ms is not None and request.from_ms >= request.to_ms:
        raise WrongUseError(f"{named('from')}: must be before {named('to')}")
    if request.compare and request.per is Period.all and (request.from_ms is None or request.to_ms is None):
        raise WrongUseError(
            f"{named('compare')}: needs {named('from')} and {named('to')}, or {named('per')} hour, day, week or month"
        )
    if request.drivers and (not request.compare or request.from_ms is None or request.to_ms is None):
        raise WrongUseError(
            f"{named('drivers')}: needs {named('compare')} previous, {named('from')} and {named('to')}"
        )
    if request.drivers_by_sku and not request.drivers:
        raise WrongUseError(f"{named('drivers_by_sku')}: needs {named('drivers')}")
    if request.drivers_by_sku and has_price_fields(request):
        raise WrongUseError(f"{named('drivers_by_sku')}: does not go with {', '.join(HOUR_LEVELS)}")
    if request.slo_usd_per_hour is not None and request.metric is not Metric.m10:
        raise WrongUseError(f"{named('slo_usd_per_hour')}: is of metric m10")
    if request.expected and request.metric is not Metric.m10:
        raise WrongUseError(f"{named('expected')}: is of metric m10")
    for name, measure in (("quality", request.quality), ("progress", request.progress)):
        if measure and request.metric is not Metric.m9:
            raise WrongUseError(f"{named(name)}: is of metric m9")


def _check_levels(request: CostRequest, named: Callable[[str], str]) -> None:
    """Refuse levels that the metric does not have."""
    if request.metric is Metric.m3:
        _check_node_levels(request, named)
        return
    mine = _LEVELS_OF.get(request.metric, ())
    by_traffic = [level for level in request.by if level in mine] or [
        level for level, _ in request.where if level in mine
    ]
    for name, levels in (
        (named("by"), request.by),
        (named("where"), tuple(level for level, _ in request.where)),
    ):
        for level in levels:
            if level == NODE:
                raise WrongUseError(f"{name}: level {NODE} is of metric m3")
            if level in TRAFFIC_LEVELS and level not in mine and level not in HOUR_LEVELS:
                metrics = ", ".join(metric for metric, its in _LEVELS_OF.items() if level in its)
                raise WrongUseError(f"{name}: level {level} is of metric {metrics}")
            if by_traffic and level in HOUR_LEVELS and level not in mine:
                raise WrongUseError(
                    f"{name}: {level} is not known of traffic; ask for it without {by_traffic[0]}"
                )
    if by_traffic and request.drivers:
        raise WrongUseError(f"{named('drivers')}: does not go with {by_traffic[0]}")


def _check_node_levels(request: CostRequest, named: Callable[[str], str]) -> None:
    for name, levels in (
        (named("by"), request.by),
        (named("where"), tuple(level for level, _ in request.where)),
    ):
        for level in levels:
            if level not in NODE_LEVELS:
                raise WrongUseError(f"{name}: m3 is by {', '.join(NODE_LEVELS)}; got {_shown(level)}")
    if request.drivers:
        raise WrongUseError(f"{named('drivers')}: are of what jobs cost, not of m3")


def _shown(text: str) -> str:
    return f"'{visible(text[:80])}'"
