"""Why a job was billed otherwise than metered: each cause in dollars, which sum to the difference, and the price that is right."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from streams.costs.charging import JobMetered
from streams.costs.variance import CAUSES, JobBill, variance_of
from tests.bills.bill import line, written
from tests.cli.command import trainfare

HOUR_MS = 3_600_000
BEGIN_MS = 1_777_802_400_000  # 2026-05-03T10:00Z
MAY = {
    "BillingPeriodStart": "2026-05-01",
    "BillingPeriodEnd": "2026-06-01",
    "ChargePeriodStart": "2026-05-03",
    "ChargePeriodEnd": "2026-05-04",
    "BillingAccountId": "A1",
    "ProviderName": "AWS",
    "ServiceName": "EC2",
}


def usage(usd: str, listed: str = "", **values: str) -> dict[str, str]:
    """A line of the node n1, whose list cost is its cost unless another one is given."""
    return line(**{**MAY, "BilledCost": usd, "EffectiveCost": usd, "ListCost": listed or usd, **values})


def events(path: Path, usd: str, jobs: int = 1) -> Path:
    """Ten hours of a GPU of the node n1 for each job, at a price per GPU-hour."""
    records: list[dict[str, Any]] = [
        {"topic": "prices", "value": {"id": "p", "source": "book", "time_ms": 1_696_000_000_000, "sku": "h100", "component": "gpu", "usd": usd, "per": "gpu_hour", "effective_ms": 0}}
    ]  # fmt: skip
    for number in range(jobs):
        of = {"source": "s", "job_id": f"j{number}", "team": "vision", "cloud": "aws", "account": "A1"}
        for at, kind in ((0, "started"), (10, "completed")):
            nodes = {"nodes": {"n1": 1}} if kind == "started" else {}
            value = {
                **of,
                **nodes,
                "id": f"{number}-{kind}",
                "time_ms": BEGIN_MS + at * HOUR_MS,
                "type": kind,
            }
            records.append({"topic": "jobs", "value": value})
    records.sort(key=lambda each: (each["value"]["time_ms"], each["value"]["id"]))
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    return path


def explained(folder: Path, price: str, *bill: dict[str, str], jobs: int = 1) -> dict[str, Any]:
    """The month of one price and a bill, with the causes of each job."""
    data = folder / "meter"
    assert trainfare("replay", events(folder / "events.jsonl", price, jobs), "--data", data).code == 0
    assert trainfare("bills", "load", written(folder / "may.csv", *bill), "--data", data).code == 0
    done = trainfare(
        "chargeback", "--data", data, "--month", "2026-05", "--by", "job", "--variance", "--format", "json"
    )
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    for row in found["rows"]:
        causes = [Decimal(row[f"{cause}_usd"]) for cause in (*CAUSES, "no_job")]
        differs = Decimal(row["charge_usd"]) - Decimal(row["metered_usd"])
        assert sum(causes) == Decimal(row["variance_usd"]) == differs
        assert row["kind"] == "jobs" or sum(causes) == causes[-1]
    return found


def causes_of(row: dict[str, Any]) -> dict[str, Decimal]:
    found = {cause: Decimal(row[f"{cause}_usd"]) for cause in CAUSES}
    return {cause: usd for cause, usd in found.items() if usd}


@pytest.mark.parametrize(
    ("bill", "expected"),
    [
        ([usage("30")], {}),
        ([usage("27", "30")], {"discount": -3}),
        ([usage("30.1", "30.1")], {"quantity": Decimal("0.1")}),
        ([usage("36")], {"price": 6}),
        ([usage("20", "30", CommitmentDiscountId="ri-1")], {"commitment": -10}),
        (
            [usage("15", "15", ListUnitPrice="3"), usage("10", "15", ListUnitPrice="2")],
            {"tier": -5},
        ),
        ([usage("30"), usage("-4", ChargeCategory="Credit")], {"credit": -4}),
        ([usage("30"), usage("3", ChargeCategory="Tax", ResourceId="NULL")], {"tax": 3}),
        ([usage("30"), usage("-2", ChargeClass="Correction")], {"late_line": -2}),
        ([usage("30", ResourceId="i-0abc")], {"missing_tag": -30}),
    ],
)
def test_each_cause(bill: list[dict[str, str]], expected: dict[str, Any], tmp_path: Path) -> None:
    bill = [{"ListUnitPrice": "NULL", "CommitmentDiscountId": "NULL", **each} for each in bill]
    found = explained(tmp_path, "3", *bill)
    (row,) = (row for row in found["rows"] if row["kind"] == "jobs")
    assert causes_of(row) == expected
    assert Decimal(row["no_job_usd"]) == 0
    assert bool(found["prices"]) == ("price" in expected)


def test_the_right_price_is_a_list_that_meters_what_was_billed(tmp_path: Path) -> None:
    found = explained(tmp_path, "3", usage("72"), jobs=2)
    (price,) = found["prices"]
    assert (price["sku"], price["usd"], price["used_usd"], price["jobs"]) == ("h100", "3.6", "3.000000000", 2)
    shown = trainfare(
        "chargeback", "--data", tmp_path / "meter", "--month", "2026-05", "--by", "job", "--variance"
    )
    assert "price h100: 3.000000000 USD per gpu_hour are metered, by the bill it is 3.6 (2 jobs)" in shown.out
    lines = shown.out.splitlines()
    at = lines.index("sku,component,usd,per,gpus,from")
    assert lines[at + 1] == "h100,gpu,3.6,gpu_hour,,2026-05-01"
    (tmp_path / "right.csv").write_text("\n".join(lines[at : at + 2]) + "\n")
    right = trainfare("prices", "load", tmp_path / "right.csv", "--out", tmp_path / "right.jsonl")
    assert right.code == 0, right.err
    again = tmp_path / "again"
    log = events(tmp_path / "again.jsonl", "3", jobs=2)
    assert trainfare("replay", tmp_path / "right.jsonl", log, "--data", again).code == 0
    assert trainfare("bills", "load", tmp_path / "may.csv", "--data", again).code == 0
    rows = json.loads(
        trainfare(
            "chargeback",
            "--data",
            again,
            "--month",
            "2026-05",
            "--by",
            "job",
            "--variance",
            "--format",
            "json",
        ).out
    )
    assert not rows["prices"]
    assert all(abs(Decimal(row["variance_usd"])) < Decimal("0.001") for row in rows["rows"])


def test_a_job_shows_what_it_was_billed_and_is_provisional_until_then(tmp_path: Path) -> None:
    data = tmp_path / "meter"
    assert trainfare("replay", events(tmp_path / "events.jsonl", "3"), "--data", data).code == 0

    def of_job() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(trainfare("job", "j0", "--data", data, "--format", "json").out)
        return found

    before = of_job()
    assert (before["billed_usd"], before["provisional"], before["billed"]) == (None, 1, [])
    assert (
        trainfare("bills", "load", written(tmp_path / "may.csv", usage("27", "30")), "--data", data).code == 0
    )
    after = of_job()
    assert [Decimal(after[name]) for name in ("billed_usd", "effective_usd")] == [27, 27]
    assert after["provisional"] == 0
    (month,) = after["billed"]
    assert {cause: Decimal(usd) for cause, usd in month["causes"].items()} == {"discount": -3}
    text = trainfare("job", "j0", "--data", data).out
    assert "Billed (USD)" in text
    assert "discount -3.00" in text
    assert "reconciled" in text


def test_variance_is_of_whole_jobs(tmp_path: Path) -> None:
    done = trainfare(
        "chargeback", "--data", tmp_path, "--month", "2026-05", "--variance", "--where", "account=A1"
    )
    assert done.code == 2
    assert "--variance is of whole jobs" in done.one_line()


def test_what_no_bill_covers_is_in_no_variance() -> None:
    bill = JobBill(effective=5)
    bill.charged["usage"] = bill.listed["usage"] = 5
    found = variance_of(bill, JobMetered(metered=12, only_metered=7), 1)
    assert found.causes == {}
    assert found.metered == 5
