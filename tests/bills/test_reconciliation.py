"""What was billed beside what was metered: by resource, account, SKU and day, with causes."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from schemas.tables import ATTEMPTS, JOB_MINUTES, JOBS, META, NODE_MINUTES
from sinks.clickhouse import ClickHouseStore
from tests.bills.bill import line, loaded, written
from tests.sinks.rows import dicts, instant, rows

MINUTE = instant("2026-03-01 10:00")


def metered(
    store: ClickHouseStore, *values: Mapping[str, Any], labels: Mapping[str, dict[str, str]] | None = None
) -> None:
    """Rows of jobs."""
    names = {str(each.get("job_id", "j")) for each in values}
    lines = [{"minute": MINUTE, "sku": "SKU1", "quantity": 1, **each} for each in values]
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *lines), "rows")
    store.insert(
        JOBS,
        rows(
            JOBS, *({"job_id": name, "labels": list((labels or {}).get(name, {}).items())} for name in names)
        ),
        "jobs",
    )
    store.insert(
        ATTEMPTS, rows(ATTEMPTS, *({"job_id": name, "account": "acct"} for name in names)), "attempts"
    )


def billed(store: ClickHouseStore, tmp_path: Path, *lines: Mapping[str, str]) -> None:
    loaded(store, written(tmp_path / "f.csv", *lines))


def reconciled(store: ClickHouseStore) -> list[dict[str, Any]]:
    return dicts(store, "SELECT * FROM bill_reconciliation ORDER BY day, account, resource, sku")


def only(store: ClickHouseStore) -> dict[str, Any]:
    (row,) = reconciled(store)
    return row


def test_both_sides_meet(store: ClickHouseStore, tmp_path: Path) -> None:
    metered(store, {"node": "n1", "cost_usd": Decimal("1.5")})
    billed(store, tmp_path, line())
    assert only(store) == {
        "day": MINUTE.date(),
        "account": "acct",
        "resource": "n1",
        "sku": "SKU1",
        "metered_usd": Decimal("1.5"),
        "billed_usd": Decimal("1.5"),
        "correction_usd": 0,
        "list_usd": Decimal("1.5"),
        "variance_usd": 0,
        "variance_ratio": 0.0,
        "lines": 1,
        "correction_lines": 0,
        "status": "matched",
        "cost_state": "reconciled",
        "differs": 0,
        "causes": [],
    }


def test_one_side_alone(store: ClickHouseStore, tmp_path: Path) -> None:
    metered(store, {"node": "n9", "cost_usd": Decimal(2)})
    billed(store, tmp_path, line(Tags='{"Team": "vision"}'))
    found = {
        row["resource"]: (row["status"], row["cost_state"], row["variance_usd"], row["causes"])
        for row in reconciled(store)
    }
    assert found == {
        "n1": ("only_billed", "reconciled", Decimal("1.5"), []),
        "n9": ("only_metered", "provisional", Decimal(-2), []),
    }
    (day,) = dicts(store, "SELECT * EXCEPT day FROM cost_days")
    assert day == {
        "metered_usd": 2,
        "provisional_usd": 2,
        "billed_usd": Decimal("1.5"),
        "correction_usd": 0,
        "variance_usd": Decimal("-0.5"),
        "cost_state": "provisional",
    }


def test_a_day_is_reconciled_when_all_that_is_metered_stands_on_a_bill(
    store: ClickHouseStore, tmp_path: Path
) -> None:
    metered(store, {"node": "n1", "cost_usd": Decimal(2)})
    assert [row["cost_state"] for row in dicts(store, "SELECT * FROM cost_days")] == ["provisional"]
    assert [row["s"] for row in dicts(store, "SELECT x_CostState AS s FROM focus_charges")] == ["provisional"]
    billed(store, tmp_path, line())
    (day,) = dicts(store, "SELECT cost_state, metered_usd, billed_usd FROM cost_days")
    assert day == {"cost_state": "reconciled", "metered_usd": 2, "billed_usd": Decimal("1.5")}
    assert [row["s"] for row in dicts(store, "SELECT x_CostState AS s FROM focus_charges")] == ["reconciled"]


@pytest.mark.parametrize(
    ("tags", "resource_id", "labels"),
    [
        ("NULL", "n1", {}),
        ('{"trainfare_node": "n1"}', "i-0123", {}),
        ('{"trainfare_job": "j"}', "i-0123", {}),
        ("NULL", "bucket", {"resource_id": "bucket"}),
    ],
)
def test_keys_of_the_join(
    tags: str, resource_id: str, labels: dict[str, str], store: ClickHouseStore, tmp_path: Path
) -> None:
    node = "n1" if "n1" in tags + resource_id else ""
    component = "gpu" if node else "storage"
    metered(store, {"node": node, "component": component, "cost_usd": Decimal("1.5")}, labels={"j": labels})
    billed(store, tmp_path, line(Tags=tags, ResourceId=resource_id))
    assert [(row["status"], row["variance_usd"]) for row in reconciled(store)] == [("matched", 0)]


def test_an_sku_that_is_not_on_the_bill_stands_beside_the_largest_of_its_resource(
    store: ClickHouseStore, tmp_path: Path
) -> None:
    metered(
        store,
        {"node": "n1", "sku": "h100", "cost_usd": Decimal(2)},
        {"node": "n1", "sku": "DISK", "cost_usd": Decimal("0.5")},
    )
    billed(store, tmp_path, line(), line(SkuId="DISK", BilledCost="0.5"), line(SkuId="IP", BilledCost="0.1"))
    found = {row["sku"]: (row["metered_usd"], row["status"]) for row in reconciled(store)}
    assert found == {"SKU1": (2, "matched"), "DISK": (Decimal("0.5"), "matched"), "IP": (0, "only_billed")}


def test_a_node_with_events_is_compared_as_a_whole(store: ClickHouseStore, tmp_path: Path) -> None:
    metered(
        store,
        {"node": "n1", "cost_usd": Decimal(1)},
        {"node": "n1", "component": "license", "cost_usd": Decimal(9)},
    )
    store.insert(
        NODE_MINUTES,
        rows(NODE_MINUTES, {"node": "n1", "minute": MINUTE, "quantity": 1, "cost_usd": Decimal("1.5")}),
        "n",
    )
    billed(store, tmp_path, line(SubAccountId="sub"))
    row = only(store)
    assert (row["account"], row["metered_usd"], row["status"]) == ("sub", Decimal("1.5"), "matched")


def test_digits_below_a_nano_dollar_are_no_variance(store: ClickHouseStore, tmp_path: Path) -> None:
    metered(store, {"node": "n1", "cost_usd": Decimal("1.000000001")})
    billed(store, tmp_path, line(BilledCost="1.00000000049"))
    row = only(store)
    assert (row["variance_usd"], row["differs"], row["billed_usd"]) == (
        Decimal("-0.000000001"),
        0,
        Decimal("1.00000000049"),
    )


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ([line(BilledCost="1.2")], "discount"),
        ([line(BilledCost="0", CommitmentDiscountId="sp-1")], "commitment"),
        (
            [
                line(BilledCost="1", ListCost="1", ListUnitPrice="1"),
                line(BilledCost="0.4", ListCost="0.4", ListUnitPrice="0.8"),
            ],
            "tier",
        ),
        ([line(BilledCost="0", ListCost="0", ListUnitPrice="0")], "tier"),
        ([line(), line(BilledCost="-0.5", ChargeCategory="Credit")], "credit"),
        ([line(), line(BilledCost="0.3", ChargeCategory="Tax")], "tax"),
        ([line(), line(ChargeClass="Correction", BilledCost="-0.5")], "late_line"),
        ([line(BillingPeriodStart="2026-04-01", BillingPeriodEnd="2026-05-01")], "late_line"),
        ([line(), line()], "double_count"),
    ],
)
def test_causes_of_what_meets(
    lines: list[dict[str, str]], cause: str, store: ClickHouseStore, tmp_path: Path
) -> None:
    keys = {key for each in lines for key in each}
    usual = {"CommitmentDiscountId": "NULL", "ListUnitPrice": "1.5", "SubAccountId": "NULL"}
    metered(store, {"node": "n1", "cost_usd": Decimal("1.5")})
    billed(store, tmp_path, *({**{key: usual[key] for key in keys & usual.keys()}, **each} for each in lines))
    row = only(store)
    assert row["causes"] == [cause]
    assert row["status"] == "matched"


@pytest.mark.parametrize(
    ("values", "causes"),
    [
        ({"Tags": "NULL"}, ["missing_tag"]),
        ({"Tags": '{"environment": "prod"}'}, ["missing_tag"]),
        ({"Tags": '{"Owner": "ada"}'}, []),
        ({"ResourceId": "NULL"}, ["unattributed"]),
        ({"ResourceId": "NULL", "Tags": '{"project": "x"}'}, []),
    ],
)
def test_causes_of_what_is_only_billed(
    values: dict[str, str], causes: list[str], store: ClickHouseStore, tmp_path: Path
) -> None:
    billed(store, tmp_path, line(**values))
    assert only(store)["causes"] == causes


def test_two_jobs_that_claim_one_resource(store: ClickHouseStore, tmp_path: Path) -> None:
    both = [{"node": "n1", "job_id": name, "cost_usd": Decimal("1.5")} for name in ("j", "k")]
    metered(store, *both)
    billed(store, tmp_path, line())
    assert (only(store)["causes"], only(store)["variance_usd"]) == (["double_count"], Decimal("-1.5"))


def test_two_jobs_one_after_the_other_are_no_double_count(store: ClickHouseStore, tmp_path: Path) -> None:
    later = instant("2026-03-01 10:01")
    metered(
        store,
        *(
            {"node": "n1", "job_id": name, "minute": at, "cost_usd": Decimal("1.5")}
            for name, at in (("j", MINUTE), ("k", later))
        ),
    )
    billed(store, tmp_path, line())
    assert only(store)["causes"] == []


def test_lines_that_differ_in_one_column_are_no_copies(store: ClickHouseStore, tmp_path: Path) -> None:
    others = {
        "ResourceId": "n2",
        "PricingQuantity": "NULL",
        "Tags": '{"a": "b"}',
        "ChargeDescription": "other",
        "BilledCost": "2",
    }
    billed(store, tmp_path, line(), *(line(**{name: value}) for name, value in others.items()))
    assert dicts(store, "SELECT DISTINCT copies FROM billed_lines") == [{"copies": 1}]


def test_a_copy_in_another_file_is_found(store: ClickHouseStore, tmp_path: Path) -> None:
    loaded(store, written(tmp_path / "f.csv", line()))
    loaded(store, written(tmp_path / "o.csv", line(InvoiceIssuerName="Reseller", Id="7")))
    assert "double_count" in only(store)["causes"]


def test_another_currency_is_never_added(store: ClickHouseStore, tmp_path: Path) -> None:
    billed(store, tmp_path, line(), line(ResourceId="n2", BillingCurrency="EUR", BilledCost="99"))
    assert [row["resource"] for row in reconciled(store)] == ["n1"]
    (kept,) = dicts(store, "SELECT billed_cost FROM billed_lines WHERE billing_currency != 'USD'")
    assert kept == {"billed_cost": 99}
    (row,) = dicts(store, "SELECT other_currency_lines, billed_usd FROM bill_loads")
    assert row == {"other_currency_lines": 1, "billed_usd": Decimal("1.5")}


def test_instance_time_of_a_node_that_is_paid_so_counts_once(store: ClickHouseStore, tmp_path: Path) -> None:
    job = {"node": "n1", "component": "compute", "unit": "instance_milli_ms", "cost_usd": Decimal(1)}
    metered(store, job, {**job, "node": ""}, {**job, "unit": "ms", "node": ""})
    node = {
        "node": "n1",
        "minute": MINUTE,
        "quantity": 1,
        "cost_usd": Decimal("1.5"),
        "unit": "instance_milli_ms",
        "sku": "m7",
    }
    store.insert(NODE_MINUTES, rows(NODE_MINUTES, node), "n")
    found = dicts(store, "SELECT resource, metered_usd FROM metered_days ORDER BY resource")
    assert found == [{"resource": "j", "metered_usd": 2}, {"resource": "n1", "metered_usd": Decimal("1.5")}]


@pytest.mark.parametrize(
    "held", [{"component": "gpu"}, {"component": "compute", "unit": "instance_milli_ms"}]
)
def test_what_a_job_pays_on_a_node_without_a_price_counts(
    store: ClickHouseStore, tmp_path: Path, held: dict[str, str]
) -> None:
    metered(store, {"node": "n1", "cost_usd": Decimal(1), **held})
    node = {"node": "n1", "minute": MINUTE, "quantity": 1, "unit": "instance_milli_ms"}
    store.insert(NODE_MINUTES, rows(NODE_MINUTES, node), "n")
    assert dicts(store, "SELECT sum(metered_usd) AS usd FROM metered_days") == [{"usd": 1}]
    assert dicts(store, "SELECT overcommitted_cost_usd AS usd FROM node_balance") == [{"usd": 0}]


@pytest.mark.parametrize(("kept_from", "shown"), [("202603", 1), ("202604", 0)])
def test_a_month_whose_minutes_were_dropped_is_not_compared(
    kept_from: str, shown: int, store: ClickHouseStore, tmp_path: Path
) -> None:
    billed(store, tmp_path, line())
    store.insert(META, rows(META, {"key": "minutes_kept_from", "value": kept_from}), "m")
    assert len(reconciled(store)) == shown
    assert len(dicts(store, "SELECT * FROM billed_days")) == 1
