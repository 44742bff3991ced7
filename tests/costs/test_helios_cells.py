"""M1 by team and day of real jobs: every cell is the oracle's, and a new price moves the cells it should and no other."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from loadtest.traces import main as make_trace
from tests.acceptance.test_traces_against_oracle import JOBS_AT_ONCE, chunks, lines_of, newest_ms, replay
from tests.cli.command import ROOT, trainfare
from tests.oracle.compute import compute, compute_job, price_book
from tests.oracle.metrics import CostCell, hour_cells, quantile
from tests.oracle.model import HourKey, Line, Tables

EXAMPLE = ROOT / "examples" / "helios-500.jsonl.gz"
HELIOS = ROOT.parent / "shared" / "data" / "jobs" / "helios_15000_jobs.csv"
PRICE_FROM_MS = 1_586_304_000_000 + 6 * 3_600_000  # 2020-04-08 06:00
V100_AGAIN = {
    "id": "again", "source": "book", "time_ms": PRICE_FROM_MS, "sku": "venus.v100", "component": "gpu", "usd": "9.99",
    "per": "gpu_hour", "effective_ms": PRICE_FROM_MS, "cluster": "venus", "gpu_type": "V100",
    "purchase": "on_prem",
}  # fmt: skip
Cells = dict[tuple[str, str], dict[str, Any]]


def records() -> Iterator[dict[str, Any]]:
    """Every eighth job of the shipped example, with all its prices."""
    jobs: dict[str, bool] = {}
    with gzip.open(EXAMPLE, "rt") as text:
        for record in map(json.loads, text):
            job_id = record["value"].get("job_id")
            if job_id is None or jobs.setdefault(job_id, len(jobs) % 8 == 0):
                yield record


def replayed(root: Path, log: list[dict[str, Any]]) -> Path:
    root.mkdir()
    (root / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in log))
    done = trainfare("replay", root / "log.jsonl", "--data", root / "meter", "--partitions", "1")
    assert done.code == 0, done.err
    return root / "meter"


def asked(data: Path, *words: str) -> list[dict[str, Any]]:
    done = trainfare("costs", *words, "--data", data, "--format", "json")
    assert done.code == 0, done.err
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def cells_of(data: Path) -> Cells:
    rows = asked(data, "--metric", "m1", "--by", "team", "--per", "day")
    return {(row["period_start"], row["team"]): row for row in rows}


def tables_of(log: list[dict[str, Any]]) -> Tables:
    return compute([Line(record["topic"], record["value"]) for record in log])


def oracle_cells(tables: Tables) -> dict[tuple[str, str], CostCell]:
    def name_of(key: HourKey) -> str:
        return tables.jobs[key.job_id].team or ""

    found = hour_cells(tables, name_of, lambda hour: hour // 24)
    return {
        (datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), team): cell
        for (day, team), cell in found.items()
    }


def assert_equal(cells: Cells, expected: dict[tuple[str, str], CostCell]) -> None:
    assert cells.keys() == expected.keys()
    for key, row in cells.items():
        of, rates = expected[key], expected[key].job_rates()
        assert int(Decimal(row["cost_usd"]) * 10**9) == sum(of.cost_nano.values()), key
        assert int(Decimal(row["infra_cost_usd"]) * 10**9) == sum(of.infra_nano.values()), key
        assert row["wall_clock_h"] == near(Fraction(sum(of.wall_clock_ms.values()), 3_600_000))
        assert row["usd_per_hour"] == near(of.usd_per_hour())
        assert row["infra_usd_per_hour"] == near(of.infra_usd_per_hour())
        assert row["jobs"] == len(rates)
        assert row["median_usd_per_hour"] == near(quantile(rates, Fraction(1, 2)))
        assert row["p95_usd_per_hour"] == near(quantile(rates, Fraction(95, 100)))
        assert row["mean_usd_per_hour"] == near(sum(rates, Fraction()) / len(rates) if rates else None)


def near(value: Fraction | None) -> Any:
    return None if value is None else pytest.approx(float(value))


@pytest.fixture(scope="module")
def log() -> list[dict[str, Any]]:
    return list(records())


@pytest.fixture(scope="module")
def data(log: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replayed(tmp_path_factory.mktemp("helios") / "as_it_was", log)


def test_every_cell_is_that_of_the_oracle(data: Path, log: list[dict[str, Any]]) -> None:
    cells = cells_of(data)
    assert len({day for day, _ in cells}) > 3
    assert len({team for _, team in cells}) > 3
    assert_equal(cells, oracle_cells(tables_of(log)))


def test_days_sum_to_the_month_and_to_the_jobs(data: Path) -> None:
    days = sum(Decimal(row["cost_usd"]) for row in cells_of(data).values())
    (month,) = asked(data, "--per", "month")
    (whole,) = asked(data)
    jobs = asked(data, "--by", "job,purchase")
    assert days == Decimal(month["cost_usd"]) == Decimal(whole["cost_usd"])
    assert days == sum(Decimal(row["cost_usd"]) for row in jobs)
    assert (month["period_start"], whole["period_start"]) == ("2020-04-01T00:00:00Z", None)


def test_drivers_sum_to_the_change(data: Path) -> None:
    words = ("--from", "2020-04-05", "--to", "2020-04-08", "--compare", "previous")
    (row,) = asked(data, *words)
    done = trainfare("costs", *words, "--drivers", 3, "--data", data, "--format", "json")
    drivers = json.loads(done.out)["drivers"]
    change = Decimal(row["change_usd"])
    assert change == Decimal(row["cost_usd"]) - Decimal(row["previous_cost_usd"]) != 0
    assert sum(Decimal(each["change_usd"]) for each in drivers) == change
    effects = sum(
        Decimal(each["price_effect_usd"]) + Decimal(each["quantity_effect_usd"]) for each in drivers
    )
    assert effects == change
    assert [each["component"] for each in drivers][-1] == "others"


def test_a_price_of_the_middle_of_a_day_moves_the_cells_that_it_prices(
    data: Path, log: list[dict[str, Any]], tmp_path: Path
) -> None:
    changed = [*log, {"topic": "prices", "value": {**V100_AGAIN, "time_ms": log[-1]["value"]["time_ms"]}}]
    before, after = cells_of(data), cells_of(replayed(tmp_path / "again", changed))
    tables = tables_of(changed)
    assert_equal(after, oracle_cells(tables))
    priced = {
        (datetime.fromtimestamp(key.minute // 1440 * 86_400, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), tables.jobs[key.job_id].team)
        for key, row in tables.ledger.items()
        if key.price_effective_ms == PRICE_FROM_MS and row.cost_nano
    }  # fmt: skip
    moved = {key for key in before if before[key]["cost_usd"] != after[key]["cost_usd"]}
    assert moved == priced
    assert 0 < len(moved) < len(before)
    assert min(day for day, _ in moved) == "2020-04-08T00:00:00Z"


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not HELIOS.exists(), reason="the public trace is not on this machine")
def test_every_cell_of_15_000_jobs(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl.gz"
    assert make_trace(["helios", "--source", str(HELIOS), "--out", str(log)]) == 0
    replay(log, tmp_path / "meter")
    lines = lines_of(log)
    book, by_job = price_book(lines), defaultdict(list)
    for line in lines:
        if line.topic == "jobs" and isinstance(line.value, dict):
            by_job[line.value["job_id"]].append(line)
    tables, as_of_ms = Tables(), newest_ms(log)
    for job_ids in chunks(sorted(by_job), JOBS_AT_ONCE):  # their minutes are forgotten again
        mine = [line for job_id in job_ids for line in by_job[job_id]]
        found = compute_job(mine, book=book, as_of_ms=as_of_ms)
        tables.hours.update(found.hours)
        tables.jobs.update(found.jobs)
    assert_equal(cells_of(tmp_path / "meter"), oracle_cells(tables))
