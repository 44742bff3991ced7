"""Shows dollars in another currency, with the rate and its day beside them; rows stay in dollars."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.counting import how_many
from schemas.escaping import visible
from streams.cli.output import Grid, plain
from streams.cli.reading import Reader
from streams.costs import charge_sql
from streams.costs.currency import USD, ShownRate, shown_rate
from streams.errors import WrongUseError


def rate_of(store: Reader, currency: str, until: str) -> ShownRate:
    """The last rate of a currency before the day `until`, of at most a week before it.

    Raises:
        WrongUseError: There is none.
    """
    if currency == USD:
        return shown_rate(currency, until, 1, 1)
    rows = store.records(charge_sql.RATE, currency=currency, until=until)
    if not rows:
        raise WrongUseError(
            f"--currency {visible(currency[:20])}: no rate of the week before {until} is loaded; `trainfare fx load FILE`"
        )
    (row,) = rows
    return shown_rate(currency, row["rate_day"], row["units"], row["dollars"])


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
