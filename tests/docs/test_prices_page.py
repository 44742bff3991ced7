"""docs/prices.md: its example list loads, its columns, defaults and warnings are those of the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from schemas.events import MATCH_FIELDS
from streams.prices import findings
from tests.prices.given import read

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "prices.md").read_text()
BLOCK = re.search(r"```csv\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_list_loads_without_a_warning() -> None:
    assert BLOCK is not None
    records = read(BLOCK[1])
    assert [(each.event.sku, each.event.component, each.event.usd_nano) for each in records] == [
        ("h100", "gpu", 55_040_000_000),
        ("h100", "gpu", 48_000_000_000),
        ("h100.spot", "gpu", 1_400_000_000),
        ("egress", "network", 90_000_000),
    ]
    assert findings.findings([(each.line, each.event) for each in records]) == []


def test_every_match_field_is_named() -> None:
    section = PAGE.partition("### CSV")[2].partition("### JSON")[0]
    assert [name for name in MATCH_FIELDS if f"`{name}`" not in section] == []


def test_every_warning_is_told_and_no_other() -> None:
    section = PAGE.partition("## Warnings")[2].partition("\n## ")[0]
    kinds = set(re.findall(r'_of\(\s*"([^"]+)"', inspect.getsource(findings)))
    assert set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)) == kinds
    assert len(kinds) == 5
