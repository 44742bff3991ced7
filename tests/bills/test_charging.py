"""A month is charged to the last digit, whatever the rule and the bill."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.costs.charging import Charge, charges
from streams.costs.shares import Rule
from tests.bills.bill import line, written
from tests.cli.command import ROOT, Done, trainfare

NANO = 10**9
TEAMS: dict[tuple[str, ...], int] = {("speech",): 10 * NANO, ("vision",): 30 * NANO}
EVENTS = ROOT / "examples" / "helios-500.jsonl.gz"


def charged(found: list[Charge]) -> dict[tuple[str, ...], Decimal]:
    return {each.names if each.kind == "jobs" else (each.kind,): each.charge_usd for each in found}


def test_the_example_of_the_page() -> None:
    page = (ROOT / "docs" / "bills.md").read_text()
    found = charged(charges(TEAMS, 0, Rule.NONE, Decimal("36.01")))
    assert found == {("vision",): Decimal("27.0075"), ("speech",): Decimal("9.0025")}
    assert all(f"${usd.normalize()}" in page for usd in found.values())


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Rule.NONE, {("speech",): 10, ("vision",): 30, ("idle",): 4}),
        (Rule.EVEN, {("speech",): 12, ("vision",): 32}),
        (Rule.WEIGHTED, {("speech",): 11, ("vision",): 33}),
    ],
)
def test_idle_time_by_each_rule(rule: Rule, expected: dict[tuple[str, ...], int]) -> None:
    assert charged(charges(TEAMS, 4 * NANO, rule, None)) == expected
    doubled = {names: 2 * usd for names, usd in expected.items()}
    assert charged(charges(TEAMS, 4 * NANO, rule, Decimal(88))) == doubled


def test_a_bill_beside_which_nothing_was_metered() -> None:
    assert charged(charges({}, 0, Rule.EVEN, Decimal("1.5"))) == {("unmetered",): Decimal("1.5")}
    assert charged(charges({}, NANO, Rule.EVEN, None)) == {("idle",): 1}
    assert charges({}, 0, Rule.EVEN, None) == []


@given(
    st.dictionaries(st.tuples(st.text(max_size=3)), st.integers(0, 10**15), max_size=6),
    st.integers(-(10**12), 10**15),
    st.sampled_from(list(Rule)),
    st.none() | st.decimals(-(10**9), 10**9, places=13),
)
def test_the_parts_sum_exactly_to_the_whole(
    costs: Mapping[tuple[str, ...], int], idle_nano: int, rule: Rule, billed: Decimal | None
) -> None:
    found = charges(costs, idle_nano, rule, billed)
    metered = Decimal(sum(costs.values()) + idle_nano).scaleb(-9)
    assert sum(each.metered_usd for each in found) == metered
    assert sum(each.charge_usd for each in found) == (metered if billed is None else billed)


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
    done = asked(data, "--month", "2020-04", "--by", "team,owner", "--format", "json")
    found = json.loads(done.out)
    assert done.err == "trainfare: 1 lines of the bill are not in USD and are charged to nobody\n"
    assert found["totals"]["billed_usd"] == "1000.00000000011"
    assert sum(Decimal(row["charge_usd"]) for row in found["rows"]) == Decimal("1000.00000000011")
    query = "SELECT sum(cost_usd) AS usd FROM ledger WHERE toYYYYMM(minute) = 202004"
    (ledger,) = json.loads(trainfare("sql", query, "--data", data, "--format", "json").out)
    assert Decimal(found["totals"]["metered_usd"]) == Decimal(ledger["usd"])
    assert len(found["rows"]) > 5


def test_every_format_says_the_same(data: Path, tmp_path: Path) -> None:
    rows = json.loads(asked(data, "--month", "2020-04", "--format", "json").out)["rows"]
    cells = list(csv.DictReader(io.StringIO(asked(data, "--month", "2020-04", "--format", "csv").out)))
    assert [Decimal(row["charge_usd"]) for row in cells] == [Decimal(row["charge_usd"]) for row in rows]
    asked(data, "--month", "2020-04", "--format", "parquet", "--out", tmp_path / "f.parquet")
    table = pq.read_table(tmp_path / "f.parquet").to_pylist()
    assert [row["charge_usd"] for row in table] == [Decimal(row["charge_usd"]) for row in rows]
    shown = asked(data, "--month", "2020-04").out
    assert "1000.00000000011 USD as billed, " in shown


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
    ],
)
def test_wrong_use_is_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    done = trainfare("chargeback", "--data", tmp_path, *words)
    assert done.code == 2
    assert "expected" in done.one_line() or "--out FILE" in done.one_line()
