"""A file that is no bill is refused with what it seems to be, and what to export instead."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore
from streams.bills import text_lines
from streams.bills.reading import AskedFormat
from streams.errors import WrongUseError
from tests.bills.exports import BILLS, EXPORTS, gcp_records
from tests.bills.test_formats import refused, written

CONSOLE = "Billing account name,Billing account ID,Project name,Project ID,Service description,SKU description,Cost ($)"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (CONSOLE, "seems to be the cost table of Google Cloud's console; export the table gcp_billing_export_resource"),
        ("InvoiceID,PayerAccountId,LinkedAccountId,RecordType,RecordId,Cost", "AWS's former detailed billing report"),
        ("Service,EC2-Instances($),Total costs($)", "a download of AWS's Cost Explorer; make an export of type CUR 2.0"),
        ("UsageDate,Cost,CostUSD,Currency", "a download of Azure's cost analysis"),
        ("MeterId,MeterName,MeterCategory,UnitPrice,PartNumber", "Azure's price sheet"),
        ("lineItem/intervalUsageStart,lineItem/tenantId,usage/consumedQuantity", "Oracle's usage report, which has no costs"),
        ("date;resource;usd", "its columns are separated by semicolons"),
        ("date\tresource\tusd", "its columns are separated by tabs"),
        ("date,resource,price", "nearest is plain list of costs, of which usd is missing"),
        ("name,color", "is of no format that is read: expected a bill in FOCUS"),
        ('[{"cost": 1}]', "is a JSON list; write one JSON object a line"),
        ('{"cost": 1', "line 1: is no JSON object"),
        ('{"cost": NaN}', "line 1: is no JSON object"),
        ("[" * 100_000, "is a JSON list"),
        ('{"a":' * 100_000, "line 1: is no JSON object"),
        ("<html>", "is HTML or XML"),
        ("%PDF-1.7", "is a PDF"),
    ],
)  # fmt: skip
def test_what_is_no_bill_is_told(content: str, said: str, store: ClickHouseStore, tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text(content + "\n", encoding="utf-8")
    message = refused(store, path)
    assert said in message
    assert len(message) < len(str(path)) + 350


def test_archives_and_workbooks_are_told(store: ClickHouseStore, tmp_path: Path) -> None:
    """What is packed is known by its name, too: `.zip`, `.gz`."""
    path = tmp_path / "f.csv"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bill.csv", b"0" * 2**24)
    assert "is a ZIP archive or an Excel workbook; let the name of an archive end in .zip" in refused(
        store, path
    )
    path.write_bytes(b"\xd0\xcf\x11\xe0" + b"\0" * 100)
    assert "is an Excel workbook" in refused(store, path)
    path.write_bytes(gzip.compress(b"date,resource,usd\n"))
    assert "is packed with gzip; let its name end in .gz" in refused(store, path)


@pytest.mark.parametrize("name", sorted(EXPORTS))
def test_a_bomb_of_any_format_ends_at_the_limit(
    name: str, store: ClickHouseStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_lines, "BYTES_MAX", 200_000)
    export = EXPORTS[name]
    plain = written(tmp_path, export, BILLS[:1]).read_bytes()
    header, _, line = plain.partition(b"\n")
    if not line:
        header, line = b"", plain
    path = tmp_path / f"bomb.{export.ending}.gz"
    path.write_bytes(gzip.compress(header + b"\n" + line * 10_000))
    assert "more than 200000 bytes unpacked" in refused(store, path)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
@pytest.mark.parametrize("name", sorted(EXPORTS))
def test_another_encoding_is_refused(
    name: str, encoding: str, store: ClickHouseStore, tmp_path: Path
) -> None:
    path = written(tmp_path, EXPORTS[name], [BILLS[0]._replace(resource="n\xf8de")])
    text = path.read_text(encoding="utf-8").replace("\\u00f8", "\xf8")
    path.write_bytes(text.encode(encoding))
    assert "is not UTF-8" in refused(store, path)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("usage_start_time", "yesterday", "usage_start_time: 'yesterday' is no instant"),
        ("invoice", {"month": "2026"}, "invoice.month: '2026' is no month such as 202610"),
        ("credits", "x", "credits: 'x' is no JSON"),
        ("credits", [1], "credits: expected a list of objects"),
        ("credits", [{"type": "DISCOUNT"}], "credits: a credit has no amount"),
        ("credits", [{"type": "DISCOUNT", "amount": "1e999"}], "credits: '1e999' is no number"),
        ("labels", [["a"]], "labels: "),
        ("currency", "Dollar", "is no code such as USD"),
        ("cost", None, "cost: is missing"),
        ("resource", {"global_name": "r" * 9_000}, "resource.global_name: longer than 8192 bytes"),
        ("usage_end_time", "2026-09-01 00:00:00 UTC", "ChargePeriodEnd is not after ChargePeriodStart"),
    ],
)
def test_a_wrong_value_of_json_is_refused_by_line_and_column(
    column: str, value: object, said: str, store: ClickHouseStore, tmp_path: Path
) -> None:
    good, bad = gcp_records(BILLS[:2])
    path = tmp_path / "f.jsonl"
    path.write_text(f"{json.dumps(good)}\n{json.dumps(bad | {column: value})}\n", encoding="utf-8")
    message = refused(store, path)
    assert message.startswith(f"{path} line 2: ")
    assert said in message


def test_focus_in_json_is_refused(store: ClickHouseStore, tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_text(json.dumps({"BilledCost": 1}) + "\n", encoding="utf-8")
    assert "is of no format that is read" in refused(store, path)
    assert "mandatory column" in refused(store, path, AskedFormat(format="focus"))


def test_tags_of_azure_that_are_none_are_refused(store: ClickHouseStore, tmp_path: Path) -> None:
    path = written(tmp_path, EXPORTS["azure-ea"], BILLS[:1])
    text = path.read_text(encoding="utf-8").replace('""team"": ""vision""', "team=vision")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(WrongUseError, match="line 2: Tags: "):
        raise WrongUseError(refused(store, path))
