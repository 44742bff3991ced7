"""What commitments cost over time, what of it was used, and how much of the use they cover: for `trainfare commitments` and the page.

Every text in its SQL is fixed; what a client chooses is bound as a parameter.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from streams.calendar import PLAIN, Calendar
from streams.costs.cell_starts import cell_starts
from streams.costs.day_parts import MetricRows, Row, Steps
from streams.costs.idle_nodes import ALL_ROWS, SPAN, bounds_of
from streams.costs.parts import HourSpan
from streams.costs.request import Period

LEVELS: Final = ("commitment_id", "kind", "provider", "team", "source")
MONEY: Final = ("cost_usd", "used_usd", "unused_usd", "purchase_usd")
_GPU_MILLI_MS_PER_HOUR: Final = 3_600_000_000
_LINE_SPAN: Final = SPAN.replace("hour", "charge_period_start")
#: GPU-time of all jobs, and that which commitments of a file paid for.
_GPU_COVERED: Final = f"""
SELECT <period>sum(toInt128(covered)) AS covered_gpu, sum(toInt128(held)) AS held_gpu
FROM (
    SELECT hour, used_quantity AS covered, toInt64(0) AS held FROM commitment_use WHERE {SPAN} AND unit = 'gpu_milli_ms'
    UNION ALL
    SELECT hour, toInt64(0), gpu_milli_ms FROM job_hours FINAL WHERE {SPAN} AND gpu_milli_ms != 0 AND NOT startsWith(job_id, 'trainfare-canary.')
)
<grouped>
"""
#: At list prices: usage that a commitment paid for, of that of services for which there are commitments. Spot is not eligible.
_USD_COVERED: Final = f"""
SELECT <period>sumIf(list_usd, commitment_discount_id != '') AS covered_usd, sum(list_usd) AS eligible_usd
FROM (
    SELECT toStartOfHour(l.charge_period_start) AS hour, l.commitment_discount_id AS commitment_discount_id, assumeNotNull(l.list_usd) AS list_usd
    FROM billed_lines AS l
    WHERE {_LINE_SPAN} AND isNotNull(l.list_usd) AND l.charge_category = 'Usage' AND l.charge_class = ''
        AND lower(l.commitment_discount_status) != 'unused' AND l.pricing_category != 'Dynamic'
        AND (l.provider_name, l.service_name) IN (
            SELECT provider_name, service_name FROM bill_lines WHERE commitment_discount_id != '' AND charge_category = 'Usage'
                AND lower(commitment_discount_status) != 'unused')
)
<grouped>
"""

#: All that its statements read.
_COVERED_HOURS: Final = "(SELECT hour FROM job_hours UNION ALL SELECT toStartOfHour(charge_period_start) FROM bill_lines) AS known"


def cells(
    levels: tuple[str, ...], per: Period, span: HourSpan, limit: int = ALL_ROWS, calendar: Calendar = PLAIN
) -> Steps[MetricRows]:
    """Ask what commitments cost, by levels and periods of a calendar: what was most unused first.

    Raises:
        WrongUseError: The span has too many periods.
    """
    starts = yield from cell_starts(per, span, calendar, "commitment_hours")
    keys = (*starts.keys, *levels)
    sums = ", ".join(f"sum({name}) AS {name}" for name in MONEY)
    sql = f"SELECT {starts.column}{', '.join(levels)}, {sums} FROM commitment_hours WHERE {SPAN} GROUP BY {', '.join(keys)}"
    found = yield sql, bounds_of(starts.span) | starts.parameters
    width, periods = len(keys), len(keys) - len(levels)
    rows: list[Row] = [(*row, _ratio(row[width + 1], row[width])) for row in found.rows()]
    rows.sort(key=lambda row: (row[:periods], -row[width + 2], row[periods:width]))
    return MetricRows((*keys, *MONEY, "utilization_ratio"), starts.named(rows[:limit]))


def coverage(per: Period, span: HourSpan, calendar: Calendar = PLAIN) -> Steps[MetricRows]:
    """Ask how much of the use commitments cover, by periods of a calendar: of GPU-time by a file, of list cost by bills.

    Raises:
        WrongUseError: The span has too many periods.
    """
    starts = yield from cell_starts(per, span, calendar, _COVERED_HOURS)
    width = len(starts.keys)
    sums: dict[tuple[Any, ...], list[Any]] = {}
    for at, statement in ((0, _GPU_COVERED), (2, _USD_COVERED)):
        sql = statement.replace("<period>", starts.column).replace(
            "<grouped>", "GROUP BY period_start" if starts.keys else ""
        )
        answer = yield sql, bounds_of(starts.span) | starts.parameters
        for row in answer.rows():
            sums.setdefault(row[:width], [0, 0, Decimal(0), Decimal(0)])[at : at + 2] = row[width:]
    rows = [
        (
            *key,
            _hours(covered),
            _hours(held),
            _ratio(covered, held),
            covered_usd,
            eligible_usd,
            _ratio(covered_usd, eligible_usd),
        )
        for key, (covered, held, covered_usd, eligible_usd) in sorted(sums.items())
    ]
    names = (
        "covered_gpu_h",
        "gpu_h",
        "gpu_coverage_ratio",
        "covered_list_usd",
        "eligible_list_usd",
        "list_coverage_ratio",
    )
    return MetricRows((*starts.keys, *names), starts.named(rows))


def _ratio(part: Any, whole: Any) -> float | None:
    return round(float(part) / float(whole), 6) if whole else None


def _hours(gpu_milli_ms: int) -> Decimal:
    """GPU-hours to a thousandth."""
    return Decimal(gpu_milli_ms * 1_000 // _GPU_MILLI_MS_PER_HOUR).scaleb(-3)
