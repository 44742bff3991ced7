"""Charges lines of bills to the jobs, and the idle time, of their resource, day and account.

The parts of a line sum exactly to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import Final, NamedTuple

from schemas.allocation_rules import COST, AllocationRule
from schemas.durations import DAY_S
from streams.costs.providers import same_provider
from streams.costs.shares import largest_remainder

IDLE: Final = "idle"
JOBS: Final = "jobs"
UNALLOCATED: Final = "unallocated"
UNUSED: Final = "unused"
SHARED: Final = "shared"
#: A charge of more days stands on its first one, as in `billed_days`.
_DAYS_MAX: Final = 62

#: (JOBS, job id), (IDLE, cluster, GPU type), (UNALLOCATED, account, provider, service),
#: (UNUSED or SHARED, account, provider, service, team).
Recipient = tuple[str, ...]


class How(StrEnum):
    """By what a line, or a part of it, found who bears it."""

    RESOURCE = "resource"
    TAG = "tag"  # `trainfare_job`
    ACCOUNT = "account"  # it follows what usage of its account puts on each
    RULE = "rule"  # one of finance took the line
    NONE = ""  # nobody used it


class Metered(NamedTuple):
    """What a job was metered on one resource and day; money in nano-dollars, days since 1970."""

    job_id: str
    day: int
    node: str  # empty: it names none
    resource: str  # as bills name it
    account: str  # empty: not known
    cloud: str  # likewise
    usd_nano: int  # GPUs, compute, network, storage: what a provider bills
    gpu_milli_ms: int
    license_nano: int
    labor_nano: int
    overhead_nano: int


class IdleNode(NamedTuple):
    """What of a node no job paid for on a day, in nano-dollars, never negative."""

    day: int
    node: str
    account: str
    cloud: str
    cluster: str
    gpu_type: str
    usd_nano: int
    overcommitted_nano: int = 0  # what jobs were metered beyond what the node costs


class ChargedLine(NamedTuple):
    """A line of a bill; amounts in whole units of the bill's last digit, instants in seconds since 1970."""

    billing_account: str
    account: str
    provider: str
    service: str
    resource: str  # empty: it names none
    job_id: str  # of the tag `trainfare_job`
    is_usage: bool  # of category Usage and no correction
    is_adjusting: bool  # a credit, correction, refund or tax: follows what else is charged
    start_s: int
    end_s: int
    amount: int
    billed: int  # by it the account of a resource is found
    cause: str = "usage"  # what sets it apart from what was metered, see `streams.costs.variance`
    load_id: str = ""
    line: int = 0
    unused_of: str = ""  # the team that owns the commitment of which it is the unused part
    rule: AllocationRule | None = None  # that takes the line


#: Called with each part of each line: who bears it, how they were found, and how much it is.
PartSeen = Callable[[ChargedLine, Recipient, How, int], None]


class Where(NamedTuple):
    """Which part of a month is shown; an empty set is no condition."""

    accounts: frozenset[str] = frozenset()
    providers: frozenset[str] = frozenset()
    services: frozenset[str] = frozenset()  # in lower case

    def has_line(self, line: ChargedLine) -> bool:
        """Whether a line is part of it."""
        return (
            (not self.accounts or line.account in self.accounts)
            and self.has_provider((line.provider,))
            and (not self.services or line.service.lower() in self.services)
        )

    def has_metered(self, account: str, providers: Iterable[str]) -> bool:
        """Whether what is only metered is part of it: it has no service."""
        return (
            not self.services
            and (not self.accounts or account in self.accounts)
            and self.has_provider(providers)
        )

    def has_provider(self, providers: Iterable[str]) -> bool:
        """Whether one of the providers is among those asked for."""
        return not self.providers or any(
            name and same_provider(name, wanted) for name in providers for wanted in self.providers
        )


def days_of(line: ChargedLine) -> dict[int, int]:
    """The seconds of the charge period on each of its days."""
    first, last = line.start_s // DAY_S, (line.end_s - 1) // DAY_S
    if last - first >= _DAYS_MAX:
        return {first: 1}
    return {
        day: min(line.end_s, (day + 1) * DAY_S) - max(line.start_s, day * DAY_S)
        for day in range(first, last + 1)
    }


class Accounts:
    """Finds the account of what was metered without one: the node's, else where its resource was billed most that day."""

    def __init__(self, idle: Iterable[IdleNode]) -> None:
        self._nodes = {(each.day, each.node): each.account for each in idle if each.account}
        self._billed: dict[tuple[int, str], dict[tuple[str, str], int]] = {}

    def see(self, line: ChargedLine) -> None:
        """Remember under which account and provider a resource was billed."""
        for day, part in largest_remainder(line.billed, days_of(line)).items():
            sums = self._billed.setdefault((day, line.resource), {})
            key = (line.account, line.provider)
            sums[key] = sums.get(key, 0) + part

    def of(self, day: int, resource: str, account: str, cloud: str) -> str:
        """The account; empty if nothing says it."""
        if account:
            return account
        node = self._nodes.get((day, resource))
        if node is not None:
            return node
        sums = self._billed.get((day, resource), {})
        found = [(billed, key[0]) for key, billed in sums.items() if same_provider(cloud, key[1])]
        return max(found)[1] if found else ""


class ResourceUse:
    """Who used what, by resource and account; of a day, or of all that were metered."""

    def __init__(self, metered: Iterable[Metered], idle: Iterable[IdleNode], accounts: Accounts) -> None:
        self._found: dict[tuple[int | None, str, str], dict[tuple[str, Recipient], list[int]]] = {}
        self._weights: dict[tuple[int | None, str, str, str], Mapping[Recipient, int]] = {}
        for each in metered:
            if each.resource and (each.usd_nano or each.gpu_milli_ms):
                account = accounts.of(each.day, each.resource, each.account, each.cloud)
                self._add(each.day, account, each.resource, each.cloud, (JOBS, each.job_id), each[6:8])
        for node in idle:
            if node.usd_nano:
                account = accounts.of(node.day, node.node, node.account, node.cloud)
                recipient = (IDLE, node.cluster, node.gpu_type)
                self._add(node.day, account, node.node, node.cloud, recipient, (node.usd_nano, 0))

    def weights(self, day: int | None, line: ChargedLine) -> Mapping[Recipient, int]:
        """Who used the line's resource and for how much, else for how much GPU-time, else evenly; empty: nobody."""
        key = (day, line.account, line.resource, line.provider)
        found = self._weights.get(key)
        if found is None:
            sums: dict[Recipient, list[int]] = {}
            for (cloud, recipient), (usd, gpu) in self._found.get(key[:3], {}).items():
                if same_provider(cloud, line.provider):
                    sum_ = sums.setdefault(recipient, [0, 0])
                    sum_[0] += usd
                    sum_[1] += gpu
            at = 0 if any(usd for usd, _ in sums.values()) else 1
            found = self._weights[key] = {recipient: sum_[at] for recipient, sum_ in sums.items()}
        return found

    def _add(
        self, day: int, account: str, resource: str, cloud: str, recipient: Recipient, used: Sequence[int]
    ) -> None:
        for key in ((day, account, resource), (None, account, resource)):
            sums = self._found.setdefault(key, {}).setdefault((cloud, recipient), [0, 0])
            sums[0] += used[0]
            sums[1] += used[1]


class JobTotals:
    """What each job was metered, by day: the weights of rules."""

    def __init__(self, metered: Iterable[Metered]) -> None:
        self._metered = metered
        self._days: dict[int, dict[tuple[str, Recipient], list[int]]] = {}  # by cloud, too
        self._found: dict[tuple[str, int, int, str], Mapping[Recipient, int]] = {}

    def shares(self, line: ChargedLine, rule: AllocationRule) -> Mapping[Recipient, int]:
        """Who bears a line by its rule; empty: nobody was metered.

        By cost or GPU time it is those who were metered on its days, else in the whole month, unless on another cloud.
        """
        if rule.shares:
            where = line.account, line.provider, line.service
            return {(SHARED, *where, team): share for team, share in rule.shares.items()}
        days = days_of(line)
        key = (rule.split, min(days), max(days), line.provider)
        found = self._found.get(key)
        if found is None:
            at = 0 if rule.split == COST else 1
            of_days = self._sums(at, line.provider, range(key[1], key[2] + 1))
            found = self._found[key] = of_days or self._sums(at, line.provider, None)
        return found

    def _sums(self, at: int, provider: str, span: range | None) -> dict[Recipient, int]:
        if not self._days:
            for each in self._metered:
                used = self._days.setdefault(each.day, {}).setdefault(
                    (each.cloud, (JOBS, each.job_id)), [0, 0]
                )
                used[0] += each.usd_nano
                used[1] += each.gpu_milli_ms
        sums: dict[Recipient, int] = defaultdict(int)
        for day in self._days if span is None else span:
            for (cloud, recipient), used in self._days.get(day, {}).items():
                if same_provider(cloud, provider):
                    sums[recipient] += used[at]
        return {recipient: part for recipient, part in sums.items() if part > 0}


class LineCharges:
    """What each recipient bears of the lines of a month's bills.

    `amounts` has what the lines that are shown put on each recipient, in units of the bill's last digit.
    """

    def __init__(
        self,
        metered: Sequence[Metered],
        idle: Sequence[IdleNode],
        jobs: Container[str],
        where: Where,
        seen: PartSeen | None = None,
    ) -> None:
        self._metered, self._idle, self._jobs, self._where = metered, idle, jobs, where
        self._seen = seen
        self._without_account = {each.resource for each in metered if not each.account}
        self._without_account |= {each.node for each in idle if not each.account}
        self._clouds: dict[str, set[str]] = defaultdict(set)
        for resource, cloud in chain(
            ((each.resource, each.cloud) for each in metered), ((each.node, each.cloud) for each in idle)
        ):
            self._clouds[resource].add(cloud)
        self._known = self._clouds.keys() - {""}
        self._kept: list[ChargedLine] = []
        self._followers: list[ChargedLine] = []
        self._borne: dict[tuple[str, str, str], dict[tuple[int, str], dict[Recipient, int]]] = {}
        self._accounts_of: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._shares: dict[tuple[object, ...], Mapping[Recipient, int]] = {}
        self._totals = JobTotals(metered)
        self.accounts = Accounts(idle)
        self.billed_resources: set[tuple[int, str, str]] = set()  # day, account, resource
        self.amounts: dict[Recipient, int] = defaultdict(int)
        #: By provider and cloud: lines of resources that were metered on that cloud alone, which nobody pays therefore.
        self.of_other_cloud: dict[tuple[str, str], int] = defaultdict(int)

    def take(self, lines: Iterable[ChargedLine]) -> None:
        """Take lines, of which those that nobody can have used are charged at once, so that they are not kept."""
        for line in lines:
            if line.resource in self._without_account:
                self.accounts.see(line)
            if line.rule is not None:
                self._put_by_rule(line, line.rule)
            elif line.is_adjusting and not line.resource and line.job_id not in self._jobs:
                self._followers.append(line)
            elif line.resource in self._known or line.job_id in self._jobs:
                self._kept.append(line)
                self._see_cloud(line)
            else:
                self._put_days(line, None)

    def finish(self) -> None:
        """Charge the lines that were kept: first those of resources, then those that follow what these put on each."""
        usage = ResourceUse(self._metered, self._idle, self.accounts)
        for line in self._kept:
            self._put_days(line, usage)
        for line in self._followers:
            self._follow(line)

    def _see_cloud(self, line: ChargedLine) -> None:
        clouds = self._clouds.get(line.resource, set())
        if line.job_id in self._jobs or any(same_provider(each, line.provider) for each in clouds):
            return
        if self._where.has_line(line):
            self.of_other_cloud[line.provider, min(clouds)] += line.amount

    def _put_days(self, line: ChargedLine, usage: ResourceUse | None) -> None:
        borne: dict[Recipient, int] = defaultdict(int)
        for day, amount in largest_remainder(line.amount, days_of(line)).items():
            weights = {} if usage is None else self._users(day, line, usage)
            if usage is not None:
                self.billed_resources.add((day, line.account, line.resource))
            for recipient, part in largest_remainder(amount, weights or {_nobody(line): 1}).items():
                self._put(line, day, recipient, part)
                borne[recipient] += part
        self._tell(line, borne, How.TAG if line.job_id in self._jobs else How.RESOURCE)

    def _put_by_rule(self, line: ChargedLine, rule: AllocationRule) -> None:
        """Charge a line as a whole, so that its parts are those of the month; by day it is what others follow."""
        days = days_of(line)
        borne = largest_remainder(line.amount, self._totals.shares(line, rule) or {_nobody(line): 1})
        for recipient, part in borne.items():
            for day, of_day in largest_remainder(part, days).items():
                self._put(line, day, recipient, of_day)
        self.billed_resources |= {(day, line.account, line.resource) for day in days}
        self._tell(line, borne, How.RULE)

    def _users(self, day: int, line: ChargedLine, usage: ResourceUse) -> Mapping[Recipient, int]:
        if line.job_id in self._jobs:
            return {(JOBS, line.job_id): 1}
        found = usage.weights(day, line)
        # What is put right later stands on a day of its own.
        return usage.weights(None, line) if line.is_adjusting and not found else found

    def _put(self, line: ChargedLine, day: int, recipient: Recipient, part: int) -> None:
        if self._where.has_line(line):
            self.amounts[recipient] += part
        if line.is_usage:
            key = (line.billing_account, line.account, line.provider)
            self._accounts_of[line.billing_account, line.provider].add(line.account)
            borne = self._borne.setdefault(key, {}).setdefault((day, line.service), {})
            borne[recipient] = borne.get(recipient, 0) + part

    def _follow(self, line: ChargedLine) -> None:
        weights = self._account_shares(line)
        borne = largest_remainder(line.amount, weights or {_nobody(line): 1})
        for recipient, part in borne.items():
            if self._where.has_line(line):
                self.amounts[recipient] += part
        self._tell(line, borne, How.ACCOUNT)

    def _tell(self, line: ChargedLine, borne: Mapping[Recipient, int], how: How) -> None:
        if self._seen is not None:
            for recipient, part in borne.items():
                self._seen(line, recipient, How.NONE if recipient[0] in (UNALLOCATED, UNUSED) else how, part)

    def _account_shares(self, line: ChargedLine) -> Mapping[Recipient, int]:
        """What usage of the line's account put on each: of its service and days, else of less and less of both."""
        days = days_of(line)
        first, last = min(days), max(days)
        key = (line.billing_account, line.account, line.provider, line.service, first, last)
        found = self._shares.get(key)
        if found is None:
            found = next(filter(None, self._candidates(line, first, last)), {})
            self._shares[key] = found
        return found

    def _candidates(self, line: ChargedLine, first: int, last: int) -> Iterator[Mapping[Recipient, int]]:
        account = (line.billing_account, line.account, line.provider)
        bill = [
            (line.billing_account, each, line.provider)
            for each in self._accounts_of[line.billing_account, line.provider]
        ]
        for keys in ([account], bill):
            for is_of_days in (True, False):
                for service in (line.service, None):
                    span = range(first, last + 1) if is_of_days else None
                    yield self._sums(keys, service, span)

    def _sums(
        self, keys: Iterable[tuple[str, str, str]], service: str | None, span: range | None
    ) -> dict[Recipient, int]:
        sums: dict[Recipient, int] = defaultdict(int)
        for key in keys:
            for (day, name), borne in self._borne.get(key, {}).items():
                if (service is None or name == service) and (span is None or day in span):
                    for recipient, part in borne.items():
                        sums[recipient] += part
        return {recipient: part for recipient, part in sums.items() if part > 0}


def _nobody(line: ChargedLine) -> Recipient:
    where = line.account, line.provider, line.service
    return (UNUSED, *where, line.unused_of) if line.unused_of else (UNALLOCATED, *where)
