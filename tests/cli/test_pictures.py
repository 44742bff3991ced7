"""Bars and sparklines: to an eighth of a character, and nothing for nothing."""

from __future__ import annotations

from decimal import Decimal

import pytest

from schemas.units import readable
from streams.cli.costs_shown import over_time, shown
from streams.cli.pictures import bar, sparkline
from streams.cli.terminal_table import _folded
from streams.costs.answer import CostRows
from streams.costs.request import CostRequest, request_of


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ("0", ""),
        ("-1", ""),
        ("0.001", "▏"),
        ("50", "█████"),
        ("51", "█████"),
        ("52", "█████▏"),
        ("100", "█" * 10),
    ],
)
def test_a_bar_is_as_long_as_its_share(part: str, shown: str) -> None:
    assert bar(Decimal(part), Decimal(100), 10) == shown
    assert bar(Decimal(part), Decimal(0), 10) == ""


def test_a_sparkline_has_a_character_each_and_a_dot_for_nothing() -> None:
    values = [None, Decimal(0), Decimal("0.01"), Decimal(50), Decimal(100)]
    assert sparkline(values, Decimal(100)) == "··▁▅█"


@pytest.mark.parametrize(
    ("quantity", "unit", "said"),
    [
        (8_039_136_000_000, "gpu_milli_ms", "2,233.093 GPU-h"),
        (251_223_000, "ms", "69.784 h"),
        (2**30 * 1500, "bytes", "1,500.000 GiB"),
        (1_024 * 730 * 3_600_000, "mib_ms", "1.000 GiB-months"),
        (2_500_000, "requests", "2,500,000 requests"),
        (1, "gpu_milli_ms", "2.8e-10 GPU-h"),
        (0, "ms", "0.000 h"),
    ],
)
def test_quantities_are_said_in_the_units_of_people(quantity: int, unit: str, said: str) -> None:
    assert readable(quantity, unit) == said


def asked(per: str) -> CostRequest:
    return request_of({"by": ["team"], "per": [per]}, str)


def found(*rows: tuple[str, str, str], is_cut: bool = False) -> CostRows:
    columns = ("team", "period_start", "cost_usd")
    cells = [{"team": team, "period_start": at, "cost_usd": Decimal(usd)} for team, at, usd in rows]
    return CostRows(columns, cells, is_cut)


def test_periods_without_a_cost_are_gaps_and_the_dearest_line_is_first() -> None:
    grid = over_time(
        asked("day"),
        found(
            ("a", "2026-11-01T00:00:00Z", "1"),
            ("b", "2026-11-01T00:00:00Z", "8"),
            ("", "2026-11-03T00:00:00Z", "2"),
        ),
    )
    assert grid is not None
    assert grid.columns == ("team", "cost_usd", "per day from 2026-11-01 to 2026-11-03")
    assert [tuple(row) for row in grid.rows] == [
        ("b", "8.00", "█··"),
        ("(none)", "2.00", "··▃"),
        ("a", "1.00", "▂··"),
    ]


def test_a_part_of_the_cells_is_no_picture() -> None:
    row = ("a", "2026-11-01T00:00:00Z", "1")
    assert over_time(asked("day"), found(row, ("a", "2026-11-02T00:00:00Z", "1"), is_cut=True)) is None
    assert over_time(asked("day"), found(row)) is None, "one period has no course"
    assert over_time(asked("day"), found()) is None
    assert "share" not in shown(asked("all"), found(row, is_cut=True), has_bars=True).columns


def test_shares_stand_beside_the_cost_of_a_whole_range() -> None:
    rows = found(("a", "2026-11-01T00:00:00Z", "3"), ("b", "2026-11-01T00:00:00Z", "1"))
    grid = shown(asked("all"), rows, has_bars=True)
    assert grid.columns == ("team", "cost_usd", "share")
    assert [row[2] for row in grid.rows] == [" 75% █████████", " 25% ███", ""], "of the total none"
    assert "share" not in shown(asked("all"), rows).columns


def test_a_tiny_share_is_not_none() -> None:
    rows = found(("a", "2026-11-01T00:00:00Z", "999"), ("b", "2026-11-01T00:00:00Z", "1"))
    assert [row[2] for row in shown(asked("all"), rows, has_bars=True).rows] == [
        f"100% {'█' * 11}▉",
        " <1% ▏",
        "",
    ]


def test_a_title_is_broken_at_spaces_and_keeps_those_within() -> None:
    assert _folded("per day from 2026-11-01 to 2026-11-03", 16) == "per day from\n2026-11-01 to\n2026-11-03"
    assert _folded("wall_clock_h", 6) == "wall_\nclock_\nh"
    assert _folded("in the ledger", 20) == "in the ledger"
