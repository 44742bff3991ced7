"""Two accounts may each have a resource of one name: a line is of its account's alone."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from schemas.tables import ATTEMPTS, JOB_MINUTES, JOBS, NODE_HOURS, NODE_MINUTES
from sinks.clickhouse import ClickHouseStore
from tests.bills.bill import line, loaded, written
from tests.sinks.rows import MINUTE, dicts, rows

HOUR = MINUTE.replace(minute=0)


def billed(store: ClickHouseStore, tmp_path: Path, *of: tuple[str, str, str]) -> None:
    """Lines of `i-1`, as (account, SKU, dollars)."""
    lines = [
        line(ResourceId="i-1", SubAccountId=account, SkuId=sku, BilledCost=usd) for account, sku, usd in of
    ]
    loaded(store, written(tmp_path / "f.csv", *lines))


def job(store: ClickHouseStore, *accounts: str) -> None:
    """A job of $1 on `i-1` in each account."""
    ids = [{"job_id": f"job-{account}"} for account in accounts]
    paid = {"minute": MINUTE, "node": "i-1", "sku": "SKU1", "quantity": 1, "cost_usd": Decimal(1)}
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *({**paid, **each} for each in ids)), "rows")
    store.insert(JOBS, rows(JOBS, *ids), "jobs")
    attempts = ({**each, "account": account} for each, account in zip(ids, accounts, strict=True))
    store.insert(ATTEMPTS, rows(ATTEMPTS, *attempts), "attempts")


def node(store: ClickHouseStore, account: str) -> None:
    """The node `i-1`, of $3."""
    paid = {"node": "i-1", "cost_usd": Decimal(3)}
    hour = {**paid, "hour": HOUR, "paid_ms": 3_600_000, "gpu_milli_ms": 1, "account": account}
    store.insert(NODE_HOURS, rows(NODE_HOURS, hour), "hours")
    minute = {**paid, "minute": MINUTE, "quantity": 1, "sku": "SKU1", "unit": "gpu_milli_ms"}
    store.insert(NODE_MINUTES, rows(NODE_MINUTES, minute), "minutes")


def states(store: ClickHouseStore) -> dict[str, str]:
    found = dicts(store, "SELECT x_JobId AS job, x_CostState AS state FROM focus_charges")
    return {each["job"]: each["state"] for each in found}


def sides(store: ClickHouseStore) -> list[tuple[object, ...]]:
    sql = "SELECT account, sku, metered_usd AS m, billed_usd AS b, status FROM bill_reconciliation ORDER BY account, sku"
    return [tuple(each.values()) for each in dicts(store, sql)]


def test_a_bill_of_one_account_says_nothing_of_the_other(store: ClickHouseStore, tmp_path: Path) -> None:
    job(store, "one", "two")
    billed(store, tmp_path, ("two", "SKU1", "1"))
    assert states(store) == {"job-one": "provisional", "job-two": "reconciled"}
    assert sides(store) == [("one", "SKU1", 1, 0, "only_metered"), ("two", "SKU1", 1, 1, "matched")]


def test_what_a_node_costs_is_of_its_account(store: ClickHouseStore, tmp_path: Path) -> None:
    """Not of that under which a node of the same name was billed more, nor under an SKU of that."""
    node(store, "two")
    billed(store, tmp_path, ("one", "SKU9", "70"), ("two", "SKU2", "3"))
    assert sides(store) == [("one", "SKU9", 0, 70, "only_billed"), ("two", "SKU2", 3, 3, "matched")]


@pytest.mark.parametrize(
    ("of_node", "of_bill", "state"),
    [
        ("two", "two", "reconciled"),
        ("two", "one", "provisional"),
        ("", "one", "reconciled"),  # nothing says another
    ],
)
def test_a_job_without_an_account_has_its_nodes(
    store: ClickHouseStore, tmp_path: Path, of_node: str, of_bill: str, state: str
) -> None:
    job(store, "")
    node(store, of_node)
    billed(store, tmp_path, (of_bill, "SKU1", "1"))
    assert states(store) == {"job-": state}


@pytest.mark.parametrize(
    ("of_node", "lines", "usd"),
    [
        ("two", [("one", "S", "70"), ("two", "S", "3")], Decimal(3)),
        ("two", [("one", "S", "70")], None),
        # Without an account: that under which it was billed most.
        ("", [("one", "S", "70"), ("two", "S", "3")], Decimal(70)),
    ],
)
def test_m3_has_what_bills_say_of_nodes_in_their_account(
    store: ClickHouseStore, tmp_path: Path, of_node: str, lines: list[tuple[str, str, str]], usd: object
) -> None:
    node(store, of_node)
    billed(store, tmp_path, *lines)
    assert dicts(store, "SELECT bill_usd FROM m3_unallocated_ratio") == [{"bill_usd": usd}]
