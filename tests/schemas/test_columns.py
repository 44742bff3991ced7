"""Columns straight from arrays are what Arrow itself makes of the same values."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from schemas import columns
from schemas.column_types import COUNT, MILLI, MONEY, SECOND
from schemas.columns import (
    count,
    instants,
    instants_of,
    money,
    rows_of,
    seconds_of_minutes,
    table_of,
    take_text,
    times_as_integers,
)

_AMOUNTS = [0, 1, -1, 10**18 - 1, -(10**18) + 1]


def test_money_and_counts() -> None:
    whole = np.array(_AMOUNTS, np.int64)
    assert money(whole).equals(pa.array([Decimal(n).scaleb(-9) for n in _AMOUNTS], MONEY))
    assert count(whole).equals(pa.array([Decimal(n).scaleb(-3) for n in _AMOUNTS], COUNT))


def test_instants() -> None:
    ms = [0, 1_700_000_000_123, 253_402_300_799_999]
    assert instants(ms).equals(pa.array(ms, pa.int64()).cast(MILLI))
    assert instants_of(np.array(ms, np.int64)).equals(instants(ms))
    assert instants([None, 5]).to_pylist()[0] is None
    spread = np.arange(10, dtype=np.int64)[::2]
    assert instants_of(spread).equals(instants(spread.tolist()))


def test_minutes() -> None:
    minutes = np.array([0, 28_333_333, 2**31 - 1], np.int32)
    assert seconds_of_minutes(minutes).equals(pa.array((minutes.astype(np.int64) * 60).tolist(), SECOND))


def test_times_as_integers_are_in_their_unit_and_other_columns_stay() -> None:
    table = pa.table({"at": instants([1_999, None]), "n": pa.array([1, 2]), "minute": instants([60_999, 0])})
    found = times_as_integers(table, {"at": MILLI, "minute": MILLI, "absent": SECOND})
    assert found.column_names == table.column_names
    assert [*rows_of(found)] == [{"at": 1_999, "n": 1, "minute": 60_999}, {"at": None, "n": 2, "minute": 0}]
    seconds = pa.table({"minute": seconds_of_minutes(np.array([1], np.int32))})
    assert [*rows_of(times_as_integers(seconds, {"minute": SECOND}))] == [{"minute": 60}]


@pytest.mark.parametrize("size", [0, 1, 400, 401, 1_000])
def test_texts_few_and_many(size: int) -> None:
    values, index = ["a", "", "ü"], (np.arange(size) % 3).astype(np.int32)
    taken = take_text(values, index)
    assert taken.type == pa.string()
    assert taken.to_pylist() == [values[place] for place in index]


class TestTable:
    schema = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string())])

    def test_columns_come_in_the_order_of_the_schema(self) -> None:
        table = table_of(self.schema, {"b": pa.array(["x"]), "a": pa.array([1])})
        assert table.schema.equals(self.schema)
        assert table.to_pylist() == [{"a": 1, "b": "x"}]

    @pytest.mark.parametrize(
        "columns",
        [{"a": pa.array([1])}, {"a": pa.array([1]), "b": pa.array(["x"]), "c": pa.array([1])}],
        ids=["one lacks", "one too many"],
    )
    def test_other_columns_are_refused(self, columns: dict[str, pa.Array]) -> None:
        with pytest.raises(ValueError, match="wanted"):
            table_of(self.schema, columns)

    def test_other_types_are_refused(self) -> None:
        with pytest.raises((ValueError, pa.ArrowInvalid)):
            table_of(self.schema, {"a": pa.array(["one"]), "b": pa.array(["x"])})


def test_rows_and_values_are_converted_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(columns, "_VALUES_AT_ONCE", 3)
    part = pa.table({"a": [1, None, 3, 4, 5], "b": ["x", "y", "", None, "ä"]})
    table = pa.concat_tables([part, part.slice(2), part.slice(0, 0)])
    assert [*columns.rows_of(table)] == table.to_pylist()
    assert [*columns.values_of(table["b"])] == table["b"].to_pylist()
    assert [*columns.rows_of(part.slice(0, 0))] == [*columns.values_of(part.slice(0, 0)["a"])] == []
