"""Two hundred random months, of several clouds and currencies, equal an independent line-by-line charge, to the last digit."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from schemas.allocation_rules import AllocationRule
from schemas.tables import ATTEMPTS, JOB_HOURS, JOB_MINUTES, JOBS, NODE_HOURS, NODE_MINUTES
from sinks.clickhouse import ClickHouseStore
from streams.bills.exchange_rates import load_rates
from streams.cli.reading import Reader
from streams.costs.allocating import allocate, month_span
from streams.costs.charge_lines import ChargedLine, How, Recipient, Where
from streams.costs.charge_sql import BillCost
from streams.costs.charging import Charge, Rules, charges
from streams.costs.month_reader import MonthReader, records
from streams.costs.month_store import OpenMonthStore
from streams.costs.shares import Rule
from tests.bills.bill import NOW_MS, file_of, line, loaded, written
from tests.oracle.charging import Idle, Month, Question, Split, Use
from tests.sinks.rows import rows

MONTHS = 200
#: So many of them in a suite that is run often.
MONTHS_OFTEN = 4
TEAMS = ("nlp", "speech", "vision")
ACCOUNTS = {"A1": "AWS", "A2": "Amazon Web Services", "G1": "Google Cloud", "payer": "AWS"}
#: Nodes with events: account, cluster, GPU type.
NODES = {"e1": ("A1", "c1", "H100"), "e2": ("", "c1", "H100"), "e3": ("A2", "c2", "A100")}
SERVICES = ("EC2", "RDS", "Network")
DAY = timedelta(1)
MONTH = pytest.mark.parametrize(
    "number",
    [
        *range(MONTHS_OFTEN),
        *(pytest.param(each, marks=pytest.mark.long) for each in range(MONTHS_OFTEN, MONTHS)),
    ],
)


class Fleet:
    """Random jobs, nodes and bills of all months, as rows and as the oracle reads them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.uses: list[Use] = []
        self.idle: list[Idle] = []
        self.teams: dict[str, str] = {}
        self.bills: dict[date, list[dict[str, str]]] = {}
        self.rates = {
            ("GBP", date(2014, 12, 1) + DAY * 7 * week): Decimal(
                self.random.randrange(10**6, 2 * 10**6)
            ).scaleb(-6)
            for week in range(900)
        }
        for number in range(MONTHS):
            self._month(date(2015 + number // 12, number % 12 + 1, 1))

    def usd(self, most: int) -> Decimal:
        return Decimal(self.random.randrange(most * 10**9)).scaleb(-9)

    def _month(self, month: date) -> None:
        jobs = [self._job(month, number) for number in range(6)]
        on_node: dict[tuple[str, date], Decimal] = defaultdict(Decimal)
        for job, account, cloud in jobs:
            for day in {month + DAY * self.random.randrange(6) for _ in range(3)}:
                for use in self._uses(job, account, cloud, day):
                    on_node[use.node, day] += use.usd
        for node, (account, cluster, gpu_type) in NODES.items():
            there = {month + DAY * self.random.randrange(6) for _ in range(4)}
            for day in there:
                usd = max(Decimal(0), on_node[node, day] + self.usd(8) - 3)
                self._node(node, day, usd, usd - on_node[node, day], account, cluster, gpu_type)
            # Jobs that ran while no event said that the node was there pay for more than it has.
            for name, day in list(on_node):
                if name == node and day not in there:
                    self.idle.append(Idle(day, node, "", "", "", "", Decimal(0), on_node[node, day]))
        names = [job for job, _, _ in jobs]
        if self.random.random() < 0.95:
            self.bills[month] = [self._line(month, names) for _ in range(self.random.randrange(1, 30))]

    def _job(self, month: date, number: int) -> tuple[str, str, str]:
        account = self.random.choice(("A1", "A2", "G1", "", "Z9"))
        cloud = {"A1": "aws", "A2": "aws", "G1": "gcp"}.get(account, self.random.choice(("", "aws", "gcp")))
        job = f"{month:%Y-%m}-{number}"
        self.teams[job] = self.random.choice(TEAMS)
        bucket = self.random.choice(("", "bucket"))
        self.rows[JOBS].append(
            {"job_id": job, "team": self.teams[job], "labels": [("resource_id", bucket)] if bucket else []}
        )
        self.rows[ATTEMPTS].append({"job_id": job, "account": account, "cloud": cloud})
        self.rows[JOB_HOURS].append({"job_id": job, "hour": _at(month)})
        self._buckets = {**getattr(self, "_buckets", {}), job: bucket}
        return job, account, cloud

    def _uses(self, job: str, account: str, cloud: str, day: date) -> list[Use]:
        found = []
        for node in self.random.sample(("n1", "n2", "e1", "e2", "e3", ""), 2):
            gpu = self.usd(9) if self.random.random() < 0.8 else Decimal(0)
            apart = [self.usd(3) if self.random.random() < 0.2 else Decimal(0) for _ in range(3)]
            quantity = self.random.randrange(1, 9)
            use = Use(
                job, day, node, node or self._buckets[job] or job, account, cloud, gpu, quantity, *apart
            )
            for component, usd in zip(("gpu", "license", "labor", "overhead"), (gpu, *apart), strict=True):
                if usd or component == "gpu":
                    self.rows[JOB_MINUTES].append(
                        {
                            "minute": _at(day),
                            "job_id": job,
                            "node": node,
                            "component": component,
                            "quantity": quantity,
                            "cost_usd": usd,
                        }
                    )
            found.append(use)
        self.uses += found
        return found

    def _node(
        self, node: str, day: date, usd: Decimal, free: Decimal, account: str, cluster: str, gpu_type: str
    ) -> None:
        key = {"node": node, "cost_usd": usd}
        self.rows[NODE_MINUTES].append({**key, "minute": _at(day), "quantity": 1, "unit": "gpu_milli_ms"})
        self.rows[NODE_HOURS].append(
            {
                **key,
                "hour": _at(day),
                "account": account,
                "cluster": cluster,
                "gpu_type": gpu_type,
                "paid_ms": 3_600_000,
                "gpu_milli_ms": 1,
            }
        )
        idle, overcommitted = max(Decimal(0), free), max(Decimal(0), -free)
        self.idle.append(Idle(day, node, account, "", cluster, gpu_type, idle, overcommitted))

    def _line(self, month: date, jobs: list[str]) -> dict[str, str]:
        pick = self.random.choice
        account = pick(tuple(ACCOUNTS))
        resource = pick(("n1", "n2", "e1", "e2", "e3", "bucket", "rds-1", "NULL", "NULL", *jobs))
        category = pick(("Usage", "Usage", "Usage", "Usage", "Credit", "Tax", "Adjustment", "Purchase"))
        cents = self.random.randrange(-200 if category != "Usage" or pick((0, 0, 1)) else 0, 2_000)
        amounts = [Decimal(cents).scaleb(-2) + self.usd(1).scaleb(-pick((0, 3))) for _ in range(3)]
        begin = datetime.combine(month, datetime.min.time()) + DAY * self.random.randrange(-4, 6)
        length = pick((timedelta(hours=1), DAY, DAY, DAY * 3 + timedelta(hours=5), DAY * 31, DAY * 400))
        corrects = pick(("NULL", "NULL", "NULL", "Correction"))
        return line(
            BillingAccountId="payer" if account in ("A1", "A2") else account,
            SubAccountId=account if account in ("A1", "A2") else "NULL",
            ProviderName=ACCOUNTS[account],
            ServiceName=pick(SERVICES),
            ResourceId=resource,
            Tags=pick(
                (
                    "NULL",
                    "NULL",
                    "NULL",
                    f'{{"trainfare_job":"{pick(jobs)}"}}',
                    '{"trainfare_node":"e1"}',
                    '{"team":"nlp"}',
                )
            ),
            ChargeCategory=category,
            ChargeClass=corrects,
            ChargePeriodStart=begin.isoformat(),
            ChargePeriodEnd=(begin + length).isoformat(),
            BillingPeriodStart=f"{month}T00:00:00",
            BillingPeriodEnd=f"{(month + DAY * 31).replace(day=1)}T00:00:00",
            BillingCurrency=pick(("USD",) * 8 + ("GBP", "EUR")),
            CommitmentDiscountId=pick(("NULL", "NULL", "ri-1")),
            CommitmentDiscountStatus=pick(("NULL", "Used", "Unused")),
            BilledCost=f"{amounts[0]:f}",
            EffectiveCost=f"{amounts[1]:f}" if category != "Purchase" or pick((0, 1)) else "0",
            ListCost=f"{amounts[2]:f}",
        )


def _at(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 10, tzinfo=UTC)


def plain(cells: Mapping[str, str]) -> dict[str, str]:
    """A missing cell as the empty text."""
    return {name: "" if cell == "NULL" else cell for name, cell in cells.items()}


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return Fleet(2026)


@pytest.fixture(scope="module")
def months(shared: ClickHouseStore, fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    folder = tmp_path_factory.mktemp("bills")
    for table, found in fleet.rows.items():
        for begin in range(0, len(found), 300):  # an insert may touch a hundred partitions at most
            shared.insert(table, rows(table, *found[begin : begin + 300]), f"{table}-{begin}")
    loaded(shared, written(folder / "all.csv", *(each for lines in fleet.bills.values() for each in lines)))
    rates = "".join(f"{day},{currency},{usd}\n" for (currency, day), usd in fleet.rates.items())
    (folder / "rates.csv").write_text(f"date,currency,usd\n{rates}")
    load_rates(shared, [file_of(folder / "rates.csv")], NOW_MS)
    return Reader(shared)  # type: ignore[arg-type]  # it answers, which is all that is asked of it


def found_of(row: Charge) -> tuple[tuple[str, ...], dict[str, Decimal]]:
    where = (row.account, row.provider, row.service)
    name = {
        "jobs": ("jobs", *row.names),
        "idle": ("idle",),
        "unused": ("unused", *where, *row.names),
        "shared": ("shared", *where, *row.names),
    }.get(row.kind, ("unallocated", *where))
    amounts = {
        "overcommitted": row.overcommitted_cost_usd, "cost": row.cost_usd, "idle": row.idle_usd, "only_metered": row.only_metered_usd, "billed": row.billed_usd,
        "unallocated": row.unallocated_usd, "license": row.license_cost_usd, "labor": row.labor_cost_usd, "overhead": row.overhead_cost_usd,
    }  # fmt: skip
    return name, {column: usd for column, usd in amounts.items() if usd}


@MONTH
def test_a_random_month(number: int, months: Reader, fleet: Fleet) -> None:
    pick = random.Random(number)
    month = date(2015 + number // 12, number % 12 + 1, 1)
    basis = pick.choice(list(BillCost))
    idle, unallocated = pick.choice(list(Rule)), pick.choice(list(Rule))
    where: dict[str, str] = pick.choice(
        (
            {},
            {},
            {},
            {"account": "A1"},
            {"provider": "AWS"},
            {"service": "EC2"},
            {"account": "A2", "service": "RDS"},
        )
    )
    question = Question(month, basis.value, idle.value, unallocated.value, where)
    expected = oracle_of(fleet, question).charged()

    span = {"first": month.isoformat(), "until": (month + DAY * 31).replace(day=1).isoformat()}
    shown = Where(*(frozenset({where[name].lower() if name == "service" else where[name]} if name in where else ()) for name in ("account", "provider", "service")))  # fmt: skip
    charged = charges(MonthReader(months, span, ("team",), basis).month(), Rules(idle, unallocated, shown))
    assert dict(map(found_of, charged.rows)) == expected
    for row in charged.rows:
        apart = row.only_metered_usd + row.license_cost_usd + row.labor_cost_usd + row.overhead_cost_usd
        assert row.charge_usd == (row.billed_usd or 0) + apart
        assert row.metered_usd == row.cost_usd + row.idle_usd
    if not where:
        whole = sum(each.amount for each in oracle_of(fleet, question).lines)
        assert sum(row.billed_usd or 0 for row in charged.rows) == whole


#: The same rules as the command has them, and as the oracle has: by their fields and by cells.
CELLS = {
    "account": "SubAccountId",
    "service": "ServiceName",
    "category": "ChargeCategory",
    "provider": "ProviderName",
}
MATCHES: tuple[dict[str, str], ...] = (
    {"service": "rds"},
    {"category": "tax"},
    {"service": "*2", "account": "A1"},
    {"provider": "Amazon*", "category": "*"},
    {"service": "Net*k", "category": "Credit"},
)


def rules_of(pick: random.Random) -> tuple[list[AllocationRule], tuple[Split, ...]]:
    """A few rules, of which two may match a line."""
    rules, splits = [], []
    for number, match in enumerate(pick.sample(MATCHES, 3)):
        split = pick.choice(("cost", "gpu_hours", "shares"))
        shares = {team: pick.randrange(1, 9) for team in pick.sample(TEAMS, 2)} if split == "shares" else {}
        first, until = pick.choice(((2000, 2100), (2000, 2022), (2022, 2100)))
        days = date(first, 1, 1), date(until, 1, 1)
        seconds = [round(_at(day).timestamp()) - 36_000 for day in days]
        rules.append(AllocationRule(str(number), match, split, shares, *seconds))
        cells = {CELLS[name]: text for name, text in match.items()}
        splits.append(
            Split(str(number), cells, split, {team: Decimal(each) for team, each in shares.items()}, *days)
        )
    return rules, tuple(splits)


@MONTH
def test_a_random_month_by_rules(number: int, months: Reader, fleet: Fleet) -> None:
    pick = random.Random(-1 - number)
    month = date(2015 + number // 12, number % 12 + 1, 1)
    basis, idle = pick.choice(list(BillCost)), pick.choice(list(Rule))
    rules, splits = rules_of(pick)
    question = Question(month, basis.value, idle.value, "none", {}, splits)
    oracle = oracle_of(fleet, question)
    expected = oracle.charged()
    span = month_span(f"{month:%Y-%m}")
    read = MonthReader(months, span, ("team",), basis, rules=rules).month()
    parts: dict[tuple[object, ...], Decimal] = {}

    def seen(line: ChargedLine, recipient: Recipient, how: How, part: int) -> None:
        if part:
            parts[line.line, recipient, how.value] = Decimal(part).scaleb(-max(9, read.places))

    charged = charges(read, Rules(idle, Rule.NONE), seen)
    assert dict(map(found_of, charged.rows)) == expected
    assert parts == {(line, who, how): usd for (line, who, how), usd in oracle.parts.items() if usd}
    whole = sum(each.amount for each in oracle.lines)
    assert sum(row.billed_usd or 0 for row in charged.rows) == whole


def oracle_of(fleet: Fleet, question: Question) -> Month:
    """The month as the oracle reads it, with the bills around it."""
    cells, number = [], 1  # of the header
    for bill, lines in fleet.bills.items():
        for each in lines:
            number += 1
            if abs((bill - question.month).days) < 100:
                cells.append({**plain(each), "number": str(number)})
    return Month(question, fleet.uses, fleet.idle, cells, fleet.teams, fleet.rates)


@MONTH
def test_allocations_of_a_random_month(
    number: int, months: Reader, shared: ClickHouseStore, fleet: Fleet
) -> None:
    month = date(2015 + number // 12, number % 12 + 1, 1)
    store = OpenMonthStore(shared)
    allocate(store, f"{month:%Y-%m}", NOW_MS)
    if number % 50 == 0:
        allocate(store, f"{month:%Y-%m}", NOW_MS)  # again: nothing counts twice
    of_month = {"month": month.isoformat()}
    lines = records(months, "SELECT * FROM bill_allocations WHERE month = {month:String}", **of_month)
    jobs = records(months, "SELECT * FROM billed_jobs WHERE month = {month:String}", **of_month)
    whole = None
    for basis in BillCost:
        question = Question(month, basis.value, "none", "none", {})
        oracle = oracle_of(fleet, question)
        oracle.charged()
        expected = {
            (line, who[:4] if who[0] == "unused" else who, how): usd
            for (line, who, how), usd in oracle.parts.items()
            if usd
        }
        found = {}
        for row in lines:
            recipient = {
                "jobs": ("jobs", row["job_id"]),
                "idle": ("idle", row["cluster"], row["gpu_type"]),
                "unallocated": ("unallocated", row["account"], row["provider"], row["service"]),
                "unused": ("unused", row["account"], row["provider"], row["service"]),
            }[str(row["kind"])]
            if row[f"{basis}_usd"]:
                found[row["line"], recipient, row["how"]] = row[f"{basis}_usd"]
        assert found == expected
        # As `chargeback --by job` has it, to the digit.
        reader = MonthReader(months, month_span(f"{month:%Y-%m}"), ("job",), basis)
        whole = reader.month() if whole is None else reader.with_lines_of(whole)
        charged = charges(whole, Rules())
        by_job = {
            row.names[0]: row.billed_usd for row in charged.rows if row.kind == "jobs" and row.billed_usd
        }
        assert {row["job_id"]: row[f"{basis}_usd"] for row in jobs if row[f"{basis}_usd"]} == by_job
    for row in jobs:
        assert row["variance_usd"] == sum(dict(row["causes"]).values())
        assert row["variance_usd"] == row["effective_usd"] - row["metered_usd"] + row["only_metered_usd"]
