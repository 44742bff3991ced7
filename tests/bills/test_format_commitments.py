"""What is paid for before it is used: cash on its purchase, amortised cost on use, and on what is not used."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore
from streams.errors import WrongUseError
from tests.bills.exports import BILLS, Bill, aws_legacy, azure_ea, azure_mca, csv_text, gcp_records
from tests.bills.test_formats import loaded
from tests.sinks.rows import dicts

SUMS = "SELECT sum(billed_cost) AS billed, sum(effective_cost) AS effective FROM billed_lines"
LINES = """
SELECT l.charge_category AS category, l.commitment_discount_status AS status, l.billed_cost AS billed,
    l.effective_cost AS effective, l.commitment_discount_id AS id
FROM billed_lines AS l ORDER BY l.line
"""


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def shown(store: ClickHouseStore) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in dicts(store, LINES)]


def test_savings_plans_and_reservations_of_aws(store: ClickHouseStore, tmp_path: Path) -> None:
    """Its negations are no charges, and what a fee does not use is a charge of its own."""
    (usage,) = rows_of(aws_legacy([Bill("node-1", "10")]))
    plan = {"savingsPlan/SavingsPlanARN": "arn:plan"}
    reserved = {"reservation/ReservationARN": "arn:reserved"}
    kind, cost = "lineItem/LineItemType", "lineItem/UnblendedCost"
    rows = [
        usage,
        usage | plan | {kind: "SavingsPlanCoveredUsage", "savingsPlan/SavingsPlanEffectiveCost": "6.5"},
        usage | plan | {kind: "SavingsPlanNegation", cost: "-10"},
        usage
        | plan
        | {
            kind: "SavingsPlanRecurringFee",
            cost: "8",
            "savingsPlan/TotalCommitmentToDate": "8",
            "savingsPlan/UsedCommitment": "6.5",
        },
        usage | reserved | {kind: "DiscountedUsage", cost: "0", "reservation/EffectiveCost": "2.25"},
        usage
        | reserved
        | {
            kind: "RIFee",
            cost: "3",
            "reservation/UnusedAmortizedUpfrontFeeForBillingPeriod": "0.5",
            "reservation/UnusedRecurringFee": "0.25",
        },
        usage | reserved | {kind: "Fee", cost: "100"},
        usage | {kind: "Fee", cost: "29", "lineItem/ProductCode": "AWSSupport"},
        usage | {kind: "EdpDiscount", cost: "-1"},
        usage | {kind: "Credit", cost: "-2"},
        usage | {kind: "Tax", cost: "1.9"},
        usage | {kind: "Gift", cost: "0.1"},
    ]
    path = tmp_path / "f.csv"
    path.write_text(csv_text(rows), encoding="utf-8")
    (found,) = loaded(store, path)
    assert shown(store) == [
        ("Usage", "", 10, 10, ""),
        ("Usage", "Used", 0, Decimal("6.5"), "arn:plan"),
        ("Purchase", "", 8, 0, "arn:plan"),
        ("Usage", "Unused", 0, Decimal("1.5"), "arn:plan"),
        ("Usage", "Used", 0, Decimal("2.25"), "arn:reserved"),
        ("Purchase", "", 3, 0, "arn:reserved"),
        ("Usage", "Unused", 0, Decimal("0.75"), "arn:reserved"),
        ("Purchase", "", 100, 0, "arn:reserved"),
        ("Purchase", "", 29, 29, ""),
        ("Adjustment", "", -1, -1, ""),
        ("Credit", "", -2, -2, ""),
        ("Tax", "", Decimal("1.9"), Decimal("1.9"), ""),
        ("Adjustment", "", Decimal("0.1"), Decimal("0.1"), ""),
    ]
    # To the last digit the cash of the report: its unblended costs.
    (sums,) = dicts(store, SUMS)
    assert sums["billed"] == sum(Decimal(row[cost]) for row in rows)
    assert found.notes == [
        "1 line of the unknown type 'Gift': taken for adjustments",
        "1 line of type SavingsPlanNegation, which takes back the price of covered usage: no charge",
    ]


def test_negations_that_do_not_meet_their_usage_are_named(store: ClickHouseStore, tmp_path: Path) -> None:
    (usage,) = rows_of(aws_legacy([Bill("node-1", "10")]))
    kind = "lineItem/LineItemType"
    rows = [
        usage | {kind: "SavingsPlanCoveredUsage", "savingsPlan/SavingsPlanEffectiveCost": "6.5"},
        usage | {kind: "SavingsPlanNegation", "lineItem/UnblendedCost": "-9.5"},
    ]
    path = tmp_path / "f.csv"
    path.write_text(csv_text(rows), encoding="utf-8")
    (found,) = loaded(store, path)
    assert found.notes[-1] == "covered usage and what takes its price back differ by 0.5"


def azure_export(tmp_path: Path, name: str, *, is_amortized: bool) -> Path:
    """A day of covered use and another charge, in both of Azure's kinds of export."""
    write = {"ea": azure_ea, "mca": azure_mca}[name]
    other, covered, unused, bought = rows_of(write([Bill(f"node-{number}", "5") for number in range(4)]))
    names = {each.lower(): each for each in other}

    def changed(row: dict[str, str], **values: str) -> dict[str, str]:
        return row | {names[key]: text for key, text in values.items()}

    reserved = {"pricingmodel": "Reservation", "reservationid": "r-1"}
    covered = changed(covered, **reserved, costinbillingcurrency="3" if is_amortized else "0")
    rows = [other, covered]
    if is_amortized:
        rows.append(changed(unused, **reserved, chargetype="UnusedReservation", costinbillingcurrency="1.5"))
    else:
        rows.append(
            changed(
                bought, **reserved, chargetype="Purchase", frequency="OneTime", costinbillingcurrency="90"
            )
        )
    path = tmp_path / f"{name}-{'amortized' if is_amortized else 'actual'}.csv"
    path.write_text(csv_text(rows), encoding="utf-8")
    return path


def test_actual_and_amortized_of_azure_differ_by_lines_of_commitments_alone(
    store: ClickHouseStore, tmp_path: Path
) -> None:
    for name in ("ea", "mca"):
        (actual,) = loaded(store, azure_export(tmp_path, name, is_amortized=False), replace=True)
        assert shown(store) == [
            ("Usage", "", 5, 5, ""),
            ("Usage", "Used", 0, 0, "r-1"),
            ("Purchase", "", 90, 0, "r-1"),
        ]
        (amortized,) = loaded(store, azure_export(tmp_path, name, is_amortized=True), replace=True)
        assert shown(store) == [
            ("Usage", "", 5, 5, ""),
            ("Usage", "Used", 0, 3, "r-1"),
            ("Usage", "Unused", 0, Decimal("1.5"), "r-1"),
        ]
        columns = "* EXCEPT (load_id, line, other, version)"
        differing = dicts(
            store,
            f"SELECT commitment_discount_id AS id, count() AS lines FROM (SELECT {columns} FROM bill_lines FINAL "
            f"WHERE load_id IN ('{actual.load_id}', '{amortized.load_id}')) GROUP BY ALL ORDER BY id".replace(
                "GROUP BY ALL", "GROUP BY id"
            ),
        )
        assert differing == [{"id": "", "lines": 2}, {"id": "r-1", "lines": 4}]
        assert actual.notes == [
            (
                "2 lines of commitments as the actual export has them: covered usage has no effective cost; "
                "for it load the amortized export"
            )
        ]
        assert amortized.notes[0].startswith("2 lines of commitments as the amortized export has them")


def test_credits_of_google_that_are_a_lower_price_stay_in_it(store: ClickHouseStore, tmp_path: Path) -> None:
    (record,) = gcp_records([Bill("node-1", "10")])
    credits_ = [
        {"name": "sud", "type": "SUSTAINED_USAGE_DISCOUNT", "amount": "-0.125"},
        {"name": "start", "full_name": "Start of a year", "type": "PROMOTION", "amount": -4},
    ]
    covered = record | {
        "credits": [{"name": "cud", "type": "COMMITTED_USAGE_DISCOUNT", "amount": "-10"}],
        "subscription": {"instance_id": "c-1"},
    }
    path = tmp_path / "f.jsonl"
    path.write_text(
        "".join(json.dumps(each) + "\n" for each in (record | {"credits": credits_}, covered)),
        encoding="utf-8",
    )
    loaded(store, path)
    billed = Decimal("9.875")
    assert shown(store) == [
        ("Usage", "", billed, billed, ""),
        ("Credit", "", -4, -4, ""),
        ("Usage", "Used", 0, 0, "c-1"),
    ]
    (numbers,) = dicts(
        store, "SELECT groupArray(line) AS lines FROM (SELECT line FROM bill_lines ORDER BY line)"
    )
    assert numbers["lines"] == [1, 2, 3], "no two charges have one number"


def test_spend_based_commitments_of_google(store: ClickHouseStore, tmp_path: Path) -> None:
    """Since 2025 usage has its lower price, and the fee a credit of what usage took of it: the rest is what nothing used."""
    (record,) = gcp_records([Bill("node-1", "10")])
    fee = record | {
        "sku": {"id": "F", "description": "Commitment - dollar based v1: Compute Flexible for 1 year"},
        "cost": "7.2",
        "cost_at_list": "7.2",
        "subscription": {"instance_id": "c-2"},
        "credits": [{"name": "Fee utilization", "type": "FEE_UTILIZATION_OFFSET", "amount": "-6"}],
        "consumption_model": {"id": "7754-699E-0EBF", "description": "Default"},
    }
    covered = record | {
        "cost": "6",
        "consumption_model": {"id": "D97B", "description": "Flexible CUDs 1 Year"},
    }
    resource = record | {
        "credits": [
            {"name": "Committed Usage Discount: CPU", "type": "COMMITTED_USAGE_DISCOUNT", "amount": -10}
        ],
        "consumption_model": None,
    }
    usual = record | {"consumption_model": {"id": "7754-699E-0EBF", "description": "Default"}}
    path = tmp_path / "f.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in (fee, covered, resource, usual)))
    loaded(store, path)
    unused = Decimal("1.2")
    assert shown(store) == [
        ("Usage", "Unused", unused, unused, "c-2"),
        ("Usage", "Used", 6, 6, "Flexible CUDs 1 Year"),
        ("Usage", "Used", 0, 0, "Committed Usage Discount: CPU"),
        ("Usage", "", 10, 10, ""),
    ]
    # At list prices usage stands once, and no fee.
    assert dicts(store, "SELECT sum(list_cost) AS usd FROM billed_lines") == [{"usd": 30}]


def test_a_licence_of_a_year_is_amortised_by_days(store: ClickHouseStore, tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text(
        "vendor,product,seats,period_start,period_end,usd,invoice,team\n"
        "Tracker Ltd.,Experiment tracker,25,2026-10-15,2027-10-14,1000,INV-7,vision\n",
        encoding="utf-8",
    )
    (found,) = loaded(store, path)
    assert found.title == "licence invoice"
    months = dicts(
        store,
        "SELECT billing_period_start AS month, billed_cost AS billed, effective_cost AS effective, consumed_quantity AS seats, "
        "dateDiff('day', charge_period_start, charge_period_end) AS days FROM billed_lines ORDER BY line",
    )
    assert len(months) == 13
    assert [row["days"] for row in months][:3] == [17, 30, 31]
    assert sum(row["days"] for row in months) == 365
    assert [row["billed"] for row in months] == [1000, *[0] * 12]
    assert sum(row["effective"] for row in months) == 1000
    assert all(abs(row["effective"] - Decimal(1000) * row["days"] / 365) < Decimal("1e-17") for row in months)
    assert {row["seats"] for row in months} == {25}


def test_a_plain_list_has_days_months_and_an_issuer(store: ClickHouseStore, tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text(
        "Date,Resource,USD,Job\n2026-10-03,gpu-7,12.5,job-1\n2026-10,rack-2,3100,\n", encoding="utf-8"
    )
    (found,) = loaded(store, path)
    assert [key.invoice_issuer_name for key in found.periods] == ["invoice"]
    rows = dicts(
        store,
        "SELECT resource, billed_cost AS billed, dateDiff('day', charge_period_start, charge_period_end) AS days FROM billed_lines "
        "ORDER BY line",
    )
    assert rows == [
        {"resource": "job-1", "billed": Decimal("12.5"), "days": 1},
        {"resource": "rack-2", "billed": 3100, "days": 31},
    ]


def test_a_late_line_of_a_plain_list_is_a_correction(store: ClickHouseStore, tmp_path: Path) -> None:
    bill, late = tmp_path / "bill.csv", tmp_path / "late.csv"
    bill.write_text("date,resource,usd\n2026-10-03,gpu-7,12.5\n", encoding="utf-8")
    loaded(store, bill)
    late.write_text("date,resource,usd,category\n2026-10-20,gpu-7,3,\n", encoding="utf-8")
    with pytest.raises(WrongUseError, match=r"is loaded already.*loaded beside it as corrections"):
        loaded(store, late)
    late.write_text("date,resource,usd,category\n2026-10-20,gpu-7,3,Correction\n", encoding="utf-8")
    loaded(store, late)
    rows = dicts(
        store,
        "SELECT toString(charge_category) AS category, is_correction, billed_usd AS usd FROM billed_lines ORDER BY billed_usd",
    )
    assert rows == [
        {"category": "Adjustment", "is_correction": 1, "usd": 3},
        {"category": "Usage", "is_correction": 0, "usd": Decimal("12.5")},
    ]


def test_the_sum_of_large_amounts_has_every_digit(store: ClickHouseStore, tmp_path: Path) -> None:
    """They have more digits than Python's decimals usually keep."""
    bills = [BILLS[0]._replace(cost="999999999999999.123456789012345678"), BILLS[1]._replace(cost="0.1")]
    path = tmp_path / "f.csv"
    path.write_text(aws_legacy(bills), encoding="utf-8")
    (found,) = loaded(store, path)
    (sums,) = found.periods.values()
    assert f"{sums.billed_usd:f}" == "999999999999999.223456789012345678"


@pytest.mark.parametrize("written_as", ["{}", "{}T00:00:00+02:00", "{}T23:30:00-05:00", "{} 00:00:00 UTC"])
@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("date,resource,usd", "{first},gpu-7,3\n{last},gpu-7,4"),
        ("vendor,product,seats,period_start,period_end,usd", "Tracker Ltd.,Tracker,25,{first},{last},31"),
    ],
)
def test_a_day_of_a_list_is_the_one_that_is_written(
    store: ClickHouseStore, tmp_path: Path, header: str, row: str, written_as: str
) -> None:
    path = tmp_path / "f.csv"
    first, last = (written_as.format(day) for day in ("2025-10-01", "2025-10-31"))
    path.write_text(f"{header}\n{row.format(first=first, last=last)}\n", encoding="utf-8")
    loaded(store, path)
    days = dicts(
        store,
        "SELECT toString(min(charge_period_start)) AS first, toString(max(charge_period_end)) AS until, "
        "groupUniqArray(toString(toDate(billing_period_start))) AS months FROM billed_lines",
    )
    assert days == [
        {"first": "2025-10-01 00:00:00", "until": "2025-11-01 00:00:00", "months": ["2025-10-01"]}
    ]
