"""Charges a month to those who caused it: lines of bills where they belong, and what no bill covers as it was metered.

Parts sum exactly to what is shared out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, NamedTuple

from streams.costs.charge_lines import (
    IDLE,
    JOBS,
    UNALLOCATED,
    ChargedLine,
    IdleNode,
    LineCharges,
    Metered,
    PartSeen,
    Where,
)
from streams.costs.exact import EXACT, exact_sum
from streams.costs.providers import same_provider
from streams.costs.shares import Rule, share_out

NANO_PLACES: Final = 9

Names = tuple[str, ...]
Pool = tuple[str, str]  # cluster, GPU type


class Charge(NamedTuple):
    """What one row bears; money in dollars.

    `kind` is `jobs`; `idle` of idle time that nobody bears; `unallocated` of lines of an account and service that no job
    used; `unused` of what a team's commitments cost without being used; `shared` of a team's share by a rule. `metered_usd` is cost and idle time; `charge_usd` is `billed_usd`, `only_metered_usd`, licences, labour and
    overhead.
    """

    names: Names
    kind: str
    account: str
    provider: str
    service: str
    cost_usd: Decimal
    idle_usd: Decimal
    metered_usd: Decimal
    overcommitted_cost_usd: (
        Decimal  # of all jobs' cost, on the row of idle time: what is beyond what their nodes cost
    )
    billed_usd: Decimal | None  # what lines of bills put on it; None: the month has none
    unallocated_usd: Decimal | None  # of it, the share of lines that no job used
    only_metered_usd: Decimal
    license_cost_usd: Decimal
    labor_cost_usd: Decimal
    overhead_cost_usd: Decimal
    charge_usd: Decimal


class Month(NamedTuple):
    """What a month is charged from."""

    metered: Sequence[Metered]  # of the month
    idle: Sequence[IdleNode]
    late_metered: Sequence[
        Metered
    ]  # of other days that lines are about: who used what, and nothing to charge
    late_idle: Sequence[IdleNode]
    lines: Iterable[ChargedLine] | None  # None: no bill of the month is loaded
    places: int  # decimals of a line's amounts
    covered: Mapping[tuple[int, str], frozenset[str]]  # providers of bills with usage, by day and account
    names: Mapping[str, Names]  # of jobs
    levels: int
    team_at: int | None = None  # the place of the team among them


class Rules(NamedTuple):
    """How a month is charged."""

    idle: Rule = Rule.NONE
    unallocated: Rule = Rule.NONE
    where: Where = Where()


@dataclass
class JobMetered:
    """What a provider bills of a job, as it was metered, in nano-dollars."""

    metered: int = 0
    only_metered: int = 0  # no bill covers its account and day
    without_line: int = 0  # one does, and has no line of its resource


class Charged(NamedTuple):
    """The rows of a month, and what of its metered cost the reader may wonder about."""

    rows: list[Charge]
    without_line_usd: Decimal  # a bill covers its account and day, and has no line of its resource
    without_account_usd: Decimal  # it has no account, and no bill has its resource
    #: By provider and cloud: what the provider bills on resources that were metered on that cloud, so that no job of theirs pays it.
    other_cloud_usd: Mapping[tuple[str, str], Decimal]
    jobs: Mapping[str, JobMetered]


@dataclass
class _Sums:
    """What a row bears: nano-dollars, and units of the bill's last digit."""

    cost: int = 0
    idle: int = 0
    overcommitted: int = 0
    only_metered: int = 0
    license: int = 0
    labor: int = 0
    overhead: int = 0
    billed: int = 0
    unallocated: int = 0

    def any(self) -> bool:
        return any(vars(self).values())


@dataclass
class _IdlePool:
    """Idle time of one cluster and GPU type, and what the jobs on its nodes cost."""

    idle: int = 0
    only_metered: int = 0
    billed: int = 0
    weights: dict[Names, int] = field(default_factory=lambda: defaultdict(int))


def charges(month: Month, rules: Rules, seen: PartSeen | None = None) -> Charged:
    """What each row bears.

    A billed line is shared out to units of the last digit that a bill has (a nano-dollar at least), by largest remainder.

    Args:
        month: What is charged.
        rules: How.
        seen: Called with what each line puts on each job, on idle time and on nobody, before anything is shared by a rule.
    """
    lines = LineCharges(
        [*month.metered, *month.late_metered], [*month.idle, *month.late_idle], month.names, rules.where, seen
    )
    lines.take(month.lines or ())
    lines.finish()
    return _Charging(month, rules, lines).charged()


class _Charging:
    """One month being charged: the sums of each row."""

    def __init__(self, month: Month, rules: Rules, lines: LineCharges) -> None:
        self._month, self._rules, self._lines = month, rules, lines
        self._nobody: Names = ("",) * month.levels
        self._groups: dict[Names, _Sums] = defaultdict(_Sums)
        self._idle = _Sums()
        self._unallocated: dict[tuple[str, str, str], _Sums] = defaultdict(_Sums)
        # What a team bears without a job: by kind, names, account, provider and service.
        self._of_teams: dict[tuple[str, Names, str, str, str], _Sums] = defaultdict(_Sums)
        self._pools: dict[Pool, _IdlePool] = defaultdict(_IdlePool)
        self._users: dict[
            str, dict[str, dict[Names, int]]
        ] = {}  # account, cloud: what each group was metered
        self._jobs: dict[str, JobMetered] = defaultdict(JobMetered)
        self._without_line = self._without_account = 0

    def charged(self) -> Charged:
        self._add_metered()
        self._add_idle()
        self._add_billed()
        self._share_idle()
        self._share_unallocated()
        return Charged(
            self._rows(),
            self._usd(self._without_line, NANO_PLACES),
            self._usd(self._without_account, NANO_PLACES),
            {
                names: self._usd(amount, max(self._month.places, NANO_PLACES))
                for names, amount in self._lines.of_other_cloud.items()
            },
            self._jobs,
        )

    def _add_metered(self) -> None:
        pool_of = {(each.day, each.node): (each.cluster, each.gpu_type) for each in self._month.idle}
        for each in self._month.metered:
            account = self._lines.accounts.of(each.day, each.resource, each.account, each.cloud)
            names = self._month.names.get(each.job_id, self._nobody)
            pool = pool_of.get((each.day, each.node)) if each.node else None
            if pool is not None:
                self._pools[pool].weights[names] += each.usd_nano
            by_cloud = self._users.setdefault(account, {}).setdefault(each.cloud, {})
            by_cloud[names] = by_cloud.get(names, 0) + each.usd_nano
            if not self._is_shown(each.day, account, each.cloud):
                continue
            sums = self._groups[names]
            apart = each.license_nano, each.labor_nano, each.overhead_nano
            sums.cost += each.usd_nano + sum(apart)
            sums.license, sums.labor, sums.overhead = (
                one + more for one, more in zip((sums.license, sums.labor, sums.overhead), apart, strict=True)
            )
            missing = self._without_line
            only = self._only_metered(each.day, account, each.cloud, each.resource, each.usd_nano)
            sums.only_metered += only
            job = self._jobs[each.job_id]
            job.metered += each.usd_nano
            job.only_metered += only
            job.without_line += self._without_line - missing

    def _add_idle(self) -> None:
        for each in self._month.idle:
            account = self._lines.accounts.of(each.day, each.node, each.account, each.cloud)
            if self._is_shown(each.day, account, each.cloud):
                pool = self._pools[each.cluster, each.gpu_type]
                pool.idle += each.usd_nano
                self._idle.overcommitted += each.overcommitted_nano
                pool.only_metered += self._only_metered(
                    each.day, account, each.cloud, each.node, each.usd_nano
                )

    def _add_billed(self) -> None:
        for recipient, amount in self._lines.amounts.items():
            kind, *names = recipient
            if kind == JOBS:
                self._groups[self._month.names.get(names[0], self._nobody)].billed += amount
            elif kind == IDLE:
                self._pools[names[0], names[1]].billed += amount
            elif kind == UNALLOCATED:
                sums = self._unallocated[names[0], names[1], names[2]]
                sums.billed = sums.unallocated = amount
            else:
                sums = self._of_teams[kind, self._team(names[3]), names[0], names[1], names[2]]
                sums.billed += amount
                sums.unallocated += amount

    def _share_idle(self) -> None:
        """Share each cluster's and GPU type's idle time among those with jobs on its nodes; the rest is nobody's."""
        for _, pool in sorted(self._pools.items()):
            for name in ("idle", "only_metered", "billed"):
                amount = getattr(pool, name)
                shares = share_out(amount, pool.weights, self._rules.idle) if pool.weights else {}
                for names, part in shares.items():
                    self._add(self._groups[names], name, part)
                self._add(self._idle, name, amount - sum(shares.values()))

    def _share_unallocated(self) -> None:
        """Share the lines that no job used among those with jobs in their account; others stay rows of their own."""
        if self._rules.unallocated is Rule.NONE:
            return
        for (account, provider, _), sums in sorted(self._unallocated.items()):
            weights: dict[Names, int] = defaultdict(int)
            for cloud, users in self._users.get(account, {}).items():
                if same_provider(cloud, provider):
                    for names, usd in users.items():
                        weights[names] += usd
            if not weights:
                continue
            for names, part in share_out(sums.billed, weights, self._rules.unallocated).items():
                self._add(self._groups[names], "billed", part)
                self._add(self._groups[names], "unallocated", part)
            sums.billed = sums.unallocated = 0

    @staticmethod
    def _add(sums: _Sums, name: str, amount: int) -> None:
        setattr(sums, name, getattr(sums, name) + amount)

    def _is_shown(self, day: int, account: str, cloud: str) -> bool:
        providers = (cloud,) if cloud else self._month.covered.get((day, account), ())
        return self._rules.where.has_metered(account, providers)

    def _only_metered(self, day: int, account: str, cloud: str, resource: str, usd_nano: int) -> int:
        """What stays metered: nothing where a bill covers the account's day, whether it has the resource or not."""
        providers = self._month.covered.get((day, account), frozenset())
        if not any(same_provider(cloud, provider) for provider in providers):
            if not account:
                self._without_account += usd_nano
            return usd_nano
        if (day, account, resource) not in self._lines.billed_resources:
            self._without_line += usd_nano
        return 0

    def _rows(self) -> list[Charge]:
        nowhere = ("", "", "")
        found = [
            self._row(JOBS, names, nowhere, sums)
            for names, sums in sorted(self._groups.items())
            if sums.any()
        ]
        if self._idle.any():
            found.append(self._row(IDLE, self._nobody, nowhere, self._idle))
        found += [
            self._row(kind, names, (account, provider, service), sums)
            for (kind, names, account, provider, service), sums in sorted(self._of_teams.items())
            if sums.billed
        ]
        found += [
            self._row(UNALLOCATED, self._nobody, where, sums)
            for where, sums in sorted(self._unallocated.items())
            if sums.billed
        ]
        return found

    def _team(self, owner: str) -> Names:
        """The names of a row that is a team's and no job's."""
        return tuple(owner if place == self._month.team_at else "" for place in range(self._month.levels))

    def _row(self, kind: str, names: Names, where: tuple[str, str, str], sums: _Sums) -> Charge:
        is_billed = self._month.lines is not None
        places = max(self._month.places, NANO_PLACES)
        cost, idle, only, license_, labor, overhead = (
            self._usd(nano, NANO_PLACES)
            for nano in (sums.cost, sums.idle, sums.only_metered, sums.license, sums.labor, sums.overhead)
        )
        metered = sums.only_metered + sums.license + sums.labor + sums.overhead
        charge = sums.billed + metered * 10 ** (places - NANO_PLACES)
        return Charge(
            names,
            kind,
            *where,
            cost,
            idle,
            self._usd(sums.cost + sums.idle, NANO_PLACES),
            self._usd(sums.overcommitted, NANO_PLACES),
            self._usd(sums.billed, places) if is_billed else None,
            self._usd(sums.unallocated, places) if is_billed else None,
            only,
            license_,
            labor,
            overhead,
            self._usd(charge, places if is_billed else NANO_PLACES),
        )

    @staticmethod
    def _usd(units: int, places: int) -> Decimal:
        return Decimal(units).scaleb(-places, EXACT)


def total(charged: Iterable[Charge], column: str) -> Decimal | None:
    """The exact sum of a column; None if no row has it."""
    amounts = [amount for each in charged if (amount := getattr(each, column)) is not None]
    return exact_sum(amounts) if amounts else None
