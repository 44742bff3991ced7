"""A later export of a bill, known by the instants of its lines, takes the place of an earlier one; nothing counts twice, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sinks.clickhouse import ClickHouseStore
from streams.errors import WrongUseError
from tests.bills.bill import line, loaded, written
from tests.bills.exports import BILLS, gcp_records

FIRST, SECOND = "2026-10-05 03:04:05.123456 UTC", "2026-10-06 03:00:00 UTC"
Record = dict[str, Any]


def lines(at: str, *costs: str) -> list[Record]:
    return [record | {"export_time": at, "cost": cost, "cost_at_list": cost} for cost in costs for record in gcp_records(BILLS[:1])]  # fmt: skip


OLD = lines(FIRST, "1.5", "2.25", "0.000000001")
NEW = [*OLD, *lines(SECOND, "4", "-0.5")]


def exported(path: Path, records: Sequence[Record]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
    return path


def standing(store: ClickHouseStore) -> tuple[int, Decimal]:
    ((count, usd),) = store.ask("SELECT count(), sum(billed_cost) FROM billed_lines", {}).rows()
    return int(str(count)), Decimal(str(usd or 0))


def refused(store: ClickHouseStore, *paths: Path) -> str:
    before = standing(store)
    with pytest.raises(WrongUseError) as caught:
        loaded(store, *paths)
    assert standing(store) == before
    return str(caught.value)


def test_a_later_export_takes_the_place_of_an_earlier_one(store: ClickHouseStore, tmp_path: Path) -> None:
    loaded(store, exported(tmp_path / "partial.jsonl", OLD))
    assert standing(store) == (3, Decimal("3.750000001"))
    (found,) = loaded(store, exported(tmp_path / "complete.jsonl", NEW))
    assert found.replaces == ["partial.jsonl"]
    assert standing(store) == (5, Decimal("7.250000001"))
    assert "not all of its lines" in refused(store, tmp_path / "partial.jsonl")


def test_parts_take_the_place_of_parts(store: ClickHouseStore, tmp_path: Path) -> None:
    loaded(store, exported(tmp_path / "a.jsonl", OLD[:1]), exported(tmp_path / "b.jsonl", OLD[1:]))
    found = loaded(store, exported(tmp_path / "c.jsonl", NEW[:2]), exported(tmp_path / "d.jsonl", NEW[2:]))
    assert {name for each in found for name in each.replaces} == {"a.jsonl", "b.jsonl"}
    assert standing(store) == (5, Decimal("7.250000001"))


def test_two_exports_of_a_bill_are_no_parts_of_it(store: ClickHouseStore, tmp_path: Path) -> None:
    """A folder has the export of yesterday beside that of today."""
    paths = exported(tmp_path / "a.jsonl", NEW), exported(tmp_path / "b.jsonl", OLD)
    for both in (paths, paths[::-1]):
        said = refused(store, *both)
        assert (
            said
            == f"{paths[0]}: is a later export of a bill that {paths[1]} has, too: load the later one alone"
        )


def test_focus_of_google_says_it_too(store: ClickHouseStore, tmp_path: Path) -> None:
    old = line(x_ExportTime="2026-03-02T00:00:00Z")
    loaded(store, written(tmp_path / "a.csv", old))
    loaded(
        store, written(tmp_path / "b.csv", old, line(x_ExportTime="2026-03-03T00:00:00Z", ResourceId="n2"))
    )
    assert standing(store) == (2, Decimal(3))


@pytest.mark.parametrize(
    "records",
    [
        lines(SECOND, "4", "-0.5"),  # what is new alone
        [*OLD[1:], *lines(SECOND, "4")],  # a line is missing
        [OLD[0] | {"cost": "1.6"}, *OLD[1:], *lines(SECOND, "4")],  # a line is other
        [OLD[0] | {"currency": "EUR"}, *OLD[1:], *lines(SECOND, "4")],
        [*OLD, *lines(FIRST, "9")],  # nothing is newer
    ],
)  # fmt: skip
def test_what_may_be_another_part_is_refused(
    records: list[Record], store: ClickHouseStore, tmp_path: Path
) -> None:
    loaded(store, exported(tmp_path / "old.jsonl", OLD))
    said = refused(store, exported(tmp_path / "new.jsonl", records))
    assert "is loaded already, by old.jsonl on 2027-01-15; not all of its lines as they were exported" in said
    loaded(store, tmp_path / "new.jsonl", replace=True)
    assert standing(store)[0] == len(records)


@pytest.mark.parametrize("which", [0, -1])
def test_an_export_with_a_line_without_its_instant_is_refused(
    which: int, store: ClickHouseStore, tmp_path: Path
) -> None:
    loaded(store, exported(tmp_path / "old.jsonl", OLD))
    for wrong in (None, "", "soon"):
        records = [*NEW]
        records[which] = records[which] | {"export_time": wrong}
        said = refused(store, exported(tmp_path / "new.jsonl", records))
        assert "if this is a newer export of the whole bill, --replace puts it in its place" in said
        assert "not all of its lines" not in said


def test_a_bill_that_was_loaded_without_instants_is_kept(store: ClickHouseStore, tmp_path: Path) -> None:
    loaded(store, exported(tmp_path / "old.jsonl", [{**each, "export_time": None} for each in OLD]))
    assert "--replace puts it in its place" in refused(store, exported(tmp_path / "new.jsonl", NEW))
