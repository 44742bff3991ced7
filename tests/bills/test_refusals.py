"""A file with a fault is refused with the place of the fault, and nothing of it is stored."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sinks.clickhouse import ClickHouseStore
from streams.bills import loading, text_lines
from streams.bills.columns import COLUMNS, MANDATORY
from streams.bills.csv_lines import CsvLines
from streams.bills.parquet_lines import ParquetLines
from streams.bills.reading import NOTHING_ASKED, Reading
from streams.errors import WrongUseError
from tests.bills.bill import USUAL, file_of, line, loaded, stored, text_of, written

GOOD = text_of([line(), line(ResourceId="n2")])
HEADER, FIRST, SECOND = GOOD.splitlines()


def refusal(path: Path) -> str:
    with pytest.raises(WrongUseError) as caught, path.open("rb") as stream:
        list(CsvLines("f.csv", stream, Reading(NOTHING_ASKED)))
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "f.csv: is empty"),
        (GOOD.replace("BilledCost", "Cost").encode(), "line 1: mandatory column BilledCost is missing"),
        (GOOD.replace("SkuId", "BilledCost").encode(), "line 1: column 'BilledCost' stands twice"),
        (f"{HEADER}\n{FIRST}\n{SECOND.rpartition(',')[0]}\n".encode(), "line 3: has 23 cells, the header 24"),
        (f"{HEADER}\n{FIRST}\n{SECOND},more\n".encode(), "line 3: has 25 cells"),
        (f"{HEADER}\n{FIRST}\n".encode() + SECOND.encode().replace(b"n2", b"n\xe9"), "line 3: is not UTF-8"),
        (GOOD.encode("utf-16"), "line 1: is not UTF-8"),
        (f"{HEADER}\n{FIRST}\0\n".encode(), "line 2: has a NUL character"),
        (f'{HEADER}\n{FIRST}\n"open,{SECOND}\n'.encode(), "line 3: is no CSV"),
        (f'{HEADER}\n"open\n'.encode() + b"x\n" * 1_000, "line 2: begins a record of more than 1000 lines"),
        (f"{HEADER}\n{FIRST}\n{SECOND[:40]}".encode(), "the file ends in this line: it seems to be cut off"),
        (f'{HEADER}\n{FIRST}\n"{SECOND[:40]}'.encode(), "it seems to be cut off"),
        (f"{HEADER}\r{FIRST}\r".encode(), "line 1: ends with a carriage return alone"),
        (f"{GOOD}{GOOD}".encode(), "line 4: repeats the header: these are several files in one"),
        (GOOD.replace(",", ";").encode(), "line 1: its columns are separated by semicolons"),
        (GOOD.replace(",", "\t").encode(), "line 1: its columns are separated by tabs"),
        (b"x" * (2**20 + 1), "line 1: is longer than 1048576 bytes"),
        (f"{HEADER}\n{FIRST.replace('NULL', 'a' * 200_000, 1)}\n".encode(), "line 2: is no CSV"),
    ],
)  # fmt: skip
def test_a_broken_file_is_refused_by_line(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(content)
    assert said in refusal(path)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("BilledCost", "", "BilledCost: is missing"),
        ("BilledCost", "1,5", "BilledCost: '1,5' is no number"),
        ("BilledCost", "1,234", "BilledCost: '1,234' is no number"),
        ("BilledCost", "1.234,50", "BilledCost: '1.234,50' is no number"),
        ("BilledCost", "1,23,4.5", "is no number"),
        ("BilledCost", ".", "is no number"),
        ("BilledCost", "NaN", "is no number"),
        ("BilledCost", "1e99", "is 1000000000000000 or more"),
        ("BilledCost", "0x10", "is no number"),
        ("BilledCost", "٣", "is no number"),
        ("ListCost", "1" * 21, "is no number"),
        ("PricingQuantity", "one", "PricingQuantity: 'one' is no number"),
        ("ChargePeriodStart", "2026-02-30 00:00:00", "ChargePeriodStart: '2026-02-30 00:00:00' is no instant"),
        ("ChargePeriodStart", "01.03.2026", "is no instant"),
        ("ChargePeriodStart", "1999-12-31 23:59:59", "is no instant"),
        ("ChargePeriodStart", "NULL", "ChargePeriodStart: is missing"),
        ("ChargePeriodEnd", "2026-03-01 10:00:00", "ChargePeriodEnd is not after ChargePeriodStart"),
        ("BillingPeriodEnd", "2026-02-01 00:00:00", "BillingPeriodEnd is not after"),
        ("ChargeCategory", "Gift", "ChargeCategory: 'Gift' is none of Adjustment, Credit, Purchase, Tax, Usage"),
        ("ChargeClass", "Late", "ChargeClass: 'Late' is neither empty nor Correction"),
        ("BillingCurrency", "Dollar", "BillingCurrency: 'Dollar' is no code"),
        ("InvoiceIssuerName", "NULL", "InvoiceIssuerName: is missing"),
        ("Tags", "team=a", "Tags: 'team=a' is no JSON object"),
        ("Tags", "[1]", "is no JSON object"),
        ("Tags", "[" * 50_000, "is no JSON object"),
        ("ResourceId", "r" * 8_193, "ResourceId: longer than 8192 bytes"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_by_line_and_column(
    column: str, value: str, said: str, tmp_path: Path
) -> None:
    message = refusal(written(tmp_path / "f.csv", line(), line(**{column: value})))
    assert message.startswith("f.csv line 3: ")
    assert said in message
    assert len(message) < 250


@pytest.mark.parametrize("name", sorted(MANDATORY))
def test_every_mandatory_column_is_demanded(name: str, tmp_path: Path) -> None:
    (headers,) = (column.headers for column in COLUMNS if column.name == name)
    values = {key: value for key, value in USUAL.items() if key not in headers}
    assert f"line 1: mandatory column {' or '.join(headers)} is missing" in refusal(
        written(tmp_path / "f.csv", values)
    )


def test_nothing_of_a_refused_file_nor_of_its_neighbours_is_stored(
    store: ClickHouseStore, tmp_path: Path
) -> None:
    good = written(tmp_path / "good.csv", line())
    bad = written(
        tmp_path / "bad.csv", *[line(ResourceId=str(number)) for number in range(100)], line(BilledCost="x")
    )
    with pytest.raises(WrongUseError, match=r"bad\.csv line 102: BilledCost"):
        loaded(store, good, bad)
    assert not any(stored(store).values())


def test_a_file_that_changes_while_it_is_read_is_not_visible(store: ClickHouseStore, tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", line())
    file = file_of(path)

    def opened() -> object:
        stream = file.open()
        path.unlink()
        path.write_text(text_of([line(BilledCost="2")]))
        return stream

    with pytest.raises(WrongUseError, match="changed while it was read"):
        loading.load(store, [file._replace(open=opened)], 1, replace=False)  # type: ignore[arg-type]  # a stream
    assert list(store.ask("SELECT * FROM billed_lines").rows()) == []
    assert stored(store)["bill_loads"] == []


def test_a_crash_before_the_last_insert_shows_nothing_and_the_next_load_completes(
    store: ClickHouseStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "f.csv", line(), line(ResourceId="n2"))
    insert = store.insert

    def crash(table: str, rows: pa.Table, token: str) -> None:
        if table == "bill_loads":
            raise RuntimeError("crash")
        insert(table, rows, token)

    monkeypatch.setattr(store, "insert", crash)
    with pytest.raises(RuntimeError):
        loaded(store, path)
    monkeypatch.undo()
    assert list(store.ask("SELECT * FROM billed_lines").rows()) == []
    loaded(store, path)
    (found,) = store.ask("SELECT count(), sum(billed_cost) FROM billed_lines").rows()
    assert found == (2, 3)


def test_a_bomb_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_lines, "BYTES_MAX", 10_000_000)
    path = tmp_path / "f.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(f"{HEADER}\n".encode())
        for _ in range(40):
            file.write(f"{FIRST}\n".encode() * 2_000)
    with (
        pytest.raises(WrongUseError, match="more than 10000000 bytes unpacked"),
        file_of(path).open() as stream,
    ):
        list(CsvLines("f.csv", stream, Reading(NOTHING_ASKED)))


def test_a_long_text_in_a_dictionary_of_parquet_is_refused(store: ClickHouseStore, tmp_path: Path) -> None:
    """A megabyte that a hundred thousand rows name is a small file."""
    rows = 100_000
    table = pa.table(
        {
            name: pa.array([value if name != "Tags" else "x" * 2**20]).take(pa.array([0] * rows))
            for name, value in USUAL.items()
            if name != "Tags"
        }
    )
    table = table.append_column(
        "Tags", pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * 2**20]))
    )
    path = tmp_path / "f.parquet"
    pq.write_table(table, path)
    assert path.stat().st_size < 2**22
    with pytest.raises(WrongUseError, match="Tags has values longer than 65536 bytes"):
        loaded(store, path)


def test_what_is_no_parquet_is_refused(store: ClickHouseStore, tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    path.write_bytes(b"PAR1" + b"\xff" * 100)
    with pytest.raises(WrongUseError, match="cannot be read as Parquet"):
        loaded(store, path)


def test_a_record_over_many_long_lines_is_refused_before_it_is_in_memory(tmp_path: Path) -> None:
    """Each line closes the quote of the one before and opens another: a gigabyte of cells in one record."""
    path = tmp_path / "f.csv"
    path.write_bytes(f'{HEADER}\n,"\n'.encode() + (b'"' + b"," * 600_000 + b'"\n') * 3 + b'"\n')
    assert "line 2: begins a record of more than 1048576 bytes" in refusal(path)


def test_a_long_name_of_a_column_is_refused(tmp_path: Path) -> None:
    """It would stand in every row."""
    message = refusal(written(tmp_path / "f.csv", line(**{"x_" + "n" * 255: "1"})))
    assert message.startswith("f.csv line 1: ")
    assert "is longer than 256 bytes" in message
    assert len(message) < 250


def test_many_texts_in_dictionaries_of_parquet_are_refused_before_they_are_copied(tmp_path: Path) -> None:
    """A hundred columns that name one text of 64 KiB a thousand times are 6 GiB of rows in a small file."""
    rows = 1_000
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * 60_000]))
    usual = {name: pa.array([None if value == "NULL" else value] * rows) for name, value in USUAL.items()}
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table(usual | {f"x_{number}": text for number in range(100)}), path, compression="zstd")
    assert path.stat().st_size < 2**20
    with (
        pytest.raises(WrongUseError, match="rows from 1: more than 268435456 bytes"),
        path.open("rb") as stream,
    ):
        list(ParquetLines("f.parquet", stream, Reading(NOTHING_ASKED)))


def test_a_nested_list_of_one_text_is_refused_before_it_is_copied(tmp_path: Path) -> None:
    rows = 1_000
    lists = pa.array([["x" * 60_000] * 64] * rows, pa.list_(pa.dictionary(pa.int32(), pa.string())))
    usual = {name: pa.array([None if value == "NULL" else value] * rows) for name, value in USUAL.items()}
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table(usual | {"x_list": lists}), path, compression="zstd")
    assert path.stat().st_size < 2**20
    with pytest.raises(WrongUseError, match="rows from 1: "), path.open("rb") as stream:
        list(ParquetLines("f.parquet", stream, Reading(NOTHING_ASKED)))


def test_a_long_key_of_a_tag_is_refused(tmp_path: Path) -> None:
    tags = pa.array([[("k" * 8_193, "v")]], pa.map_(pa.string(), pa.string()))
    usual = {name: pa.array([None if value == "NULL" else value]) for name, value in USUAL.items()}
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table(usual | {"Tags": tags}), path)
    with pytest.raises(WrongUseError, match="row 1: Tags: longer than 8192 bytes"), path.open("rb") as stream:
        list(ParquetLines("f.parquet", stream, Reading(NOTHING_ASKED)))


def test_long_lines_are_stored_in_small_inserts(
    store: ClickHouseStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "BATCH_MAX_BYTES", 40_000)
    inserted = []
    insert = store.insert

    def watched(table: str, rows: pa.Table, token: str) -> None:
        inserted.append((table, rows.num_rows))
        insert(table, rows, token)

    monkeypatch.setattr(store, "insert", watched)
    loaded(store, written(tmp_path / "f.csv", *[line(x_more=f"{number:08000}") for number in range(12)]))
    assert [rows for table, rows in inserted if table == "bill_lines"] == [5, 5, 2]
    assert [row["lines"] for row in stored(store)["bill_loads"]] == [12]


def test_what_a_file_became_while_it_was_read_does_not_stand_for_it_later(
    store: ClickHouseStore, tmp_path: Path
) -> None:
    path = written(tmp_path / "f.csv", line())
    file = file_of(path)
    changed = [
        file.open(),
        written(tmp_path / "g.csv", line(BilledCost="2"), line(BilledCost="3")).open("rb"),
    ]
    with pytest.raises(WrongUseError, match="changed while it was read"):
        loading.load(store, [file._replace(open=lambda: changed.pop(0))], 1, replace=False)
    loaded(store, path)
    assert [row["billed_cost"] for row in stored(store)["bill_lines"]] == [Decimal("1.5")]


def test_what_a_parquet_became_does_not_stand_for_it_later(store: ClickHouseStore, tmp_path: Path) -> None:
    usual = {name: pa.array([None if value == "NULL" else value]) for name, value in USUAL.items()}
    paths = [tmp_path / "f.parquet", tmp_path / "g.parquet"]
    for path, cost in zip(paths, ("1.5", "2"), strict=True):
        pq.write_table(pa.table(usual | {"BilledCost": pa.array([cost])}), path)
    changed = [path.open("rb") for path in paths]
    with pytest.raises(WrongUseError, match="changed while it was read"):
        loading.load(store, [file_of(paths[0])._replace(open=lambda: changed.pop(0))], 1, replace=False)
    loaded(store, paths[0])
    assert [row["billed_cost"] for row in stored(store)["bill_lines"]] == [Decimal("1.5")]
