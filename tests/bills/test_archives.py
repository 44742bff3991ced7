"""A bill in a ZIP archive gives the rows of its files, and an archive that anybody may have made takes no more than the limits."""

from __future__ import annotations

import gzip
import struct
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore
from streams.bills import archives
from streams.bills.archives import bill_files
from streams.bills.exchange_rates import load_rates
from streams.bills.loading import load
from streams.errors import WrongUseError
from tests.bills.bill import NOW_MS, line, loaded, text_of
from tests.cli.command import trainfare
from tests.new_store import begun

FIRST, SECOND = text_of([line()]), text_of([line(ResourceId="n2", BilledCost="0.25")])
_LINES = "SELECT resource_id, billed_cost FROM bill_lines FINAL ORDER BY resource_id"


def archived(path: Path, *entries: tuple[str, str | bytes], packing: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return path


def load_archive(store: ClickHouseStore, path: Path) -> list[str]:
    """Load it; the names of its files."""
    return [each.file.name for each in load(store, [*bill_files([(str(path), path)])], NOW_MS, replace=False)]


def refused(store: ClickHouseStore, path: Path) -> str:
    with pytest.raises(WrongUseError) as caught:
        load_archive(store, path)
    assert list(store.ask("SELECT count() FROM bill_lines").rows()) == [(0,)]
    return str(caught.value)


def test_an_archive_gives_the_rows_of_its_files(store: ClickHouseStore, tmp_path: Path) -> None:
    """A file is known by its content: unpacked or packed otherwise, it is loaded already. Folders and names lead nowhere."""
    path = archived(
        tmp_path / "October.ZIP",
        ("../../etc/b.csv", SECOND),
        ("/a.csv", FIRST),
        ("__MACOSX/._a.csv", b"\0"),
        (".hidden.csv", b"\0"),
        ("export-manifest.json", "{}"),
        ("read me.txt", "x"),
    )
    assert load_archive(store, path) == [f"{path}/b.csv", f"{path}/a.csv"]
    rows = list(store.ask(_LINES, {}).rows())
    assert rows == [("n1", Decimal("1.5")), ("n2", Decimal("0.25"))]
    assert sorted(row["file"] for row in store.select("bill_loads").to_pylist()) == ["a.csv", "b.csv"]
    plain, packed = tmp_path / "first.csv", tmp_path / "second.csv.gz"
    plain.write_text(FIRST, encoding="utf-8")
    packed.write_bytes(gzip.compress(SECOND.encode()))
    assert [each.is_new for each in loaded(store, plain, packed)] == [False, False]
    assert list(store.ask(_LINES, {}).rows()) == rows
    assert not list(tmp_path.parent.glob("etc"))


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([], "has no file that ends in .csv, .json, .jsonl, .ndjson, but nothing"),
        ([("invoice.pdf", b"%PDF")], "but invoice.pdf"),
        ([("[Content_Types].xml", "<x/>"), ("xl/a.csv", FIRST)], "is an Excel workbook; save the sheet as CSV"),
        ([("a.csv.gz", b"x")], "a.csv.gz: is packed within a ZIP archive"),
        ([("part.parquet", b"PAR1")], "part.parquet: is packed within a ZIP archive"),
        ([("b.zip", b"PK")], "b.zip: is packed within a ZIP archive"),
        ([(f"{n}.csv", b"") for n in range(1_001)], "has 1,001 entries, expected 1000 at most"),
        ([("bomb.csv", b"0" * 2**24)], "bomb.csv: becomes more than 500 times as large"),
        ([("a.csv", FIRST), ("b.csv", FIRST.replace("1.5", "x", 1))], "b.csv line 2: BilledCost"),
        ([("a.csv", FIRST), ("b/a.csv", FIRST)], "its content is named twice"),
    ],
)  # fmt: skip
def test_what_an_archive_may_not_be_is_refused(
    entries: list[tuple[str, str | bytes]], said: str, store: ClickHouseStore, tmp_path: Path
) -> None:
    message = refused(store, archived(tmp_path / "f.zip", *entries))
    assert said in message
    assert message.startswith(str(tmp_path / "f.zip"))


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_packings_are_refused(packing: int, store: ClickHouseStore, tmp_path: Path) -> None:
    path = archived(tmp_path / "f.zip", ("a.csv", FIRST), packing=packing)
    assert "a.csv: is packed in another way than deflate" in refused(store, path)


def _encrypted(content: bytes) -> bytes:
    at = content.index(b"PK\1\2")
    return content[: at + 8] + b"\1" + content[at + 9 :]


def _other_content(content: bytes) -> bytes:
    at = content.index(b"acct")
    return content[:at] + b"bcct" + content[at + 4 :]


def _longer_than_said(content: bytes) -> bytes:
    """The list of entries says that the file has ten bytes."""
    at = content.index(b"PK\1\2")
    return content[: at + 24] + struct.pack("<I", 10) + content[at + 28 :]


def _long_list(content: bytes) -> bytes:
    """The end of the archive says that its list of entries has 4 GiB less a byte, and a hole of as much lies before it."""
    at = content.rindex(b"PK\5\6")
    return (
        content[:at] + b"\0" * 2**21 + content[at : at + 12] + struct.pack("<I", 2**21) + content[at + 16 :]
    )


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (_encrypted, "a.csv: is encrypted"),
        (_other_content, "a.csv: is no whole ZIP archive: Bad CRC-32"),
        (_longer_than_said, "a.csv"),
        (_long_list, "its list of entries has more than 1048576 bytes"),
        (lambda content: content[:-30], "is no whole ZIP archive: File is not a zip file"),
        (lambda _: b"", "is no whole ZIP archive"),
        (lambda content: content.replace(b"PK\3\4", b"PK\3\5"), "is no whole ZIP archive"),
    ],
)
def test_a_damaged_archive_is_refused(
    harm: Callable[[bytes], bytes], said: str, store: ClickHouseStore, tmp_path: Path
) -> None:
    path = archived(tmp_path / "f.zip", ("a.csv", FIRST), packing=zipfile.ZIP_STORED)
    path.write_bytes(harm(path.read_bytes()))
    assert said in refused(store, path)


def test_every_byte_of_an_archive_may_be_wrong(store: ClickHouseStore, tmp_path: Path) -> None:
    """It is refused in words, or is still the same bill."""
    path = archived(tmp_path / "f.zip", ("a.csv", FIRST))
    whole = path.read_bytes()
    read = 0
    for at in range(len(whole)):
        for wrong in (0, 255, whole[at] ^ 1):
            path.write_bytes(whole[:at] + bytes([wrong]) + whole[at + 1 :])
            try:
                content = b"".join(file.open().read() for file in bill_files([("f.zip", path)]))
            except WrongUseError:
                continue
            assert content == FIRST.encode()
            read += 1
    assert read


def test_all_files_of_an_archive_together_have_the_limit_of_one(
    store: ClickHouseStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "BYTES_MAX", 2 * len(FIRST) - 1)
    path = archived(tmp_path / "f.zip", ("a.csv", FIRST), ("b.csv", FIRST.replace("n1", "n2")))
    assert f"more than {2 * len(FIRST) - 1} bytes unpacked; split it" in refused(store, path)


def test_an_archive_is_tried_and_loaded_by_the_command(tmp_path: Path) -> None:
    begun(tmp_path / "meter")
    folder = tmp_path / "export"
    folder.mkdir()
    path = archived(folder / "f.zip", ("x/a.csv", FIRST), ("b.csv", SECOND))
    done = trainfare("bills", "load", path, "--dry-run")
    assert "f.zip/a.csv: FOCUS" in done.out
    done = trainfare("bills", "load", folder, "--data", tmp_path / "meter")
    assert done.code == 0, done.err
    assert "f.zip/a.csv: " in done.out
    assert "f.zip/b.csv: " in done.out


def test_rates_come_as_the_central_bank_packs_them(store: ClickHouseStore, tmp_path: Path) -> None:
    path = archived(
        tmp_path / "eurofxref-hist.zip", ("eurofxref-hist.csv", "Date,USD,GBP,\n2026-10-01,1.25,0.8,\n")
    )
    (found,) = load_rates(store, [*bill_files([(str(path), path)])], NOW_MS)
    assert found.rates == 2
