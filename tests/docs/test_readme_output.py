"""The output printed in the README is what the independent batch computation makes of the shipped example."""

import gzip
import json
import re
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from tests.oracle.compute import compute
from tests.oracle.model import Line, Tables

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def tables() -> Tables:
    lines = gzip.decompress((ROOT / "examples" / "helios-500.jsonl.gz").read_bytes()).splitlines()
    records = [json.loads(line) for line in lines]
    return compute([Line(record["topic"], record["value"]) for record in records])


def _shown(label: str) -> str:
    found = re.search(rf"^{label} +(\S+)$", README, re.MULTILINE)
    assert found is not None, label
    return found[1]


def test_the_books_are_those_of_the_example(tables: Tables) -> None:
    assert int(_shown("applied")) == tables.counts.applied == int(_shown("records in"))
    assert [_shown(label) for label in ("duplicate", "dead lettered", "unpriced GPU hours")] == [
        "0",
        "0",
        "0.000000",
    ]
    assert int(_shown("jobs")) == len(tables.jobs)


def test_the_dollars_are_the_sum_of_all_rows(tables: Tables) -> None:
    total_nano = sum(row.cost_nano for row in tables.ledger.values())
    assert Decimal(_shown("dollars")) * 10**9 == total_nano


def test_the_gpu_hours_are_those_of_the_gpu_rows(tables: Tables) -> None:
    gpu_milli_ms = sum(row.quantity for key, row in tables.ledger.items() if key.component == "gpu")
    assert _shown("GPU hours") == f"{Decimal(gpu_milli_ms) / 3_600_000_000:.6f}"


def test_the_cost_by_price_revision_is_shown_to_the_nano_dollar(tables: Tables) -> None:
    by_revision: Counter[tuple[str, str]] = Counter()
    for key, row in tables.ledger.items():
        date = datetime.fromtimestamp(key.price_effective_ms / 1000, UTC).date().isoformat()
        by_revision[key.sku, date] += row.cost_nano
    shown = re.findall(r"^(\S+) +(\d{4}-\d\d-\d\d) +(\d+\.\d{9})$", README, re.MULTILINE)
    assert {(sku, date): Decimal(usd) * 10**9 for sku, date, usd in shown} == by_revision
