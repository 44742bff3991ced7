"""Reads from the store what a month is charged from."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final, Protocol

import msgspec

from schemas.allocation_rules import AllocationRule, rule_sql
from schemas.counting import how_many
from schemas.durations import DAY_MS
from sinks.answer import QueryResult
from streams.costs import charge_sql
from streams.costs.charge_lines import ChargedLine, IdleNode, Metered
from streams.costs.charge_sql import PAGE_ROWS, BillCost
from streams.costs.charging import NANO_PLACES, Month
from streams.costs.day_parts import Made, Steps, answered, days_in, in_parts
from streams.costs.exact import EXACT
from streams.costs.kept_days import KeptDays
from streams.costs.kept_jobs import kept_jobs
from streams.costs.parts import HourSpan, Parameters
from streams.errors import WrongUseError

_EPOCH: Final = date(1970, 1, 1).toordinal()
_STANDING: Final = """
SELECT rule_name, match, split, shares, toInt64(toUnixTimestamp(from_time)) AS from_s, toInt64(toUnixTimestamp(to_time)) AS to_s
FROM allocation_rules FINAL WHERE is_removed = 0 ORDER BY place, rule_name
"""


class MonthSource(Protocol):
    """What a month is read from."""

    def ask(self, sql: str, **parameters: object) -> QueryResult:
        """The result; `{name:Type}` in the SQL refers to the parameter of that name."""
        ...


def records(store: MonthSource, sql: str, **parameters: object) -> list[dict[str, Any]]:
    """The result's rows as objects."""
    return store.ask(sql, **parameters).records()


def _standing_rules(store: MonthSource) -> tuple[AllocationRule, ...]:
    """The rules of the newest file, in its order."""
    return tuple(
        AllocationRule(
            row["rule_name"],
            dict(row["match"]),
            row["split"],
            {team: _units(share) for team, share in dict(row["shares"]).items()},
            row["from_s"],
            row["to_s"],
        )
        for row in records(store, _STANDING)
    )


def _units(share: Decimal | str) -> int:
    """A share as a weight, of nine decimals at most; a worker answers with amounts in maps as text."""
    return int(Decimal(share).scaleb(9))


class UnratedLines(msgspec.Struct, frozen=True):
    """Lines of a month's bills in a currency without a rate of their day."""

    currency: str
    lines: int
    amount: Decimal  # in that currency

    @property
    def words(self) -> str:
        """What it means for who pays."""
        said = how_many(
            self.lines,
            "line of the bill is not in USD, has no rate of its day, and is charged to nobody",
            "lines of the bill are not in USD, have no rate of their day, and are charged to nobody",
        )
        return f"{said}: {self.amount:f} {self.currency}"


@dataclass(frozen=True)
class BillsOfMonth:
    """The files of a month's bills, and what is said of them."""

    loads: list[tuple[str, int]]  # file, its last line
    lines: int  # in dollars
    places: int  # decimals of the amounts asked for
    commitments: int  # purchases of commitments: cash alone
    commitments_usd: Decimal
    billed_usd: Decimal  # of all other lines
    with_amount: int  # lines with an amount other than 0
    unrated: list[UnratedLines]
    converted: list[dict[str, Any]]  # lines in other currencies than dollars, with a rate


class MonthReader:
    """Reads one month; bills are those of the month of days (UTC) from `first` up to `until`, both in ISO 8601.

    What was metered is of `hours` [begin, end), of which both are bounded: those of the month by a calendar. Lines are split by
    `rules`; None: as they stand.

    Raises:
        WrongUseError: Another calendar than that of bills is asked for, and the month has bills.
    """

    def __init__(
        self,
        store: MonthSource,
        span: dict[str, str],
        levels: tuple[str, ...],
        basis: BillCost,
        hours: HourSpan | None = None,
        rules: Sequence[AllocationRule] | None = None,
    ) -> None:
        whole = HourSpan(_ms(span["first"]), _ms(span["until"]))
        self._hours = hours or whole
        self._store, self._levels, self._basis = store, levels, basis
        self._month = {"month": span["first"], "month_end": span["until"]}
        self._days = {"first_day": _day(span["first"]), "end_day": _day(span["until"])}
        self.span = span
        self.rules = tuple(_standing_rules(store) if rules is None else rules)
        self._time = {"first": _iso_of(self._hours.begin_ms), "until": _iso_of(self._hours.end_ms)}
        (kept,) = records(store, charge_sql.KEPT)
        self.is_dropped = int(self._time["first"][:7].replace("-", "")) < int(str(kept["month"]))
        self.bills = self._bills()
        if self._hours != whole and (self.bills.lines or self.bills.unrated):
            raise WrongUseError(
                f"--tz: bills of {self._month['month'][:7]} are loaded, and their months and days are those of UTC: leave out --tz, or "
                "ask for what was metered alone: trainfare costs --tz"
            )

    def month(self) -> Month:
        """All that the month is charged from; its lines are read while they are charged."""
        days = self._rows(charge_sql.LATE_DAYS, **self._month, **self._days) if self.bills.loads else []
        late = [int(str(day)) for (day,) in days]
        late_span = (
            {"first": _iso_of(min(late) * DAY_MS), "until": _iso_of((max(late) + 1) * DAY_MS)} if late else {}
        )
        names, resources = self._jobs({**self._time, **self._widest(late_span)})
        accounts = self._attempts({**self._time, **self._widest(late_span)})
        metered, idle = self._used(self._time, [], resources, accounts)
        late_metered, late_idle = self._used(late_span, late, resources, accounts) if late else ([], [])
        return Month(
            metered=metered,
            idle=idle,
            late_metered=late_metered,
            late_idle=late_idle,
            lines=self._lines() if self.bills.lines else None,
            places=self.bills.places,
            covered=self._covered(),
            names=names,
            levels=len(self._levels),
            team_at=self._levels.index("team") if "team" in self._levels else None,
        )

    def with_lines_of(self, month: Month) -> Month:
        """A month as another reader of it has read it, with the lines at this reader's cost."""
        return month._replace(lines=self._lines() if self.bills.lines else None, places=self.bills.places)

    def _widest(self, late: dict[str, str]) -> dict[str, str]:
        if not late:
            return {}
        return {
            "first": min(self._time["first"], late["first"]),
            "until": max(self._time["until"], late["until"]),
        }

    def _rows(self, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._store.ask(sql, **parameters).rows()]

    def _pages(
        self, sql: str, after: Mapping[str, object], **parameters: object
    ) -> Iterator[tuple[Any, ...]]:
        """Yield all rows, page by page; each begins with the columns of `after`, which say where the next page begins."""
        while True:
            rows = self._rows(sql, **parameters, **after, most=PAGE_ROWS)
            yield from rows
            if len(rows) < PAGE_ROWS:
                return
            after = dict(zip(after, rows[-1], strict=False))

    def _bills(self) -> BillsOfMonth:
        rows = records(self._store, charge_sql.bills_sql(self._basis), **self._month)
        others = records(self._store, charge_sql.NOT_IN_DOLLARS, **self._month) if rows else []
        return BillsOfMonth(
            loads=[(row["load_id"], row["last_line"]) for row in rows],
            lines=sum(row["lines"] for row in rows),
            places=max((row["places"] for row in rows), default=0),
            commitments=sum(row["commitments"] for row in rows),
            commitments_usd=sum((row["commitments_usd"] for row in rows), Decimal(0)),
            billed_usd=sum((row["billed_usd"] for row in rows), Decimal(0)),
            with_amount=sum(row["with_amount"] for row in rows),
            unrated=[
                UnratedLines(row["billing_currency"], int(row["lines"]), row["amount"])
                for row in others
                if not row["is_rated"]
            ],
            converted=[row for row in others if row["is_rated"]],
        )

    def _jobs(self, span: dict[str, str]) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
        """The names of jobs, and the resources that labels give them."""
        columns = ["job_id AS job" if each == "job" else each for each in self._levels]
        sql = charge_sql.JOBS.replace("LEVELS", ", ".join(columns))
        names, resources, after = {}, {}, {"job": ""}
        for job_id, resource, *levels in self._pages(sql, after, **span, **self._month):
            names[job_id] = tuple(levels)
            if resource:
                resources[job_id] = resource
        return names, resources

    def _attempts(self, span: dict[str, str]) -> dict[tuple[str, int], tuple[str, str]]:
        """Account and cloud of attempts."""
        after = {"job": "", "attempt": 0}
        rows = self._pages(charge_sql.ATTEMPTS, after, **span, **self._month)
        return {(job_id, attempt): (account, cloud) for job_id, attempt, account, cloud in rows}

    def _used(
        self,
        span: dict[str, str],
        days: list[int],
        resources: dict[str, str],
        accounts: dict[tuple[str, int], tuple[str, str]],
    ) -> tuple[list[Metered], list[IdleNode]]:
        """What was metered in a span, and what its nodes were idle for; of some `days` of it alone, unless they are empty."""
        known = self._answered(days_in(_hours_of(span)))
        metered = self._metered(span, known, days, resources, accounts)
        return list(metered), list(self._idle(span, known, days))

    def _answered(self, steps: Steps[Made]) -> Made:
        return answered(steps, lambda sql, bound: self._store.ask(sql, **bound))

    def _metered(
        self,
        span: dict[str, str],
        known: KeptDays,
        days: list[int],
        resources: dict[str, str],
        accounts: dict[tuple[str, int], tuple[str, str]],
    ) -> Iterator[Metered]:
        after = {"job": "", "attempt": 0, "day": 0, "node": ""}
        sql, bound = self._metered_sql(span, known, days)
        for job_id, attempt, day, node, *amounts in self._pages(sql, after, **bound, days=days):
            account, cloud = accounts.get((job_id, attempt), ("", ""))
            # Without minutes no resource is known, and no line is of the empty one.
            resource = "" if self.is_dropped else node or resources.get(job_id, job_id)
            yield Metered(job_id, day, node, resource, account, cloud, *amounts)

    def _metered_sql(self, span: dict[str, str], known: KeptDays, days: list[int]) -> tuple[str, Parameters]:
        """The statement for what was metered in a span, of the month or of late days, with its bounds."""
        if self.is_dropped and not days:
            return charge_sql.METERED_BY_HOUR, {**span}
        kept = kept_jobs([_hours_of(span)], known.days)
        return charge_sql.metered_sql(kept), {**span, **kept.parameters}

    def _idle(self, span: dict[str, str], known: KeptDays, days: list[int]) -> Iterator[IdleNode]:
        """Yield what nodes were idle for, day by day."""
        steps = in_parts(
            _hours_of(span),
            known,
            lambda part, source: (
                charge_sql.IDLE.replace("<node hours>", source),
                {"first": _iso_of(part.begin_ms), "until": _iso_of(part.end_ms), "days": [*days]},
            ),
        )
        for row in self._answered(steps).rows:
            yield IdleNode(*row)

    def _covered(self) -> dict[tuple[int, str], frozenset[str]]:
        found: dict[tuple[int, str], frozenset[str]] = {}
        for day, account, provider in self._rows(charge_sql.COVERED, **self._days):
            found[int(day), account] = found.get((int(day), account), frozenset()) | {provider}
        return found

    def _lines(self) -> Iterator[ChargedLine]:
        places = max(self.bills.places, NANO_PLACES)
        tiers = frozenset(self._rows(charge_sql.TIERS, **self._month))
        owners = dict(self._rows(charge_sql.OWNERS, **self._month))
        rule, bound = rule_sql(self.rules)
        sql = charge_sql.lines_sql(self._basis, rule)
        for load_id, last_line in self.bills.loads:
            for begin in range(0, last_line + 1, PAGE_ROWS):
                page = {"load": load_id, "from": begin, "to": begin + PAGE_ROWS, **bound}
                for row in self._rows(
                    sql, **self._month, **page, without_commitments=self._basis is not BillCost.billed
                ):
                    yield _line(row, places, tiers, owners, self.rules)


def _line(
    row: tuple[Any, ...],
    places: int,
    tiers: Container[tuple[Any, ...]],
    owners: Mapping[str, str],
    rules: Sequence[AllocationRule],
) -> ChargedLine:
    """A line of a bill; its amount in units of that many decimals, what sets it apart, and who bears it."""
    billing_account, account, provider, service, resource, job_id = row[:6]
    (
        is_usage,
        is_adjusting,
        start_s,
        end_s,
        amount,
        billed,
        cause,
        sku,
        unit,
        load_id,
        number,
        unused,
        rule,
    ) = row[6:]
    if cause == "usage" and (billing_account, account, sku, unit) in tiers:
        cause = "tier"
    if rule:
        cause = "shared"
    return ChargedLine(
        billing_account=billing_account,
        account=account,
        provider=provider,
        service=service,
        resource=resource,
        job_id=job_id,
        is_usage=bool(is_usage),
        is_adjusting=bool(is_adjusting),
        start_s=start_s,
        end_s=end_s,
        amount=int(amount.scaleb(places, EXACT)),
        billed=int(billed.scaleb(18, EXACT)),
        cause=cause,
        load_id=load_id,
        line=number,
        unused_of=owners.get(unused, ""),
        rule=rules[rule - 1] if rule else None,
    )


def _day(iso: str) -> int:
    return date.fromisoformat(iso).toordinal() - _EPOCH


def _ms(iso: str) -> int:
    return _day(iso) * DAY_MS


def _hours_of(span: dict[str, str]) -> HourSpan:
    return HourSpan(_ms_of(span["first"]), _ms_of(span["until"]))


def _ms_of(iso: str) -> int:
    return round(datetime.fromisoformat(iso).replace(tzinfo=UTC).timestamp() * 1000)


def _iso_of(at_ms: int | None) -> str:
    return f"{datetime.fromtimestamp((at_ms or 0) // 1000, UTC):%Y-%m-%d %H:%M:%S}"
