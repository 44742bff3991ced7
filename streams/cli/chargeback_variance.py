"""Shows why jobs were billed otherwise than metered, and prices that would be right, as lines for `trainfare prices load`."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from schemas.counting import how_many
from schemas.durations import DAY_MS
from schemas.escaping import visible
from streams.cli.output import Grid, plain, to_csv
from streams.cli.reading import Reader
from streams.costs.allocating import MonthBills, stored_usd
from streams.costs.charge_lines import JOBS
from streams.costs.variance import CAUSE_COLUMNS, CAUSES, PRICE_PARTS, PRICES, price_records, right_prices

VARIANCE_COLUMNS: Final = ("variance_usd", *CAUSE_COLUMNS, "no_job_usd")
#: Jobs of one question, whose names must fit into it.
_JOBS: Final = 1_000
_FIXED: Final = ("sku", "component", "usd", "per", "gpus", "from")
_BESIDE: Final = ("used_usd", "jobs", "effective_ms")


def with_variance(grid: Grid, bills: MonthBills, levels: int) -> Grid:
    """The rows of a month with what they are charged less what was metered, and what of it comes from each cause.

    The causes are those of jobs. What idle time and lines that no job used add to a row is `no_job_usd`, so that all rows sum
    to the difference of the month.
    """
    sums: dict[tuple[object, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    nobody = ("",) * levels
    for job, variance in bills.variances().items():
        for cause, amount in variance.causes.items():
            sums[bills.names.get(job, nobody)][cause] += amount
    kind, charge, metered = (grid.columns.index(name) for name in ("kind", "charge_usd", "metered_usd"))
    rows = []
    for row in grid.rows:
        causes = sums.get(tuple(row[:levels]), {}) if row[kind] == JOBS else {}
        amounts = [stored_usd(causes.get(cause, 0)) for cause in CAUSES]
        differs = Decimal(str(row[charge])) - Decimal(str(row[metered]))
        rows.append((*row, differs, *amounts, differs - stored_usd(sum(causes.values()))))
    return Grid((*grid.columns, *VARIANCE_COLUMNS), rows)


def right_prices_of(store: Reader, bills: MonthBills, span: Mapping[str, str]) -> list[dict[str, Any]]:
    """The prices that would have metered what was billed, as records of a price list."""
    variances = bills.variances()
    wrong = [job for job, variance in variances.items() if "price" in variance.causes]
    parts: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for begin in range(0, len(wrong), _JOBS):
        for job, *part in store.ask(PRICE_PARTS, jobs=wrong[begin : begin + _JOBS], **span).rows():
            parts[str(job)].append(tuple(part))  # type: ignore[arg-type]  # as PRICE_PARTS selects them
    found = right_prices(variances, parts, bills.unit)
    prices = store.records(PRICES, skus=sorted({each.sku for each in found})) if found else []
    month_ms = round(datetime.fromisoformat(span["first"]).replace(tzinfo=UTC).timestamp() * 1_000)
    return price_records(found, prices, month_ms)


def show_prices(records: Sequence[Mapping[str, Any]]) -> None:
    """Print what is wrong with each price, and a price list of those that are right."""
    if not records:
        return
    for each in records:
        sys.stdout.write(
            f"price {visible(each['sku'])}: {plain(each['used_usd'])} USD per {each['per']} are metered, by the bill it is "
            f"{plain(each['usd'])} ({how_many(each['jobs'], 'job')})\n"
        )
    sys.stdout.write(
        "# right by the bill: save these lines, look at them, and `trainfare prices load` them\n"
    )
    sys.stdout.write(price_list(records))


def price_list(records: Sequence[Mapping[str, Any]]) -> str:
    """The records as a price list in CSV."""
    match = sorted({name for each in records for name in each} - {*_FIXED, *_BESIDE})
    columns = (*_FIXED, *match)
    rows = [
        [{**each, "from": _begin(each["effective_ms"])}.get(name, "") for name in columns] for each in records
    ]
    return to_csv(Grid(columns, rows))


def _begin(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1_000, UTC)
    return (
        at.date().isoformat()
        if at_ms % DAY_MS == 0
        else at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
