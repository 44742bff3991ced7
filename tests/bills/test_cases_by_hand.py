"""Cases of a month that finance people know: each bill by hand, beside the sums that it must come to."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from schemas.bill_tables import FX_RATES
from sinks.clickhouse import ClickHouseStore
from streams.bills.reading import AskedFormat
from streams.costs.charge_sql import BillCost
from streams.costs.charging import Charged, Rules, charges, total
from streams.costs.month_reader import MonthReader
from streams.costs.month_store import OpenMonthStore
from tests.bills.bill import line, written
from tests.bills.exports import MONTH, MONTH_END, Bill, aws_legacy, csv_text
from tests.bills.test_closing import Books, with_may
from tests.bills.test_format_commitments import rows_of
from tests.bills.test_formats import loaded
from tests.sinks.rows import rows

COSTS = ("BilledCost", "EffectiveCost", "ListCost")
OCTOBER = {"first": f"{MONTH}", "until": f"{MONTH_END}"}


@pytest.fixture
def books(store: ClickHouseStore, tmp_path: Path) -> Books:
    return Books(store, tmp_path)


def charged(
    books: Books, cost: BillCost = BillCost.effective
) -> tuple[dict[str, Decimal], Charged, MonthReader]:
    """What each row of October is charged, by team, or else by account and kind."""
    reader = MonthReader(OpenMonthStore(books.store), OCTOBER, ("team",), cost)
    found = charges(reader.month(), Rules())
    named = {
        (*row.names, row.account, row.kind)[0] or f"{row.account} {row.kind}": row.charge_usd
        for row in found.rows
    }
    assert len(named) == len(found.rows)
    return named, found, reader


def test_a_refund_of_a_closed_month_is_charged_to_who_had_paid(books: Books) -> None:
    """On the bill of June, for the third of May: of $36, vision had paid 30 / 40 and speech 10 / 40."""
    with_may(books)
    before = [books.statement(team, "2026-05").record() for team in ("vision", "speech")]
    books.used("c", "2026-06", "5", team="vision")
    june = {"BillingPeriodStart": "2026-06-01", "BillingPeriodEnd": "2026-07-01", "BillingAccountId": "A1", "ProviderName": "AWS"}  # fmt: skip
    usage = {"ChargePeriodStart": "2026-06-03", "ChargePeriodEnd": "2026-06-04"}
    refund = {"ChargePeriodStart": "2026-05-03", "ChargePeriodEnd": "2026-05-04", "ChargeCategory": "Adjustment"}  # fmt: skip
    path = written(
        books.folder / "june.csv",
        line(**june, **usage, **dict.fromkeys(COSTS, "6")),
        line(**june, **refund, **dict.fromkeys(COSTS, "-4")),
    )
    loaded(books.store, path, now_ms=books.now_ms)
    books.close("2026-06")
    assert books.statement("vision", "2026-06").total_usd == Decimal(6) - 3
    assert books.statement("speech", "2026-06").total_usd == Decimal(-1)
    assert books.charged("2026-06") == Decimal(6) - 4
    assert [books.statement(team, "2026-05").record() for team in ("vision", "speech")] == before
    assert books.verified("2026-05").faults == []


def test_a_savings_plan_over_several_accounts_is_paid_where_it_is_used(books: Books) -> None:
    """Of a plan of $12 in the payer's account, node-1 in A1 uses 6.5 and node-2 in A2 3.1; 2.4 nobody used."""
    kind, cost = "lineItem/LineItemType", "lineItem/UnblendedCost"
    plan = {"savingsPlan/SavingsPlanARN": "arn:plan"}

    def covered(node: str, account: str, on_demand: str, effective: str) -> list[dict[str, str]]:
        (usage,) = rows_of(aws_legacy([Bill(node, on_demand, day=3, account=account)]))
        return [
            usage
            | plan
            | {kind: "SavingsPlanCoveredUsage", "savingsPlan/SavingsPlanEffectiveCost": effective},
            usage | plan | {kind: "SavingsPlanNegation", cost: f"-{on_demand}"},
        ]

    (fee,) = rows_of(aws_legacy([Bill("", "12", day=3, account="payer")]))
    fee |= plan | {
        kind: "SavingsPlanRecurringFee",
        "savingsPlan/TotalCommitmentToDate": "12",
        "savingsPlan/UsedCommitment": "9.6",
    }
    path = books.folder / "cur.csv"
    path.write_text(
        csv_text([*covered("n1", "A1", "10", "6.5"), *covered("n2", "A2", "5", "3.1"), fee]), encoding="utf-8"
    )
    loaded(books.store, path, now_ms=books.now_ms)
    books.used("a", "2026-10", "9", team="vision")
    books.used("b", "2026-10", "4", team="speech", node="n2", account="A2")
    rows_, found, reader = charged(books)
    assert rows_ == {
        "vision": Decimal("6.5"),
        "speech": Decimal("3.1"),
        "payer unallocated": Decimal("2.4"),
    }
    assert total(found.rows, "billed_usd") == 12
    assert (reader.bills.commitments, reader.bills.commitments_usd) == (1, Decimal(12))
    cash, found, _ = charged(books, BillCost.billed)
    assert cash == {"payer unallocated": Decimal(12), "vision": 0, "speech": 0}
    assert total(found.rows, "billed_usd") == 12


def rates(books: Books, **dollars: str) -> None:
    """Rates of Friday, 2 October 2026, in dollars for one unit."""
    friday = {"day": datetime(2026, 10, 2, tzinfo=UTC), "units": Decimal(1)}
    given = [{**friday, "currency": name, "dollars": Decimal(usd)} for name, usd in dollars.items()]
    books.store.insert(FX_RATES, rows(FX_RATES, *given), "rates")


def test_a_bill_with_values_in_three_currencies_is_charged_in_dollars(books: Books) -> None:
    """100 EUR at 1.10, 1,001 JPY at 0.0067 and $50: 110 + 6.7067 + 50; Francs without a rate are charged to nobody."""
    rates(books, EUR="1.1", JPY="0.0067")
    books.used("a", "2026-10", "30")
    books.used("b", "2026-10", "10", team="speech")
    period = {"BillingPeriodStart": "2026-10-01", "BillingPeriodEnd": "2026-11-01", "BillingAccountId": "A1", "ProviderName": "AWS"}  # fmt: skip
    on = {"ChargePeriodStart": "2026-10-03", "ChargePeriodEnd": "2026-10-04"}
    amounts = (("EUR", "100"), ("JPY", "1001"), ("USD", "50"), ("CHF", "7.5"))
    path = written(
        books.folder / "three.csv",
        *(
            line(**period, **on, BillingCurrency=currency, BilledCost=units, EffectiveCost=units, ListCost=units)
            for currency, units in amounts
        ),
    )  # fmt: skip
    loaded(books.store, path, now_ms=books.now_ms)
    found, all_rows, reader = charged(books)
    of_line = [Decimal("110"), Decimal("6.7067"), Decimal("50")]
    assert found == {
        "vision": sum(each * 3 / 4 for each in of_line),
        "speech": sum(each / 4 for each in of_line),
    }
    assert total(all_rows.rows, "billed_usd") == sum(of_line)
    (left,) = reader.bills.unrated
    assert (left.currency, left.lines, left.amount) == ("CHF", 1, Decimal("7.5"))
    assert {each["billing_currency"]: each["amount_usd"] for each in reader.bills.converted} == {
        "EUR": of_line[0],
        "JPY": of_line[1],
    }


def test_a_weekend_has_the_rate_of_friday_unless_the_invoice_has_its_own(books: Books) -> None:
    """100 EUR of Saturday and of Sunday at Friday's 1.10, of Monday at 1.08; with the invoice's rate all at 0.8 euros a dollar."""
    rates(books, EUR="1.1")
    monday = {"currency": "EUR", "day": datetime(2026, 10, 5, tzinfo=UTC), "units": Decimal(1), "dollars": Decimal("1.08")}  # fmt: skip
    books.store.insert(FX_RATES, rows(FX_RATES, monday), "monday")
    for number, day in enumerate((3, 4, 5)):
        books.used(f"j{number}", "2026-10", "1", team=f"t{day}", day=day)
    cells = {"BillingPeriodStart": "2026-10-01", "BillingPeriodEnd": "2026-11-01", "BillingAccountId": "A1", "ProviderName": "AWS", "BillingCurrency": "EUR"}  # fmt: skip
    cells |= {"BilledCost": "100", "EffectiveCost": "100", "ListCost": "100"}
    path = written(
        books.folder / "weekend.csv",
        *(line(**cells, ChargePeriodStart=f"2026-10-0{day}", ChargePeriodEnd=f"2026-10-0{day + 1}") for day in (3, 4, 5)),
    )  # fmt: skip
    loaded(books.store, path, now_ms=books.now_ms)
    found, _, reader = charged(books)
    assert found == {"t3": Decimal(110), "t4": Decimal(110), "t5": Decimal(108)}
    (said,) = reader.bills.converted
    assert (said["first_day"], said["last_day"], said["of_invoice"]) == ("2026-10-02", "2026-10-05", 0)
    loaded(books.store, path, asked=AskedFormat(units_per_usd="0.8"), now_ms=books.now_ms + 1, replace=True)
    found, _, reader = charged(books)
    assert found == {"t3": Decimal(125), "t4": Decimal(125), "t5": Decimal(125)}
    (said,) = reader.bills.converted
    assert said["of_invoice"] == 3
