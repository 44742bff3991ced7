"""`trainfare budgets`: a table of what budgets have used, bars on a terminal alone, hostile names escaped."""

from __future__ import annotations

import json
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from schemas.budget_tables import BUDGET_USE
from sinks.clickhouse import ClickHouseStore
from sinks.target import Embedded
from streams.cli.budgets import bar
from tests.cli.command import trainfare
from tests.sinks.rows import instant, rows

HOSTILE = "v\x1b[31m\u202egnp"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with closing(ClickHouseStore(Embedded(data_dir=tmp_path / "data", database="trainfare"))) as store:
        row = {
            "budget": HOSTILE,
            "subject_kind": "team",
            "subject_name": "vision",
            "per": "day",
            "time": instant("2026-03-01 10:05"),
            "period_end": instant("2026-03-02 00:00"),
            "match": [("team", "vision")],
            "limit_usd": Decimal(100),
            "used_usd": Decimal("90.5"),
            "used_ratio": 0.905,
            "usd_per_hour": Decimal(19),
        }
        store.insert(BUDGET_USE, rows(BUDGET_USE, row), "budgets")
    return tmp_path / "data"


def test_a_table_without_bars_where_it_is_piped(data: Path) -> None:
    done = trainfare("budgets", "--data", data)
    assert done.code == 0
    head, line = done.out.splitlines()
    assert head.split()[:4] == ["budget", "subject", "per", "used"]
    assert r"v\x1b[31m\u202egnp" in line
    assert "90.5%" in line
    assert "$90.50 of $100.00" in line
    assert "2026-03-01 10:35 UTC" in line
    assert "█" not in line


def test_every_digit_as_json(data: Path) -> None:
    (budget,) = json.loads(trainfare("budgets", "--data", data, "--format", "json").out)["budgets"]
    assert budget["used"]["usd"] == {"used": "90.500000000", "limit": "100.000000000"}


@pytest.mark.parametrize(
    ("ratio", "full"), [(0.0, 0), (0.049, 0), (0.5, 10), (0.999, 19), (1.0, 20), (3.0, 20)]
)
def test_a_bar_is_full_at_the_limit_and_not_before(ratio: float, full: int) -> None:
    assert bar(ratio) == "█" * full + "░" * (20 - full)
