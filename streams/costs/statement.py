"""A team's statement of a month: what it is charged and what for, of the frozen rows where the month is closed."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from schemas.currencies import USUAL_DECIMALS, decimals_of
from streams.calendar import UTC_ZONE
from streams.costs.allocating import month_span
from streams.costs.charge_lines import JOBS, SHARED, UNUSED
from streams.costs.closing import (
    AMOUNTS,
    ClosedBill,
    ClosedRow,
    ClosingRules,
    as_closed_now,
    closed_months,
    closed_rows,
    month_bills_known,
)
from streams.costs.currency import USD, ShownRate, add_converted
from streams.costs.exact import EXACT, exact_sum
from streams.costs.month_reader import MonthSource, UnratedLines
from streams.errors import WrongUseError

_PROJECT, _OWNER, _JOB = 2, 3, 5  # of the key
_GPU_HOUR: Final = 3_600_000_000
#: What `charge_usd` is made of, and how people call it.
PARTS: Final = (
    ("billed_usd", "Billed by providers"),
    ("only_metered_usd", "Metered, on no bill"),
    ("license_cost_usd", "Licences"),
    ("labor_cost_usd", "Labour"),
    ("overhead_cost_usd", "Overhead"),
)
#: Of what a statement is made of: all adjustments together.
ADJUSTED: Final = "adjustments_usd"


class StatementGroup(NamedTuple):
    """Some jobs of a team together."""

    name: str
    jobs: int
    gpu_h: Decimal
    charge_usd: Decimal


class Adjustment(NamedTuple):
    """What came later for a closed month, for one reason."""

    of_month: str
    reason: str
    jobs: int
    charge_usd: Decimal


class ShownCurrency(NamedTuple):
    """The currency that a statement is shown in: dollars, or another at one rate."""

    rate: ShownRate | None = None

    @property
    def code(self) -> str:
        """Its code."""
        return USD if self.rate is None else self.rate.currency

    def amounts(self, amounts_usd: Sequence[Decimal]) -> list[Decimal]:
        """Amounts in it; they sum to what their sum is converted to."""
        return [*amounts_usd] if self.rate is None else self.rate.amounts(amounts_usd)

    def cents(self, amounts_usd: Sequence[Decimal]) -> list[Decimal]:
        """The same in cents, or what is the currency's last unit, which sum to their rounded sum."""
        return in_cents(self.amounts(amounts_usd), decimals_of(self.code))

    def said(self, cents: Decimal) -> str:
        """An amount in cents as people read it."""
        return f"{cents:,.{decimals_of(self.code)}f}"


DOLLARS: Final = ShownCurrency()


class TeamStatement(NamedTuple):
    """What a team is charged in a month."""

    team: str
    month: str
    closed: str  # when; empty: it is open, and what is said may change
    key_id: str  # that signed the manifest
    manifest_sha256: str
    rules: ClosingRules
    bills: list[ClosedBill]
    rows: list[ClosedRow]
    skipped: list[str]  # closed months that cannot be adjusted, of an open month
    without_rate: Sequence[UnratedLines] = ()  # of the month's bills: nobody is charged for them

    @property
    def title(self) -> str:
        """Whose it is; jobs may name no team, and have a statement, too."""
        return f"Team {self.team}" if self.team else "Jobs without a team"

    @property
    def own(self) -> list[ClosedRow]:
        """The rows of the month itself, the dearest first."""
        found = [row for row in self.rows if row.of_month == self.month]
        return sorted(found, key=lambda row: (-row.charge_usd, row.key))

    def amount(self, name: str) -> Decimal:
        """The sum of a column of the month itself."""
        at = AMOUNTS.index(name)
        return exact_sum(row.amounts[at] for row in self.own)

    @property
    def adjustments(self) -> list[Adjustment]:
        """What came later for months before, the largest first."""
        sums: dict[tuple[str, str], list[ClosedRow]] = defaultdict(list)
        for row in self.rows:
            if row.of_month != self.month:
                sums[row.of_month, row.reason].append(row)
        found = [
            Adjustment(*key, len({row.key[_JOB] for row in rows}), exact_sum(row.charge_usd for row in rows))
            for key, rows in sums.items()
        ]
        return sorted(found, key=lambda each: (each.of_month, -abs(each.charge_usd), each.reason))

    @property
    def total_usd(self) -> Decimal:
        """All that the team is charged: the month, and adjustments."""
        return exact_sum(row.charge_usd for row in self.rows)

    @property
    def projects(self) -> list[StatementGroup]:
        """The month by project, the dearest first."""
        return self._groups(_PROJECT)

    @property
    def owners(self) -> list[StatementGroup]:
        """The month by owner."""
        return self._groups(_OWNER)

    def _groups(self, at: int) -> list[StatementGroup]:
        sums: dict[str, list[ClosedRow]] = defaultdict(list)
        for row in self.own:
            sums[row.key[at]].append(row)
        found = [
            StatementGroup(name, len(rows), gpu_hours(rows), exact_sum(row.charge_usd for row in rows))
            for name, rows in sums.items()
        ]
        return sorted(found, key=lambda each: (-each.charge_usd, each.name))

    def in_cents(self, shown: ShownCurrency) -> tuple[dict[str, Decimal], list[Decimal]]:
        """What it is made of by name, in cents that sum to its total, and each adjustment: one figure wherever it is named."""
        amounts = {name: amount for name, _ in PARTS if (amount := self.amount(name))}
        cents = shown.cents([*amounts.values(), *(each.charge_usd for each in self.adjustments)])
        made_of, late = dict(zip(amounts, cents, strict=False)), cents[len(amounts) :]
        return made_of | ({ADJUSTED: exact_sum(late)} if late else {}), late

    def records(self, shown: ShownCurrency = DOLLARS) -> list[dict[str, Any]]:
        """All rows by the names of their columns, in order, amounts without zeros at their ends; the charge in a currency beside."""
        rows = [_short(row.named()) for row in sorted(self.rows)]
        if shown.rate is not None:
            add_converted(rows, "charge_usd", shown.rate, "charge")
        return rows

    def record(self, shown: ShownCurrency = DOLLARS) -> dict[str, Any]:
        """The statement for programs; in another currency than dollars with what they are converted to."""
        rules = self.rules
        found = {
            "team": self.team,
            "month": self.month,
            "tz": UTC_ZONE,
            "state": "closed" if self.closed else "open",
            "closed": self.closed or None,
            "manifest_sha256": self.manifest_sha256 or None,
            "key_id": self.key_id or None,
            "rules": {
                "cost": rules.cost.value,
                "idle": rules.idle.value,
                "share_unallocated": rules.share_unallocated.value,
                "allocation": [each.name for each in rules.allocation or ()],
            },
            "total_usd": self.total_usd,
            "month_usd": self.amount("charge_usd"),
            "adjustments_usd": exact_sum(each.charge_usd for each in self.adjustments),
            "parts": _short({name: self.amount(name) for name in AMOUNTS}),
            "adjustments": [_short(each._asdict()) for each in self.adjustments],
            "projects": [_short(each._asdict()) for each in self.projects],
            "bills": [
                {
                    "file": each.file,
                    "issuer": each.issuer,
                    "account": each.account,
                    "lines": each.lines,
                    "billed_usd": each.billed_usd,
                }
                for each in self.bills
            ],
            "without_rate": [
                _short({"currency": each.currency, "lines": each.lines, "amount": each.amount})
                for each in self.without_rate
            ],
            "rows": self.records(shown),
        }
        if shown.rate is not None:
            self._add_converted(found, shown.rate)
        return _short(found)

    def _add_converted(self, found: dict[str, Any], rate: ShownRate) -> None:
        """Set beside dollars what they are converted to: parts and projects sum to the month, it and adjustments to the total."""
        month, *late = rate.amounts(
            [self.amount("charge_usd"), *(each.charge_usd for each in self.adjustments)]
        )
        for each, amount in zip(found["adjustments"], late, strict=True):
            each["charge"] = amount
        add_converted(found["projects"], "charge_usd", rate, "charge")
        parts = rate.amounts([self.amount(name) for name, _ in PARTS])
        found["rate"] = rate.record()
        found["converted"] = {
            "total": exact_sum([month, *late]),
            "month": month,
            "adjustments": exact_sum(late),
            "parts": {name.removesuffix("_usd"): part for (name, _), part in zip(PARTS, parts, strict=True)},
        }


def _short(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record whose amounts have no zeros at their ends, wherever they come from."""
    return {
        name: EXACT.normalize(value) if isinstance(value, Decimal) else value
        for name, value in record.items()
    }


def gpu_hours(rows: Iterable[ClosedRow]) -> Decimal:
    """GPU-hours of rows, to a thousandth."""
    return (Decimal(sum(row.gpu_milli_ms for row in rows)) / _GPU_HOUR).quantize(Decimal("0.001"))


def in_cents(amounts: Sequence[Decimal], decimals: int = USUAL_DECIMALS) -> list[Decimal]:
    """Amounts in cents that sum to their rounded sum: each is what it adds to the rounded sum of all up to it.

    A currency may have other `decimals` than cents.
    """
    cent = Decimal(1).scaleb(-decimals)
    found, so_far, before = [], Decimal(0), Decimal(0)
    for each in amounts:
        so_far = EXACT.add(so_far, each)
        through = EXACT.quantize(so_far, cent)
        found.append(EXACT.subtract(through, before))
        before = through
    return found


def statement_of(store: MonthSource, team: str, month: str, rules: ClosingRules) -> TeamStatement:
    """The statement of a team: as it was closed, else as it would be closed now by the rules.

    Raises:
        WrongUseError: It is no month, or nothing is known of the team in it.
    """
    month_span(month)
    closed = closed_months(store).get(month)
    if closed is not None:
        manifest = closed.read()
        digest = hashlib.sha256(closed.manifest.encode()).hexdigest()
        rows = closed_rows(store, month=month, team=team)
        found = TeamStatement(
            team,
            month,
            manifest.closed,
            closed.key_id,
            digest,
            manifest.rules,
            manifest.bills,
            rows,
            [],
            manifest.without_rate,
        )
    else:
        closing = as_closed_now(store, month, rules)
        rows = [row for row in closing.rows if row.key[0] in (JOBS, UNUSED, SHARED) and row.key[1] == team]
        bills = month_bills_known(store, month)
        found = TeamStatement(
            team, month, "", "", "", closing.rules, bills, rows, closing.skipped, closing.bills.unrated
        )
    if not found.rows:
        raise WrongUseError(
            f"team {team!r}: no job of it cost anything in {month}; `trainfare chargeback --month {month}` lists the teams"
        )
    return found
