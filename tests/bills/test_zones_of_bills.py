"""A month with bills is that of UTC in every command, whatever the calendar of the settings: months sum to the bills, and who asks is told."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from schemas.tables import JOB_HOURS, JOB_MINUTES, JOBS
from sinks.clickhouse import ClickHouseStore, Embedded
from tests.bills.bill import line, loaded, written
from tests.cli.command import Done, trainfare
from tests.new_store import begun
from tests.sinks.rows import instant, rows

BERLIN = {"TRAINFARE_CALENDAR_TIME_ZONE": "Europe/Berlin"}
#: Begin, end and dollars of lines by the month of their bill. Berlin's October 2025 is from 22:00 of 30 September to 23:00 of
#: 31 October UTC, and has an hour twice on the 26th.
LINES = {
    "2025-09": [("2025-09-30T22:00", "2025-09-30T23:00", "1")],
    "2025-10": [
        ("2025-10-26T00:00", "2025-10-26T01:00", "2"),
        ("2025-10-26T01:00", "2025-10-26T02:00", "4"),
        ("2025-10-31T23:00", "2025-11-01T00:00", "8"),
        ("2025-10-31T00:00", "2025-11-01T00:00", "16"),  # a day, which Berlin's border cuts
        ("2025-10-31T23:00", "2025-11-01T01:00", "32"),  # over the border of UTC
    ],
    "2025-11": [("2025-11-03T00:00", "2025-11-04T00:00", "64")],
}
CHARGED = {"2025-09": 1, "2025-10": 2 + 4 + 8 + 16 + 32, "2025-11": 64}
#: By days of UTC half of the line over the border is of each month.
ON_DAYS = {"2025-09": 1, "2025-10": 2 + 4 + 8 + 16 + 16, "2025-11": 64 + 16}
OCTOBER = (
    "trainfare: 2025-10 is the month of UTC here, as on bills. `trainfare costs --month 2025-10` shows the month of your calendar: "
    "2025-10-01 to 2025-10-31 in Europe/Berlin."
)
#: What was metered, at the borders of Berlin's months, and no bill has; and in July, of which there is no bill.
METERED = [("2025-06-30 21:00", 100), ("2025-06-30 22:00", 200), ("2025-07-31 21:00", 400), ("2025-07-31 22:00", 800)]  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zones")
    data = begun(folder / "meter")
    store = ClickHouseStore(Embedded(data_dir=data))
    try:
        store.insert(JOBS, rows(JOBS, {"job_id": "a", "team": "vision"}), "jobs")
        hours = [(instant(at), Decimal(amount)) for at, amount in METERED]
        of_hours = [{"job_id": "a", "hour": at, "gpu_cost_usd": amount} for at, amount in hours]
        store.insert(JOB_HOURS, rows(JOB_HOURS, *of_hours), "hours")
        of_minutes = [{"job_id": "a", "minute": at, "node": "n9", "quantity": 1, "cost_usd": amount} for at, amount in hours]  # fmt: skip
        store.insert(JOB_MINUTES, rows(JOB_MINUTES, *of_minutes), "minutes")
        for month, of_month in LINES.items():
            period = {"BillingPeriodStart": f"{month}-01", "BillingPeriodEnd": f"2025-{int(month[5:]) + 1}-01", "Tags": '{"trainfare_job": "a"}'}  # fmt: skip
            lines = [
                line(**period, ChargePeriodStart=f"{start}Z", ChargePeriodEnd=f"{end}Z", BilledCost=usd, EffectiveCost=usd)
                for start, end, usd in of_month
            ]  # fmt: skip
            loaded(store, written(folder / f"{month}.csv", *lines))
    finally:
        store.close()
    return data


def asked(data: Path, *words: str, env: dict[str, str] = BERLIN) -> Done:
    done = trainfare(*words, "--data", data, env=env)
    assert done.code == 0, done.err
    return done


def answer(data: Path, *words: str, env: dict[str, str] = BERLIN) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(asked(data, *words, "--format", "json", env=env).out)
    assert found["tz"] == "UTC"
    return found


def test_every_command_charges_a_line_in_the_same_month_and_months_sum_to_the_bill(data: Path) -> None:
    for month, usd in CHARGED.items():
        charged = answer(data, "chargeback", "--month", month, "--by", "team")
        assert Decimal(charged["totals"]["charge_usd"]) == usd
        stated = answer(data, "statement", "--team", "vision", "--month", month)
        assert Decimal(stated["total_usd"]) == usd
        reconciled = answer(data, "bills", "reconcile", "--month", month)
        assert Decimal(reconciled["totals"]["billed_usd"]) == ON_DAYS[month]
    closing = asked(data, "close", "2025-10", "--dry-run", "--format", "csv")
    (closed,) = csv.DictReader(io.StringIO(closing.out))
    assert closed["tz"] == "UTC"
    assert Decimal(closed["charge_usd"]) == CHARGED["2025-10"]
    listed = json.loads(asked(data, "bills", "list", "--format", "json").out)
    assert {each["billing_period_start"][:7]: Decimal(each["billed_usd"]) for each in listed} == CHARGED
    assert sum(CHARGED.values()) == sum(ON_DAYS.values())


def test_who_has_another_calendar_is_told_which_month_it_is(data: Path) -> None:
    for words in (
        ("chargeback", "--month", "2025-10"),
        ("statement", "--team", "vision", "--month", "2025-10"),
        ("close", "2025-10", "--dry-run"),
        ("bills", "reconcile", "--month", "2025-10"),
        ("bills", "export", "--month", "2025-10"),
    ):
        assert OCTOBER in asked(data, *words).err, words
    assert "month of UTC" not in asked(data, "chargeback", "--month", "2025-10", env={}).err
    days = asked(data, "bills", "reconcile", "--from", "2025-10-26", "--to", "2025-10-27").err
    assert "trainfare: days are those of UTC, as days of bills are, not those of Europe/Berlin\n" in days
    said = asked(data, "bills", "reconcile", "--month", "2025-10", env={}).err
    assert (
        "the bills of 2025-10 come to 62.00 USD, and lines of its days to 46.00: here a line counts on"
        in said
    )
    assert "come to" not in asked(data, "bills", "reconcile", "--month", "2025-09", env={}).err
    table = asked(data, "statement", "--team", "vision", "--month", "2025-10").out
    assert table.startswith("Team vision, 2025-10 of UTC (open: it may change)\n")


def test_a_fiscal_calendar_moves_no_bill(data: Path) -> None:
    april = {"TRAINFARE_CALENDAR_YEAR_START": "04-06"}
    done = asked(data, "chargeback", "--month", "2025-10", "--format", "json", env=april)
    assert Decimal(json.loads(done.out)["totals"]["charge_usd"]) == CHARGED["2025-10"]
    assert "2025-10 is the month of UTC here, as on bills." in done.err
    assert "shows the month of your calendar: 2025-10-06 to 2025-11-05 in UTC." in done.err


@pytest.mark.parametrize(("zone", "usd"), [((), (300, 1_200)), (("--tz", "Europe/Berlin"), (100, 600))])
def test_what_was_metered_is_charged_by_a_zone_that_is_asked_for(
    data: Path, zone: tuple[str, ...], usd: tuple[int, int]
) -> None:
    months = [asked(data, "chargeback", "--month", month, *zone, "--format", "json") for month in ("2025-06", "2025-07")]  # fmt: skip
    totals = [json.loads(each.out) for each in months]
    assert [Decimal(each["totals"]["charge_usd"]) for each in totals] == [*map(Decimal, usd)]
    assert {each["tz"] for each in totals} == {zone[1] if zone else "UTC"}
    assert ("month of UTC" in months[0].err) == (not zone)


def test_a_zone_that_is_asked_for_moves_no_bill(data: Path) -> None:
    done = trainfare("chargeback", "--month", "2025-10", "--tz", "Europe/Berlin", "--data", data)
    assert done.code == 2
    assert "--tz: bills of 2025-10 are loaded, and their months and days are those of UTC: leave out --tz" in done.one_line()  # fmt: skip
