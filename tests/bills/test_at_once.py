"""Two commands load different files of one bill at the same time: it never stands twice, and who withdraws says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from schemas.bill_tables import BILL_LINES, BILL_LOADS
from schemas.tables import SCHEMAS
from sinks.clickhouse import ClickHouseStore
from streams.bills.loading import load
from streams.errors import WrongUseError
from tests.bills.bill import NOW_MS, file_of, line, loaded, stored, written
from tests.sinks.rows import dicts

LINES = "SELECT arraySort(groupArray(toString(resource_id))) AS resources FROM billed_lines"


class Interrupted:
    """A store before whose call of one kind something else happens, once."""

    def __init__(self, store: ClickHouseStore, call: str, then: Callable[[], object]) -> None:
        self._store, self._call, self._then = store, call, then
        self.loads: pa.Table | None = None  # what was made visible first

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        self._reached("lines" if table == BILL_LINES else "visible")
        self._store.insert(table, rows, token)
        if table == BILL_LOADS and self.loads is None:
            self.loads = rows

    def select(self, table: str) -> pa.Table:
        self._reached("first look" if self.loads is None else "look after")
        return self._store.select(table)

    def _reached(self, call: str) -> None:
        if call == self._call:
            self._call = ""
            self._then()


def status(store: ClickHouseStore) -> dict[str, str]:
    return {str(row["file"]): str(row["status"]) for row in stored(store)["bill_loads"]}


@pytest.mark.parametrize("call", ["first look", "lines", "visible"])
def test_the_one_that_finds_another_withdraws_and_says_so(
    store: ClickHouseStore, tmp_path: Path, call: str
) -> None:
    mine, theirs = (
        written(tmp_path / "mine.csv", line()),
        written(tmp_path / "theirs.csv", line(ResourceId="n2")),
    )
    both = Interrupted(store, call, lambda: loaded(store, theirs))
    said = (
        r"loaded at the same time from theirs\.csv"
        if call == "visible"
        else r"loaded already, by theirs\.csv"
    )
    with pytest.raises(WrongUseError, match=said):
        load(both, [file_of(mine)], NOW_MS, replace=False)
    assert dicts(store, LINES) == [{"resources": ["n2"]}]
    assert status(store)["theirs.csv"] == "loaded"
    (each,) = loaded(store, mine, now_ms=NOW_MS + 1, replace=True)
    assert (each.is_new, dicts(store, LINES)) == (True, [{"resources": ["n1"]}])


def test_the_first_of_both_finds_the_second_too_if_it_looks_late(
    store: ClickHouseStore, tmp_path: Path
) -> None:
    """The second checked before the first was visible; both withdraw then, and each says so."""
    mine, theirs = (
        written(tmp_path / "mine.csv", line()),
        written(tmp_path / "theirs.csv", line(ResourceId="n2")),
    )

    def second() -> None:
        values = {**both.loads.to_pylist()[0], "load_id": "theirs", "file": theirs.name}  # type: ignore[union-attr]  # made visible
        store.insert(BILL_LOADS, pa.Table.from_pylist([values], schema=SCHEMAS[BILL_LOADS]), "theirs")

    both = Interrupted(store, "look after", second)
    with pytest.raises(WrongUseError, match="nothing of this command is loaded"):
        load(both, [file_of(mine)], NOW_MS, replace=False)
    assert status(store) == {"mine.csv": "replaced", "theirs.csv": "loaded"}


def test_what_it_replaced_stands_again(store: ClickHouseStore, tmp_path: Path) -> None:
    april = {"BillingPeriodStart": "2026-04-01", "BillingPeriodEnd": "2026-05-01"}
    old = written(tmp_path / "old.csv", line(**april, ResourceId="old"))
    loaded(store, old)
    mine = written(tmp_path / "mine.csv", line(), line(**april, ResourceId="better"))
    theirs = written(tmp_path / "theirs.csv", line(ResourceId="n2"))
    both = Interrupted(store, "visible", lambda: loaded(store, theirs))
    with pytest.raises(WrongUseError, match="at the same time"):
        load(both, [file_of(mine)], NOW_MS, replace=True)
    assert dicts(store, LINES) == [{"resources": ["n2", "old"]}]
