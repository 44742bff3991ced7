"""A month's chargeback, line by line, in decimals: the rules of docs/bills.md once more, in the plainest way.

It is slow and keeps everything. Amounts are dollars; a day is a date.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal, getcontext, localcontext
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any, NamedTuple

CLOUDS = {
    "aws": "aws",
    "AWS": "aws",
    "Amazon Web Services": "aws",
    "gcp": "gcp",
    "Google Cloud": "gcp",
    "": "",
}


class Use(NamedTuple):
    """What one job was metered on one resource and day."""

    job: str
    day: date
    node: str
    resource: str
    account: str
    cloud: str
    usd: Decimal
    gpu_milli_ms: int
    license: Decimal
    labor: Decimal
    overhead: Decimal


class Idle(NamedTuple):
    """What of one node was idle on one day."""

    day: date
    node: str
    account: str
    cloud: str
    cluster: str
    gpu_type: str
    usd: Decimal
    overcommitted: Decimal


class Split(NamedTuple):
    """A rule of finance: lines whose cells match its patterns, and who bears them."""

    name: str
    match: Mapping[str, str]  # by the names of cells; `*` is any text
    split: str  # cost, gpu_hours, shares
    shares: Mapping[str, Decimal] = {}
    first: date = date(2000, 1, 1)
    until: date = date(2100, 1, 1)


Rows = dict[tuple[str, ...], dict[str, Decimal]]


def new_rows() -> Rows:
    """Rows of zeros."""
    return defaultdict(lambda: defaultdict(Decimal))


class Question(NamedTuple):
    """What is asked of a month."""

    month: date
    cost: str
    idle: str
    unallocated: str
    where: Mapping[str, str]
    rules: tuple[Split, ...] = ()


def share(amount: Decimal, weights: Mapping[Any, Any], unit: Decimal) -> dict[Any, Decimal]:
    """Largest remainder; of equal remainders the smaller key first."""
    if not any(weights.values()):
        weights = dict.fromkeys(weights, 1)
    whole = sum(map(Fraction, weights.values()))
    count = int(abs(amount) / unit)
    assert count * unit == abs(amount)
    exact = {key: Fraction(weights[key]) * count / whole for key in sorted(weights)}
    floors = {key: int(each) for key, each in exact.items()}
    order = sorted(exact, key=lambda key: (floors[key] - exact[key], key))
    for key in order[: count - sum(floors.values())]:
        floors[key] += 1
    return {key: (parts if amount >= 0 else -parts) * unit for key, parts in floors.items()}


def same(cloud: str, provider: str) -> bool:
    """Whether the two may be one."""
    return not cloud or not provider or CLOUDS[cloud] == CLOUDS[provider]


#: Dollars for one unit of a currency, from a day on and for a week at most.
Rates = Mapping[tuple[str, date], Decimal]


class Line:
    """A line of a bill, as its cells say it; in dollars, by the rate of the day on which it begins."""

    def __init__(self, cells: Mapping[str, str], cost: str, rates: Rates) -> None:
        self.number = int(cells.get("number", "0"))
        tags = dict(
            pair.split(":") for pair in cells["Tags"].strip("{}").replace('"', "").split(",") if ":" in pair
        )
        self.payer = cells["BillingAccountId"]
        self.account = cells["SubAccountId"] or self.payer
        self.provider, self.service = cells["ProviderName"], cells["ServiceName"]
        self.job = "" if "trainfare_node" in tags else tags.get("trainfare_job", "")
        self.resource = tags.get("trainfare_node") or self.job or cells["ResourceId"]
        self.begin, self.end = (
            datetime.fromisoformat(cells[f"ChargePeriod{name}"]) for name in ("Start", "End")
        )
        self.bill = datetime.fromisoformat(cells["BillingPeriodStart"]).date()
        self.category, self.corrects = cells["ChargeCategory"], cells["ChargeClass"] == "Correction"
        self.commitment, self.team = cells["CommitmentDiscountId"], tags.get("team", "")
        self.is_unused = (
            self.category == "Usage" and cells.get("CommitmentDiscountStatus", "").lower() == "unused"
        )
        self.billed, self.amount = Decimal(cells["BilledCost"]), Decimal(cells[f"{cost.capitalize()}Cost"])
        self.is_priced = True
        if cells["BillingCurrency"] != "USD":
            days = [self.begin.date() - timedelta(back) for back in range(8)]
            found = [
                rates[cells["BillingCurrency"], day]
                for day in days
                if (cells["BillingCurrency"], day) in rates
            ]
            self.is_priced = bool(found)
            usd = found[0] if found else Decimal(1)
            self.billed, self.amount = (
                Decimal(round(Fraction(each) * Fraction(usd) * 10**9)).scaleb(-9)
                for each in (self.billed, self.amount)
            )
        self.commits = self.category == "Purchase" and (
            bool(cells["CommitmentDiscountId"]) or not Decimal(cells["EffectiveCost"])
        )
        self.follows = self.category in ("Credit", "Tax", "Adjustment") or self.corrects or self.amount < 0
        self.is_usage = self.category == "Usage" and not self.corrects

        self.cells = cells

    def rule(self, rules: Iterable[Split]) -> Split | None:
        """The first that takes the line."""
        for each in rules:
            if each.first <= self.begin.date() < each.until and all(
                fnmatchcase({**self.cells, "SubAccountId": self.account}[name].lower(), pattern.lower())
                for name, pattern in each.match.items()
            ):
                return each
        return None

    def seconds(self) -> dict[date, int]:
        """The seconds of each day."""
        found: dict[date, int] = defaultdict(int)
        at = self.begin
        while at < self.end:
            night = datetime.combine(at.date() + timedelta(1), datetime.min.time())
            found[at.date()] += int((min(night, self.end) - at).total_seconds())
            at = night
        return {min(found): 1} if len(found) > 62 else dict(found)


class Month:
    """One month being charged."""

    def __init__(
        self,
        question: Question,
        uses: Iterable[Use],
        idle: Iterable[Idle],
        bills: Iterable[Mapping[str, str]],
        teams: Mapping[str, str],
        rates: Rates,
    ) -> None:
        self.question, self.uses, self.idle, self.teams = question, list(uses), list(idle), teams
        said = [Line(cells, question.cost, rates) for cells in bills]
        every = [line for line in said if line.is_priced]
        mine = [line for line in every if line.bill == question.month]
        digits = [-int(line.amount.normalize().as_tuple().exponent) for line in mine]
        self.unit = Decimal(1).scaleb(-max(9, *digits)) if mine else Decimal("1E-9")
        self.is_billed = bool(mine)
        #: Who owns a commitment: the team that its lines are tagged with, also those without a rate.
        self.owners: dict[str, str] = defaultdict(str)
        for line in said:
            if line.bill == question.month and line.commitment and line.category in ("Usage", "Purchase"):
                self.owners[line.commitment] = max(self.owners[line.commitment], line.team)
        self.all_lines = mine
        self.lines = [line for line in mine if question.cost == "billed" or not line.commits]
        self.covered: dict[tuple[date, str], set[str]] = defaultdict(set)
        for line in every:
            if (
                line.is_usage
                and line.end.date() >= line.bill
                and line.end > datetime.combine(line.bill, datetime.min.time())
            ):
                for day in line.seconds():
                    self.covered[day, line.account].add(line.provider)
        self.rows = new_rows()
        #: What each line puts on each, and how they were found.
        self.parts: dict[tuple[int, tuple[str, ...], str], Decimal] = defaultdict(Decimal)
        self.usage: list[tuple[Line, date, tuple[str, ...], Decimal]] = []
        self.accounts: dict[tuple[date, str, str], str] = {}
        self.in_pool: dict[tuple[str, ...], dict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
        self.overcommitted = Decimal(0)
        self.in_account: list[tuple[str, str, str, Decimal]] = []
        last = (question.month + timedelta(31)).replace(day=1)
        days = {question.month + timedelta(day) for day in range((last - question.month).days)}
        #: All days that the month, and its lines, are about.
        self.days = days.union(*(line.seconds() for line in mine))
        self.uses = [use for use in self.uses if use.day in self.days]
        self.idle = [node for node in self.idle if node.day in self.days]

    def account(self, day: date, resource: str, account: str, cloud: str) -> str:
        """The account: its own, the node's, else where the resource was billed most that day."""
        key = (day, resource, cloud)
        if not account and key not in self.accounts:
            self.accounts[key] = self.found_account(day, resource, cloud)
        return account or self.accounts[key]

    def found_account(self, day: date, resource: str, cloud: str) -> str:
        """The account of what names none."""
        for node in self.idle:
            if (node.day, node.node) == (day, resource) and node.account:
                return node.account
        sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
        for line in self.lines:
            parts = share(line.billed, line.seconds(), Decimal("1E-18"))
            if line.resource == resource and day in parts and same(cloud, line.provider):
                sums[line.account, line.provider] += parts[day]
        return max((usd, name) for (name, _), usd in sums.items())[1] if sums else ""

    def users(self, line: Line, day: date | None) -> dict[tuple[str, ...], Any]:
        """Who used the line's resource, and for how much."""
        usd: dict[tuple[str, ...], Decimal] = defaultdict(Decimal)
        gpu: dict[tuple[str, ...], int] = defaultdict(int)
        for use in self.uses:
            if (
                (use.usd or use.gpu_milli_ms)
                and use.resource == line.resource
                and same(use.cloud, line.provider)
            ):
                is_there = (day is None and use.day in self.days) or use.day == day
                if is_there and self.account(use.day, use.resource, use.account, use.cloud) == line.account:
                    usd["jobs", use.job] += use.usd
                    gpu["jobs", use.job] += use.gpu_milli_ms
        for node in self.idle:
            if node.usd and node.node == line.resource and same(node.cloud, line.provider):
                is_there = (day is None and node.day in self.days) or node.day == day
                if is_there and self.account(node.day, node.node, node.account, node.cloud) == line.account:
                    usd["idle", node.cluster, node.gpu_type] += node.usd
                    gpu["idle", node.cluster, node.gpu_type] += 0
        return dict(usd if any(usd.values()) else gpu)

    def shown(self, account: str, providers: Iterable[str], service: str | None) -> bool:
        """Whether it is asked for."""
        where = self.question.where
        return (
            where.get("account", account) == account
            and (
                "provider" not in where
                or any(CLOUDS[each] == CLOUDS[where["provider"]] for each in providers)
            )
            and ("service" not in where or where["service"] == service)
        )

    def nobody(self, line: Line) -> tuple[str, ...]:
        """Who bears a line that no job used: of what a commitment was not used for its team, else nobody."""
        where = (line.account, line.provider, line.service)
        owner = self.owners[line.commitment] if line.is_unused and line.commitment else ""
        return ("unused", *where, owner) if owner else ("unallocated", *where)

    def charge_lines(self) -> None:
        """Each line to its recipients."""
        later = []
        for line in self.lines:
            nobody = self.nobody(line)
            rule = line.rule(self.question.rules)
            if rule is not None:
                self.split(line, rule)
                continue
            if line.follows and not line.resource:
                later.append(line)
                continue
            for day, amount in share(line.amount, line.seconds(), self.unit).items():
                how = "resource"
                if line.job in self.teams:
                    how = "tag"
                    users: dict[tuple[str, ...], Any] = {("jobs", line.job): 1}
                else:
                    users = self.users(line, day) if line.resource else {}
                    if not users and line.follows:
                        users = self.users(line, None)
                for recipient, part in share(amount, users or {nobody: 1}, self.unit).items():
                    self.put(line, recipient, part, how)
                    if line.is_usage:
                        self.usage.append((line, day, recipient, part))
        for line in later:
            nobody = self.nobody(line)
            for recipient, part in share(line.amount, self.company(line) or {nobody: 1}, self.unit).items():
                self.put(line, recipient, part, "account")

    def split(self, line: Line, rule: Split) -> None:
        """A line by a rule: by what was metered on its days, else in the month; by fixed shares; else to nobody."""
        where = (line.account, line.provider, line.service)
        bear: dict[tuple[str, ...], Any] = {
            ("shared", *where, team): part for team, part in rule.shares.items()
        }
        for days in () if bear else (set(line.seconds()), self.days):
            bear = bear or self.metered(days, rule.split, line.provider)
        for recipient, part in share(line.amount, bear or {self.nobody(line): 1}, self.unit).items():
            self.put(line, recipient, part, "rule")
            for day, of_day in share(part, line.seconds(), self.unit).items():
                if line.is_usage:
                    self.usage.append((line, day, recipient, of_day))

    def metered(self, days: Container[date], split: str, provider: str) -> dict[tuple[str, ...], Any]:
        """What jobs were metered on some days, those of nothing left out."""
        sums: dict[tuple[str, ...], Any] = defaultdict(int)
        for use in self.uses:
            if use.day in days and same(use.cloud, provider):
                sums["jobs", use.job] += use.usd if split == "cost" else use.gpu_milli_ms
        return {name: amount for name, amount in sums.items() if amount}

    def company(self, line: Line) -> dict[tuple[str, ...], Decimal]:
        """What usage of its account, else of its bill, put on each."""

        def of_account(other: Line) -> bool:
            return (other.payer, other.account, other.provider) == (line.payer, line.account, line.provider)

        def of_bill(other: Line) -> bool:
            return (other.payer, other.provider) == (line.payer, line.provider)

        days = range(min(line.seconds()).toordinal(), max(line.seconds()).toordinal() + 1)
        tries: list[tuple[Callable[[Line], bool], bool, bool]] = [
            (scope, by_day, by_service)
            for scope in (of_account, of_bill)
            for by_day in (True, False)
            for by_service in (True, False)
        ]
        for scope, by_day, by_service in tries:
            sums: dict[tuple[str, ...], Decimal] = defaultdict(Decimal)
            for other, day, recipient, part in self.usage:
                if (
                    scope(other)
                    and (not by_day or day.toordinal() in days)
                    and (not by_service or other.service == line.service)
                ):
                    sums[recipient] += part
            found = {recipient: usd for recipient, usd in sums.items() if usd > 0}
            if found:
                return found
        return {}

    def put(self, line: Line, recipient: tuple[str, ...], part: Decimal, how: str) -> None:
        self.parts[line.number, recipient, "" if recipient[0] in ("unallocated", "unused") else how] += part
        if self.shown(line.account, (line.provider,), line.service):
            self.rows[recipient]["billed"] += part
            if recipient[0] not in ("jobs", "idle"):
                self.rows[recipient]["unallocated"] += part

    def stays(self, day: date, account: str, cloud: str) -> bool:
        """Whether no bill covers the account's day."""
        return not any(same(cloud, provider) for provider in self.covered.get((day, account), ()))

    def in_month(self, day: date) -> bool:
        return (day.year, day.month) == (self.question.month.year, self.question.month.month)

    def charged(self) -> Rows:
        """The rows: ("jobs", team), ("idle",), ("unallocated", account, provider, service), without those of nothing."""
        with localcontext(getcontext()) as context:
            context.prec = 60
            self.charge_lines()
            groups = new_rows()
            pools = new_rows()
            self.add_uses(groups)
            self.add_idle(pools)
            groups[("idle",)]["overcommitted"] = self.overcommitted
            for recipient, row in self.rows.items():
                if recipient[0] in ("unused", "shared"):
                    groups[recipient] = row
                if recipient[0] == "jobs":
                    groups["jobs", self.teams[recipient[1]]]["billed"] += row["billed"]
                elif recipient[0] == "idle":
                    pools[recipient[1:]]["billed"] += row["billed"]
            self.share_idle(groups, pools)
            self.share_unallocated(groups)
            return {
                name: {column: usd for column, usd in row.items() if usd}
                for name, row in groups.items()
                if any(row.values())
            }

    def add_uses(self, groups: Rows) -> None:
        """What jobs were metered, and who used which nodes and accounts."""
        for use in self.uses:
            if not self.in_month(use.day):
                continue
            account = self.account(use.day, use.resource, use.account, use.cloud)
            team = self.teams[use.job]
            self.in_account.append((account, use.cloud, team, use.usd))
            for node in self.idle:
                if (node.day, node.node) == (use.day, use.node):
                    self.in_pool[node.cluster, node.gpu_type][team] += use.usd
            providers = (use.cloud,) if use.cloud else self.covered.get((use.day, account), ())
            if self.shown(account, providers, None):
                row = groups["jobs", team]
                row["cost"] += use.usd + use.license + use.labor + use.overhead
                for name in ("license", "labor", "overhead"):
                    row[name] += getattr(use, name)
                row["only_metered"] += use.usd if self.stays(use.day, account, use.cloud) else 0

    def add_idle(self, pools: Rows) -> None:
        """What was idle, by cluster and GPU type."""
        for node in self.idle:
            account = self.account(node.day, node.node, node.account, node.cloud)
            providers = (node.cloud,) if node.cloud else self.covered.get((node.day, account), ())
            if self.in_month(node.day) and self.shown(account, providers, None):
                pool = pools[node.cluster, node.gpu_type]
                pool["idle"] += node.usd
                self.overcommitted += node.overcommitted
                pool["only_metered"] += node.usd if self.stays(node.day, account, node.cloud) else 0

    def share_idle(self, groups: Rows, pools: Rows) -> None:
        """Each pool among those who used it."""
        for name, pool in pools.items():
            for column, usd in pool.items():
                unit = self.unit if column == "billed" else Decimal("1E-9")
                rest = self.spread(groups, usd, self.in_pool.get(name, {}), self.question.idle, column, unit)
                groups[("idle",)][column] += rest

    def share_unallocated(self, groups: Rows) -> None:
        """Each account's lines of nobody among those with jobs in it."""
        for recipient, row in self.rows.items():
            if recipient[0] == "unallocated":
                users: dict[str, Decimal] = defaultdict(Decimal)
                for account, cloud, team, usd in self.in_account:
                    if account == recipient[1] and same(cloud, recipient[2]):
                        users[team] += usd
                how = ("billed", self.unit, "unallocated")
                rest = self.spread(groups, row["billed"], users, self.question.unallocated, *how)
                groups[recipient]["billed"] = groups[recipient]["unallocated"] = rest

    @staticmethod
    def spread(
        groups: Rows,
        usd: Decimal,
        weights: Mapping[str, Decimal],
        rule: str,
        *how: Any,
    ) -> Decimal:
        """Share an amount among teams by a rule; return what stays."""
        column, unit, *more = how
        if rule == "none" or not weights:
            return usd
        for team, part in share(usd, dict.fromkeys(weights, 1) if rule == "even" else weights, unit).items():
            for name in (column, *more):
                groups["jobs", team][name] += part
        return Decimal(0)
