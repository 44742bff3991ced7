"""Closes a month: freezes what it charges, and finds what came later for months that are closed, as adjustments.

A closed month is never computed again: its rows are those of the manifest that was signed.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from schemas.allocation_rules import AllocationRule
from schemas.durations import DAY_S
from streams.costs.allocating import AllocationStore, month_span
from streams.costs.charge_lines import JOBS
from streams.costs.charge_sql import BillCost
from streams.costs.charging import Charge, Rules, charges
from streams.costs.closing_sql import (
    BEFORE,
    BILLS,
    CHARGES,
    RATES_SINCE,
    bill_digest,
    ledger_digest,
    prices_digest,
)
from streams.costs.exact import EXACT, exact_sum
from streams.costs.loaded_bills_sql import CLOSED
from streams.costs.month_reader import BillsOfMonth, MonthReader, MonthSource, UnratedLines, records
from streams.costs.shares import Rule
from streams.costs.unreconciled import unreconciled_reasons
from streams.errors import WrongUseError

LEVELS: Final = ("team", "project", "owner", "experiment", "job")
_KEY: Final = ("kind", "team", "project", "owner", "experiment", "job_id", "account", "provider", "service")
AMOUNTS: Final = (
    "cost_usd",
    "idle_usd",
    "overcommitted_cost_usd",
    "billed_usd",
    "unallocated_usd",
    "only_metered_usd",
    "license_cost_usd",
    "labor_cost_usd",
    "overhead_cost_usd",
    "charge_usd",
)
_NONE: Final = Decimal(0)
_FORM: Final = 1
_ROWS: Final = 50_000


class ClosedRow(NamedTuple):
    """A row of `closed_charges`."""

    of_month: str  # 2026-10; that of the closing, or an earlier one, of which it is an adjustment
    key: tuple[str, ...]  # _KEY
    gpu_milli_ms: int
    amounts: tuple[Decimal, ...]  # AMOUNTS
    reason: str = ""  # of an adjustment

    @property
    def charge_usd(self) -> Decimal:
        """What it charges."""
        return self.amounts[-1]

    @property
    def subject(self) -> str:
        """What it is about, for people: a job, or what a team bears without one."""
        kind, service = self.key[0], self.key[-1]
        return self.key[_KEY.index("job_id")] if kind == JOBS else f"{kind}: {service}"

    def named(self) -> dict[str, Any]:
        """The row by the names of its columns."""
        return {
            "of_month": self.of_month,
            **dict(zip(_KEY, self.key, strict=True)),
            "gpu_milli_ms": self.gpu_milli_ms,
            **dict(zip(AMOUNTS, self.amounts, strict=True)),
            "reason": self.reason,
        }


class ClosingRules(msgspec.Struct, frozen=True):
    """How a month is charged when it is closed; its adjustments are charged in the same way."""

    cost: BillCost = BillCost.effective
    idle: Rule = Rule.NONE
    share_unallocated: Rule = Rule.NONE
    allocation: tuple[AllocationRule, ...] | None = None  # None: as they stand when it is closed

    def rules(self) -> Rules:
        """As the charge takes them."""
        return Rules(self.idle, self.share_unallocated)


class ClosedBill(msgspec.Struct, frozen=True):
    """A bill of a closed month."""

    load_id: str
    file: str
    issuer: str
    account: str
    lines: int
    billed_usd: str
    sha256: str = ""  # of its lines as they are stored


class Manifest(msgspec.Struct, frozen=True):
    """What a closed month is, in sums and hashes."""

    form: int
    month: str
    closed: str
    rules: ClosingRules
    charge_usd: str  # of the month itself
    adjustments_usd: str  # of months before it
    rows: int
    rows_sha256: str
    unreconciled_usd: str  # metered, and on no bill when it was closed
    bills: list[ClosedBill]
    ledger: dict[str, str]  # a hash of each day's hours of jobs and nodes
    before: str  # SHA-256 of the manifest of the month closed before; '': it was the first
    prices: str = ""  # a hash of the prices that could be used in it
    without_rate: list[UnratedLines] = []


@dataclass(frozen=True)
class Closing:
    """A month as it would be closed now."""

    month: str
    rules: ClosingRules
    rows: list[ClosedRow]
    bills: BillsOfMonth
    skipped: list[str]  # closed months whose minutes were dropped, so that nothing can be adjusted

    def total(self, *, adjustments: bool) -> Decimal:
        """What the month itself is charged, or all adjustments."""
        return exact_sum(row.charge_usd for row in self.rows if (row.of_month != self.month) == adjustments)

    @property
    def unreconciled_usd(self) -> Decimal:
        """What is metered of the month, and on no bill."""
        at = AMOUNTS.index("only_metered_usd")
        return exact_sum(row.amounts[at] for row in self.rows if row.of_month == self.month)

    @property
    def unreconciled_reasons(self) -> list[str]:
        """Why it is closed only by will."""
        is_empty = not any(row.of_month == self.month for row in self.rows)
        return unreconciled_reasons(self.month, self.unreconciled_usd, self.bills, is_empty=is_empty)


class ClosedMonth(NamedTuple):
    """A month that is closed, as it is stored."""

    month: str
    manifest: str
    signature: str
    key_id: str

    def read(self) -> Manifest:
        """What the manifest says.

        Raises:
            WrongUseError: It is none.
        """
        try:
            return msgspec.json.decode(self.manifest, type=Manifest)
        except msgspec.MsgspecError as fault:
            raise WrongUseError(f"the manifest of {self.month} cannot be read: {fault}") from None


def closed_months(store: MonthSource) -> dict[str, ClosedMonth]:
    """The months that are closed, in order."""
    return {
        str(row["name"]): ClosedMonth(str(row["name"]), row["manifest"], row["signature"], row["key_id"])
        for row in records(store, CLOSED)
    }


def closed_rows(
    store: MonthSource, *, month: str = "", of_month: str = "", team: str | None = None
) -> list[ClosedRow]:
    """Rows that are frozen: of a closing, about a month, of a team."""
    given = {
        "month": _first(month),
        "of_month": _first(of_month),
        "team": team or "",
        "every": team is None,
    }
    found = []
    for row in records(store, CHARGES, **given):
        key = tuple(str(row[name]) for name in _KEY)
        amounts = tuple(row[name] for name in AMOUNTS)
        found.append(ClosedRow(row["of_name"], key, int(row["gpu_milli_ms"]), amounts, row["reason"]))
    return found


def as_closed_now(store: MonthSource, month: str, rules: ClosingRules) -> Closing:
    """What a month charges, and what has come since for months that are closed, by what the store has now."""
    reader, rows = _charged(store, month, rules)
    found, skipped = list(rows.values()), []
    closed = closed_months(store)
    for each in closed.values():
        if each.month >= month:
            continue
        adjusted = _adjustments(store, each, month)
        if adjusted is None:
            skipped.append(each.month)
        else:
            found += adjusted
    frozen = msgspec.structs.replace(rules, allocation=reader.rules)
    return Closing(month, frozen, sorted(found), reader.bills, skipped)


def shut_out(store: MonthSource, month: str) -> list[str]:
    """Months with hours of jobs before a month, which can never be closed once it is: it would be the first that is closed."""
    if closed_months(store):
        return []
    return [str(row["name"]) for row in records(store, BEFORE, first=month_span(month)["first"])]


def early_reasons(store: MonthSource, month: str, now_ms: int) -> list[str]:
    """Why a month cannot be closed now whatever it has: it is closed, has not ended, or would leave a gap.

    Raises:
        WrongUseError: It is no month.
    """
    until = datetime.fromisoformat(month_span(month)["until"]).replace(tzinfo=UTC)
    found = []
    if now_ms < until.timestamp() * 1_000:
        found.append(f"{month} has not ended: close it from {until:%Y-%m-%d} on (UTC)")
    closed = closed_months(store)
    later = [each for each in closed if each > month]
    if month in closed:
        found.append(
            f"{month} is closed since {closed[month].read().closed}; what comes later for it is an adjustment of the next month"
        )
    elif later:
        found.append(
            f"{later[0]} is closed already, and months are closed in order: {month} can no longer be"
        )
    elif closed:
        last = month_span(max(closed))["until"][:7]
        if last != month:
            found.append(f"{max(closed)} was closed last: close {last} before {month}")
    return found


def manifest_of(store: MonthSource, closing: Closing, now_ms: int) -> str:
    """The manifest of a closing, as it is signed."""
    span = month_span(closing.month)
    last = max(closed_months(store).items(), default=None)
    unreconciled = closing.unreconciled_usd
    manifest = Manifest(
        form=_FORM,
        month=closing.month,
        closed=datetime.fromtimestamp(now_ms / 1_000, UTC)
        .isoformat(timespec="seconds")
        .replace("+00:00", "Z"),
        rules=closing.rules,
        charge_usd=f"{closing.total(adjustments=False):f}",
        adjustments_usd=f"{closing.total(adjustments=True):f}",
        rows=len(closing.rows),
        rows_sha256=rows_digest(closing.rows),
        unreconciled_usd=f"{unreconciled:f}",
        bills=[
            msgspec.structs.replace(bill, sha256=bill_digest(store, bill.load_id, span))
            for bill in month_bills_known(store, closing.month)
        ],
        ledger=ledger_digest(store, span),
        before="" if last is None else hashlib.sha256(last[1].manifest.encode()).hexdigest(),
        prices=prices_digest(store, span),
        without_rate=closing.bills.unrated,
    )
    return msgspec.json.encode(manifest).decode()


def store_closing(store: AllocationStore, closing: Closing, sealed: ClosedMonth, now_ms: int) -> None:
    """Store the rows, and then the manifest, which makes the month closed."""
    from streams.costs.month_tables import CLOSED_CHARGES, CLOSED_MONTHS, rows_table

    month_s = _seconds(closing.month)
    for begin in range(0, len(closing.rows), _ROWS):
        rows = [
            {**row.named(), "month": month_s, "of_month": _seconds(row.of_month), "version": now_ms}
            for row in closing.rows[begin : begin + _ROWS]
        ]
        token = f"closing-{closing.month}-{now_ms}-{begin}"
        store.insert(CLOSED_CHARGES, rows_table(CLOSED_CHARGES, rows), token)
    header = {
        "month": month_s,
        "closed": now_ms,
        "manifest": sealed.manifest,
        "signature": sealed.signature,
        "key_id": sealed.key_id,
        "version": now_ms,
    }
    store.insert(CLOSED_MONTHS, rows_table(CLOSED_MONTHS, [header]), f"closed-{closing.month}-{now_ms}")


def close(
    store: AllocationStore,
    month: str,
    rules: ClosingRules,
    now_ms: int,
    sign: Callable[[str], tuple[str, str]],
    *,
    is_forced: bool = False,
) -> tuple[ClosedMonth, list[str]]:
    """Close a month; return what is stored of it, and the closed months that could not be adjusted.

    Args:
        store: The store.
        month: Such as 2026-10.
        rules: How it is charged.
        now_ms: Log time.
        sign: Makes of a manifest its signature and the key's name.
        is_forced: Whether it is closed though something of it is on no bill yet.

    Raises:
        WrongUseError: It is closed, has not ended, or is not reconciled.
    """
    _refuse(early_reasons(store, month, now_ms))
    closing = as_closed_now(store, month, rules)
    if not is_forced:
        _refuse(closing.unreconciled_reasons)
    # Rows of a closing that failed before its manifest was stored: they would stand beside the new ones.
    store.forget_closing(_seconds(month))
    manifest = manifest_of(store, closing, now_ms)
    sealed = ClosedMonth(month, manifest, *sign(manifest))
    _refuse(early_reasons(store, month, now_ms))  # reading a large month takes its time
    store_closing(store, closing, sealed, now_ms)
    if closed_months(store)[month] != sealed:
        raise WrongUseError(f"{month} was closed at the same time by another command, whose manifest counts")
    return sealed, closing.skipped


def _refuse(reasons: Sequence[str]) -> None:
    if reasons:
        raise WrongUseError(reasons[0])


def rows_digest(rows: Iterable[ClosedRow]) -> str:
    """SHA-256 of rows in their order, each with all that it has."""
    found = hashlib.sha256()
    for row in sorted(rows):
        amounts = [f"{amount:.18f}" for amount in row.amounts]
        found.update(
            msgspec.json.encode([row.of_month, *row.key, row.gpu_milli_ms, *amounts, row.reason]) + b"\n"
        )
    return found.hexdigest()


def month_bills_known(store: MonthSource, month: str) -> list[ClosedBill]:
    """The bills of a month that stand, without the hashes of their lines."""
    return [
        ClosedBill(
            row["load_id"],
            row["file"],
            row["issuer"],
            row["account"],
            int(row["lines"]),
            f"{row['billed_usd']:f}",
        )
        for row in records(store, BILLS, **month_span(month))
    ]


def _charged(
    store: MonthSource, month: str, rules: ClosingRules
) -> tuple[MonthReader, dict[tuple[str, ...], ClosedRow]]:
    reader = MonthReader(store, month_span(month), LEVELS, rules.cost, rules=rules.allocation)
    read = reader.month()
    gpu: dict[str, int] = defaultdict(int)
    for each in read.metered:
        gpu[each.job_id] += each.gpu_milli_ms
    rows = {}
    for charge in charges(read, rules.rules()).rows:
        key = (charge.kind, *charge.names, charge.account, charge.provider, charge.service)
        job = charge.names[-1] if charge.kind == JOBS else ""
        rows[key] = ClosedRow(month, key, gpu.get(job, 0), _amounts(charge))
    return reader, rows


def _amounts(charge: Charge) -> tuple[Decimal, ...]:
    return tuple(getattr(charge, name) or _NONE for name in AMOUNTS)


def _adjustments(store: MonthSource, closed: ClosedMonth, month: str) -> list[ClosedRow] | None:
    """What a closed month would charge now, less what it and adjustments of it have charged; None: its minutes are gone."""
    manifest = closed.read()
    # A month that was closed before there were rules has none.
    rules = msgspec.structs.replace(manifest.rules, allocation=manifest.rules.allocation or ())
    reader, now = _charged(store, closed.month, rules)
    if reader.is_dropped:
        return None
    before: dict[tuple[str, ...], ClosedRow] = {}
    for row in closed_rows(store, of_month=closed.month):
        sums = before.get(row.key)
        amounts = row.amounts if sums is None else _plus(sums.amounts, row.amounts)
        gpu = row.gpu_milli_ms + (0 if sums is None else sums.gpu_milli_ms)
        before[row.key] = ClosedRow(closed.month, row.key, gpu, amounts)
    nothing = (_NONE,) * len(AMOUNTS)
    changes: dict[tuple[str, ...], list[ClosedRow]] = defaultdict(list)  # of a job, or of another subject
    for key in sorted({*now, *before}):
        was = before.get(key, ClosedRow(closed.month, key, 0, nothing))
        is_ = now.get(key, ClosedRow(closed.month, key, 0, nothing))
        change = _plus(is_.amounts, tuple(EXACT.minus(amount) for amount in was.amounts))
        gpu = is_.gpu_milli_ms - was.gpu_milli_ms
        if any(change) or gpu:
            row = ClosedRow(closed.month, key, gpu, change)
            changes[(JOBS, row.subject) if key[0] == JOBS else key].append(row)
    named = _Reasons(store, manifest)
    return [
        row._replace(reason=reason)
        for rows in changes.values()
        for reason in [named.reason(rows)]
        for row in rows
    ]


class _Reasons:
    """Says what a closed month was adjusted for."""

    def __init__(self, store: MonthSource, manifest: Manifest) -> None:
        known = {bill.load_id for bill in manifest.bills}
        standing = month_bills_known(store, manifest.month)
        self._new = sorted({bill.file for bill in standing if bill.load_id not in known})
        here = {bill.load_id for bill in standing}
        self._gone = sorted({bill.file for bill in manifest.bills if bill.load_id not in here})
        closed_ms = round(datetime.fromisoformat(manifest.closed).timestamp() * 1_000)
        (rates,) = records(store, RATES_SINCE, since_ms=closed_ms)
        self._has_rates = bool(rates["rates"])
        self._has_prices = prices_digest(store, month_span(manifest.month)) != manifest.prices

    def reason(self, rows: Sequence[ClosedRow]) -> str:
        """The causes of what a job, or another subject, is charged otherwise; several rows are one job under several names."""
        gpu_milli_ms = sum(row.gpu_milli_ms for row in rows)
        sums = (exact_sum(column) for column in zip(*(row.amounts for row in rows), strict=True))
        of_all = self._causes(gpu_milli_ms, dict(zip(AMOUNTS, sums, strict=True)))
        return ", ".join([*(["late names"] if len(rows) > 1 else []), *of_all]) or "shared anew"

    def _causes(self, gpu_milli_ms: int, change: Mapping[str, Decimal]) -> list[str]:
        """By what differs: time, cost without time, bills."""
        found = []
        if change["cost_usd"] or change["idle_usd"] or gpu_milli_ms:
            # More time costs more whatever the prices do; no more time costs more by a price, if one has come.
            by_price = "late event or price" if gpu_milli_ms else "late price"
            found.append(by_price if self._has_prices else "late event")
        if change["billed_usd"]:
            found += [f"late bill {file}" for file in self._new]
            found += [f"bill withdrawn {file}" for file in self._gone]
            if not self._new and not self._gone:
                found.append(
                    "late exchange rate" if self._has_rates else "lines shared anew by what was metered"
                )
        elif change["only_metered_usd"] and (self._new or self._gone):
            found += [f"late bill {file}" for file in self._new]
        return found


def _plus(one: tuple[Decimal, ...], other: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
    return tuple(EXACT.add(a, b) for a, b in zip(one, other, strict=True))


def _first(month: str) -> str:
    return month_span(month)["first"] if month else ""


def _seconds(month: str) -> int:
    return (datetime.fromisoformat(f"{month}-01").toordinal() - datetime(1970, 1, 1).toordinal()) * DAY_S  # noqa: DTZ001 - days alone
