"""What the energy of jobs stands for in CO2 equivalent, from the loaded intensities: for `trainfare carbon show`.

Every text in its SQL is fixed; what a client chooses is bound as a parameter.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from streams.calendar import PLAIN, Calendar
from streams.costs.cell_starts import cell_starts
from streams.costs.day_parts import MetricRows, Row, Steps
from streams.costs.idle_nodes import SPAN, bounds_of
from streams.costs.parts import HourSpan
from streams.costs.request import Period

LEVELS: Final = ("region", "team", "project", "owner", "job_id")
#: Thousandths of a watt x ms of a watt-hour.
_WH: Final = 3_600_000_000


def cells(
    levels: tuple[str, ...], per: Period, span: HourSpan, limit: int, calendar: Calendar = PLAIN
) -> Steps[MetricRows]:
    """Ask for energy, its CO2 equivalent and its cost, by levels and periods of a calendar: the most energy first.

    Raises:
        WrongUseError: The span has too many periods.
    """
    starts = yield from cell_starts(per, span, calendar, "job_hours")
    keys = (*starts.keys, *levels)
    found = yield (
        f"""SELECT {starts.column}{", ".join(levels)}, sum(energy_quantity) AS energy, sumIf(energy_quantity, isNull(co2e_nano_g)) AS unknown,
    toString(sum(toInt256(ifNull(co2e_nano_g, 0)))) AS nano_g, sum(cost_usd) AS cost_usd
FROM carbon_hours WHERE {SPAN} GROUP BY {", ".join(keys)} ORDER BY {", ".join(keys)}""",
        bounds_of(starts.span) | starts.parameters,
    )
    width, periods = len(keys), len(keys) - len(levels)
    sums: list[Row] = sorted(
        map(tuple, found.rows()), key=lambda row: (row[:periods], -row[width], row[periods:width])
    )
    rows: list[Row] = [
        (
            *row[:width],
            _wh(row[width]),
            _wh(row[width + 1]),
            Decimal(int(str(row[width + 2]))).scaleb(-9),
            row[width + 3],
        )
        for row in sums[:limit]
    ]
    return MetricRows((*keys, "energy_wh", "without_intensity_wh", "co2e_g", "cost_usd"), starts.named(rows))


def _wh(quantity: int) -> Decimal:
    """Watt-hours to a thousandth, rounded down."""
    return Decimal(quantity * 1_000 // _WH).scaleb(-3)
