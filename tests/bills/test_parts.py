"""A folder with the parts of a bill, as exports write them: all of them are one load, or none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from streams.cli.files import PARTS_MAX, with_parts
from streams.errors import WrongUseError
from tests.bills.bill import line, text_of
from tests.cli.command import trainfare


@pytest.fixture
def meter(tmp_path: Path) -> Path:
    log = tmp_path / "log.jsonl"
    value = {"id": "1", "source": "s", "time_ms": 1_780_308_000_000, "job_id": "run-7", "type": "queued"}
    log.write_text(json.dumps({"topic": "jobs", "value": value}) + "\n")
    done = trainfare("replay", log, "--data", tmp_path / "meter")
    assert done.code == 0, done.err
    return tmp_path / "meter"


def part(path: Path, cost: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = text_of([line(BilledCost=cost, ResourceId=f"i-{cost}")])
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def test_the_parts_of_a_folder_are_one_bill(tmp_path: Path, meter: Path) -> None:
    folder = tmp_path / "BILLING_PERIOD=2026-03"
    part(folder / "data" / "00002.CSV", "2")
    part(folder / "data" / "00001.csv.gz", "1")
    (folder / "data" / "manifest.json").write_text("{}")
    (folder / ".part").mkdir()
    part(folder / ".part" / "00003.csv", "4")
    part(folder / "_temporary.csv", "8")
    done = trainfare("bills", "load", folder, "--data", meter)
    assert done.code == 0, done.err
    assert [each.partition("/data/")[2] for each in done.out.splitlines()] == [
        "00001.csv.gz: FOCUS, 1 line, 1 USD",
        "00002.CSV: FOCUS, 1 line, 2 USD",
    ]
    again = trainfare("bills", "load", folder, "--data", meter)
    assert again.out.count("loaded already, nothing changed") == 2


def test_a_part_that_is_wrong_keeps_all_of_them_out(tmp_path: Path, meter: Path) -> None:
    part(tmp_path / "bill" / "1.csv", "1")
    part(tmp_path / "bill" / "2.csv", "many")
    done = trainfare("bills", "load", tmp_path / "bill", "--data", meter)
    assert done.code == 2
    assert "2.csv line 2" in done.one_line()
    listed = trainfare("bills", "list", "--data", meter, "--format", "csv").out
    assert "1.csv" not in listed


def test_a_folder_without_parts_or_with_too_many_is_refused(tmp_path: Path) -> None:
    done = trainfare("bills", "load", tmp_path, "--data", tmp_path / "meter")
    assert (done.code, "0 files with .csv" in done.one_line()) == (2, True)
    for number in range(PARTS_MAX + 1):
        (tmp_path / f"{number}.csv").touch()
    with pytest.raises(WrongUseError, match=r"1,001 files with \.csv, expected 1 to 1000; name"):
        with_parts([tmp_path], (".csv",), "name")


def cur(folder: Path, version: str, *costs: str) -> dict[str, object]:
    """The parts of a version of a report as AWS lays them out, and its manifest beside them."""
    keys = []
    for number, cost in enumerate(costs):
        part(folder / version / f"cur-{number}.csv.gz", cost)
        keys.append(f"reports/cur/20260301-20260401/{version}/cur-{number}.csv.gz")
    found: dict[str, object] = {"assemblyId": version, "compression": "GZIP", "reportKeys": keys}
    (folder / version / "cur-Manifest.json").write_text(json.dumps(found))
    return found


def test_the_manifest_of_a_period_names_its_newest_version(tmp_path: Path) -> None:
    period = tmp_path / "20260301-20260401"
    cur(period, "old", "1", "2")
    newest = cur(period, "new", "3", "4")
    (period / "cur-Manifest.json").write_text(json.dumps(newest))
    for given in (period, period / "cur-Manifest.json"):
        done = trainfare("bills", "load", given, "--dry-run")
        assert done.code == 0, done.err
        assert ("old/cur-0.csv.gz" in done.err, "old" in done.out) == (given == period, False)
        assert "new/cur-1.csv.gz" in done.out


def test_a_part_that_the_manifest_names_and_nobody_copied_keeps_all_out(tmp_path: Path) -> None:
    period = tmp_path / "20260301-20260401"
    cur(period, "v", "1", "2")
    (period / "v" / "cur-1.csv.gz").unlink()
    for given in (period, period / "v" / "cur-Manifest.json"):
        done = trainfare("bills", "load", given, "--data", tmp_path / "meter")
        assert (done.code, "1 of 2 parts are missing: " in done.one_line()) == (2, True)
        assert "cur-1.csv.gz; the export was not copied whole" in done.err
    assert not (tmp_path / "meter").exists()


def test_data_exports_keep_the_manifest_beside_the_data(tmp_path: Path) -> None:
    part(tmp_path / "data" / "BILLING_PERIOD=2026-03" / "e-1.csv.gz", "1")
    part(tmp_path / "data" / "BILLING_PERIOD=2026-03" / "e-2.csv.gz", "2")
    at = tmp_path / "metadata" / "BILLING_PERIOD=2026-03" / "e-Manifest.json"
    at.parent.mkdir(parents=True)
    at.write_text(json.dumps({"dataFiles": ["s3://b/x/e/data/BILLING_PERIOD=2026-03/e-1.csv.gz"]}))
    done = trainfare("bills", "load", at, "--dry-run")
    assert (done.code, "e-1.csv.gz" in done.out, "e-2.csv.gz" in done.out) == (0, True, False), done.err


def test_azure_says_how_long_each_part_is(tmp_path: Path) -> None:
    file = part(tmp_path / "part_0.csv", "1")
    for size, code in ((file.stat().st_size, 0), (9, 2)):
        blob = {"blobName": "exports/20260301-20260331/run/part_0.csv", "byteCount": size}
        (tmp_path / "manifest.json").write_text(json.dumps({"blobs": [blob]}))
        done = trainfare("bills", "load", tmp_path, "--dry-run")
        assert (done.code, "and manifest.json says 9" in done.err) == (code, code == 2), done.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "expected the manifest of an AWS Cost and Usage Report"),
        ("[", "expected the manifest of an AWS Cost and Usage Report"),
        ('{"reportKeys": ["a/../../etc/passwd"]}', "is no name of a part"),
        ('{"reportKeys": ["/"]}', "is no name of a part"),
    ],
)
def test_what_is_no_manifest_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x-manifest.json"
    path.write_text(text)
    done = trainfare("bills", "load", path, "--dry-run")
    assert (done.code, said in done.one_line()) == (2, True)
