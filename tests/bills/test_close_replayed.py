"""A month is closed over real events: a late price and a late event change its books and not its statement."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.bills.bill import written
from tests.bills.test_variance import BEGIN_MS, HOUR_MS, events, usage
from tests.cli.command import trainfare

JUNE_MS = BEGIN_MS + 35 * 24 * HOUR_MS


def asked(data: Path, *words: object) -> str:
    done = trainfare(*words, "--data", data)
    assert done.code == 0, done.err
    return done.out


def statement(data: Path, month: str) -> list[dict[str, str]]:
    text = asked(data, "statement", "--team", "vision", "--month", month, "--format", "csv")
    return list(csv.DictReader(io.StringIO(text)))


def late_events(path: Path) -> Path:
    """A price that held all the time, and a job of June."""
    price = {"id": "p2", "source": "book", "time_ms": JUNE_MS - 1, "sku": "h100", "component": "gpu", "usd": "3.6", "per": "gpu_hour", "effective_ms": 0}  # fmt: skip
    records: list[dict[str, Any]] = [{"topic": "prices", "value": price}]
    of = {"source": "s", "job_id": "june", "team": "vision", "cloud": "aws", "account": "A1"}
    for at, kind in ((0, "started"), (1, "completed")):
        nodes = {"nodes": {"n1": 1}} if kind == "started" else {}
        value = {**of, **nodes, "id": kind, "time_ms": JUNE_MS + at * HOUR_MS, "type": kind}
        records.append({"topic": "jobs", "value": value})
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    return path


def test_what_comes_late_is_in_the_next_statement(tmp_path: Path) -> None:
    data = tmp_path / "meter"
    assert trainfare("replay", events(tmp_path / "may.jsonl", "3", 2), "--data", data).code == 0
    refused = trainfare("close", "2026-05", "--data", data)
    assert refused.code == 2
    assert "60.000000000 USD are metered and on no bill yet" in refused.one_line()
    asked(data, "close", "2026-05", "--unreconciled")
    before = statement(data, "2026-05")
    assert [Decimal(each["charge_usd"]) for each in before] == [30, 30]

    asked(data, "replay", late_events(tmp_path / "late.jsonl"), "--append")
    late = written(tmp_path / "may-late.csv", usage("80", "80"))
    asked(data, "bills", "load", late)
    assert statement(data, "2026-05") == before
    verified = asked(data, "close", "2026-05", "--verify")
    assert "note: what was metered on 2026-05-03 has changed since" in verified
    assert verified.endswith("2026-05 is as it was closed\n")

    asked(data, "close", "2026-06", "--unreconciled")
    june = statement(data, "2026-06")
    assert [(each["of_month"], each["job_id"], Decimal(each["charge_usd"])) for each in june] == [
        ("2026-05", "j0", Decimal(10)),
        ("2026-05", "j1", Decimal(10)),
        ("2026-06", "june", Decimal("3.6")),
    ]
    assert {each["reason"] for each in june[:2]} == {"late price, late bill may-late.csv"}
    assert statement(data, "2026-05") == before
    for month in ("2026-05", "2026-06"):
        assert "is as it was closed" in asked(data, "close", month, "--verify")
