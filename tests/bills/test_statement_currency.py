"""A statement in another currency: each list sums to its converted sum, with the rate and its day beside; a rate that is missing is named by its day."""

from __future__ import annotations

import csv
import io
import random
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import orjson
import pytest

from schemas.bill_tables import FX_RATES
from schemas.tables import JOB_HOURS, JOB_MINUTES, JOBS
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.cli.shown_currency import rate_of
from streams.cli.statement import StatementFormat, _text
from streams.cli.statement_pdf import written_pdf
from streams.costs.currency import ShownRate, shown_rate
from streams.costs.month_store import OpenMonthStore
from streams.costs.statement import ShownCurrency, TeamStatement
from streams.errors import WrongUseError
from tests.bills.test_statement import row, statement, words_of
from tests.cli.command import trainfare
from tests.new_store import begun
from tests.sinks.rows import instant, rows

RATE = shown_rate("JPY", "2026-05-29", "163.7", "1.0837")
YEN = ShownCurrency(RATE)


@pytest.fixture(scope="module")
def team() -> TeamStatement:
    rng = random.Random(11)

    def amount() -> str:
        return f"{Decimal(rng.randrange(-(10**9), 10**12)).scaleb(-rng.randrange(0, 12)):f}"

    own = [row(f"job-{at}", amount(), project=f"p{at % 7}") for at in range(60)]
    late = [row(f"job-{at}", amount(), of_month="2026-04", reason=f"late bill {at % 3}") for at in range(20)]
    return statement(*own, *late)


def converted(usd: Decimal) -> Decimal:
    """By exact fractions, rounded once, half to even."""
    rate = Fraction(Decimal("163.7")) / Fraction(Decimal("1.0837"))
    return Decimal(round(Fraction(usd) * rate * 10**9)).scaleb(-9)


def test_all_lists_of_a_statement_sum_to_the_converted_total(team: TeamStatement) -> None:
    found: dict[str, Any] = orjson.loads(_text(team, StatementFormat.json, YEN))
    sums = {
        name: sum(Decimal(each["charge"]) for each in found[name])
        for name in ("rows", "projects", "adjustments")
    }
    shown = {name: Decimal(str(value)) for name, value in found["converted"].items() if name != "parts"}
    assert shown["total"] == sums["rows"] == converted(team.total_usd)
    assert shown["month"] == sums["projects"] == converted(team.amount("charge_usd"))
    assert shown["month"] == sum(Decimal(each) for each in found["converted"]["parts"].values())
    assert shown["adjustments"] == sums["adjustments"] == shown["total"] - shown["month"]
    rate = {"currency": "JPY", "rate_units": "163.7", "rate_dollars": "1.0837", "rate_day": "2026-05-29"}
    assert found["rate"] == rate
    for each in found["rows"]:
        assert rate.items() <= each.items()
        assert abs(Decimal(each["charge"]) - converted(Decimal(str(each["charge_usd"])))) <= Decimal("1e-9")
    dollars = orjson.loads(_text(team, StatementFormat.json, ShownCurrency()))
    assert not {"rate", "converted"} & dollars.keys()
    assert {name: found[name] for name in ("total_usd", "month_usd", "parts", "bills")} == {
        name: dollars[name] for name in ("total_usd", "month_usd", "parts", "bills")
    }


def test_csv_and_table_have_the_charge_beside_dollars(team: TeamStatement) -> None:
    cells = list(csv.DictReader(io.StringIO(_text(team, StatementFormat.csv, YEN))))
    assert sum(Decimal(each["charge"]) for each in cells) == converted(team.total_usd)
    assert {(each["currency"], each["rate_day"]) for each in cells} == {("JPY", "2026-05-29")}
    table = _text(team, StatementFormat.table, YEN)
    total = converted(team.total_usd)
    assert table.endswith(f"\n{total:,.0f} JPY at 163.7 JPY for 1.0837 USD of 2026-05-29\n")
    (line,) = (each for each in table.splitlines() if each.startswith("Total"))
    assert line.split()[1:] == [f"{team.total_usd:,.2f}", f"{total:,.0f}"]


def test_a_pdf_is_in_the_currency_and_its_tables_sum(team: TeamStatement) -> None:
    words = words_of(written_pdf(team, YEN))
    total = f"{converted(team.total_usd):,.0f}"
    assert "Total (JPY)" in words
    assert total in words
    said = " ".join(words.split())
    assert "Amounts are in JPY, at 163.7 JPY for 1.0837 USD of 2026-05-29." in said
    assert f"Charges are kept in dollars: {team.total_usd:,.2f} USD in all." in said
    amounts = said.split("What it is made of")[1].split("Adjustments: what came")[0]
    numbers = [Decimal(each.replace(",", "")) for each in re.findall(r"-?\d[\d,]*(?:\.\d+)?", amounts)]
    assert sum(numbers[:-1]) == numbers[-1] == converted(team.total_usd).quantize(Decimal(1))
    assert "JPY" not in words_of(written_pdf(team))


@pytest.mark.parametrize(("code", "decimals"), [("JPY", 0), ("EUR", 2), ("KWD", 3)])
def test_each_table_for_people_sums_to_the_last_unit_of_the_currency(
    team: TeamStatement, code: str, decimals: int
) -> None:
    shown = ShownCurrency(shown_rate(code, "2026-05-29", "163.7", "1.0837"))
    made_of, projects, jobs, _ = _text(team, StatementFormat.table, shown).split("\n\n")[1:]
    for table, adjustments in ((made_of.replace("Total", "", 1), True), (projects, False), (jobs, False)):
        amounts = [line.split()[-2:] for line in table.splitlines()[1:]]
        total = amounts.pop() if adjustments else None
        for at, places in enumerate((2, decimals)):
            column = [row[at] for row in amounts]
            assert {len(each.partition(".")[2]) for each in column} == {places}
            usd = team.total_usd if adjustments else team.amount("charge_usd")
            exact = usd if at == 0 else converted(usd)
            wanted = exact.quantize(Decimal(1).scaleb(-places))
            assert sum(Decimal(each.replace(",", "")) for each in column) == wanted
            assert total is None or Decimal(total[at].replace(",", "")) == wanted
    assert len(jobs.splitlines()) == 1 + 15 + 1
    assert "45 more jobs: --format csv has all" in jobs


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a job of May and one of June, and rates of May."""
    data = begun(tmp_path_factory.mktemp("currency") / "meter")
    store = ClickHouseStore(Embedded(data_dir=data))
    try:
        store.insert(JOBS, rows(JOBS, {"job_id": "a", "team": "vision"}), "jobs")
        at = [instant("2026-05-03 10:00"), instant("2026-06-03 10:00")]
        hours = [{"job_id": "a", "hour": each, "gpu_cost_usd": Decimal("10.01")} for each in at]
        store.insert(JOB_HOURS, rows(JOB_HOURS, *hours), "hours")
        minutes = [{"job_id": "a", "minute": each, "node": "n", "quantity": 1, "cost_usd": Decimal("10.01")} for each in at]  # fmt: skip
        store.insert(JOB_MINUTES, rows(JOB_MINUTES, *minutes), "minutes")
        rates = [
            {"currency": "EUR", "day": instant(f"{day} 00:00"), "units": Decimal(1), "dollars": Decimal(usd)}
            for day, usd in (("2026-05-08", "1.2"), ("2026-05-29", "1.1"))
        ]
        store.insert(FX_RATES, rows(FX_RATES, *rates), "rates")
    finally:
        store.close()
    return data


@pytest.fixture
def opened(data: Path) -> Iterator[OpenMonthStore]:
    store = ClickHouseStore(Embedded(data_dir=data))
    try:
        yield OpenMonthStore(store)
    finally:
        store.close()


def test_the_command_converts_at_the_last_rate_of_the_month(data: Path, tmp_path: Path) -> None:
    asked = ("statement", "--team", "vision", "--month", "2026-05", "--currency", "EUR", "--data", data)
    done = trainfare(*asked)
    assert (done.code, done.out.splitlines()[-1]) == (0, "9.10 EUR at 1 EUR for 1.1 USD of 2026-05-29")
    done = trainfare(*asked, "--format", "pdf", "--out", tmp_path / "f.pdf")
    assert done.out.endswith("2026-05: 9.10 EUR (10.01 USD at 1 EUR for 1.1 USD of 2026-05-29), not closed\n")
    assert "9.10" in words_of((tmp_path / "f.pdf").read_bytes())


@pytest.mark.parametrize("command", [("statement", "--team", "vision"), ("chargeback",)])
def test_a_missing_rate_is_named_by_its_day(data: Path, command: tuple[str, ...]) -> None:
    asked = (*command, "--month", "2026-06", "--data", data, "--currency")
    done = trainfare(*asked, "EUR")
    assert done.code == 2
    assert done.one_line() == (
        "trainfare: --currency EUR: 2026-06-30 has no rate, nor has any of the six days before it (the newest before is of "
        "2026-05-29); load a file that has one: `trainfare fx load FILE`; `trainfare fx show` lists what is loaded"
    )
    assert "(none before is loaded)" in trainfare(*asked, "SEK").one_line()
    assert "--currency: got 'eur', expected a code such as EUR" in trainfare(*asked, "eur").one_line()


def day_ms(day: str) -> int:
    return round(instant(f"{day} 10:00").timestamp() * 1_000)


@pytest.mark.parametrize(
    ("now", "rate_day"),
    [
        ("2026-05-14", "2026-05-08"),  # the month has not ended, and its newest rate is six days old
        ("2026-05-31", "2026-05-29"),
        ("2026-07-01", "2026-05-29"),
    ],
)
def test_a_month_that_goes_on_has_the_rate_of_today(opened: OpenMonthStore, now: str, rate_day: str) -> None:
    found: ShownRate = rate_of(opened, "EUR", "2026-05", day_ms(now))
    assert found.day == rate_day


def test_a_month_that_goes_on_without_a_rate_names_today(opened: OpenMonthStore) -> None:
    with pytest.raises(WrongUseError, match="2026-05-15 has no rate, nor has any of the six days"):
        rate_of(opened, "EUR", "2026-05", day_ms("2026-05-15"))
    assert rate_of(opened, "USD", "2026-05", day_ms("2026-05-15")).words() == "1 USD for 1 USD of 2026-05-15"
