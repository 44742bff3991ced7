"""What a calendar month will have cost: what it has cost so far, and for what is left of it what the days before say.

It computes no cost of a job: it adds days that the meter has booked, and means of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Final, NamedTuple

from schemas.durations import DAY_MS, HOUR_MS
from streams.costs.request import CostRequest, Metric, Period

#: Days by which the rest is judged, at most: four weeks have each weekday four times.
BASIS_DAYS: Final = 28
WEEK: Final = 7


class MonthForecast(NamedTuple):
    """A month in dollars; without a whole day before today nothing is forecast (None)."""

    month: str  # 2026-11
    until: datetime  # what is spent, is spent before this hour
    spent_usd: Decimal
    left_h: int
    basis_days: int
    mean_usd_per_day: Decimal | None
    forecast_usd: Decimal | None
    low_usd: Decimal | None  # if the rest is as the cheapest of the weeks (of under two weeks: days) before
    high_usd: Decimal | None
    basis: str


def month_request(where: Sequence[tuple[str, str]], until_ms: int) -> CostRequest:
    """The question whose rows `month_forecast` is made of: days, from the basis or the month on."""
    until = _instant(until_ms)
    first = min(_today(until).replace(day=1), _today(until) - timedelta(days=BASIS_DAYS))
    from_ms = max(round(datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp() * 1000), 0)
    return CostRequest(
        metric=Metric.total, per=Period.day, from_ms=from_ms, to_ms=until_ms, where=tuple(where)
    )


def month_forecast(usd: Mapping[date, Decimal], first: date | None, until_ms: int) -> MonthForecast:
    """The month in which the last hour before `until_ms` lies.

    Args:
        usd: What each day cost; a day that is not there cost nothing.
        first: The first day of which the store has costs: what was before says nothing. None: there is none.
        until_ms: The end of the last hour that counts, ms since 1970.
    """
    until, today = _instant(until_ms), _today(_instant(until_ms))
    start = today.replace(day=1)
    end = (start + timedelta(days=32)).replace(day=1)
    spent = sum((cost for day, cost in usd.items() if start <= day < end), Decimal(0))
    left_h = round((datetime(end.year, end.month, end.day, tzinfo=UTC) - until).total_seconds()) // 3600
    month = f"{start:%Y-%m}"
    days = [] if first is None else _basis(usd, first, today)
    if not days:
        basis = "no whole day before today has costs: what is left of the month is not forecast"
        return MonthForecast(month, until, spent, left_h, 0, None, None, None, None, basis)
    by_weekday = len(days) >= 2 * WEEK
    means = {weekday: _mean([cost for day, cost in days if not by_weekday or day.weekday() == weekday]) for weekday in range(WEEK)}  # fmt: skip
    rest = _rest(until, today, end, means)
    mean = _mean([cost for _, cost in days])
    spans = (
        [days[at : at + WEEK] for at in range(0, len(days), WEEK)]
        if by_weekday
        else [[each] for each in days]
    )
    rates = [_mean([cost for _, cost in span]) for span in spans]
    forecast, low, high = (
        spent + _usd(rest * rate / mean if mean else rest) for rate in (mean, min(rates), max(rates))
    )
    return MonthForecast(
        month,
        until,
        spent,
        left_h,
        len(days),
        _usd(mean),
        forecast,
        low,
        high,
        _words(len(days), by_weekday=by_weekday),
    )


def _basis(usd: Mapping[date, Decimal], first: date, today: date) -> list[tuple[date, Decimal]]:
    """The whole days before today, the newest first; of two weeks or more whole weeks."""
    count = min((today - first).days, BASIS_DAYS)
    if count >= 2 * WEEK:
        count -= count % WEEK
    days = [today - timedelta(days=back) for back in range(1, count + 1)]
    return [(day, usd.get(day, Decimal(0))) for day in days]


def _rest(until: datetime, today: date, end: date, means: Mapping[int, Fraction]) -> Fraction:
    """What is left of today, and each day after it, as its weekday cost on average."""
    midnight = datetime(today.year, today.month, today.day, tzinfo=UTC) + timedelta(days=1)
    left_ms = round((midnight - until).total_seconds() * 1000)
    found = means[today.weekday()] * Fraction(left_ms, DAY_MS)
    day = today + timedelta(days=1)
    while day < end:
        found += means[day.weekday()]
        day += timedelta(days=1)
    return found


def _words(count: int, *, by_weekday: bool) -> str:
    if by_weekday:
        return (
            f"spent so far, and each day that is left as its weekday cost on average in the {count} days before today; "
            "the range is that of the cheapest and the dearest of these weeks"
        )
    days = "day" if count == 1 else f"{count} days"
    range_words = "" if count == 1 else "; the range is that of the cheapest and the dearest of these days"
    return f"spent so far, and each day that is left as the {days} before today cost on average{range_words}"


def _mean(costs: Sequence[Decimal]) -> Fraction:
    return sum((Fraction(cost) for cost in costs), Fraction(0)) / len(costs)


def _usd(amount: Fraction) -> Decimal:
    return Decimal(round(amount * 10**9)).scaleb(-9)


def _instant(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def _today(until: datetime) -> date:
    """The day of the last hour before `until`."""
    return (until - timedelta(milliseconds=HOUR_MS)).date()
