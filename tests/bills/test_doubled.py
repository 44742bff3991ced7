"""A bill that one command names twice is refused, whatever the order of its lines; its parts are loaded."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore
from streams.errors import WrongUseError
from tests.bills.bill import line, loaded, written
from tests.bills.exports import BILLS, EXPORTS, aws_legacy, csv_text
from tests.bills.test_format_commitments import azure_export, rows_of
from tests.sinks.rows import dicts

LINES = "SELECT count() AS lines FROM bill_lines"


def refused(store: ClickHouseStore, *paths: Path) -> str:
    with pytest.raises(WrongUseError) as caught:
        loaded(store, *paths)
    assert dicts(store, LINES) == [{"lines": 0}]
    return str(caught.value)


def test_a_bill_in_another_order_is_the_same_bill(store: ClickHouseStore, tmp_path: Path) -> None:
    rows = rows_of(aws_legacy(BILLS))
    paths = [tmp_path / f"{name}.csv" for name in "ab"]
    for path, found in zip(paths, (rows, rows[::-1]), strict=True):
        path.write_text(csv_text(found), encoding="utf-8")
    said = refused(store, *paths)
    assert said.startswith(f"{paths[1]}: has the same lines of 2026-10-")
    assert f" as {paths[0]}, " in said


def test_an_export_of_yesterday_beside_that_of_today_is_no_part(
    store: ClickHouseStore, tmp_path: Path
) -> None:
    """The last day of the older one has fewer lines."""
    days = [
        line(ChargePeriodStart=f"2026-03-0{day}", ChargePeriodEnd=f"2026-03-0{day + 1}", ResourceId=node)
        for day in (1, 2)
        for node in ("n1", "n2")
    ]
    older, newer = written(tmp_path / "a.csv", *days[:3]), written(tmp_path / "b.csv", *days)
    for paths in itertools.permutations((older, newer)):
        assert "has the same lines of 2026-03-01 as" in refused(store, *paths)


def test_parts_of_a_bill_share_days(store: ClickHouseStore, tmp_path: Path) -> None:
    """Lines without a cost may be alike: they count nothing twice."""
    free = line(
        BilledCost="0", ResourceId="free", ChargePeriodStart="2026-03-02", ChargePeriodEnd="2026-03-03"
    )
    loaded(
        store,
        written(tmp_path / "a.csv", line(), line(), free),
        written(tmp_path / "b.csv", line(), line(ResourceId="n2"), free),
    )
    assert dicts(store, LINES) == [{"lines": 6}]


@pytest.mark.parametrize("name", ["ea", "mca"])
def test_two_kinds_of_export_are_no_parts_of_one_bill(
    name: str, store: ClickHouseStore, tmp_path: Path
) -> None:
    """A part without a commitment is the same in both."""
    both = [azure_export(tmp_path, name, is_amortized=kind) for kind in (False, True)]
    plain = tmp_path / "plain.csv"
    plain.write_text(EXPORTS[f"azure-{name}"].text(BILLS[-1:]), encoding="utf-8")
    for paths in itertools.permutations([*both, plain]):
        assert f"({name.upper()}), amortized" in refused(store, *paths)
    for number, path in enumerate(both):
        loaded(store, path, plain, replace=bool(number))
        assert dicts(store, "SELECT count() AS lines FROM billed_lines") == [{"lines": 4}]


def test_two_formats_are_no_parts_of_one_bill(store: ClickHouseStore, tmp_path: Path) -> None:
    paths = []
    for name in ("aws-cur", "focus"):
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_text(EXPORTS[name].text(BILLS), encoding="utf-8")
    said = refused(store, *paths)
    assert (
        f"{paths[1]}: has a bill as FOCUS that {paths[0]} has as AWS Cost and Usage Report (legacy)" in said
    )
