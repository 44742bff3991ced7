"""The rule `missing_price`: one alert for each price that is missing, with the command that mends it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from schemas.events import PRICE_FIELDS, Component, PriceEvent
from schemas.tables import ALERTS, JOB_HOURS, JOB_MINUTES, JOBS, NODE_HOURS, NODE_MINUTES
from schemas.units import Per
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.rows import alerts_table
from streams.engine.pricing.context import usage_context
from streams.engine.pricing.kinds import Kind
from streams.worker.ledger_judges import missing_price_sql
from streams.worker.ledger_judges.known_alerts import KnownAlerts
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, at
from tests.worker.test_fleet_rules import World, shared, works, world

__all__ = ["shared", "world"]

M = MINUTE_MS
GPU_MINUTE = 60_000_000


def unpriced(world: World, job_id: str, minute: int, gpus: int = 8, sku: str = "", /, **fields: str) -> None:
    """Two minutes of a job on GPUs, without a price unless one is named."""
    at_ms = T0 + minute * M
    fields = {"gpu_type": "H100", "region": "us", **fields}
    team = fields.pop("team", "vision")
    world.put(JOBS, job_id=job_id, state="running", started=at(at_ms), team=team, owner="ada")
    measure = {"component": "gpu", "unit": "gpu_milli_ms", "quantity": gpus * GPU_MINUTE, "sku": sku}
    held: Counter[int] = Counter()
    for each in (at_ms, at_ms + M):
        world.put(JOB_MINUTES, job_id=job_id, minute=at(each), **measure)
        held[each // HOUR_MS * HOUR_MS] += gpus * GPU_MINUTE
    for hour_ms, amount in held.items():
        sums = {"gpu_milli_ms": amount, "unpriced_gpu_milli_ms": 0 if sku else amount}
        world.put(JOB_HOURS, job_id=job_id, hour=at(hour_ms), **fields, **sums)


def without_gpus(
    world: World, job_id: str, minute: int, unit: str = "instance_milli_ms", **fields: str
) -> None:
    """Two minutes of a job on machines without GPUs, and without a price."""
    at_ms = T0 + minute * M
    world.put(JOBS, job_id=job_id, state="running", started=at(at_ms), team="vision", owner="ada")
    measure = {"component": "compute", "unit": unit, "quantity": 1000 * M}
    for each in (at_ms, at_ms + M):
        world.put(JOB_MINUTES, job_id=job_id, minute=at(each), **measure)
    for hour_ms in {each // HOUR_MS * HOUR_MS for each in (at_ms, at_ms + M)}:
        world.put(JOB_HOURS, job_id=job_id, hour=at(hour_ms), **{"region": "us", **fields}, wall_clock_ms=M)


def stands(
    world: World, node: str, minute: int, unit: str = "instance_milli_ms", /, sku: str = "", **fields: str
) -> None:
    """Two minutes of a node, without a price unless one is named."""
    amount = (1000 if unit == "instance_milli_ms" else 8000) * M
    hours = set()
    for each in (T0 + minute * M, T0 + (minute + 1) * M):
        world.put(NODE_MINUTES, node=node, minute=at(each), unit=unit, quantity=amount, sku=sku)
        hours.add(each // HOUR_MS * HOUR_MS)
    for hour_ms in hours:
        world.put(NODE_HOURS, node=node, hour=at(hour_ms), paid_ms=2 * M, **{"region": "us", **fields})


def told(changes: list[Alert]) -> list[tuple[str, str, str, int]]:
    return [
        (each.subject_kind, each.subject_name, each.status, (each.changed_ms - T0) // M)
        for each in changes
        if each.rule == "missing_price"
    ]


def priced(world: World, sku: str, usd: float, minute: int = -60, **match: str) -> None:
    world.price(sku, usd, minute, match=match)


def test_five_hundred_jobs_under_one_missing_price_are_one_alert(world: World) -> None:
    priced(world, "h100-eu", 3.2, gpu_type="NVIDIA H100 80GB HBM3", region="eu")
    for number in range(500):
        name = ("H100", "h100", "nvidia_h100_80gb")[number % 3]
        team = f"team-{number % 7}"
        unpriced(world, f"run-{number}", number % 4, 9 if number == 77 else 8, gpu_type=name, team=team)
    changes = world.look(1)
    assert told(changes) == [("gpu_type", "h100/sxm/80gb region", "firing", 5)]
    (alert,) = changes
    assert (alert.severity, alert.owner, alert.ratio) == ("ticket", "", 500)
    assert alert.summary.startswith(
        "500 jobs (most: run-77, 0.3 GPU-h): no price for nvidia_h100_80gb, nearest h100-eu is for region eu (not us); "
    )
    works(world, alert)
    assert told(world.look(3)) == []


def test_two_types_and_two_fields_are_alerts_of_their_own(world: World) -> None:
    priced(world, "h100-eu", 3.2, gpu_type="H100", region="eu")
    priced(world, "b200-spot", 2, gpu_type="B200", purchase="spot")
    unpriced(world, "a", 0)
    unpriced(world, "b", 0, gpu_type="B200")
    unpriced(world, "c", 6, gpu_type="b200")
    unpriced(world, "d", 11, gpu_type="made up")
    assert told(world.look(1)) == [
        ("gpu_type", "b200/sxm/180gb purchase", "firing", 5),
        ("gpu_type", "h100/sxm/80gb region", "firing", 5),
        ("gpu_type", "made up gpu_type+purchase", "firing", 15),
    ]


def test_without_any_price_and_without_a_type(world: World) -> None:
    unpriced(world, "a", 0, gpu_type="")
    unpriced(world, "b", 0, gpu_type="it's; rm -rf /")
    changes = world.look(1)
    assert [name for _, name, _, _ in told(changes)] == ["(no gpu_type)", "it's; rm rf"]
    assert all("rm -rf" not in each.evidence_sql.partition("AS mend")[0][-40:] for each in changes)
    assert all(each.summary.endswith("; let their events name price fields") for each in changes)


def test_traffic_is_one_alert_by_component_and_unit(world: World) -> None:
    for number in range(20):
        world.put(JOBS, job_id=f"j{number}", state="running", started=at(T0), team="vision")
        row = {
            "component": "network",
            "unit": "bytes",
            "quantity": 10**9,
            "path": f"p{number}",
            "region": "eu",
        }
        world.put(JOB_MINUTES, job_id=f"j{number}", minute=at(T0), **row)
    off = ("rule", "missing_price", {"thresholds": {"traffic": 0}})
    assert told(world.look(0.2, off)) == []
    changes = world.look(0.8)
    assert told(changes) == [("traffic", "network bytes", "firing", 15)]
    works(world, changes[0])


def test_machines_without_gpus_are_one_alert_by_instance_type(world: World) -> None:
    priced(world, "h100", 3, gpu_type="H100")
    for number in range(3):
        without_gpus(world, f"prep-{number}", number, instance_type="m5.24xlarge")
    without_gpus(world, "pod", 6, "cpu_milli_ms", instance_type="")
    off = ("rule", "missing_price", {"thresholds": {"compute": 0}})
    assert told(world.look(0.2, off)) == []
    changes = sorted(world.look(0.8), key=lambda each: each.subject_name)
    assert told(changes) == [
        ("instance_type", "(no instance_type)", "firing", 15),
        ("instance_type", "m5.24xlarge", "firing", 15),
    ]
    pod, prep = changes
    assert pod.summary.startswith(
        "1 job (most: pod, 0.0333 CPU-h): no price for compute of jobs without GPUs or instance_type, 0 if it is free; "
    )
    assert prep.summary.startswith(
        "3 jobs (most: prep-0, 0.0333 instance-h): no price for compute of m5.24xlarge, 0 if it is free; "
    )
    works(world, prep)
    mends = [world.store.query(each.evidence_sql).to_pylist()[0]["mend"] for each in changes]
    assert "compute-vcpu-hour,compute,USD,vcpu_hour," in mends[0]
    assert "m5-24xlarge,compute,m5.24xlarge,USD,instance_hour," in mends[1]


def test_nodes_that_nobody_used_are_told_when_their_hour_is_over(world: World) -> None:
    priced(world, "h100", 3, gpu_type="H100")
    for number in range(40):
        stands(world, f"cpu-{number}", 10, instance_type="m5.24xlarge")
    stands(world, "paid", 10, sku="m5", instance_type="m5.large")
    stands(world, "gpu", 10, "gpu_milli_ms", gpu_type="B200")
    stands(world, "bare", 10)
    off = ("rule", "missing_price", {"thresholds": {"compute": 0}})
    assert told(world.look(0.95)) == []
    assert told(world.look(0.1, off)) == [("gpu_type", "b200/sxm/180gb gpu_type", "firing", 60)]
    bare, many = sorted(world.look(0.1), key=lambda each: each.subject_name)
    assert told([bare, many]) == [
        ("instance_type", "(no instance_type)", "firing", 65),
        ("instance_type", "m5.24xlarge", "firing", 65),
    ]
    assert many.ratio == 40
    assert many.summary.startswith(
        "40 nodes (most: cpu-0, 0.0333 instance-h): no price for compute of m5.24xlarge, 0 if it is free; "
    )
    assert "no price for compute of nodes without GPUs or instance_type, 0 if it is free" in bare.summary
    works(world, many)
    rows = world.store.query(many.evidence_sql).to_pylist()
    assert (len(rows), rows[0]["node"], rows[0]["instance_type"]) == (40, "cpu-0", "m5.24xlarge")
    assert "m5-24xlarge,compute,m5.24xlarge,USD,instance_hour," in rows[0]["mend"]
    assert [each[2] for each in told(world.look(24))] == ["resolved"] * 3


def test_the_time_of_a_node_that_a_job_uses_is_the_jobs(world: World) -> None:
    stands(world, "n1", 10, instance_type="m5.large")
    for minute in (10, 11):
        row = {"component": "compute", "unit": "instance_milli_ms", "quantity": 500 * M, "sku": "m5"}
        world.put(JOB_MINUTES, job_id="a", node="n1", minute=at(T0 + minute * M), **row)
    assert told(world.look(2)) == []


def test_jobs_are_named_before_nodes_that_lack_the_same_price(world: World) -> None:
    without_gpus(world, "prep", 62, instance_type="m5.large")
    stands(world, "n1", 10, instance_type="m5.large")
    stands(world, "n2", 10, instance_type="m5.large")
    (alert,) = world.look(1)
    assert alert.summary.startswith("2 nodes (most: n1, ")
    world.memory, world.since_ms = KnownAlerts(world.store), T0 + 65 * M
    (alert,) = world.look(1)
    assert (alert.ratio, alert.summary[:31]) == (3, "1 job and 2 nodes (most: prep, ")
    works(world, alert)


def test_gpus_and_machines_of_one_hour_lack_a_price_each(world: World) -> None:
    """A stage without GPUs before one with them, under the same price fields."""
    unpriced(world, "a", 10, instance_type="p5")
    for each in (0, 1):
        measure = {"component": "compute", "unit": "instance_milli_ms", "quantity": 1000 * M}
        world.put(JOB_MINUTES, job_id="a", minute=at(T0 + each * M), **measure)
    assert told(world.look(1)) == [
        ("instance_type", "p5", "firing", 5),
        ("gpu_type", "h100/sxm/80gb", "firing", 15),
    ]


def test_it_is_over_when_the_price_comes_and_the_rows_are_restated(world: World) -> None:
    priced(world, "h100-eu", 3.2, gpu_type="H100", region="eu")
    for number in range(3):
        unpriced(world, f"run-{number}", 0)
    assert told(world.look(1)) == [("gpu_type", "h100/sxm/80gb region", "firing", 5)]
    for number in range(3):
        _restate(world, f"run-{number}")
    (alert,) = world.look(1)
    assert told([alert]) == [("gpu_type", "h100/sxm/80gb region", "resolved", 65)]
    assert alert.summary.startswith("over after 1 h: 3 jobs (most: run-0, 0.267 GPU-h): no price for H100")
    assert "prices load" not in alert.summary


def _restate(world: World, job_id: str) -> None:
    """As a shard does: the old rows come to nothing."""
    unpriced(world, job_id, 0, 0)
    unpriced(world, job_id, 0, 8, "h100-us")


def test_any_cut_and_a_new_owner_tell_the_same_once(world: World) -> None:
    priced(world, "h100-eu", 3.2, gpu_type="H100", region="eu", purchase="spot")
    priced(world, "h100-us", 4, 100, gpu_type="H100", region="us")
    unpriced(world, "a", 3)
    unpriced(world, "b", 58)
    unpriced(world, "c", 90)
    whole = told(world.look(30))
    assert [each[1:] for each in whole] == [
        ("h100/sxm/80gb purchase+region", "firing", 5),
        ("h100/sxm/80gb purchase+region", "resolved", 100),
        ("h100/sxm/80gb effective", "firing", 100),
        ("h100/sxm/80gb effective", "resolved", 1535),
    ]
    for minutes in (57, 333):
        world.memory, world.since_ms = KnownAlerts(world.store), T0
        parts: list[Any] = []
        while world.since_ms < T0 + 30 * HOUR_MS:
            parts += told(world.look(min(minutes * M, T0 + 30 * HOUR_MS - world.since_ms) / HOUR_MS))
        assert parts == whole
    world.memory, world.since_ms = KnownAlerts(world.store), T0
    first = world.look(0.5)
    world.store.insert(ALERTS, alerts_table(first, 0, 1), "stored")
    world.memory, world.since_ms = KnownAlerts(world.store), T0  # another owner judges the hour again
    assert told(world.look(0.5)) == []


def test_usage_that_is_older_than_its_price_list_is_compared_with_it(world: World) -> None:
    """A fleet's first hours are published after its prices, which were in force then."""
    world.price("h100-eu", 3.2, -60, 600, {"gpu_type": "H100", "region": "eu"})
    unpriced(world, "a", 0)
    assert told(world.look(1)) == [("gpu_type", "h100/sxm/80gb region", "firing", 5)]


def test_what_a_job_is_later_in_the_hour_is_not_known_before(world: World) -> None:
    """An attempt that moves: a whole log has its later hours when the five minutes before are judged."""
    priced(world, "eu", 3.2, gpu_type="H100", region="eu")
    priced(world, "b200-spot", 2, gpu_type="B200", purchase="spot")
    for minute in range(40):
        measure = {"component": "gpu", "unit": "gpu_milli_ms", "quantity": GPU_MINUTE}
        world.put(JOB_MINUTES, job_id="a", minute=at(T0 + minute * M), **measure)
    world.put(JOBS, job_id="a", state="running", started=at(T0), team="vision")
    for gpu_type, begin, end in (("H100", 0, 22), ("B200", 22, 40)):
        spans = {"wall_clock_from_ms": [begin * M], "wall_clock_until_ms": [end * M]}
        fields = {"gpu_type": gpu_type, "region": "us", "unpriced_gpu_milli_ms": GPU_MINUTE}
        world.put(JOB_HOURS, job_id="a", hour=at(T0), **spans, **fields)
    assert told(world.look(1)) == [
        ("gpu_type", "h100/sxm/80gb region", "firing", 5),
        ("gpu_type", "b200/sxm/180gb purchase", "firing", 25),
    ]


def test_a_rule_that_is_off_tells_nothing_and_ends_what_fires(world: World) -> None:
    unpriced(world, "a", 0)
    off = ("rule", "missing_price", {"enabled": False})
    assert told(world.look(0.5, off)) == []
    assert [each[2] for each in told(world.look(0.5))] == ["firing"]
    assert [each[2] for each in told(world.look(0.5, off))] == ["resolved"]


@pytest.mark.parametrize(
    ("fields", "prices"),
    [
        ({"region": "us"}, [("h100-eu", -60, {"gpu_type": "H100", "region": "eu"})]),
        ({"gpu_type": "NVIDIA H100 80GB HBM3"}, [("h100", -60, {"gpu_type": "H100", "purchase": "spot"})]),
        ({}, [("h100", 600, {"gpu_type": "H100"})]),
        ({"gpu_type": "H100"}, [("x", -60, {"gpu_type": "h100-sxm"}), ("y", -60, {"gpu_type": "h100_sxm5"})]),
    ],
)
def test_its_command_mends_it(
    world: World, tmp_path: Path, fields: dict[str, str], prices: list[tuple[str, int, dict[str, str]]]
) -> None:
    """The command, as a shell runs it, makes a price that applies to the usage."""
    for number, (sku, minute, match) in enumerate(prices):
        world.price(sku, 3.2 + number, minute, -60, match)
    unpriced(world, "a", 0, **fields)
    (alert,) = world.look(1)
    (row,) = world.store.query(alert.evidence_sql).to_pylist()
    assert row["mend"].endswith(" && trainfare prices load price.csv")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    bash = ["bash", "-c", f"{row['mend']} --out loaded.jsonl"]  # instead of Kafka
    subprocess.run(bash, cwd=tmp_path, check=True, env={**os.environ, "PATH": path})
    (line,) = (tmp_path / "loaded.jsonl").read_text().splitlines()
    value = json.loads(line)["value"]
    event = PriceEvent(
        source="t", id="new", time_ms=T0 + HOUR_MS, sku=value["sku"], component=Component.gpu,
        usd_nano=round(float(value["usd"]) * 10**9), per=Per(value["per"]), gpus=1,
        effective_ms=value["effective_ms"], match={name: value[name] for name in PRICE_FIELDS if name in value},
    )  # fmt: skip
    book = world.prices.book.with_events([event])
    values = {"gpu_type": "H100", "region": "us", **fields}
    context = usage_context(tuple(values.get(name) for name in PRICE_FIELDS), "vision", None)
    for at_ms in (0, T0, T0 + 10**9):
        price = book.price_at(context, "gpu", Kind.GPU_TIME, at_ms)
        assert price is not None
        assert price.usd_nano == 3_200_000_000


def test_a_price_that_comes_while_the_rule_is_judged_leaves_nothing_to_tell(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As live does: rows are restated between the statement of what lacks a price and that of whose it is."""
    store = world.store
    query = store.query

    def restated(sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        if sql == missing_price_sql.JOBS:
            monkeypatch.setattr(store, "query", query)
            for minute in (0, 1):
                at_ms = T0 + minute * M
                measure = {"component": "gpu", "unit": "gpu_milli_ms", "quantity": 0}
                world.put(JOB_MINUTES, job_id="a", minute=at(at_ms), **measure)
            assert world.store is store
        return query(sql, parameters)

    unpriced(world, "a", 0)
    monkeypatch.setattr(store, "query", restated)
    assert told(world.look(1)) == []
    assert told(world.look(2)) == []
