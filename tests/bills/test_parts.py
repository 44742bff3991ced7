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
        "00001.csv.gz: FOCUS, 1 lines, 1 USD",
        "00002.CSV: FOCUS, 1 lines, 2 USD",
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
    with pytest.raises(WrongUseError, match=r"1001 files with \.csv, expected 1 to 1000; name"):
        with_parts([tmp_path], (".csv",), "name")
