"""What a month will have cost by team, project, owner or experiment, and in all: from hours, jobs that run, and budgets beside it.

Every text in the SQL is fixed; what a client chooses is bound as a parameter.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import numpy as np

from schemas.durations import DAY_MS, HOUR_MS
from schemas.reserved import USERS_JOBS
from streams.calendar import PLAIN, Calendar
from streams.costs.budgets import USED
from streams.costs.day_parts import Steps
from streams.costs.forecast import (
    HISTORY_H,
    LEAST_H,
    USUAL_LEFT_H,
    Hours,
    Rest,
    bounds_of,
    misses,
    rest_of,
    within,
)
from streams.costs.metrics import TOTAL
from streams.costs.parts import HourSpan, Parameters, hour_conditions, joins, level_columns
from streams.costs.planned_runs import planned_steps
from streams.costs.request import JOB_LEVELS, CostRequest, calendar_of, request_of
from streams.costs.sql import span_steps
from streams.costs.what_if import NO_CHANGE, NotForecastError, PriceSource, WhatIf, changes_steps
from streams.errors import WrongUseError

#: Names that are listed, the dearest first; more are in the total alone.
ROWS_MAX: Final = 500
#: Names that are read.
_READ_MAX: Final = 20_000
_CENTS: Final = Decimal("0.01")
PARAMETERS: Final = ("by", "where", "tz", "instance", "region", "spot_share", "idle_cut")

_HOURS: Final = """SELECT name, groupArray(at_h) AS hours, groupArray(usd) AS costs, sumIf(exact, at_h >= {month_h:Int64}) AS spent
FROM
(
    SELECT {level} AS name, intDiv(toInt64(toUnixTimestamp(h.hour)), 3600) AS at_h, sum({total}) AS exact, toFloat64(exact) AS usd
    FROM (SELECT * FROM job_hours FINAL WHERE {where}) AS h{joins}
    GROUP BY name, at_h
)
GROUP BY name ORDER BY spent DESC, name LIMIT {most:UInt64}"""
_LASTED: Final = f"""SELECT dateDiff('second', assumeNotNull(started), assumeNotNull(ended)) / 3600 AS lasted_h FROM jobs FINAL
WHERE {USERS_JOBS} AND started IS NOT NULL AND ended >= fromUnixTimestamp64Milli({{since_ms:Int64}}, 'UTC')
ORDER BY ended DESC LIMIT 10000"""
_RUNNING: Final = f"""SELECT LEVEL AS name, ({{until_ms:Int64}} - toUnixTimestamp64Milli(assumeNotNull(started))) / 3600000 AS age_h FROM jobs AS j FINAL
WHERE {USERS_JOBS} AND started IS NOT NULL AND ended IS NULL AND state IN ('starting', 'running', 'suspended') LIMIT 20000"""


@dataclass(frozen=True)
class ForecastRequest:
    """By what a month is forecast, of what, by which calendar, and what would be different."""

    by: str = "team"
    where: tuple[tuple[str, str], ...] = ()
    calendar: Calendar = PLAIN
    what_if: WhatIf = NO_CHANGE


def forecast_request(
    given: Mapping[str, Sequence[str]], usual: Calendar = PLAIN, mark: str = ""
) -> ForecastRequest:
    """Parse a request from texts by the names of `PARAMETERS`; `mark` stands before names in messages (`--`).

    Raises:
        WrongUseError: In one line, beginning with the parameter's name.
    """

    def named(name: str) -> str:
        return f"{mark}{name.replace('_', '-')}" if mark else name

    for name, values in given.items():
        if name not in PARAMETERS:
            raise WrongUseError(f"parameter {name[:40]!r} is unknown; expected {', '.join(PARAMETERS)}")
        if name != "where" and len(values) > 1:
            raise WrongUseError(f"{named(name)}: given twice")
    text = {name: values[0] for name, values in given.items() if name != "where" and values}
    by = text.get("by") or "team"
    if by not in JOB_LEVELS:
        raise WrongUseError(f"{named('by')}: got {by[:40]!r}, expected one of {', '.join(JOB_LEVELS)}")
    where = request_of({"where": given.get("where", ())}, named).where
    if wrong := [level for level, _ in where if level not in JOB_LEVELS]:
        raise WrongUseError(f"{named('where')}: a forecast is of {', '.join(JOB_LEVELS)}; got {wrong[0]}")
    what_if = WhatIf.of(text, named)
    return ForecastRequest(by, where, calendar_of(named("tz"), text.get("tz", ""), usual), what_if)


def forecast_steps(request: ForecastRequest, as_of_ms: int, prices: PriceSource) -> Steps[dict[str, Any]]:
    """Ask for the hours and forecast the month of the newest figures.

    Args:
        request: What is asked.
        as_of_ms: The instant of the figures, ms since 1970; 0: that of the last hour with costs.
        prices: The price list, for what would be different.

    Raises:
        NotForecastError: Nothing has cost anything yet, or a price that is asked for is not known.
        WrongUseError: There are too many names.
    """
    known = yield from span_steps()
    if not known.last_s:
        raise NotForecastError("nothing has cost anything yet: no month to forecast")
    until_ms = max(known.last_s * 1000 + HOUR_MS, -(-as_of_ms // HOUR_MS) * HOUR_MS)
    calendar = request.calendar
    begin_ms = calendar.start_of("month", until_ms - 1)
    end_ms = calendar.end_of("month", begin_ms)
    series, spent = yield from _hours(request, begin_ms, until_ms, known.first_s * 1000)
    lasting = yield from _left(request, until_ms)
    limits = yield from _budgets(request, until_ms)
    planned = yield from planned_steps(request.by, request.where, until_ms, end_ms)
    changes = yield from changes_steps(request.what_if, request.by, request.where, until_ms, prices)
    offset_h = round((calendar.local(until_ms).utcoffset() or timedelta()).total_seconds() / 3600)
    first_hour, left_h = until_ms // HOUR_MS + offset_h, (end_ms - until_ms) // HOUR_MS
    past_h = max((len(past) for past in series.values()), default=0)
    days = max(-(-left_h // 24), 1)
    scores = [
        score
        for name, past in series.items()
        for score in misses(past, first_hour, days, lasting.get(name, USUAL_LEFT_H))
    ]
    bounds = bounds_of(scores, past_h)
    whole = np.sum(list(series.values()), axis=0) if series else np.zeros(0)
    of_all = lasting.get(None, USUAL_LEFT_H)
    own = bounds_of(misses(whole, first_hour, days, of_all), len(whole))
    rest_of_all = _rest(whole, first_hour, left_h, own, of_all)
    total = _row(sum(spent.values(), Decimal(0)), rest_of_all, sum(planned.values(), Decimal(0)))
    rows = []
    # Who has a plan alone has it as forecast.
    series |= {name: np.zeros(past_h) for name in planned.keys() - series.keys()}
    for name, past in series.items():
        rest = _rest(past, first_hour, left_h, bounds, lasting.get(name, USUAL_LEFT_H))
        row = _row(
            spent.get(name, Decimal(0)),
            within(rest, rest_of_all) if rest and rest_of_all else rest,
            planned.get(name, Decimal(0)),
        )
        rows.append(
            {request.by: name, **row, **changes.row(name, row), "budgets": _beside(limits.get(name, ()), row)}
        )
    rows.sort(key=lambda row: (-(row["forecast_usd"] or row["spent_usd"]), row[request.by]))
    return {
        "month": f"{calendar.date_of(begin_ms):%Y-%m}",
        "month_start": calendar.iso(begin_ms),
        "month_end": calendar.iso(end_ms),
        "until": calendar.iso(until_ms),
        "tz": calendar.zone,
        "by": request.by,
        "left_h": left_h,
        "basis_days": past_h // 24,
        "earlier_forecasts": len(scores),
        "total": {
            **total,
            **changes.total(total, rows, left_h),
            "budgets": _beside(limits.get(None, ()), total),
        },
        "rows": rows[:ROWS_MAX],
        "left_out": max(len(rows) - ROWS_MAX, 0),
        "what_if": changes.words,
    }


def _rest(
    past: Hours, first_hour: int, left_h: int, bounds: tuple[float, float], lasting_h: float
) -> Rest | None:
    """What is to come of a subject; without a whole day of costs nothing is forecast."""
    return rest_of(past, first_hour, left_h, bounds, lasting_h) if len(past) >= LEAST_H else None


def _row(spent: Decimal, rest: Rest | None, planned: Decimal) -> dict[str, Any]:
    """A subject's month in dollars; what is planned is known, and moves the range as a whole."""
    known = {"spent_usd": spent, "planned_usd": planned.quantize(_CENTS)}
    if rest is None:
        return {**known, "forecast_usd": None, "low_usd": None, "high_usd": None}
    return {
        **known,
        **{
            name: (spent + planned + Decimal(value)).quantize(_CENTS)
            for name, value in (
                ("forecast_usd", rest.expected),
                ("low_usd", rest.low),
                ("high_usd", rest.high),
            )
        },
    }


def _beside(budgets: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The monthly budgets of a subject with whether they will hold: `yes`, `unsure` (the limit is in the range) or `no`."""
    found = []
    for each in budgets:
        limit = each["limit_usd"]
        holds = None
        if row["forecast_usd"] is not None:
            holds = "no" if row["low_usd"] > limit else "yes" if row["high_usd"] <= limit else "unsure"
        found.append({"budget": each["budget"], "limit_usd": limit, "holds": holds})
    return found


def _hours(
    request: ForecastRequest, begin_ms: int, until_ms: int, first_ms: int
) -> Steps[tuple[dict[str, Hours], dict[str, Decimal]]]:
    """Ask for the hours of each name, all of one length: since the first hour of the store, eight weeks at most."""
    from_ms = max(until_ms - HISTORY_H * HOUR_MS, 0)
    asked = CostRequest(by=(request.by,), where=request.where)
    parameters: Parameters = {"month_h": begin_ms // HOUR_MS, "most": _READ_MAX + 1}
    level = level_columns(((0, request.by),), parameters)[0].removesuffix(" AS level_0")
    where = hour_conditions(asked, HourSpan(min(from_ms, begin_ms), until_ms), parameters)
    sql = _HOURS
    for word, part in (("{level}", level), ("{total}", TOTAL), ("{where}", where), ("{joins}", joins(level))):
        sql = sql.replace(word, part)
    rows = list((yield sql, parameters).rows())
    if len(rows) > _READ_MAX:
        raise WrongUseError(f"by: more than {_READ_MAX} names; forecast fewer with where")
    begin_h = max(from_ms, first_ms) // HOUR_MS
    count = until_ms // HOUR_MS - begin_h
    series, spent = {}, {}
    for name, hours, costs, so_far in rows:
        past = np.zeros(count)
        at = np.asarray(hours, np.int64) - begin_h
        inside = (at >= 0) & (at < count)
        past[at[inside]] = np.asarray(costs, np.float64)[inside]
        series[str(name)], spent[str(name)] = past, Decimal(str(so_far))
    return series, spent


def _left(request: ForecastRequest, until_ms: int) -> Steps[dict[str | None, float]]:
    """For how long jobs that run go on, in the median: by name, and of all (None)."""
    since_ms = max(until_ms - HISTORY_H * HOUR_MS, 0)
    lasted = sorted(float(str(row[0])) for row in (yield _LASTED, {"since_ms": since_ms}).rows())
    level = {"owner": "j.owner", "team": "j.team", "project": "j.project", "experiment": "j.experiment"}[
        request.by
    ]
    running = (yield _RUNNING.replace("LEVEL", level), {"until_ms": until_ms}).rows()
    found: dict[str | None, list[float]] = {}
    for name, age in running:
        age_h = max(float(str(age)), 0.0)
        longer = lasted[bisect_right(lasted, age_h) :]
        left_h = longer[len(longer) // 2] - age_h if longer else max(age_h, USUAL_LEFT_H)
        for key in (str(name), None):
            found.setdefault(key, []).append(min(left_h, DAY_MS / HOUR_MS * 14))
    return {name: sum(each) / len(each) for name, each in found.items()}


def _budgets(request: ForecastRequest, until_ms: int) -> Steps[dict[str | None, list[dict[str, Any]]]]:
    """The budgets per month that hold at that instant, by the name that they are for; None: of the fleet."""
    answer = yield USED, {}
    found: dict[str | None, list[dict[str, Any]]] = {}
    for values in answer.rows():
        row: dict[str, Any] = dict(zip(answer.names, values, strict=True))
        is_for = row["subject_kind"] == request.by and len(dict(row["match"])) == 1
        is_now = int(row["period_start_ms"]) < until_ms <= int(row["period_end_ms"])
        if row["per"] == "month" and row["limit_usd"] and is_now:
            if is_for:
                found.setdefault(row["subject_name"], []).append(row)
            elif row["subject_kind"] == "fleet" and not request.where:
                found.setdefault(None, []).append(row)
    return found
