"""The commands with any bill, in any currency: from an empty directory, tried first, and through a process that has the store."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sinks.clickhouse import ClickHouseStore
from tests.bills.exports import BILLS, EXPORTS, total_of
from tests.bills.test_currencies import HIST
from tests.bills.test_formats import written
from tests.bills.test_load_through_worker import NoLog
from tests.cli.command import Done, trainfare
from tests.sinks.rows import dicts
from tests.web.serving import Client, served

TOKEN = "a-token-of-sixteen-and-more"


def test_a_bill_and_rates_load_into_an_empty_directory(tmp_path: Path) -> None:
    data = tmp_path / "meter"
    euros = [each._replace(currency="EUR", day=2) for each in BILLS[:1]]
    path = written(tmp_path, EXPORTS["azure-mca"], [*BILLS, *euros])
    text = path.read_text(encoding="utf-8").replace('"exchangeRatePricingToBilling"', '"x"')
    path.write_text(text.replace("exchangeRatePricingToBilling", "x"), encoding="utf-8")
    done = trainfare("bills", "load", path, "--data", data)
    assert done.code == 0, done.err
    assert done.out == (
        f"{path}: Azure cost details (MCA), 6 lines, {total_of(BILLS):f} USD; "
        "1 line in other currencies\n"
        "  36.01 EUR are 0.00 USD; 1 line without a rate of the day, charged to nobody until `trainfare fx load FILE`\n"
    )
    (listed,) = json.loads(trainfare("bills", "list", "--data", data, "--format", "json").out)
    assert listed["format"] == "azure-mca"
    charge = ("chargeback", "--month", "2026-10", "--data", data)
    done = trainfare(*charge, "--format", "json")
    assert done.code == 0, done.err
    assert Decimal(json.loads(done.out)["totals"]["charge_usd"]) == total_of(BILLS)
    assert "1 line of the bill is not in USD, has no rate of its day, and is charged to nobody" in done.err

    rates = tmp_path / "eurofxref-hist.csv"
    rates.write_text(HIST, encoding="utf-8")
    done = trainfare("fx", "load", rates, "--data", data)
    assert done.out == f"{rates}: 8 rates of 3 currencies, 2026-10-01 to 2026-10-05; 8 new, 0 restated\n"
    shown = trainfare("fx", "show", "--currency", "EUR", "--data", data, "--format", "csv").out
    assert [row["day"] for row in csv.DictReader(io.StringIO(shown))] == [
        "2026-10-01",
        "2026-10-02",
        "2026-10-05",
    ]
    done = trainfare(*charge, "--format", "json")
    in_dollars = Decimal("39.613580247")  # 36.0123456789 EUR at 1.1
    assert Decimal(json.loads(done.out)["totals"]["charge_usd"]) == total_of(BILLS) + in_dollars
    assert (
        "converted: 36.012345678900000000 EUR are 39.613580247000000000 USD: 1 line at the rate of their day "
        "(2026-10-02 to 2026-10-02)" in done.err
    )


def test_a_charge_is_shown_in_another_currency_and_sums(tmp_path: Path) -> None:
    data = tmp_path / "meter"
    bills = [each._replace(account=f"account-{at}") for at, each in enumerate(BILLS * 3)]
    trainfare("bills", "load", written(tmp_path, EXPORTS["aws-cur-2"], bills), "--data", data)
    charge = ("chargeback", "--month", "2026-10", "--currency", "JPY", "--data", data)
    done = trainfare(*charge)
    assert done.code == 2
    assert (
        "--currency JPY: 2026-10-31 has no rate, nor has any of the six days before it (none before is loaded); load a file"
        in done.one_line()
    )
    rates = tmp_path / "rates.csv"
    rates.write_text("Date,USD,JPY\n2026-10-30,1.0837,163.7\n2026-11-01,9,9\n", encoding="utf-8")
    trainfare("fx", "load", rates, "--data", data)
    found = json.loads(trainfare(*charge, "--format", "json").out)
    assert found["rate"] == {
        "currency": "JPY",
        "rate_units": "163.7",
        "rate_dollars": "1.0837",
        "rate_day": "2026-10-30",
    }
    total = total_of(bills) * Decimal("163.7") / Decimal("1.0837")
    rows = found["rows"]
    assert len(rows) > 5
    assert sum(Decimal(row["charge"]) for row in rows) == round(total, 9)
    for row in rows:
        assert found["rate"].items() <= row.items()
        exact = Decimal(row["charge_usd"]) * Decimal("163.7") / Decimal("1.0837")
        assert abs(Decimal(row["charge"]) - exact) <= Decimal("1e-9")
    said = trainfare(*charge).out
    assert "JPY at 163.7 JPY for 1.0837 USD of 2026-10-30" in said
    assert "163.7" in said.splitlines()[2]
    out = tmp_path / "f.parquet"
    assert trainfare(*charge, "--format", "parquet", "--out", out).code == 0
    stored = pq.read_table(out).to_pylist()
    assert [each["charge"] for each in stored] == [Decimal(row["charge"]) for row in rows]
    assert {each["rate_dollars"] for each in stored} == {"1.0837"}


def test_a_trial_stores_nothing_and_needs_no_store(tmp_path: Path) -> None:
    path = written(tmp_path, EXPORTS["gcp json"])
    done = trainfare("bills", "load", path, "--dry-run", "--data", tmp_path / "meter")
    assert done.code == 0, done.err
    assert done.out.startswith(
        f"{path}: Google Cloud detailed billing export, 5 lines; a trial, nothing is stored\n"
    )
    assert "Compute Engine" in done.out
    assert "not understood, kept as they are: " in done.out
    assert "'export_time'" in done.out
    rows = [line.split() for line in done.out.splitlines() if " USD " in line]
    (every,) = (row for row in rows if row[0] == "(all)")
    assert every[1:3] == ["USD", "5"]
    assert Decimal(every[3]) == sum(Decimal(row[-2]) for row in rows if row is not every)
    assert not (tmp_path / "meter").exists()
    wrong = written(tmp_path, EXPORTS["plain"], [BILLS[0], BILLS[1]._replace(cost="=1+1")], "wrong")
    done = trainfare("bills", "load", wrong, "--dry-run", "--data", tmp_path / "meter")
    assert (done.code, done.one_line()) == (2, "trainfare: 1 line cannot be read; nothing would be loaded")
    assert f"  WRONG {wrong} line 3: amount: '=1+1' is no number; write it as 1000.50\n" in done.out


@pytest.mark.parametrize("name", ["aws-cur", "plain"])
def test_format_issuer_and_rate_go_through_a_process_that_has_the_store(
    name: str, store: ClickHouseStore, tmp_path: Path
) -> None:
    path = written(tmp_path, EXPORTS[name], [each._replace(currency="EUR") for each in BILLS])
    rates = tmp_path / "rates.csv"
    rates.write_text(HIST, encoding="utf-8")
    given = ("--format", name, "--issuer", "Neocloud", "--units-per-usd", "0.5")
    commands: list[tuple[object, ...]] = [
        ("bills", "load", path, *given),
        ("bills", "load", path, "--format", "oracle"),
        ("fx", "load", rates),
        ("fx", "load", path),
        ("fx", "show", "--currency", "SEK"),
    ]

    async def work(client: Client) -> list[Done]:
        env = {"TRAINFARE_WEB_TOKEN": TOKEN}
        where: Any = ("--url", client.server.url)
        return [await asyncio.to_thread(trainfare, *words, *where, env=env) for words in commands]

    loaded, wrong, fx, no_rates, shown = served(store, work, controls=NoLog(), token=TOKEN)
    assert loaded.code == 0, loaded.err
    assert f"{path}: {EXPORTS[name].title}, 5 lines" in loaded.out
    assert "it seems to be" in wrong.one_line()
    assert fx.out.endswith("8 new, 0 restated\n"), fx.err
    assert "is no file of exchange rates" in no_rates.one_line()
    assert shown.out.count("SEK") == 2
    in_dollars = sum(round(2 * Decimal(each.cost), 9) for each in BILLS)
    assert dicts(store, "SELECT sum(billed_usd) AS usd FROM billed_lines") == [{"usd": in_dollars}]
    issuers = dicts(store, "SELECT DISTINCT invoice_issuer_name AS issuer FROM billed_lines")
    assert issuers == [{"issuer": "Neocloud" if name == "plain" else "AWS"}]
