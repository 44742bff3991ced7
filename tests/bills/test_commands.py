"""The commands about bills, as a user runs them: what they print, refuse and write."""

from __future__ import annotations

import csv
import io
import json
import shutil
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from sinks.directory_lock import acquire, release
from sinks.meta import MINUTES_KEPT_FROM
from streams.bills.columns import CHARGE_CATEGORIES, COLUMNS, MANDATORY, ColumnKind
from tests.bills.bill import line, written
from tests.cli.command import trainfare

HOSTILE = "=cmd|' /C calc'!A0\x1b[2J"
SHOWN = HOSTILE.replace("\x1b", "\\x1b")
DAY = {
    "BillingPeriodStart": "2020-04-01",
    "BillingPeriodEnd": "2020-05-01",
    "ChargePeriodStart": "2020-04-01T00:00:00Z",
    "ChargePeriodEnd": "2020-04-02T00:00:00Z",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bills")
    job = {
        "source": "s",
        "job_id": HOSTILE,
        "gpu_count": 1,
        "labels": {"resource_id": HOSTILE},
        "team": "=1+1",
    }
    start_ms = 1_585_699_200_000
    price = {"sku": "SKU1", "component": "gpu", "usd": "1.5", "per": "gpu_hour", "effective_ms": start_ms}
    values = [
        ("prices", {"id": "p", "source": "s", "time_ms": start_ms, **price}),
        (
            "jobs",
            {**job, "id": "1", "time_ms": start_ms, "type": "started", "account": "acct", "purchase": "spot"},
        ),
        ("jobs", {**job, "id": "2", "time_ms": start_ms + 3_600_000, "type": "completed"}),
    ]
    log = root / "log.jsonl"
    log.write_text("".join(json.dumps({"topic": topic, "value": value}) + "\n" for topic, value in values))
    done = trainfare("replay", log, "--data", root / "meter")
    assert done.code == 0, done.err
    lines = [
        line(**DAY, ResourceId=HOSTILE),
        line(**DAY, ResourceId="i-1", BilledCost="2", ListCost="2"),
        line(**DAY, ResourceId="i-1", BilledCost="2", ListCost="2"),
        line(**DAY, ResourceId=HOSTILE, BilledCost="-0.25", ChargeClass="Correction"),
        line(**DAY, ResourceId="i-2", BilledCost="7", BillingCurrency="EUR"),
    ]
    path = written(root / "=april\x1b.csv", *lines)
    done = trainfare("bills", "load", path, "--data", root / "meter")
    assert done.code == 0, done.err
    assert (
        done.out == f"{root}/=april\\x1b.csv: FOCUS, 5 lines, 5.25 USD; 1 correction; "
        "1 line in other currencies\n  7.00 EUR are 0.00 USD; 1 line without a rate of the day, "
        "charged to nobody until `trainfare fx load FILE`\n"
    )
    return root / "meter"


def test_loaded_again_it_says_so(data: Path) -> None:
    done = trainfare("bills", "load", data.parent / "=april\x1b.csv", "--data", data)
    assert done.out.endswith("loaded already, nothing changed\n")


def test_bills_are_listed(data: Path) -> None:
    (row,) = json.loads(trainfare("bills", "list", "--data", data, "--format", "json").out)
    assert (row["file"], row["status"], row["lines"]) == ("=april\x1b.csv", "loaded", 5)
    assert Decimal(row["billed_usd"]) == Decimal("5.25")
    shown = trainfare("bills", "list", "--data", data).out
    assert "\x1b" not in shown
    assert "\\x1b.csv" in shown


def test_findings_are_named(data: Path) -> None:
    done = trainfare(
        "bills", "reconcile", "--data", data, "--by", "resource", "--from", "2020-04-01", "--to", "2020-05-01"
    )
    assert done.code == 0, done.err
    assert "\x1b" not in done.out
    for said in (
        "FOUND double_count: 1 x lines that say the same twice",
        "FOUND late_line: 1 x corrections",
        "FOUND missing_tag: 1 x only billed",
        "FOUND other_currency: 1 x 7.000000000000000000 EUR in lines without a rate of their day: `trainfare fx load`",
    ):
        assert said in done.out, done.out


def test_findings_for_programs(data: Path) -> None:
    done = trainfare(
        "bills", "reconcile", "--data", data, "--by", "resource", "--by", "sku", "--format", "json"
    )
    found = json.loads(done.out)
    (matched,) = [row for row in found["rows"] if row["resource"] == HOSTILE]
    assert (matched["status"], Decimal(matched["variance_usd"])) == ("matched", Decimal(0))
    assert Decimal(matched["correction_usd"]) == Decimal("-0.25")
    assert {row["cause"] for row in found["findings"]} == {
        "double_count",
        "late_line",
        "missing_tag",
        "other_currency",
    }
    cells = trainfare("bills", "reconcile", "--data", data, "--by", "resource", "--format", "csv").out
    assert f'"\'{SHOWN}"' in cells


def test_the_ledger_as_focus(data: Path, tmp_path: Path) -> None:
    out = trainfare("bills", "export", "--data", data).out
    (row,) = csv.DictReader(io.StringIO(out))
    mandatory = {column.headers[0] for column in COLUMNS if column.name in MANDATORY}
    assert len(mandatory) == 21
    assert mandatory <= set(row)
    for column in COLUMNS:
        value = row.get(column.headers[0])
        if column.kind is ColumnKind.COST:
            assert Decimal(str(value)) == Decimal("1.5")
        if column.kind in (ColumnKind.INSTANT, ColumnKind.DAY):
            assert datetime.fromisoformat(str(value)).tzinfo is not None
        if column.kind is ColumnKind.NAME:
            assert value
    assert row["ChargeCategory"] in CHARGE_CATEGORIES
    assert row["ServiceCategory"] == "Compute"
    assert row["PricingCategory"] == "Dynamic"
    assert (row["PricingQuantity"], row["PricingUnit"]) == ("1.000000000000", "GPU-Hours")
    assert (row["ChargePeriodStart"], row["ChargePeriodEnd"]) == (
        "2020-04-01T00:00:00Z",
        "2020-04-02T00:00:00Z",
    )
    assert (row["x_JobId"], row["x_Team"], row["x_CostState"]) == (f"'{SHOWN}", "'=1+1", "reconciled")
    assert json.loads(row["Tags"]) == {"resource_id": HOSTILE}
    assert {name for name in row if name.startswith("x_")} >= {
        "x_JobId",
        "x_AttemptId",
        "x_OwnerId",
        "x_Team",
        "x_Phase",
        "x_CostState",
    }

    done = trainfare(
        "bills", "export", "--data", data, "--format", "parquet", "--out", tmp_path / "f.parquet"
    )
    assert done.code == 0, done.err
    (stored,) = pq.read_table(tmp_path / "f.parquet").to_pylist()
    assert (stored["x_JobId"], stored["BilledCost"]) == (HOSTILE, Decimal("1.5"))


def test_our_own_export_can_be_loaded(data: Path, tmp_path: Path) -> None:
    for form in ("csv", "parquet"):
        path = tmp_path / f"f.{form}"
        assert trainfare("bills", "export", "--data", data, "--format", form, "--out", path).code == 0
        done = trainfare("bills", "load", path, "--data", data, "--replace")
        assert done.code == 0, done.err
        assert "1 line, 1.5 USD" in done.out
    trainfare("bills", "load", data.parent / "=april\x1b.csv", "--data", data)


def test_without_a_bill_it_says_so(data: Path, tmp_path: Path) -> None:
    log = data.parent / "log.jsonl"
    assert trainfare("replay", log, "--data", tmp_path / "meter").code == 0
    done = trainfare("bills", "reconcile", "--data", tmp_path / "meter")
    assert (done.code, done.one_line()) == (0, "trainfare: no bill is loaded; `trainfare bills load FILE`")
    assert "found" not in done.out


def test_months_whose_minutes_were_dropped_are_named(data: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(data, tmp_path / "meter", symlinks=True)
    store = ClickHouseStore(Embedded(data_dir=copy))
    try:
        store.meta.put(MINUTES_KEPT_FROM, "202005")
    finally:
        store.close()
    dropped = "were dropped (meter.minutes_retention_days)"
    done = trainfare("bills", "reconcile", "--data", copy)
    assert done.one_line() == f"trainfare: 1 billed days are not compared: their minutes {dropped}"
    assert "2020-04" not in done.out
    done = trainfare("chargeback", "--month", "2020-04", "--data", copy)
    assert f"the minutes of 2020-04 {dropped}: idle time is not charged, and no line" in done.err
    assert "dropped" not in trainfare("chargeback", "--month", "2020-05", "--data", copy).err


def test_a_dry_run_names_all_for_which_closing_would_be_refused(data: Path) -> None:
    asked = ("close", "2099-01", "--dry-run", "--data", data)
    done = trainfare(*asked, "--format", "json")
    not_ended, nothing = json.loads(done.out)["refused"]
    assert not_ended == "2099-01 has not ended: close it from 2099-02-01 on (UTC)"
    assert "nothing of it is metered or billed" in nothing
    for reason in (not_ended, nothing):
        assert f"trainfare: closing it now would be refused: {reason}\n" in done.err
    forced = trainfare(*asked, "--unreconciled", "--format", "json")
    assert json.loads(forced.out)["refused"] == [not_ended]


@pytest.mark.parametrize("form", ["table", "csv", "json", "pdf"])
def test_a_statement_names_lines_without_a_rate(data: Path, tmp_path: Path, form: str) -> None:
    asked = ("statement", "--team", "=1+1", "--month", "2020-04", "--data", data, "--format", form)
    done = trainfare(*asked, "--out", tmp_path / "statement")
    assert done.code == 0, done.err
    assert done.one_line() == (
        "trainfare: 1 line of the bill is not in USD, has no rate of its day, and is charged to nobody: "
        "7.000000000000000000 EUR; `trainfare fx load` loads rates"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("load", "nowhere.csv"), "no such file; name a bill"),
        (("load", "docs"), "docs: 0 files with .csv"),
        (("reconcile", "--from", "October"), "--from October: expected a day such as 2026-10-01"),
        (("reconcile", "--by", "node"), "--by"),
        (("export", "--format", "parquet"), "--format parquet needs --out FILE"),
    ],
)
def test_wrong_use_is_one_line(words: tuple[str, ...], said: str, data: Path) -> None:
    done = trainfare("bills", *words, "--data", data)
    assert done.code == 2
    assert said in done.one_line()


def test_a_store_that_a_worker_holds_is_not_written(data: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", line())
    acquire(data)
    try:
        done = trainfare("bills", "load", path, "--data", data)
    finally:
        release(data)
    assert done.code != 0
    assert "open" in done.one_line()


def test_a_refused_file_names_its_line(data: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", line(), line(BilledCost="=1+1"))
    done = trainfare("bills", "load", path, "--data", data)
    assert done.code == 2
    assert (
        done.one_line()
        == f"trainfare: {path} line 3: BilledCost: '=1+1' is no number; write it as 1000.50; nothing of this file is loaded"
    )


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_an_export_overwrites_nothing_and_follows_no_link(data: Path, tmp_path: Path, form: str) -> None:
    kept, link = tmp_path / "kept", tmp_path / "link"
    kept.write_text("mine")
    link.symlink_to(tmp_path / "elsewhere")
    for out in (kept, link, Path("/dev/stdout")):
        done = trainfare("bills", "export", "--data", data, "--format", form, "--out", out)
        assert (done.code, done.one_line()) == (
            2,
            f"trainfare: --out {out}: exists; name a new file, or remove it first",
        )
        done = trainfare(
            "chargeback", "--month", "2026-03", "--data", data, "--format", "parquet", "--out", out
        )
        assert done.code == 2
        assert f"--out {out}: exists" in done.one_line()
    assert kept.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "link"]
