"""What spreadsheets and databases do to a bill on its way changes none of its lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.bills.csv_lines import CsvLines
from streams.bills.json_lines import JsonLines
from streams.bills.lines import BillLine
from streams.bills.reading import NOTHING_ASKED, Reading
from streams.errors import WrongUseError
from tests.bills.bill import line, text_of
from tests.bills.exports import BILLS, EXPORTS

FOCUS = text_of(
    [line(BilledCost="1234567.5", ChargeDescription="two\nlines, one cell"), line(BilledCost="-0.5")]
)
HEADER, _, REST = FOCUS.partition("\n")


def lines_of(tmp_path: Path, content: str, encoding: str = "utf-8") -> list[BillLine]:
    path = tmp_path / "f.csv"
    path.write_bytes(content.encode(encoding))
    with path.open("rb") as stream:
        return list(CsvLines("f.csv", stream, Reading(NOTHING_ASKED)))


def values_of(lines: list[BillLine]) -> list[tuple[object, ...]]:
    return [(*each.values, each.rounded) for each in lines]


@pytest.mark.parametrize(
    "changed",
    [
        f"sep=,\n{FOCUS}",
        f"{FOCUS}{',' * HEADER.count(',')}\n",
        FOCUS.replace("\n", f"\n{',' * HEADER.count(',')}\n", 1),
        f"{HEADER.lower()}\n{REST}",
        f"{HEADER.upper()}\n{REST}",
        FOCUS.replace("1234567.5", '"1,234,567.50"'),
        FOCUS.replace("1234567.5", " 1234567.50 "),
        FOCUS.replace("-0.5", "-.5"),
        FOCUS.replace("2026-03-01 10:00:00", "2026/3/01 10:00:00"),
        FOCUS.removesuffix("\n"),
    ],
)
def test_a_bill_is_read_as_it_was_written(changed: str, tmp_path: Path) -> None:
    assert changed != FOCUS
    want = lines_of(tmp_path, FOCUS)
    assert len(want) == 2
    assert values_of(lines_of(tmp_path, changed)) == values_of(want)
    assert values_of(lines_of(tmp_path, changed, "utf-8-sig")) == values_of(want)


@pytest.mark.parametrize("name", [name for name, export in EXPORTS.items() if export.ending == "csv"])
def test_names_of_columns_may_be_in_any_case_in_every_format(name: str, tmp_path: Path) -> None:
    header, _, rest = EXPORTS[name].text(BILLS).partition("\n")
    # Keys of tags that are a part of a column's name stay as the file has them.
    found = [
        values_of([each.with_value("tags", []) for each in lines_of(tmp_path, f"{names}\n{rest}")])
        for names in (header, header.lower(), header.upper())
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("name", "was", "found", "said"),
    [
        (
            "azure-ea",
            "10/31/2026",
            "31/10/2026",
            "'31/10/2026' is no day such as 10/31/2026 (the month first)",
        ),
        ("azure-ea", "10/31/2026", "10/31/2026 0:00", "'10/31/2026 0:00' is no instant"),
        ("focus", "2026-10-31T", "31/10/2026T", "'31/10/2026T00:00:00Z' is no instant"),
        ("focus", "2026-10-31T", "2026/13/31T", "is no instant"),
    ],
)
def test_a_day_that_is_none_is_shown_as_the_file_has_it(
    name: str, was: str, found: str, said: str, tmp_path: Path
) -> None:
    text = EXPORTS[name].text(BILLS)
    assert was in text
    with pytest.raises(WrongUseError) as caught:
        lines_of(tmp_path, text.replace(was, found))
    assert said in str(caught.value)


def test_a_record_of_json_that_is_cut_off_is_told(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text(EXPORTS["gcp json"].text(BILLS)[:-40], encoding="utf-8")
    with path.open("rb") as stream, pytest.raises(WrongUseError, match="it seems to be cut off"):
        list(JsonLines("f.json", stream, Reading(NOTHING_ASKED)))
