"""Lines that many use together are split by a rule of finance, to the last digit, and a closed month keeps its rules."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore
from streams.bills.allocation_file import load_rules
from streams.costs.allocating import allocate, due_months, month_span
from streams.costs.charge_sql import BillCost
from streams.costs.charging import Rules, charges
from streams.costs.closing import ClosingRules
from streams.costs.exact import EXACT
from streams.costs.month_reader import MonthReader
from streams.costs.month_store import OpenMonthStore
from streams.errors import WrongUseError
from tests.bills.bill import file_of, line, loaded, written
from tests.bills.test_closing import NOW_MS, Books, with_may
from tests.bills.test_load_through_worker import NoLog
from tests.cli.command import Done, trainfare
from tests.web.serving import Client, served

RULES = """
[[allocation]]
name = "support"
match = { service = "*support*" }
split = "cost"

[[allocation]]
name = "nat"
match = { description = "*NatGateway*", account = "a1" }
split = "gpu_hours"

[[allocation]]
name = "database"
match = { tag = { app = "shared-db" } }
split = { vision = 60, speech = 40.5 }

[[allocation]]
name = "tools"
match = { category = "Purchase", service = "Marketplace" }
split = { platform = 1 }
"""
MAY = {
    "BillingPeriodStart": "2026-05-01",
    "BillingPeriodEnd": "2026-06-01",
    "BillingAccountId": "A1",
    "ProviderName": "AWS",
    "ResourceId": "NULL",
}
#: What is charged by a rule, what of no rule, and a tax that follows all of them.
SUPPORT = "0.000000000000000007"


def billed(usd: str, service: str, day: str = "03", **values: str) -> dict[str, str]:
    cells = {"ChargePeriodStart": f"2026-05-{day}", "ChargePeriodEnd": f"2026-05-{int(day) + 1:02}"}
    amounts = dict.fromkeys(("BilledCost", "EffectiveCost", "ListCost"), usd)
    return line(**{**MAY, **cells, **amounts, "ServiceName": service, **values})


def rules(store: ClickHouseStore, folder: Path, text: str, now_ms: int = NOW_MS) -> None:
    path = folder / "allocation.toml"
    path.write_text(text, encoding="utf-8")
    load_rules(store, [file_of(path)], now_ms)


@pytest.fixture
def books(store: ClickHouseStore, tmp_path: Path) -> Books:
    """May: vision metered at $30 with 1 GPU-hour, speech at $10 with 3."""
    found = Books(store, tmp_path)
    found.used("a", "2026-05", "30")
    found.used("b", "2026-05", "10", 3, team="speech")
    return found


def by_rule(store: ClickHouseStore) -> list[tuple[object, ...]]:
    asked = "SELECT rule, kind, job_id, team, how, billed_usd FROM bill_allocations ORDER BY rule, kind, job_id, team"
    return [tuple(row) for row in OpenMonthStore(store).ask(asked).rows()]


def test_each_rule_splits_its_lines_to_the_last_digit(books: Books) -> None:
    store = books.store
    lines = [
        billed("100", "AWS Support (Business)"),
        billed(SUPPORT, "AWS Support (Business)"),
        billed("8", "VPC", ChargeDescription="EU-NatGateway-Hours"),
        billed("1005", "RDS", Tags='{"app":"shared-db"}', ResourceId="db-1"),
        billed("50", "Marketplace", ChargeCategory="Purchase"),
        billed("7", "S3"),
    ]
    loaded(store, written(books.folder / "may.csv", *lines))
    rules(store, books.folder, RULES)
    allocate(OpenMonthStore(store), "2026-05", NOW_MS)
    found: dict[object, Decimal] = defaultdict(Decimal)
    for *key, usd in by_rule(store):
        found[tuple(key)] = EXACT.add(found[tuple(key)], Decimal(str(usd)))
    assert found == {
        ("support", "jobs", "a", "", "rule"): Decimal("75.000000000000000005"),
        ("support", "jobs", "b", "", "rule"): Decimal("25.000000000000000002"),
        ("nat", "jobs", "a", "", "rule"): 2,
        ("nat", "jobs", "b", "", "rule"): 6,
        ("database", "shared", "", "vision", "rule"): 600,
        ("database", "shared", "", "speech", "rule"): 405,
        ("tools", "shared", "", "platform", "rule"): 50,
        ("", "unallocated", "", "", ""): 7,
    }


def test_without_who_was_metered_a_line_stays_unallocated(store: ClickHouseStore, tmp_path: Path) -> None:
    loaded(store, written(tmp_path / "may.csv", billed("100", "AWS Support")))
    rules(store, tmp_path, RULES)
    allocate(OpenMonthStore(store), "2026-05", NOW_MS)
    assert by_rule(store) == [("", "unallocated", "", "", "", 100)]


def test_a_monthly_line_goes_by_the_month_and_a_daily_one_by_its_day(books: Books) -> None:
    books.used("c", "2026-05", "60", team="nlp", day=20)
    whole = {"ChargePeriodStart": "2026-05-01", "ChargePeriodEnd": "2026-06-01"}
    lines = [
        billed("1000", "Support", **whole),
        billed("9", "Support", day="20"),
        billed("4", "Support", day="09"),
    ]
    loaded(books.store, written(books.folder / "may.csv", *lines))
    rules(books.store, books.folder, RULES)
    read = MonthReader(OpenMonthStore(books.store), month_span("2026-05"), ("team",), BillCost.billed)
    rows = charges(read.month(), Rules()).rows
    # The last has no job on its day, and goes by the month, too.
    assert {row.names[0]: row.billed_usd for row in rows} == {
        "vision": Decimal("301.2"),
        "speech": Decimal("100.4"),
        "nlp": Decimal("611.4"),
    }


def test_new_rules_are_due_and_a_closed_month_keeps_those_of_its_closing(books: Books) -> None:
    store, opened = books.store, OpenMonthStore(books.store)
    bill = [billed("36", "EC2", ResourceId="n1"), billed("10", "Support")]
    loaded(store, written(books.folder / "may.csv", *bill), now_ms=NOW_MS - 1)
    allocate(opened, "2026-05", NOW_MS)
    assert due_months(opened) == []
    rules(store, books.folder, RULES, NOW_MS + 1)
    assert due_months(opened) == ["2026-05"]
    closed = books.close("2026-05", rules=ClosingRules())
    assert [each.name for each in closed.read().rules.allocation or ()] == [
        "support",
        "nat",
        "database",
        "tools",
    ]
    before = books.statement("speech", "2026-05").total_usd
    assert before == Decimal("11.5")  # a quarter of both
    assert [row.subject for row in books.statement("speech", "2026-05").rows] == ["b"]
    assert books.statement("speech", "2026-05").record()["rules"]["allocation"][0] == "support"
    rules(store, books.folder, RULES.replace('"cost"', "{ speech = 1 }"), NOW_MS + 2)
    books.used("a", "2026-06", "1")
    books.billed("2026-06", "1")
    books.close("2026-06", rules=ClosingRules())
    assert books.charged("2026-05") == 46
    assert books.statement("speech", "2026-05").total_usd == before
    assert not books.verified("2026-05").faults


def test_a_month_that_was_closed_before_there_were_rules_has_none(books: Books) -> None:
    with_may(books)
    rules(books.store, books.folder, RULES.replace("*support*", "v*"), NOW_MS + 1)
    books.used("a", "2026-06", "1")
    books.billed("2026-06", "1")
    books.close("2026-06")
    assert books.charged("2026-05") == 36
    with pytest.raises(WrongUseError, match="no job of it cost anything"):
        books.statement("speech", "2026-06")


def test_what_teams_bear_of_one_line_does_not_collide(books: Books) -> None:
    """A credit follows what two teams' commitments were not used for: each part is a row of its own."""
    store = books.store
    unused = {"CommitmentDiscountStatus": "Unused"}
    lines = [
        billed("30", "EC2", CommitmentDiscountId="ri-1", Tags='{"team":"vision"}', **unused),
        billed("10", "EC2", CommitmentDiscountId="ri-2", Tags='{"team":"speech"}', **unused),
        billed("-4", "EC2", ChargeCategory="Credit"),
    ]
    loaded(store, written(books.folder / "may.csv", *lines))
    allocate(OpenMonthStore(store), "2026-05", NOW_MS)
    asked = "SELECT team, toString(sum(billed_usd)) AS usd FROM bill_allocations GROUP BY team ORDER BY team"
    assert [tuple(row) for row in OpenMonthStore(store).ask(asked).rows()] == [
        ("speech", "9"),
        ("vision", "27"),
    ]


FAULTS = {
    "": "has no [[allocation]]",
    '[[allocation]]\nmatch = { service = "x" }\nsplit = "cost"': "line 1: name: expected what people call the rule",
    '[[allocation]]\nname = "a"\nsplit = "cost"': "line 1: match: expected what sets the lines apart",
    '[[allocation]]\nname = "a"\nmatch = { service = "*" }\nsplit = "cost"': "line 3: match: expected what sets the lines apart",
    '[[allocation]]\nname = "a"\nmatch = { servise = "x" }\nsplit = "cost"': "line 3: match.servise: is unknown; expected account,",
    '[[allocation]]\nname = "a"\nmatch = { service = "x" }': 'line 1: split: expected "cost", "gpu_hours", or shares by team',
    '[[allocation]]\nname = "a"\nmatch = { service = "x" }\nsplit = { vision = 0 }': "line 4: split.vision: expected a share above 0",
    '[[allocation]]\nname = "a"\nmatch = { service = "x" }\nsplit = { vision = 0.1234567891 }': "nine decimals at most",
    '[[allocation]]\nname = "a"\nmatch = { service = "x" }\nsplit = "cost"\nfrom = 2026-02-01\nto = 2026-02-01': "line 6: to: must be after from",
    '[[allocation]]\nname = "a"\nmatch = { tag = "x" }\nsplit = "cost"': "line 3: match.tag: expected 10 tags at most",
    '[[allocation]]\nname = "a"\nmatch = { service = "x" }\nsplit = "cost"\n'
    * 2: "line 6: name: 'a' stands before it",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_wrong_file_is_refused_with_its_line(text: str, store: ClickHouseStore, tmp_path: Path) -> None:
    with pytest.raises(WrongUseError) as wrong:
        rules(store, tmp_path, text)
    assert FAULTS[text] in str(wrong.value)
    assert not store.select("allocation_rules").num_rows


def test_the_command_loads_rules_allocates_and_says_what_each_took(tmp_path: Path) -> None:
    data, path = tmp_path / "meter", tmp_path / "allocation.toml"
    bill = written(tmp_path / "may.csv", billed("1005", "RDS", Tags='{"app":"shared-db"}'))
    path.write_text(RULES, encoding="utf-8")
    assert trainfare("bills", "load", bill, "--data", data).code == 0
    done = trainfare("allocation", "load", path, "--data", data)
    assert done.out == f"{path}: 4 allocation rules; 4 new, 0 changed, 0 removed\n"
    shown = trainfare("allocation", "show", "--data", data)
    assert "took no line of a bill that is allocated: support, nat, tools" in shown.err
    assert "database  tag.app=shared-db" in shown.out
    assert "speech=40.5 vision=60" in shown.out
    asked = trainfare("chargeback", "--month", "2026-05", "--data", data, "--format", "json")
    found = [
        (row["team"], row["kind"], row["service"], row["charge_usd"]) for row in json.loads(asked.out)["rows"]
    ]
    assert found == [
        ("speech", "shared", "RDS", "405.000000000"),
        ("vision", "shared", "RDS", "600.000000000"),
    ]
    said = trainfare("statement", "--team", "speech", "--month", "2026-05", "--data", data).out
    assert "shared: RDS" in said
    path.write_text(RULES.split('[[allocation]]\nname = "database"')[0], encoding="utf-8")
    assert "database: removed" in trainfare("allocation", "load", path, "--data", data).out
    asked = trainfare("chargeback", "--month", "2026-05", "--data", data, "--format", "json")
    assert [row["kind"] for row in json.loads(asked.out)["rows"]] == ["unallocated"]


def test_the_file_of_the_page_takes_the_lines_that_it_names(store: ClickHouseStore, tmp_path: Path) -> None:
    """Support, NAT gateways of one account, and a tagged database from July on; not that database before."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "shared_lines.md").read_text(encoding="utf-8")
    rules(store, tmp_path, page.split("```toml\n")[1].split("```")[0])
    july = {
        "BillingAccountId": "123456789012",
        "BillingPeriodStart": "2026-07-01",
        "BillingPeriodEnd": "2026-08-01",
        "ChargePeriodStart": "2026-07-03",
        "ChargePeriodEnd": "2026-07-04",
    }
    tagged = {"Tags": '{"app":"shared-db"}'}
    Books(store, tmp_path).used("a", "2026-07", "30")
    lines = [
        billed("1", "AWS Support (Business)"),
        billed("2", "EC2", ChargeDescription="$0.045 per NatGateway-Hours"),
        billed("3", "RDS", **tagged),
    ]
    loaded(store, written(tmp_path / "may.csv", billed("10", "RDS", **tagged)))
    loaded(store, written(tmp_path / "july.csv", *({**each, **july} for each in lines)))
    for month in ("2026-05", "2026-07"):
        allocate(OpenMonthStore(store), month, NOW_MS)
    assert {(str(row[0]), str(row[3]), Decimal(str(row[5]))) for row in by_rule(store)} == {
        ("", "", Decimal(10)),
        ("support", "", Decimal(1)),
        ("nat", "", Decimal(2)),
        ("database", "vision", Decimal("1.8")),
        ("database", "speech", Decimal("1.2")),
    }


def test_rules_go_through_a_process_that_has_the_store(store: ClickHouseStore, tmp_path: Path) -> None:
    path, token = tmp_path / "allocation.toml", "a-token-of-sixteen-and-more"
    path.write_text(RULES, encoding="utf-8")
    loaded(store, written(tmp_path / "may.csv", billed("1005", "RDS", Tags='{"app":"shared-db"}')))

    async def work(client: Client) -> list[Done]:
        env = {"TRAINFARE_WEB_TOKEN": token}
        asked = [("load", path), ("show",)]
        return [
            await asyncio.to_thread(
                trainfare, "allocation", *words, "--url", client.server.url, env=env, shared=False
            )
            for words in asked
        ]

    sent, shown = served(store, work, controls=NoLog(), token=token)
    assert (sent.code, sent.out) == (0, f"{path}: 4 allocation rules; 4 new, 0 changed, 0 removed\n"), (
        sent.err
    )
    assert (shown.code, "1,005.00" in shown.out) == (0, True), shown.err
