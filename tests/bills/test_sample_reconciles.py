"""The real bill beside events made from its own lines, through the whole pipeline: no variance."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

import pytest

from tests.bills.bill import SAMPLE
from tests.cli.command import trainfare

pytestmark = pytest.mark.skipif(not SAMPLE.exists(), reason="the shared data are not here")
NANO = Decimal("0.000000001")
WITHOUT_RESOURCE = {"NULL", ""}


def _events(rows: list[dict[str, str]]) -> tuple[list[dict[str, object]], Decimal]:
    """One job per resource, an attempt per line of it; each of its SKUs moves as many bytes as it was billed nano-dollars, at $1 a gigabyte."""
    groups: dict[tuple[str, str, str, str], Decimal] = defaultdict(Decimal)
    for row in rows:
        if row["ResourceId"] not in WITHOUT_RESOURCE:
            groups[row["ResourceId"], row["SubAccountId"], row["SkuId"], row["ChargePeriodStart"]] += Decimal(
                row["BilledCost"]
            )
    since_ms = int(datetime(2024, 9, 1, tzinfo=UTC).timestamp() * 1000)
    found: list[tuple[int, dict[str, object]]] = []
    total = Decimal(0)
    for sku in sorted({sku for _, _, sku, _ in groups}):
        price = {
            "id": sku,
            "source": "bill",
            "time_ms": since_ms,
            "sku": sku,
            "component": "network",
            "usd": "1",
            "per": "gb",
        }
        found.append((0, {"topic": "prices", "value": {**price, "effective_ms": since_ms, "region": sku}}))
    for number, ((resource, account, sku, start), usd) in enumerate(sorted(groups.items()), 1):
        at_ms = int(datetime.fromisoformat(start).replace(tzinfo=UTC).timestamp() * 1000)
        rounded = usd.quantize(NANO, rounding=ROUND_HALF_EVEN)
        if rounded <= 0:
            continue
        total += rounded
        common = {"source": "bill", "time_ms": at_ms, "job_id": resource, "attempt": number}
        for kind in ("started", "completed"):  # at once: it costs no time
            value = {**common, "id": f"{kind}-{number}", "type": kind, "account": account}
            found.append((at_ms, {"topic": "jobs", "value": value}))
        amount = {
            **common,
            "id": f"n{number}",
            "interval_ms": 0,
            "bytes": int(rounded / NANO),
            "path": "internet",
            "region": sku,
        }
        found.append((at_ms, {"topic": "network", "value": amount}))
    return [event for _, event in sorted(found, key=lambda each: each[0])], total


def test_variance_is_zero(tmp_path: Path) -> None:
    with SAMPLE.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    events, total = _events(rows)
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(event) + "\n" for event in events))
    data = tmp_path / "meter"
    done = trainfare("replay", log, "--data", data)
    assert done.code == 0, done.err
    assert json.loads(done.out)["dead_lettered"] == 0
    assert trainfare("bills", "load", SAMPLE, "--data", data).code == 0
    query = (
        "SELECT status, sum(r.metered_usd) AS metered_usd, sum(r.billed_usd) AS billed_usd, sum(abs(r.variance_usd)) AS variance_usd, "
        "sum(r.differs) AS differs, countIf(r.metered_usd = 0 AND r.billed_usd != 0 AND r.resource != '') AS missed "
        "FROM bill_reconciliation AS r GROUP BY status ORDER BY status"
    )
    done = trainfare("sql", query, "--data", data, "--format", "json")
    assert done.code == 0, done.err
    found = {row["status"]: row for row in json.loads(done.out)}
    assert set(found) == {"matched", "only_billed"}
    assert Decimal(found["matched"]["metered_usd"]) == total
    assert Decimal(found["matched"]["variance_usd"]) == 0
    assert found["matched"]["differs"] == 0
    # What is left: lines without a resource, credits, and what is billed at nothing.
    left = {
        row["SkuId"]
        for row in rows
        if row["ResourceId"] in WITHOUT_RESOURCE or Decimal(row["BilledCost"]).quantize(NANO) <= 0
    }
    assert left
    sums = sum(Decimal(row["billed_usd"]) for row in found.values())
    assert sums == Decimal("16.4038569888")
