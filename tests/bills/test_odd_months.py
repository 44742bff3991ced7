"""Odd months, by hand: two currencies and a bill that is replaced late, a month of credits, a leap day, a team with a new name."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from schemas.bill_tables import FX_RATES
from sinks.clickhouse import ClickHouseStore
from streams.costs.closing import closed_rows
from streams.costs.month_store import OpenMonthStore
from tests.bills.bill import line, loaded, written
from tests.bills.test_closing import Books
from tests.sinks.rows import rows


@pytest.fixture
def books(store: ClickHouseStore, tmp_path: Path) -> Books:
    return Books(store, tmp_path)


def test_two_currencies_and_a_bill_that_a_smaller_one_replaces_after_the_closing(books: Books) -> None:
    books.used("a", "2026-05", "30")
    books.used("b", "2026-05", "10", team="speech")
    rate = {"currency": "EUR", "day": datetime(2026, 5, 1, tzinfo=UTC), "units": Decimal(1), "dollars": Decimal("1.1")}  # fmt: skip
    books.store.insert(FX_RATES, rows(FX_RATES, rate), "rate")
    books.billed("2026-05", "36")
    euros: Any = {"BillingAccountId": "A1", "InvoiceIssuerName": "Cloud GmbH", "BillingCurrency": "EUR"}
    books.billed("2026-05", "10", **euros)
    closed = books.close("2026-05").read()
    # 36 USD and 10 EUR at 1.1, by what was metered: three quarters and one.
    assert Decimal(closed.charge_usd) == 47
    totals = {team: books.statement(team, "2026-05").total_usd for team in ("vision", "speech")}
    assert totals == {"vision": Decimal("35.25"), "speech": Decimal("11.75")}
    bills = books.statement("vision", "2026-05").record()["bills"]
    assert {each["issuer"]: Decimal(each["billed_usd"]) for each in bills} == {
        "Cloud Inc.": 36,
        "Cloud GmbH": 11,
    }

    period = {"BillingPeriodStart": "2026-05-01", "BillingPeriodEnd": "2026-06-01", "ChargePeriodStart": "2026-05-03", "ChargePeriodEnd": "2026-05-04"}  # fmt: skip
    amounts = dict.fromkeys(("BilledCost", "EffectiveCost", "ListCost"), "2")
    smaller = written(
        books.folder / "smaller.csv", line(**period, **amounts, **euros, ProviderName="AWS", ResourceId="n1")
    )
    loaded(books.store, smaller, replace=True, now_ms=books.now_ms + 1)
    books.now_ms += 1
    assert books.charged("2026-05") == 47
    assert books.live("2026-05") == Decimal("38.2")
    books.used("c", "2026-06", "1")
    books.close("2026-06", is_forced=True)
    adjusted = {each.key[1]: each.charge_usd for each in closed_rows(OpenMonthStore(books.store), month="2026-06") if each.of_month == "2026-05"}  # fmt: skip
    assert adjusted == {"vision": Decimal("-6.6"), "speech": Decimal("-2.2")}
    assert books.charged("2026-05") == Decimal("38.2")
    assert books.verified("2026-05").faults == []


def test_a_month_of_more_credits_than_use_is_negative_and_its_parts_sum_to_it(books: Books) -> None:
    books.used("a", "2026-05", "30")
    books.used("b", "2026-05", "10", team="speech")
    books.billed("2026-05", "36")
    books.billed("2026-05", "-50", ChargeCategory="Credit", InvoiceIssuerName="Credits Inc.")
    closed = books.close("2026-05").read()
    assert Decimal(closed.charge_usd) == -14
    totals = [books.statement(team, "2026-05").total_usd for team in ("vision", "speech")]
    assert totals == [Decimal("-10.5"), Decimal("-3.5")]


def test_a_line_over_a_leap_day_is_three_days(books: Books) -> None:
    books.used("a", "2028-02", "10", day=28)
    books.used("b", "2028-02", "10", day=29, team="speech")
    books.used("c", "2028-03", "10", day=1, team="audio")
    over: Any = {"ChargePeriodStart": "2028-02-28", "ChargePeriodEnd": "2028-03-02"}
    books.now_ms = 1_850_000_000_000  # August 2028
    books.billed("2028-02", "30", **over)
    closed = books.close("2028-02", is_forced=True).read()
    rows_of = [each.named() for each in closed_rows(OpenMonthStore(books.store), month="2028-02")]
    found = {(each["kind"], each["team"]): each["billed_usd"] for each in rows_of}
    assert Decimal(closed.charge_usd) == 30
    assert found == {("jobs", "vision"): 10, ("jobs", "speech"): 10, ("jobs", "audio"): 10}


def test_a_team_that_is_renamed_in_mid_month_has_all_of_it_under_its_new_name(books: Books) -> None:
    books.used("a", "2026-05", "30", team="vision", day=3)
    books.used("b", "2026-05", "10", team="vision", day=3)
    books.billed("2026-05", "40")
    books.used("a", "2026-05", "30", team="perception", day=20)  # a job that goes on
    books.billed("2026-05", "20", day=20, ResourceId="n1", SkuId="SKU2", InvoiceIssuerName="Other Inc.")
    books.close("2026-05")
    totals = {team: books.statement(team, "2026-05").total_usd for team in ("vision", "perception")}
    assert totals == {"vision": 10, "perception": 50}
