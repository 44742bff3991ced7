"""A month is charged to the last digit, whatever the rule and the bill."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from streams.costs.charge_lines import ChargedLine, IdleNode, Metered, Where
from streams.costs.charging import Month, Rules, charges
from streams.costs.shares import Rule
from tests.bills.bill import line, written
from tests.cli.command import ROOT, Done, trainfare

NANO = 10**9
EVENTS = ROOT / "examples" / "helios-500.jsonl.gz"
DAY = 100
TEAMS = {"a": ("vision",), "b": ("speech",), "c": ("vision",)}


def used(job: str, node: str, usd: int, **values: Any) -> Metered:
    """What a job was metered on a node of account A1, in dollars."""
    usual = Metered(job, DAY, node, node or job, "A1", "aws", usd * NANO, 1_000, 0, 0, 0)
    return usual._replace(**values)


def billed(resource: str, usd: Decimal | int, **values: Any) -> ChargedLine:
    """A line of the account A1 about the day."""
    units = int(Decimal(usd) * NANO)
    usual = ChargedLine(
        "A1", "A1", "AWS", "EC2", resource, "", True, usd < 0, DAY * 86_400, (DAY + 1) * 86_400, units, units
    )
    return usual._replace(**values)


def month(metered: list[Metered], lines: list[ChargedLine] | None, idle: tuple[IdleNode, ...] = ()) -> Month:
    covered = {(DAY, each.account): frozenset({each.provider}) for each in lines or ()}
    return Month(metered, idle, [], [], lines, 9, covered, TEAMS, 1)


def charged(asked: Month, **rules: Any) -> dict[str, Decimal]:
    """What each row is charged."""
    found = charges(asked, Rules(**rules))
    return {each.names[0] or each.service or each.kind: each.charge_usd for each in found.rows}


def test_the_example_of_the_page() -> None:
    page = (ROOT / "docs" / "bills.md").read_text()
    asked = month([used("a", "n1", 30), used("b", "n1", 10)], [billed("n1", Decimal("36.01"))])
    found = charged(asked)
    assert found == {"vision": Decimal("27.0075"), "speech": Decimal("9.0025")}
    assert all(f"${usd.normalize()}" in page for usd in found.values())


IDLE_OF_N1 = IdleNode(DAY, "n1", "A1", "aws", "c1", "H100", 4 * NANO)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Rule.NONE, {"speech": 10, "vision": 30, "idle": 4}),
        (Rule.EVEN, {"speech": 12, "vision": 32}),
        (Rule.WEIGHTED, {"speech": 11, "vision": 33}),
    ],
)
def test_idle_time_by_each_rule(rule: Rule, expected: dict[str, int]) -> None:
    jobs = [used("a", "n1", 30), used("b", "n1", 10)]
    assert charged(month(jobs, None, (IDLE_OF_N1,)), idle=rule) == expected
    doubled = {names: 2 * usd for names, usd in expected.items()}
    assert charged(month(jobs, [billed("n1", 88)], (IDLE_OF_N1,)), idle=rule) == doubled


def test_who_has_no_job_on_a_node_of_the_cluster_pays_none_of_its_idle_time() -> None:
    jobs = [used("a", "n1", 30), used("b", "", 10), used("b", "other", 10)]
    other = IDLE_OF_N1._replace(node="other", cluster="c2", usd_nano=1)
    nobody = IDLE_OF_N1._replace(node="n9", gpu_type="A100", usd_nano=7 * NANO)
    found = charged(month(jobs, None, (IDLE_OF_N1, other, nobody)), idle=Rule.WEIGHTED)
    assert found == {"vision": 34, "speech": Decimal("20.000000001"), "idle": 7}


def test_a_node_that_was_idle_all_day_bears_its_line() -> None:
    assert charged(month([], [billed("n1", 9)], (IDLE_OF_N1,))) == {"idle": 9}


def test_a_line_that_no_job_used_is_a_row_of_its_own_unless_a_rule_shares_it() -> None:
    jobs = [used("a", "n1", 30), used("b", "n2", 10), used("c", "n1", 0)]
    jobs += [used("b", "n3", 99, account="G1", cloud="gcp", resource="n3")]
    lines = [billed("n1", 30), billed("n2", 10), billed("rds", 1000, service="RDS")]
    assert charged(month(jobs, lines)) == {"vision": 30, "speech": 109, "RDS": 1000}
    assert charged(month(jobs, lines), unallocated=Rule.WEIGHTED) == {"vision": 780, "speech": 359}
    assert charged(month(jobs, lines), unallocated=Rule.EVEN) == {"vision": 530, "speech": 609}
    elsewhere = [*lines, billed("x", 5, account="A7", service="S3")]
    assert charged(month(jobs, elsewhere), unallocated=Rule.EVEN)["S3"] == 5


def test_the_same_node_name_in_two_accounts_is_two_nodes() -> None:
    jobs = [used("a", "n1", 30), used("b", "n1", 30, account="A2")]
    lines = [billed("n1", 8), billed("n1", 2, account="A2", billing_account="A2")]
    assert charged(month(jobs, lines)) == {"vision": 8, "speech": 2}
    assert charged(month(jobs, lines[:1])) == {"vision": 8, "speech": 30}


def test_a_bill_of_another_cloud_is_not_of_the_job_though_node_and_account_are_named_alike() -> None:
    jobs = [
        used("a", "n1", 30),
        used("b", "n1", 10, cloud="gcp"),
        used("c", "n1", 1, account="", cloud="azure"),
    ]
    assert charged(month(jobs, [billed("n1", 8)])) == {"vision": 9, "speech": 10}


def test_a_bill_whose_provider_is_not_the_cloud_of_its_resources_is_said() -> None:
    jobs = [used("a", "n1", 30), used("b", "n2", 10, cloud="gcp"), used("b", "n3", 1, cloud="")]
    lines = [billed(name, 8, provider="My Cloud") for name in ("n1", "n2", "n3", "rds")]
    found = charges(month(jobs, lines), Rules())
    assert found.other_cloud_usd == {("My Cloud", "aws"): 8, ("My Cloud", "gcp"): 8}
    assert charges(month(jobs, [billed("n1", 8)]), Rules()).other_cloud_usd == {}


def test_a_job_without_an_account_is_of_the_account_that_its_resource_was_billed_under() -> None:
    jobs = [used("a", "n1", 30, account=""), used("b", "n9", 10, account="")]
    found = charges(month(jobs, [billed("n1", 8)]), Rules())
    assert [row.charge_usd for row in found.rows] == [Decimal(10), Decimal(8)]  # speech, vision
    assert found.without_account_usd == 10


def test_what_was_metered_on_a_resource_that_its_bill_does_not_name_is_said() -> None:
    found = charges(month([used("a", "ip-10-0-0-1", 30)], [billed("i-0abc", 8)]), Rules())
    assert {row.kind: row.charge_usd for row in found.rows} == {"jobs": Decimal(0), "unallocated": Decimal(8)}
    assert found.without_line_usd == 30


def test_a_line_of_zero_weight_goes_by_gpu_time_and_else_evenly() -> None:
    jobs = [used("a", "n1", 0, gpu_milli_ms=1), used("b", "n1", 0, gpu_milli_ms=3)]
    assert charged(month(jobs, [billed("n1", 8)])) == {"vision": 2, "speech": 6}


def test_what_follows_goes_with_its_resource_else_with_its_account() -> None:
    later = {
        "start_s": (DAY + 9) * 86_400,
        "end_s": (DAY + 10) * 86_400,
        "is_usage": False,
        "is_adjusting": True,
    }
    jobs = [used("a", "n1", 30), used("b", "n2", 30)]
    lines = [billed("n1", 30), billed("n2", 10), billed("rds", 60, service="RDS")]
    credit = billed("n1", -3, **later)
    assert charged(month(jobs, [*lines, credit])) == {"vision": 27, "speech": 10, "RDS": 60}
    tax = billed("", 10, **later, service="Tax")
    assert charged(month(jobs, [*lines, tax])) == {"vision": 33, "speech": 11, "RDS": 66}
    tax_of_service = billed("", 8, **later)
    assert charged(month(jobs, [*lines, tax_of_service])) == {"vision": 36, "speech": 12, "RDS": 60}
    of_nothing = billed("", -2, **later, account="A9", billing_account="A9", service="S3")
    assert charged(month(jobs, [*lines, of_nothing]))["S3"] == -2


def test_a_filter_shows_a_part_and_charges_as_the_whole_does() -> None:
    jobs = [used("a", "n1", 30, labor_nano=NANO), used("b", "n3", 99, account="G1", cloud="gcp")]
    tax = billed("", 11, service="Tax", is_usage=False, is_adjusting=True)
    whole = month(jobs, [billed("n1", 10), billed("rds", 100, service="RDS"), tax])

    def of(**where: str) -> dict[str, Decimal]:
        return charged(whole, where=Where(**{name: frozenset({value}) for name, value in where.items()}))

    assert of() == {"vision": 12, "speech": 99, "RDS": 110}
    assert of(accounts="G1") == {"speech": 99}
    assert of(providers="Amazon Web Services") == {"vision": 12, "RDS": 110}
    assert of(services="tax") == {"vision": 1, "RDS": 10}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("charging")
    done = trainfare("replay", EVENTS, "--data", root / "meter")
    assert done.code == 0, done.err
    april = {"BillingPeriodStart": "2020-04-01", "BillingPeriodEnd": "2020-05-01"}
    rows = [
        line(**april, BilledCost="1000.00000000011"),
        line(**april, BilledCost="9", BillingCurrency="EUR"),
    ]
    bill = written(root / "april.csv", *rows)
    assert trainfare("bills", "load", bill, "--data", root / "meter").code == 0
    return root / "meter"


def asked(data: Path, *words: object) -> Done:
    done = trainfare("chargeback", "--data", data, *words)
    assert done.code == 0, done.err
    return done


def test_a_month_with_a_bill_sums_to_it(data: Path) -> None:
    done = asked(data, "--month", "2020-04", "--by", "team,owner", "--cost", "billed", "--format", "json")
    found = json.loads(done.out)
    assert (
        "1 line of the bill is not in USD, has no rate of its day, and is charged to nobody: 9." in done.err
    )
    assert "were metered without an account, on resources that no bill of their cloud names" in done.err
    totals = {name: Decimal(usd) for name, usd in found["totals"].items()}
    assert found["totals"]["billed_usd"] == "1000.00000000011"
    assert totals["charge_usd"] == totals["billed_usd"] + totals["metered_usd"]
    assert sum(Decimal(row["charge_usd"]) for row in found["rows"]) == totals["charge_usd"]
    (row,) = (row for row in found["rows"] if row["kind"] == "unallocated")
    assert (row["account"], row["provider"], row["service"]) == ("acct", "Cloud", "VM")
    query = "SELECT sum(cost_usd) AS usd FROM ledger WHERE toYYYYMM(minute) = 202004"
    (ledger,) = json.loads(trainfare("sql", query, "--data", data, "--format", "json").out)
    assert Decimal(found["totals"]["metered_usd"]) == Decimal(ledger["usd"])
    assert len(found["rows"]) > 5


def test_jobs_are_charged_what_their_teams_are(data: Path) -> None:
    sums: dict[str, dict[str, Decimal]] = {}
    for levels in ("team", "team,job"):
        words = ("--month", "2020-04", "--by", levels, "--cost", "billed", "--idle", "weighted")
        rows = json.loads(asked(data, *words, "--format", "json").out)["rows"]
        found = sums[levels] = {}
        for row in rows:
            if row["kind"] == "jobs":
                found[row["team"]] = found.get(row["team"], Decimal(0)) + Decimal(row["cost_usd"])
                assert ("job" in row) == (levels != "team")
    assert sums["team,job"] == sums["team"]
    assert len(rows) > len(sums["team"])
    query = "SELECT job_id FROM job_costs"
    jobs = {
        row["job_id"] for row in json.loads(trainfare("sql", query, "--data", data, "--format", "json").out)
    }
    assert {row["job"] for row in rows if row["kind"] == "jobs"} <= jobs


def test_every_format_says_the_same(data: Path, tmp_path: Path) -> None:
    words = ("--month", "2020-04", "--cost", "billed")
    rows = json.loads(asked(data, *words, "--format", "json").out)["rows"]
    cells = list(csv.DictReader(io.StringIO(asked(data, *words, "--format", "csv").out)))
    assert [Decimal(row["charge_usd"]) for row in cells] == [Decimal(row["charge_usd"]) for row in rows]
    asked(data, *words, "--format", "parquet", "--out", tmp_path / "f.parquet")
    table = pq.read_table(tmp_path / "f.parquet").to_pylist()
    assert [row["charge_usd"] for row in table] == [Decimal(row["charge_usd"]) for row in rows]
    assert " USD = 1000.00000000011 as billed + " in asked(data, *words).out
    bare = asked(data, "--month", "2020-04")
    assert "the bill has no effective cost, and 1000.000000000110000000 USD were billed" in bare.err


def test_a_month_without_a_bill_is_charged_as_metered(data: Path) -> None:
    found = json.loads(asked(data, "--month", "2020-05", "--format", "json").out)
    assert found["totals"]["billed_usd"] is None
    assert all(row["charge_usd"] == row["metered_usd"] and row["billed_usd"] is None for row in found["rows"])


@pytest.mark.parametrize(
    "words",
    [
        ("--month", "2020-13"),
        ("--month", "2020-4"),
        ("--month", "April"),
        ("--month", "2020-04", "--by", "node"),
        ("--month", "2020-04", "--by", "team,team"),
        ("--month", "2020-04", "--format", "parquet"),
        ("--month", "2020-04", "--out", "f"),
        ("--month", "2020-04", "--where", "node=n1"),
        ("--month", "2020-04", "--where", "account="),
        ("--month", "2020-04", "--where", "account"),
    ],
)
def test_wrong_use_is_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    done = trainfare("chargeback", "--data", tmp_path, *words)
    assert done.code == 2
    assert "expected" in done.one_line() or "--out FILE" in done.one_line()
