"""Shows dollars in another currency, with the rate and its day beside them; rows stay in dollars."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Final

from schemas.counting import how_many
from streams.calendar import PLAIN
from streams.cli.output import Grid, plain
from streams.costs import charge_sql
from streams.costs.allocating import month_span
from streams.costs.currency import ShownRate, known_rates_steps, rate_day
from streams.costs.day_parts import answered
from streams.costs.month_reader import MonthSource, records
from streams.errors import WrongUseError

_DAY: Final = timedelta(days=1)
#: What mends lines without a rate.
LOADS_RATES: Final = "`trainfare fx load` loads rates"


def rate_of(store: MonthSource, currency: str, month: str, now_ms: int) -> ShownRate:
    """The rate of a currency that a month (UTC) has, by `rate_day`.

    Raises:
        WrongUseError: It is no month, or there is no rate.
    """
    span = month_span(month)
    first, until = (date.fromisoformat(span[name]) for name in ("first", "until"))
    day = rate_day(first, until - _DAY, PLAIN.date_of(now_ms))
    rates = answered(known_rates_steps(currency, day, day), lambda sql, bound: store.ask(sql, **bound))
    if (rate := rates.on(day)) is not None:
        return rate
    newest = records(store, charge_sql.NEWEST_RATE, currency=currency, until=day.isoformat())
    known = f"the newest before is of {newest[0]['rate_day']}" if newest else "none before is loaded"
    raise WrongUseError(
        f"--currency {currency}: {day} has no rate, nor has any of the six days before it ({known}); load a file that has "
        "one: `trainfare fx load FILE`; `trainfare fx show` lists what is loaded"
    )


def with_currency(grid: Grid, rate: ShownRate) -> Grid:
    """The rows with their charge in another currency, and the rate and its day beside it."""
    at = grid.columns.index("charge_usd")
    amounts = rate.amounts([row[at] for row in grid.rows])
    beside = rate.record()
    rows = [(*row, amount, *beside.values()) for row, amount in zip(grid.rows, amounts, strict=True)]
    return Grid((*grid.columns, "charge", *beside), rows)


def converted_words(row: Mapping[str, object]) -> str:
    """What lines in another currency became, and by which rates."""
    of_invoice = int(str(row["of_invoice"]))
    days = int(str(row["lines"])) - of_invoice
    how = [f"{how_many(of_invoice, 'line')} at the rate of their invoice"] if of_invoice else []
    if days:
        how.append(
            f"{how_many(days, 'line')} at the rate of their day ({row['first_day']} to {row['last_day']})"
        )
    return f"{plain(row['amount'])} {row['billing_currency']} are {plain(row['amount_usd'])} USD: {', '.join(how)}"
