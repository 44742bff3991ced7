"""The metrics of a replayed fleet against plain Python over the oracle's tables, where they once misled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from tests.cli.command import trainfare
from tests.oracle import metrics
from tests.oracle.cases import gpu, job, network, price
from tests.oracle.compute import compute
from tests.oracle.model import HOUR_MS, Line, Tables

T0 = 1_780_308_000_000
MINUTE_MS = 60_000
TEAM = {"steady": "a", "sampled": "a", "lossy": "a", "waiting": "a", "other": "b"}


def lines() -> list[Line]:
    """A job of constant rate that begins and ends within hours, one that samples alone pay for beside it, one that lost work
    and moved much, one that never ran."""
    found = [price("g", "3.60"), price("n", "0.05", component="network", per="gb")]
    found += [
        job("steady", "started", T0 + 22 * MINUTE_MS + 7_123, gpu_count=4, team="a"),
        job("steady", "completed", T0 + 3 * HOUR_MS + 41 * MINUTE_MS + 55_001),
        job("lossy", "started", T0 + 10_000, gpu_count=2, team="a"),
        job("lossy", "preempted", T0 + 30 * MINUTE_MS),
        job("lossy", "started", T0 + 40 * MINUTE_MS, gpu_count=2, team="a", attempt=2),
        job("lossy", "completed", T0 + 100 * MINUTE_MS, attempt=2),
        network("lossy", T0 + 90 * MINUTE_MS, MINUTE_MS, bytes=400 * 10**9, direction="egress", attempt=2),
        job("waiting", "queued", T0, team="a"),
        job("sampled", "updated", T0, team="a"),
        job("other", "started", T0, gpu_count=1, team="b"),
        job("other", "completed", T0 + HOUR_MS),
    ]
    for minute in range(120):
        found.append(gpu("sampled", T0 + (minute + 1) * MINUTE_MS, MINUTE_MS, {"u1": 0.5, "u2": 1.0}))
        if minute < 100:
            found.append(
                gpu(
                    "lossy", T0 + (minute + 1) * MINUTE_MS, MINUTE_MS, {"v1": 0.75}, attempt=1 + (minute > 35)
                )
            )
    return sorted(found, key=lambda line: line.value["time_ms"] if isinstance(line.value, dict) else 0)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ClickHouseStore, Tables]]:
    root = tmp_path_factory.mktemp("metrics")
    log = lines()
    (root / "log.jsonl").write_text(
        "".join(json.dumps({"topic": x.topic, "value": x.value}) + "\n" for x in log)
    )
    done = trainfare("replay", root / "log.jsonl", "--data", root / "data", "--partitions", "1")
    assert done.code == 0, done.err
    store = ClickHouseStore(Embedded(data_dir=root / "data", database="trainfare"))
    yield store, compute(log)
    store.close()


@pytest.mark.parametrize(("level", "name_of"), [("job", str), ("team", TEAM.__getitem__)])
def test_views_are_what_plain_python_makes_of_the_tables(
    fleet: tuple[ClickHouseStore, Tables], level: str, name_of: Callable[[str], str]
) -> None:
    store, tables = fleet
    expected = metrics.sums(tables, name_of)
    for name, of in expected.items():
        assert of.cost_nano or not of.jobs
        assert got(store, "m1_cost_per_wall_clock_hour", level, name, "usd_per_hour") == near(
            of.usd_per_hour()
        )
        assert got(store, "m6_storage_cost_per_hour", level, name, "usd_per_hour") == near(
            of.component_usd_per_hour("storage")
        )
        assert got(store, "m7_egress_cost_per_hour", level, name, "usd_per_hour") == near(
            of.component_usd_per_hour("network")
        )
        assert got(store, "m8_utilization_adjusted_cost", level, name, "goodput_gpu_h") == near(
            of.goodput_gpu_h()
        )
        assert got(store, "m9_cost_per_experiment", level, name, "jobs") == len(of.jobs)
        assert got(store, "m9_cost_per_experiment", level, name, "successful_jobs") == len(of.successful)


def test_the_fleet_has_what_once_misled(fleet: tuple[ClickHouseStore, Tables]) -> None:
    _, tables = fleet
    jobs = metrics.sums(tables, str)
    assert jobs["sampled"].cost_nano
    assert not tables.jobs["sampled"].wall_clock_ms, "samples alone pay for it"
    assert jobs["sampled"].wall_clock_ms == 120 * MINUTE_MS
    assert jobs["lossy"].lost_gpu
    assert jobs["lossy"].by_component["network"] > jobs["lossy"].cost_nano / 2
    assert not jobs["waiting"].jobs


def test_a_job_of_constant_rate_does_not_vary_whenever_it_begins_and_ends(
    fleet: tuple[ClickHouseStore, Tables],
) -> None:
    store, _ = fleet
    row = store.query(
        "SELECT hours, mean_usd_per_hour, variation FROM m10_cost_variance WHERE level = 'job' AND name = 'steady'"
    ).to_pylist()
    assert row == [
        {"hours": 4, "mean_usd_per_hour": pytest.approx(14.4), "variation": pytest.approx(0, abs=1e-6)}
    ]
    assert got(store, "m10_cost_variance", "job", "sampled", "hours") == 2
    assert got(store, "m10_cost_variance", "job", "waiting", "hours") is None


def got(store: ClickHouseStore, view: str, level: str, name: str, column: str) -> Any:
    sql = f"SELECT {column} FROM {view} WHERE level = {{level:String}} AND name = {{name:String}}"
    found = store.query(sql, {"level": level, "name": name})[column].to_pylist()
    return found[0] if found else None


def near(value: Fraction | None) -> Any:
    return None if value is None else pytest.approx(float(value))
