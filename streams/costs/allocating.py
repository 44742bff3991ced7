"""Puts the lines of a month's bills on jobs, as `trainfare chargeback` charges them, and stores what each line put on each.

The one computation is `streams.costs.charging`; here its parts are written down, and added up by job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from schemas.escaping import visible
from streams.calendar import PLAIN, month_named
from streams.costs.charge_lines import IDLE, JOBS, ChargedLine, How, Recipient
from streams.costs.charge_sql import BillCost
from streams.costs.charging import NANO_PLACES, Charged, JobMetered, Month, Names, Rules, charges
from streams.costs.exact import EXACT
from streams.costs.month_reader import MonthReader, MonthSource, records
from streams.costs.variance import JobBill, Variance, variance_of
from streams.errors import WrongUseError

if TYPE_CHECKING:
    import pyarrow as pa

#: Decimals of stored amounts, in whose units those of all costs are added up.
_PLACES: Final = 18
_ROWS: Final = 50_000
#: Months whose bills, or whose metered cost, are others than when they were allocated last.
_DUE: Final = """
SELECT toString(toDate(b.month)) AS first
FROM
(
    SELECT toStartOfMonth(billing_period_start) AS month, max(time) AS loaded,
        sumIf(other_currency_lines, status = 'loaded') AS converted
    FROM bill_loads FINAL GROUP BY month
) AS b
LEFT ANY JOIN (SELECT toDate(month) AS month, time, metered_usd FROM allocated_months FINAL) AS a ON a.month = b.month
LEFT ANY JOIN
(
    SELECT toStartOfMonth(toDate(hour)) AS month,
        sum(toDecimal128(gpu_cost_usd, 18) + compute_cost_usd + network_cost_usd + storage_cost_usd) AS usd
    FROM job_hours FINAL
    WHERE NOT startsWith(job_id, 'trainfare-canary.')
        AND toStartOfMonth(toDate(hour)) IN (SELECT toStartOfMonth(billing_period_start) FROM bill_loads)
    GROUP BY month
) AS m ON m.month = b.month
WHERE b.loaded > a.time OR m.usd != a.metered_usd
    OR (b.converted > 0 AND a.time < (SELECT max(time) FROM fx_rates))
    OR a.time < (SELECT max(time) FROM allocation_rules)
ORDER BY first
"""
_NO_BILL: Final = JobBill()
_NO_RULES: Final = Rules()
_KNOWN: Final = "SELECT allocation FROM allocated_months FINAL WHERE month = {month:String}"


class AllocationStore(MonthSource, Protocol):
    """What a month is read from, and its allocation is written to."""

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        """Store rows."""
        ...

    def forget_allocations(self, month_s: int, before: int) -> None:
        """Remove the allocations of a month that are older than one."""
        ...

    def forget_closing(self, month_s: int) -> None:
        """Remove rows of a closing of a month that has no manifest."""
        ...


class AllocatedMonth(NamedTuple):
    """What an allocation put where, in dollars of the effective cost."""

    month: str
    lines: int
    jobs: int
    to_jobs_usd: Decimal
    to_idle_usd: Decimal
    to_nobody_usd: Decimal


class MonthBills(NamedTuple):
    """The bills of a month by job: amounts in units of 18 decimals."""

    charged: Charged  # at the cost asked for
    names: Mapping[str, Names]  # of jobs
    jobs: Mapping[str, JobBill]
    unit: int  # units of a nano-dollar

    def variances(self) -> dict[str, Variance]:
        """Why each job was billed otherwise than metered."""
        nothing = JobMetered()
        return {
            job: variance_of(self.jobs.get(job, _NO_BILL), self.charged.jobs.get(job, nothing), self.unit)
            for job in sorted({*self.jobs, *self.charged.jobs})
        }


def month_span(month: str) -> dict[str, str]:
    """The first day of a month such as 2026-10, and the day after its last one.

    Raises:
        WrongUseError: It is no month.
    """
    named = month_named(month)
    if named is None:
        raise WrongUseError(f"{visible(month[:80])}: expected a month such as 2026-10")
    first, until = PLAIN.named_month(named.year, named.month)
    return {"first": first.isoformat(), "until": until.isoformat()}


def month_bills(
    store: MonthSource,
    reader: MonthReader,
    basis: BillCost,
    rules: Rules = _NO_RULES,
    writer: PartWriter | None = None,
) -> MonthBills:
    """Charge a month, and its lines to jobs at each cost that a variance needs, and with a writer at all."""
    found = _Parts(basis, writer)
    month = reader.month()
    charged = _charged(found, month, basis, rules)
    costs = list(BillCost) if writer is not None else [BillCost.list]
    for cost in costs:
        if cost is not basis:
            other = MonthReader(store, reader.span, ("job",), cost, rules=reader.rules)
            _charged(found, other.with_lines_of(month), cost, rules)
    return MonthBills(charged, month.names, found.jobs, 10 ** (_PLACES - NANO_PLACES))


def _charged(found: _Parts, month: Month, cost: BillCost, rules: Rules) -> Charged:
    unit = 10 ** (_PLACES - max(month.places, NANO_PLACES))

    def seen(line: ChargedLine, recipient: Recipient, how: How, part: int) -> None:
        found.add(cost, line, recipient, how, part * unit)

    return charges(month, rules, seen)


class _Parts:
    """What lines put on each job, added up."""

    def __init__(self, basis: BillCost, writer: PartWriter | None) -> None:
        self.jobs: dict[str, JobBill] = defaultdict(JobBill)
        self._basis, self._writer = basis, writer

    def add(self, cost: BillCost, line: ChargedLine, recipient: Recipient, how: How, amount: int) -> None:
        if self._writer is not None:
            self._writer.add(cost, line, recipient, how, amount)
        if recipient[0] != JOBS:
            return
        job = self.jobs[recipient[1]]
        setattr(job, cost.value, getattr(job, cost.value) + amount)
        if cost is self._basis:
            job.charged[line.cause] += amount
            job.is_tagged |= how is How.TAG and line.is_usage
        if cost is BillCost.list:
            job.listed[line.cause] += amount


class PartWriter:
    """Stores parts of lines as rows, some at a time."""

    def __init__(self, store: AllocationStore, month_s: int, allocation: int) -> None:
        self._store, self._month_s, self._allocation = store, month_s, allocation
        self._rows: list[tuple[object, ...]] = []
        self.stored = 0
        self.lines = 0
        self.sums: dict[str, int] = defaultdict(int)
        self._last: tuple[str, int] | None = None

    def add(self, cost: BillCost, line: ChargedLine, recipient: Recipient, how: How, amount: int) -> None:
        """Take a part of a line, in units of 18 decimals."""
        kind = recipient[0]
        if cost is BillCost.effective:
            self.sums[kind] += amount
            self.lines += self._last != (line.load_id, line.line)
            self._last = line.load_id, line.line
        if not amount:
            return
        job, pool, of_service, team = "", ("", ""), ("", "", ""), ""
        if kind == JOBS:
            job = recipient[1]
        elif kind == IDLE:
            pool = recipient[1], recipient[2]
        else:
            of_service, team = (recipient[1], recipient[2], recipient[3]), "".join(recipient[4:])
        rule = line.rule.name if line.rule is not None and how is How.RULE else ""
        self._rows.append(
            (
                *(line.load_id, line.line, kind, job, *pool, *of_service, how.value, cost.value),
                *(stored_usd(amount), team, rule),
            )
        )
        if len(self._rows) >= _ROWS:
            self.flush()

    def flush(self) -> None:
        """Store what is held."""
        if not self._rows:
            return
        from streams.costs.month_tables import BILL_PARTS, parts_table

        rows = parts_table(self._rows, self._month_s, self._allocation)
        self._store.insert(BILL_PARTS, rows, f"bill-parts-{self._allocation}-{self.stored}")
        self.stored += len(self._rows)
        self._rows = []


def stored_usd(amount: int) -> Decimal:
    """An amount in units of 18 decimals as it is stored."""
    return Decimal(amount).scaleb(-_PLACES, EXACT)


def allocate(store: AllocationStore, month: str, now_ms: int) -> AllocatedMonth:
    """Allocate the lines of a month's bills anew; readers see the former allocation until all of it is stored."""
    from streams.costs.month_tables import ALLOCATED_MONTHS, rows_table

    span = month_span(month)
    month_s = _seconds(span["first"])
    known = [int(row["allocation"]) for row in records(store, _KNOWN, month=span["first"])]
    allocation = max([now_ms, *(each + 1 for each in known)])
    writer = PartWriter(store, month_s, allocation)
    basis = BillCost.effective
    bills = month_bills(store, MonthReader(store, span, ("job",), basis), basis, writer=writer)
    writer.flush()
    _store_jobs(store, bills, month_s, allocation)
    metered = sum(each.metered for each in bills.charged.jobs.values()) * bills.unit
    header = {
        "month": month_s,
        "allocation": allocation,
        "jobs": len(bills.jobs),
        "parts": writer.stored,
        "metered_usd": stored_usd(metered),
        "time": now_ms,
        "version": allocation,
    }
    store.insert(
        ALLOCATED_MONTHS, rows_table(ALLOCATED_MONTHS, [header]), f"allocated-{month_s}-{allocation}"
    )
    if known:
        store.forget_allocations(month_s, allocation)
    to_jobs, to_idle = writer.sums[JOBS], writer.sums[IDLE]
    nobody = sum(writer.sums.values()) - to_jobs - to_idle
    return AllocatedMonth(
        month, writer.lines, len(bills.jobs), stored_usd(to_jobs), stored_usd(to_idle), stored_usd(nobody)
    )


def due_months(store: MonthSource) -> list[str]:
    """Months with bills whose allocation is not made of what the store has now."""
    return [str(row["first"])[:7] for row in records(store, _DUE)]


def _store_jobs(store: AllocationStore, bills: MonthBills, month_s: int, allocation: int) -> None:
    from streams.costs.month_tables import JOB_BILLS, rows_table

    nothing_billed, nothing_metered = JobBill(), JobMetered()
    rows: list[dict[str, Any]] = []
    for job, variance in bills.variances().items():
        bill, metered = bills.jobs.get(job, nothing_billed), bills.charged.jobs.get(job, nothing_metered)
        rows.append(
            {
                "month": month_s,
                "allocation": allocation,
                "job_id": job,
                "metered_usd": stored_usd(metered.metered * bills.unit),
                "only_metered_usd": stored_usd(metered.only_metered * bills.unit),
                "billed_usd": stored_usd(bill.billed),
                "effective_usd": stored_usd(bill.effective),
                "list_usd": stored_usd(bill.list),
                "causes": [(cause, stored_usd(amount)) for cause, amount in variance.causes.items()],
                "version": allocation,
            }
        )
    for begin in range(0, len(rows), _ROWS):
        part = rows_table(JOB_BILLS, rows[begin : begin + _ROWS])
        store.insert(JOB_BILLS, part, f"job-bills-{month_s}-{allocation}-{begin}")


def _seconds(day: str) -> int:
    return round(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())
