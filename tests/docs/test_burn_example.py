"""The burn rates of docs/worked_examples.md by hand: every figure from the example's events, by the plain oracle."""

import json
import re
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from tests.oracle.burn import WINDOWS_MS, Burn
from tests.oracle.judge import judge
from tests.oracle.knowledge import Knowledge, in_log_time
from tests.oracle.model import MINUTE_MS, Json, Line
from tests.oracle.pieces import SCALE

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "worked_examples.md").read_text()
SECTION = PAGE.partition("## A burn rate by hand")[2].partition("\n## ")[0]
NANO = 10**9
NAMES = {"5 min": 300_000, "15 min": 900_000, "1 h": 3_600_000, "6 h": 21_600_000}


def _lines(**on_scaling: object) -> list[Line]:
    block = re.search(r"```json\n(.*?)```", SECTION, re.DOTALL)
    assert block is not None
    found = []
    for text in block[1].splitlines():
        event: Json = json.loads(text)
        if event["value"]["id"] == "e2":
            event["value"] |= on_scaling
        found.append(Line(event["topic"], event["value"]))
    return found


def _at(clock: str) -> int:
    day = datetime(2026, 6, 1, tzinfo=UTC)
    hours, minutes, seconds = map(int, clock.split(":"))
    return int(day.replace(hour=hours, minute=minutes, second=seconds).timestamp()) * 1000


def _burn(at_ms: int, lines: list[Line] | None = None) -> Burn:
    found = Knowledge(in_log_time(_lines() if lines is None else lines)).burn("run-8", at_ms)
    assert found is not None
    return found


def _usd(burn: Burn, at_ms: int, window_ms: int) -> tuple[Fraction, Fraction]:
    cost, expected = burn.window(at_ms, window_ms)
    return Fraction(cost, SCALE * MINUTE_MS * NANO), Fraction(expected, SCALE * MINUTE_MS * NANO)


def _shown(value: Fraction) -> str:
    return f"{float(value):.6f}"


def _table() -> list[list[str]]:
    rows = re.findall(r"^\| (\d+ (?:min|h) \|.*)\|$", SECTION, re.MULTILINE)
    return [[cell.strip() for cell in row.split("|")] for row in rows]


@pytest.mark.parametrize("row", _table(), ids=lambda row: row[0])
def test_each_window_is_that_of_the_events(row: list[str]) -> None:
    at_ms, window_ms = _at("10:20:30"), NAMES[row[0]]
    burn = _burn(at_ms)
    cost, expected = _usd(burn, at_ms, window_ms)
    rate = burn.rate_nano(at_ms, window_ms) / NANO
    assert row[2:] == [_shown(cost), _shown(expected), _shown(cost / expected), _shown(rate)]
    assert at_ms - burn.elapsed_ms(at_ms, window_ms) == _at(row[1])


def test_the_table_has_all_windows() -> None:
    assert [NAMES[row[0]] for row in _table()] == list(WINDOWS_MS)


@pytest.mark.parametrize("label", ["Cost", "the expected cost would be"])
def test_the_sums_in_the_text_are_right(label: str) -> None:
    found = re.search(rf"{label}:? ([\d. x+]+) = \$([\d.]+)[.\s]", SECTION)
    assert found is not None
    total = Fraction(0)
    for term in found[1].split("+"):
        product = Fraction(1)
        for factor in term.split("x"):
            product *= Fraction(factor.strip())
        total += product
    assert abs(total - Fraction(found[2].rstrip("."))) < Fraction(1, 10**6)


def test_the_edges_of_the_episode_are_where_the_text_has_them() -> None:
    said = re.findall(r"[Aa]t (\d\d:\d\d:\d\d) (?:the shorter one is|it is) (\d\.\d\d)", SECTION)
    assert len(said) == 4
    for clock, ratio in said:
        at_ms = _at(clock)
        cost, expected = _usd(_burn(at_ms), at_ms, 300_000)
        assert f"{float(cost / expected):.2f}" == ratio
    (alert,) = judge(in_log_time(_lines()), until_ms=_at("12:00:00"))
    times = re.search(r"the episode is (\S+) to (\S+)\.", SECTION)
    assert times is not None
    assert (alert.rule, alert.started_ms, alert.resolved_ms) == ("burn_fast", _at(times[1]), _at(times[2]))


def test_a_declared_change_raises_no_alarm() -> None:
    lines = _lines(expected_usd_per_hour="192")
    at_ms = _at("10:20:30")
    cost, expected = _usd(_burn(at_ms, lines), at_ms, 300_000)
    assert f"= ${_shown(expected)} and the ratio {_shown(cost / expected)}:" in SECTION
    assert judge(in_log_time(lines), until_ms=_at("10:24:00")) == []


def test_another_event_would_show() -> None:
    at_ms = _at("10:20:30")
    cost, _ = _usd(_burn(at_ms, _lines(gpu_count=63)), at_ms, 300_000)
    assert _shown(cost) not in SECTION
