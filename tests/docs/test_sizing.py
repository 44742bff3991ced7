"""The page about sizing has the rows that the arithmetic makes, and its figures are those of the pages that measured them."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from loadtest import sizing

PAGE = Path("docs/sizing.md").read_text()
ROWS = re.findall(r"^\| ([\d,]+) \| (\d+) s \|.*$", PAGE, re.MULTILINE)


def test_the_table_is_what_the_arithmetic_makes() -> None:
    assert len(ROWS) >= 6
    for gpus, interval_s in ROWS:
        number = int(gpus.replace(",", ""))
        assert sizing.sizing(number, number // 10, int(interval_s)).row() in PAGE.splitlines()


@pytest.mark.parametrize(
    ("page", "figure"),
    [
        ("performance_at_size.md", "29 us each live at 12,500 a second"),
        ("performance_at_size.md", "3 to 7 bytes a ledger row"),
        ("performance_at_size.md", "a GPU 1,330"),
        ("performance_at_size.md", "a shard should stay below 20,000 GPUs"),
        ("performance.md", "1.0 to 1.2 % of a core"),
    ],
)
def test_what_is_said_to_be_measured_stands_where_it_was(page: str, figure: str) -> None:
    assert figure in Path("docs", page).read_text()


_MEASURED = re.findall(r"\[(\d[^\]]*)\]\((performance\w*\.md)#", PAGE)


@pytest.mark.parametrize(("figure", "page"), _MEASURED)
def test_a_figure_that_leads_to_a_page_stands_there(figure: str, page: str) -> None:
    text = Path("docs", page).read_text()
    for number in re.findall(r"\d[\d,.]*\d|\d", figure):
        assert re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d]|[.,]\d)", text), f"{number} of {figure}"


def test_every_row_of_what_was_measured_leads_to_a_page() -> None:
    assert len(_MEASURED) >= 10


def test_a_larger_fleet_never_needs_less() -> None:
    found = [sizing.sizing(gpus, gpus // 10, 15) for gpus in (10, 2_000, 2_001, 50_000, 400_000, 10_000_000)]
    for smaller, larger in itertools.pairwise(found):
        for name in ("messages_s", "cpu", "workers", "partitions", "brokers", "stores", "usd_a_month"):
            assert getattr(smaller, name) <= getattr(larger, name)


def test_it_prints_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    sizing.main(["--gpus", "100000", "--interval-s", "1"])
    assert capsys.readouterr().out.strip() in PAGE.splitlines()
    with pytest.raises(SystemExit):
        sizing.main(["--gpus", "0"])
