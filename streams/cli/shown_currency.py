"""Shows dollars in another currency, with the rate and its day beside them; rows stay in dollars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from schemas.escaping import visible
from streams.cli.output import Grid, plain
from streams.cli.reading import Reader
from streams.costs import charge_sql
from streams.costs.charging import EXACT
from streams.errors import WrongUseError

_NANO: Final = 10**9
_LAST: Final = 10**18


class ShownRate(NamedTuple):
    """So many units of a currency cost so many dollars on a day, both in units of the last of 18 decimals."""

    currency: str
    day: str
    units: int
    dollars: int

    def converted(self, amount_usd: object) -> str:
        """An amount in the currency, with its code."""
        return f"{plain(self.amounts([amount_usd])[0])} {self.currency}"

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


def rate_of(store: Reader, currency: str, until: str) -> ShownRate:
    """The last rate of a currency before the day `until`, of at most a week before it.

    Raises:
        WrongUseError: There is none.
    """
    if currency == "USD":
        return ShownRate(currency, until, _LAST, _LAST)
    rows = store.records(charge_sql.RATE, currency=currency, until=until)
    if not rows:
        raise WrongUseError(
            f"--currency {visible(currency[:20])}: no rate of the week before {until} is loaded; `trainfare fx load FILE`"
        )
    (row,) = rows
    units, dollars = (int(EXACT.scaleb(Decimal(str(row[name])), 18)) for name in ("units", "dollars"))
    return ShownRate(currency, str(row["rate_day"]), units, dollars)


def with_currency(grid: Grid, rate: ShownRate) -> Grid:
    """The rows with their charge in another currency, and the rate and its day beside it."""
    at = grid.columns.index("charge_usd")
    amounts = rate.amounts([row[at] for row in grid.rows])
    beside = rate.record()
    rows = [(*row, amount, *beside.values()) for row, amount in zip(grid.rows, amounts, strict=True)]
    return Grid((*grid.columns, "charge", *beside), rows)


def converted_words(row: Mapping[str, object]) -> str:
    """What lines in another currency became, and by which rates."""
    days = int(str(row["lines"])) - int(str(row["of_invoice"]))
    how = [f"{row['of_invoice']} lines at the rate of their invoice"] if row["of_invoice"] else []
    if days:
        how.append(f"{days} lines at the rate of their day ({row['first_day']} to {row['last_day']})")
    return f"{plain(row['amount'])} {row['billing_currency']} are {plain(row['amount_usd'])} USD: {', '.join(how)}"


def _half_even(numerator: int, denominator: int) -> int:
    whole, rest = divmod(abs(numerator), denominator)
    rounded = whole + (2 * rest + whole % 2 > denominator)
    return rounded if numerator >= 0 else -rounded


def _number(units: int) -> str:
    text = f"{EXACT.scaleb(Decimal(units), -18):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
