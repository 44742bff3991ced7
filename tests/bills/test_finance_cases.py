"""Cases of finance people, with the right answers, through the command."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import ROOT, trainfare

CASES = ROOT.parent / "shared" / "cases" / "finance"
#: An hour of a GPU in minutes that are each rounded to a nano-dollar.
TEN_HOURS = Decimal("10.0000002")

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason=f"{CASES} is absent")


def charged(
    folder: Path, events: str, bill: str, *words: str
) -> tuple[dict[str, Decimal], dict[str, Any], str]:
    """What each row is charged, the whole answer, and what was said beside it."""
    data = folder / "meter"
    if not data.exists():
        assert trainfare("replay", CASES / events, "--data", data).code == 0
        assert trainfare("bills", "load", CASES / bill, "--data", data).code == 0
    done = trainfare(
        "chargeback", "--data", data, "--month", "2026-05", "--by", "team", "--format", "json", *words
    )
    assert done.code == 0, done.err
    found = json.loads(done.out)
    rows = {row["team"] or row["service"] or row["kind"]: Decimal(row["charge_usd"]) for row in found["rows"]}
    assert sum(rows.values()) == Decimal(found["totals"]["charge_usd"])
    return rows, found, done.err


def test_a_bill_of_one_account_charges_nobody_else(tmp_path: Path) -> None:
    rows, found, _ = charged(tmp_path, "two.jsonl", "aws_only.csv")
    assert rows == {"vision": 8, "speech": TEN_HOURS, "Amazon RDS": 1000}
    (row,) = (row for row in found["rows"] if row["kind"] == "unallocated")
    assert (row["account"], row["provider"]) == ("A1", "AWS")
    shared, _, _ = charged(tmp_path, "two.jsonl", "aws_only.csv", "--share-unallocated", "weighted")
    assert shared == {"vision": 1008, "speech": TEN_HOURS}
    of_account, _, _ = charged(tmp_path, "two.jsonl", "aws_only.csv", "--where", "account=G1")
    assert of_account == {"speech": TEN_HOURS}


def test_labour_moves_no_bill(tmp_path: Path) -> None:
    rows, found, _ = charged(tmp_path, "lab.jsonl", "lab.csv")
    assert rows == {"vision": 132, "speech": 12}
    (vision,) = (row for row in found["rows"] if row["team"] == "vision")
    assert [Decimal(vision[name]) for name in ("billed_usd", "labor_cost_usd")] == [Decimal(12), Decimal(120)]


def test_a_commitment_is_charged_where_it_is_used(tmp_path: Path) -> None:
    rows, found, said = charged(tmp_path, "oc.jsonl", "commit.csv")
    bill = Decimal("6") - 3 - 2 + Decimal("1.23") + Decimal("0.123456789012345679")
    assert rows["vision"] == bill
    assert rows["idle"] == Decimal("4.00000002")
    (idle,) = (row for row in found["rows"] if row["kind"] == "idle")
    assert Decimal(idle["overcommitted_cost_usd"]) == Decimal("3.99999996")
    assert "1 line of the bill is not in USD, has no rate of its day, and is charged to nobody: 5." in said
    assert "1 purchase of a commitment, of 8760." in said
    cash, _, _ = charged(tmp_path, "oc.jsonl", "commit.csv", "--cost", "billed")
    assert cash["EC2"] == 8760
    assert cash["vision"] == bill - 6
    listed, _, _ = charged(tmp_path, "oc.jsonl", "commit.csv", "--cost", "list")
    assert listed == {name: usd for name, usd in cash.items() if name != "EC2"}
