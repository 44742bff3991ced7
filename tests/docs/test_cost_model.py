"""The worked example of docs/worked_examples.md: its own arithmetic, and the same table from its own events."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.oracle.compute import compute
from tests.oracle.model import Line, Tables

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "worked_examples.md").read_text()


class Row(NamedTuple):
    minute: str
    attempt: int
    node: str
    component: str
    phase: str
    quantity: int
    price_nano: int
    divisor: int
    cost_nano: int
    lost_quantity: int
    lost_cost_nano: int


def _rows() -> list[Row]:
    rows = []
    for line in re.findall(r"^\| (\d\d:\d\d \|.*)\|$", PAGE, re.MULTILINE):
        cells = [cell.strip() for cell in line.split("|")]
        numbers = [int(cell.replace(",", "")) for cell in cells[5:]]
        rows.append(Row(cells[0], int(cells[1]), *cells[2:5], *numbers))
    return rows


def _figures() -> dict[str, int]:
    found = re.findall(r"^\| (\w+) \| ([\d,]+) \|$", PAGE, re.MULTILINE)
    return {name: int(value.replace(",", "")) for name, value in found}


def _rounded(quantity: int, price_nano: int, divisor: int) -> int:
    exact = Decimal(quantity) * Decimal(price_nano) / Decimal(divisor)
    return int(exact.quantize(Decimal(1), rounding=ROUND_HALF_EVEN))


@pytest.fixture(scope="module")
def tables() -> Tables:
    block = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    events = [json.loads(line) for line in block[1].splitlines()]
    return compute([Line(event["topic"], event["value"]) for event in events])


@pytest.mark.parametrize("row", _rows(), ids=lambda row: f"{row.minute}-{row.component}-{row.cost_nano}")
def test_each_row_follows_from_its_own_numbers(row: Row) -> None:
    assert row.cost_nano == _rounded(row.quantity, row.price_nano, row.divisor)
    assert row.lost_cost_nano == _rounded(row.lost_quantity, row.price_nano, row.divisor)


def test_the_totals_are_the_sums_of_the_rows() -> None:
    rows, figures = _rows(), _figures()
    assert figures["total_nano"] == sum(row.cost_nano for row in rows)
    assert figures["lost_nano"] == sum(row.lost_cost_nano for row in rows)
    assert figures["gpu_milli_ms"] == sum(row.quantity for row in rows if row.component == "gpu")


def test_the_events_give_the_same_table(tables: Tables) -> None:
    computed = sorted(_computed(tables))
    shown = sorted(
        (r.minute, r.attempt, r.node, r.component, r.phase, r.quantity, r.cost_nano, r.lost_quantity,
         r.lost_cost_nano)
        for r in _rows()
    )  # fmt: skip
    assert computed == shown
    assert tables.dead == []


def _computed(tables: Tables) -> Iterator[tuple[str | int, ...]]:
    for key, row in tables.ledger.items():
        minute = datetime.fromtimestamp(key.minute * 60, UTC).strftime("%H:%M")
        yield (minute, key.attempt, key.node, key.component, key.phase, row.quantity, row.cost_nano,
               row.lost_quantity, row.lost_cost_nano)  # fmt: skip


def test_wall_clock_and_usage_are_those_of_the_events(tables: Tables) -> None:
    figures = _figures()
    assert figures["wall_clock_ms"] == tables.jobs["run-7"].wall_clock_ms
    usage = list(tables.usage.values())
    assert figures["sampled_gpu_s"] == sum(row.sampled_gpu_s for row in usage)
    assert figures["productive_gpu_ms"] == sum(row.productive_gpu_ms for row in usage)


def test_the_metrics_in_the_text_follow_from_the_figures() -> None:
    figures, rows = _figures(), _rows()
    total = Decimal(figures["total_nano"]) / 10**9
    gpu_and_overhead = Decimal(sum(r.cost_nano for r in rows if r.component in ("gpu", "overhead"))) / 10**9
    m1 = total / (Decimal(figures["wall_clock_ms"]) / 3_600_000)
    m2 = gpu_and_overhead / (Decimal(figures["gpu_milli_ms"]) / 3_600_000_000)
    m5 = Decimal(figures["lost_nano"]) / figures["total_nano"]
    assert f"= ${m1:.2f} an hour" in PAGE
    assert f"= ${m2:.2f}, against" in PAGE
    assert f"= {m5 * 100:.1f} %" in PAGE


def test_a_wrong_figure_would_show() -> None:
    row = _rows()[0]
    assert _rounded(row.quantity, row.price_nano, row.divisor + 1_000) != row.cost_nano
    assert [_rounded(1, price, 2) for price in (1, 3, 5)] == [0, 2, 2]  # half to even
