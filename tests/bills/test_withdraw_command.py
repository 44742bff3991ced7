"""`trainfare bills withdraw`: over a directory, and through the worker that has it open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from streams.bills.withdrawing import WITHDRAWN
from streams.costs.allocating import due_months
from streams.costs.month_store import OpenMonthStore
from tests.bills.bill import loaded, stored, written
from tests.bills.test_month_through_worker import asked
from tests.bills.test_variance import events, usage
from tests.cli.command import Done, trainfare


@pytest.fixture
def metered(tmp_path: Path) -> Iterator[tuple[Path, ClickHouseStore]]:
    """A directory with jobs of May, and its store."""
    data = tmp_path / "meter"
    assert trainfare("replay", events(tmp_path / "events.jsonl", "3", 2), "--data", data).code == 0
    store = ClickHouseStore(Embedded(data_dir=data))
    try:
        yield data, store
    finally:
        store.close()


def test_the_command_shows_what_goes_and_allocates_anew(
    metered: tuple[Path, ClickHouseStore], tmp_path: Path
) -> None:
    data, store = metered
    store.close()
    bill = written(tmp_path / "may.csv", usage("72"))
    assert trainfare("bills", "load", bill, "--data", data).code == 0
    listed = json.loads(trainfare("bills", "list", "--data", data, "--format", "json").out)
    load = listed[0]["load_id"][:12]
    tried = trainfare("bills", "withdraw", load, "--dry-run", "--data", data)
    assert (tried.code, tried.err) == (0, "")
    assert "72.00 USD of 2026-05 would be withdrawn; nothing is" in tried.out
    listed = json.loads(trainfare("bills", "list", "--data", data, "--format", "json").out)
    assert [each["status"] for each in listed] == ["loaded"]
    done = trainfare("bills", "withdraw", load, "--data", data)
    assert (done.code, done.err) == (0, "")
    assert "is withdrawn; loading the same file again puts it back" in done.out
    again = ClickHouseStore(Embedded(data_dir=data))
    try:
        assert due_months(OpenMonthStore(again)) == [], "what was on jobs is allocated anew"
        (billed,) = again.ask("SELECT sum(billed_usd) AS usd FROM job_bills FINAL", {}).records()
        assert not billed["usd"]
    finally:
        again.close()


def test_through_a_worker_the_same_is_said(metered: tuple[Path, ClickHouseStore], tmp_path: Path) -> None:
    _, store = metered
    bill = written(tmp_path / "may.csv", usage("72"))
    (load,) = loaded(store, bill)
    words = ("bills", "withdraw", load.load_id[:12])
    closing: list[Done] = asked(store, ("close", "2026-05"), words, (*words, "--dry-run"))
    assert [each.code for each in closing] == [0, 2, 2], [each.err for each in closing]
    assert "2026-05 is closed" in closing[1].one_line()
    assert stored(store)["bill_loads"][0]["status"] == "loaded"


def test_a_worker_withdraws_it(metered: tuple[Path, ClickHouseStore], tmp_path: Path) -> None:
    _, store = metered
    (load,) = loaded(store, written(tmp_path / "may.csv", usage("72")))
    (done,) = asked(store, ("bills", "withdraw", load.load_id))
    assert (done.code, done.err) == (0, "")
    assert "is withdrawn" in done.out
    (row,) = stored(store)["bill_loads"]
    assert (row["status"], Decimal(str(row["billed_usd"]))) == (WITHDRAWN, Decimal(72))
