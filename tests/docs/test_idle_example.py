"""The example of docs/cost_metrics.md, idle time: its figures from its own events, by the engine and the views."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore
from tests.acceptance.test_idle_conservation import metered
from tests.oracle.model import Line
from tests.sinks.rows import dicts
from tests.sinks.stores import embedded

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cost_metrics.md").read_text()
SECTION = PAGE[PAGE.index("\n## Idle time") :].partition("\n## ")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| (\w+) \| (\d\d:\d\d) \| \$(.*) \|$", SECTION, re.MULTILINE)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    block = re.search(r"```json\n(.*?)```", SECTION, re.DOTALL)
    assert block is not None
    events = [json.loads(line) for line in block[1].splitlines()]
    with embedded(tmp_path_factory.mktemp("idle") / "engine") as opened:
        metered([Line(event["topic"], event["value"]) for event in events], opened, "page")
        yield opened


def test_the_table_is_what_the_events_give(store: ClickHouseStore) -> None:
    want = {(node, clock): [Decimal(cell) for cell in cells.split(" | $")] for node, clock, cells in ROWS}
    assert len(want) == 3
    found = dicts(
        store,
        "SELECT node, formatDateTime(hour, '%H:%i', 'UTC') AS clock, node_cost_usd, job_cost_usd, idle_cost_usd, "
        "unattributed_cost_usd FROM node_hour_balance",
    )
    assert {(str(row["node"]), str(row["clock"])): list(row.values())[2:] for row in found} == want


def test_the_ratio_of_the_day(store: ClickHouseStore) -> None:
    (day,) = dicts(store, "SELECT idle_cost_usd, node_cost_usd, ratio FROM m3_unallocated_ratio")
    said = re.search(r"M3 of the day is ([\d.]+) / ([\d.]+) = ([\d.]+) %", SECTION)
    assert said is not None
    assert (day["idle_cost_usd"], day["node_cost_usd"]) == (Decimal(said[1]), Decimal(said[2]))
    assert f"{100 * float(day['ratio']):.1f}" == said[3]
