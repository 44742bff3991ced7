"""Dollars in another currency, with the rate and its day beside them; rows stay in dollars.

A figure of a day has the rate of that day, one of a longer period that of its last day, or of today until it has ended: a
rate that comes late restates its days alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from schemas.currencies import decimals_of
from streams.costs.day_parts import Steps
from streams.costs.exact import EXACT
from streams.errors import WrongUseError

USD: Final = "USD"
_NANO: Final = 10**9
_LAST: Final = 10**18
#: For how many days a rate holds.
_HOLDS_D: Final = 7
#: What stands beside a figure.
RATE_COLUMNS: Final = ("currency", "rate_units", "rate_dollars", "rate_day")
_RATES: Final = """
SELECT toString(toDate(day)) AS rate_day, units, dollars FROM fx_rates FINAL
WHERE currency = {currency:String} AND day >= toDateTime({since:String}, 'UTC') AND day < toDateTime({until:String}, 'UTC')
ORDER BY day"""


class ShownRate(NamedTuple):
    """So many units of a currency cost so many dollars on a day, both in units of the last of 18 decimals."""

    currency: str
    day: str
    units: int
    dollars: int

    def converted(self, amount_usd: object) -> str:
        """An amount in the currency to its last unit, with its code."""
        return f"{self.amounts([amount_usd])[0]:,.{decimals_of(self.currency)}f} {self.currency}"

    def amounts(self, amounts_usd: Sequence[object]) -> list[Decimal]:
        """Amounts in the currency, to nine decimals; they sum to what their sum is converted to.

        The sum of all up to each amount is rounded half to even, and each is what it adds to it.
        """
        found, so_far, before = [], 0, 0
        for each in amounts_usd:
            so_far += int(EXACT.scaleb(Decimal(str(each or 0)), 18))
            through = _half_even(so_far * self.units, self.dollars * _NANO)
            found.append(EXACT.scaleb(Decimal(through - before), -9))
            before = through
        return found

    def words(self) -> str:
        """The rate as people read it."""
        return f"{_number(self.units)} {self.currency} for {_number(self.dollars)} USD of {self.day}"

    def record(self) -> dict[str, object]:
        """The rate for programs."""
        return {
            "currency": self.currency,
            "rate_units": _number(self.units),
            "rate_dollars": _number(self.dollars),
            "rate_day": self.day,
        }


class DayRates:
    """The rates of a currency on some days."""

    def __init__(self, currency: str, rates: Sequence[ShownRate]) -> None:
        self.currency = currency
        self.rates = rates
        self._days = [rate.day for rate in rates]

    def on(self, day: date) -> ShownRate | None:
        """The last rate by a day, of that week; None: there is none."""
        if self.currency == USD:
            return ShownRate(USD, day.isoformat(), _LAST, _LAST)
        place = bisect_right(self._days, day.isoformat())
        if not place or self._days[place - 1] <= (day - timedelta(days=_HOLDS_D)).isoformat():
            return None
        return self.rates[place - 1]


def rate_day(first: date, last: date, today: date) -> date:
    """The day whose rate a period has, from its first to its last day: today until it has ended, then the last one.

    Costs, charges and statements of a month have one rate by this.
    """
    return today if first <= today < last else last


def known_rates_steps(currency: str, first: date, last: date) -> Steps[DayRates]:
    """Ask for the rates that hold on days from the first to the last; there may be none."""
    if currency == USD:
        return DayRates(currency, ())
    since, until = first - timedelta(days=_HOLDS_D), last + timedelta(days=1)
    bound = {"currency": currency, "since": since.isoformat(), "until": until.isoformat()}
    answer = yield _RATES, {**bound}
    return DayRates(currency, [shown_rate(currency, *row) for row in answer.rows()])


def rates_steps(currency: str, first: date, last: date) -> Steps[DayRates]:
    """Ask for the rates that hold on days from the first to the last.

    Raises:
        WrongUseError: There is none.
    """
    found = yield from known_rates_steps(currency, first, last)
    if currency != USD and not found.rates:
        since = first - timedelta(days=_HOLDS_D)
        raise WrongUseError(
            f"currency: no rate of {currency} from {since} to {last} is loaded; `trainfare fx load FILE`"
        )
    return found


def shown_rate(currency: str, day: object, units: object, dollars: object) -> ShownRate:
    """The rate of a row of rates."""
    exact = (int(EXACT.scaleb(Decimal(str(each)), 18)) for each in (units, dollars))
    return ShownRate(currency, str(day), *exact)


def add_converted(rows: Sequence[dict[str, Any]], usd: str, rate: ShownRate | None, name: str) -> None:
    """Set beside the dollars of each row the same in a currency, and its rate; they sum to what their sum is converted to."""
    if rate is None:
        for row in rows:
            row |= dict.fromkeys((name, *RATE_COLUMNS))
        return
    for row, amount in zip(rows, rate.amounts([row[usd] for row in rows]), strict=True):
        row |= {name: None if row[usd] is None else amount, **rate.record()}


def _half_even(numerator: int, denominator: int) -> int:
    whole, rest = divmod(abs(numerator), denominator)
    rounded = whole + (2 * rest + whole % 2 > denominator)
    return rounded if numerator >= 0 else -rounded


def _number(units: int) -> str:
    text = f"{EXACT.scaleb(Decimal(units), -18):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
