"""What nobody used, by hour, day and kind of node, worked out by hand.

Node g1 (team red, cluster c, 2 GPUs) costs $1.00 in minute 10:00 and $1.00 in 10:30; job a pays 0.60 of the first. Samples
without a job saw 3 GPU-seconds of work in that hour, of 7,200 GPU-seconds that were paid.
Node c1 has no GPU and costs $0.50 in 10:00, of which job b pays 0.20 for its instance.
"""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest

from schemas.tables import (
    JOB_HOURS,
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
    NODE_HOURS,
    NODE_MINUTES,
    UNATTRIBUTED_MINUTES,
)
from sinks.clickhouse import ClickHouseStore
from sinks.meta import MINUTES_KEPT_FROM
from streams.costs.bursts import BURSTS
from streams.costs.idle_nodes import ALWAYS_MS, HOLLOW_JOBS
from tests.sinks.fleet import GPU_HOUR, HOUR_MS, line
from tests.sinks.rows import dicts, instant, rows

DAY = "2026-03-01"


def hour(node: str, clock: int, day: int = 1, **more: Any) -> dict[str, Any]:
    """An hour of a node that is paid throughout."""
    return {"node": node, "hour": instant(f"2026-03-{day:02} {clock:02}:00"), "paid_ms": HOUR_MS} | more


def node(name: str, clock: str, usd: str, **more: Any) -> dict[str, Any]:
    """A minute of a node."""
    return {
        "node": name,
        "minute": instant(f"{DAY} {clock}"),
        "quantity": 1,
        "cost_usd": Decimal(usd),
        "unit": "gpu_milli_ms",
        "sku": "s",
    } | more


@pytest.fixture
def idle(store: ClickHouseStore) -> ClickHouseStore:
    instance = {"unit": "instance_milli_ms"}
    store.insert(
        NODE_MINUTES,
        rows(
            NODE_MINUTES,
            node("g1", "10:00", "1"),
            node("g1", "10:30", "1"),
            node("c1", "10:00", "0.5", **instance),
        ),
        "minutes",
    )
    gpus: dict[str, Any] = {
        "team": "red",
        "cluster": "c",
        "gpu_type": "H100",
        "instance_type": "p5",
        "gpu_milli_ms": 2 * GPU_HOUR,
    }
    plain: dict[str, Any] = {"team": "red", "cluster": "c", "instance_type": "m7"}
    store.insert(NODE_HOURS, rows(NODE_HOURS, hour("g1", 10, **gpus), hour("c1", 10, **plain)), "hours")
    jobs = (
        line("a/1", "10:00", "gpu", "0.6", node="g1", quantity=GPU_HOUR // 2),
        line("b/1", "10:00", "compute", "0.2", node="c1", **instance),
        # Instance time of a node that has GPUs is no part of what those cost.
        line("b/1", "10:00", "compute", "5", node="g1", **instance),
        line("b/1", "10:00", "compute", "7", node="", **instance),
    )
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *jobs), "jobs")
    used = [
        {"node": name, "gpu": gpu, "minute": instant(f"{DAY} {clock}"), "sampled_s": 60, "productive_ms": ms}
        for name, gpu, clock, ms in [
            ("g1", "0", "10:00", 1000),
            ("g1", "1", "10:59", 2000),
            ("g1", "1", "11:00", 0),
            ("unknown", "0", "10:00", 60_000),
        ]
    ]
    store.insert(UNATTRIBUTED_MINUTES, rows(UNATTRIBUTED_MINUTES, *used), "used")
    return store


def test_node_cost_is_jobs_and_idle_by_minute_and_hour(idle: ClickHouseStore) -> None:
    figures = "node_cost_usd AS cost, job_cost_usd AS jobs, idle_cost_usd AS idle"
    assert dicts(idle, f"SELECT node, {figures} FROM node_balance ORDER BY node, minute") == [
        {"node": "c1", "cost": Decimal("0.5"), "jobs": Decimal("0.2"), "idle": Decimal("0.3")},
        {"node": "g1", "cost": 1, "jobs": Decimal("0.6"), "idle": Decimal("0.4")},
        {"node": "g1", "cost": 1, "jobs": 0, "idle": 1},
    ]
    found = dicts(
        idle,
        f"SELECT node, team, cluster, paid_ms, {figures}, unattributed_cost_usd AS used, overcommitted "
        "FROM node_hour_balance ORDER BY node, hour",
    )
    assert found == [
        {"node": "c1", "team": "red", "cluster": "c", "paid_ms": HOUR_MS, "cost": Decimal("0.5")}
        | {"jobs": Decimal("0.2"), "idle": Decimal("0.3"), "used": 0, "overcommitted": 0},
        # $2 x 3 of 7,200 GPU-seconds, rounded down.
        {"node": "g1", "team": "red", "cluster": "c", "paid_ms": HOUR_MS, "cost": 2}
        | {
            "jobs": Decimal("0.6"),
            "idle": Decimal("1.4"),
            "used": Decimal("0.000833333"),
            "overcommitted": 0,
        },
    ]


def test_idle_by_kind_of_node_and_m3_per_day(idle: ClickHouseStore) -> None:
    found = dicts(
        idle,
        "SELECT instance_type AS kind, nodes, idle_cost_usd AS idle FROM idle_hours ORDER BY instance_type",
    )
    assert found == [
        {"kind": "m7", "nodes": 1, "idle": Decimal("0.3")},
        {"kind": "p5", "nodes": 1, "idle": Decimal("1.4")},
    ]
    (day,) = dicts(idle, "SELECT * EXCEPT (day) FROM m3_unallocated_ratio")
    assert day == {
        "node_cost_usd": Decimal("2.5"),
        "idle_cost_usd": Decimal("1.7"),
        "overcommitted_cost_usd": 0,
        "bill_usd": None,
        "unattributed_usd": Decimal("0.000833333"),
        "unpriced_usd": 0,
        "ratio": 1.7 / 2.5,
    }


def test_unpriced_time_of_nodes_is_unallocated_at_the_mean_price(idle: ClickHouseStore) -> None:
    """Half of the day's GPU-time has no price, so it adds as much as the priced half of nodes with GPUs: $2."""
    idle.insert(NODE_MINUTES, rows(NODE_MINUTES, node("g2", "10:00", "0", sku="")), "more")
    free: dict[str, Any] = {"gpu_milli_ms": 2 * GPU_HOUR, "unpriced_gpu_milli_ms": 2 * GPU_HOUR}
    idle.insert(NODE_HOURS, rows(NODE_HOURS, hour("g2", 10, **free)), "more hours")
    (day,) = dicts(idle, "SELECT unpriced_usd, ratio FROM m3_unallocated_ratio")
    assert day == {"unpriced_usd": 2, "ratio": (1.7 + 2) / 4.5}


@pytest.mark.parametrize("ran", ["nothing", "job", "unknown", "half a day"])
def test_a_node_that_nothing_ran_on_for_a_day_is_forgotten(store: ClickHouseStore, ran: str) -> None:
    hours = [hour("n", clock, gpu_milli_ms=GPU_HOUR, team="red") for clock in range(24)]
    if ran == "half a day":
        hours[23]["paid_ms"] = HOUR_MS // 2
    store.insert(NODE_HOURS, rows(NODE_HOURS, *hours), "hours")
    minutes = [node("n", f"{clock:02}:00", "0.25") for clock in range(24)]
    store.insert(NODE_MINUTES, rows(NODE_MINUTES, *minutes), "minutes")
    if ran == "job":
        store.insert(JOB_MINUTES, rows(JOB_MINUTES, line("a/1", "13:00", "gpu", "0", node="n")), "jobs")
    if ran == "unknown":
        used = {
            "node": "n",
            "gpu": "0",
            "minute": instant(f"{DAY} 13:00"),
            "sampled_s": 1,
            "productive_ms": 1,
        }
        store.insert(UNATTRIBUTED_MINUTES, rows(UNATTRIBUTED_MINUTES, used), "used")
    found = dicts(store, "SELECT node, team, node_cost_usd AS usd FROM forgotten_nodes")
    assert found == ([{"node": "n", "team": "red", "usd": 6}] if ran == "nothing" else [])


@pytest.mark.parametrize(
    ("before", "now", "burst"), [(0, 9, False), (0, 10, True), (20, 11, False), (10, 11, True)]
)
def test_many_new_nodes_in_an_hour_are_a_burst(
    store: ClickHouseStore, before: int, now: int, burst: bool
) -> None:
    """Nodes that went on from the hour before are not new; `before` new ones in each hour of a day are 1/7 as many a week."""
    old = [hour(f"o{number}-{clock}", clock, 2) for clock in range(24) for number in range(before // 10)]
    goes_on = [hour(f"g{number}", clock, 9) for number in range(9) for clock in (0, 1, 2)]
    new = [hour(f"n{number}", 2, 9) for number in range(now)]
    more = [
        hour(f"m{number}-{clock}", clock, 8) for clock in range(24) for number in range(6 * (before // 20))
    ]
    store.insert(NODE_HOURS, rows(NODE_HOURS, *old, *goes_on, *new, *more), "hours")
    found = dicts(store, "SELECT nodes FROM provisioning_bursts WHERE hour = '2026-03-09 02:00:00'")
    assert found == ([{"nodes": now}] if burst else [])


@pytest.mark.parametrize(("more", "burst"), [(9, False), (10, True)])
def test_new_nodes_in_place_of_those_that_went_are_no_burst(
    store: ClickHouseStore, more: int, burst: bool
) -> None:
    """Twelve went: seven at the end of the hour before, five within the hour."""
    whole = {"paid_ms": 3_600_000}
    stays = [{**hour(f"g{number}", clock, 9), **whole} for number in range(9) for clock in (1, 2, 3)]
    gone = [{**hour(f"a{number}", 1, 9), **whole} for number in range(12)]
    gone += [{**hour(f"a{number}", 2, 9), "paid_ms": 60_000} for number in range(5)]
    new = [hour(f"n{number}", 2, 9) for number in range(12 + more)]
    store.insert(NODE_HOURS, rows(NODE_HOURS, *stays, *gone, *new), "hours")
    found = dicts(
        store, "SELECT nodes, gone_nodes FROM provisioning_bursts WHERE hour = '2026-03-09 02:00:00'"
    )
    assert found == ([{"nodes": 12 + more, "gone_nodes": 12}] if burst else [])


def test_bursts_of_a_span_are_those_of_all_time(store: ClickHouseStore) -> None:
    """Two weeks in which nodes come and go: of each span, what the view has of it."""
    dice = random.Random(7)
    hours = []
    for clock in range(14 * 24):
        chance = 0.9 if clock % 37 < 3 else 0.01
        here = [number for number in range(60) if dice.random() < chance]
        hours += [
            hour(
                f"n{number}",
                clock % 24,
                1 + clock // 24,
                instance_type="p5",
                paid_ms=dice.choice([HOUR_MS, 60_000]),
            )
            for number in here
        ]
    store.insert(NODE_HOURS, rows(NODE_HOURS, *hours), "hours")
    every = dicts(
        store, "SELECT toUnixTimestamp(hour) AS at, nodes, usual_nodes FROM provisioning_bursts ORDER BY at"
    )
    assert len(every) >= 5
    begin = int(instant("2026-03-01 00:00").timestamp())

    def of(first_ms: int, last_ms: int) -> list[dict[str, Any]]:
        answer = store.ask(
            f"SELECT toUnixTimestamp(hour) AS at, nodes, usual_nodes FROM ({BURSTS}) ORDER BY at",
            {"from": first_ms, "to": last_ms},
        )
        return answer.records()

    for first, last in [(0, 336), (0, 24), (36, 40), (37, 38), (200, 230), (222, 336)]:
        found = of((begin + 3_600 * first) * 1_000, (begin + 3_600 * last) * 1_000)
        assert found == [each for each in every if first <= (each["at"] - begin) / 3_600 < last], (
            first,
            last,
        )
    assert of(0, ALWAYS_MS) == every


def test_right_sizing_names_jobs_and_types_of_nodes_that_use_half_or_less(idle: ClickHouseStore) -> None:
    idle.insert(JOBS, rows(JOBS, {"job_id": "a", "team": "red"}), "jobs")
    usage = [
        {"job_id": job, "attempt": 1, "sampled_gpu_s": 3600, "productive_gpu_ms": ms}
        for job, ms in [("a", 1_799_999), ("b", 1_800_000)]
    ]
    usage.append({"job_id": "short", "attempt": 1, "sampled_gpu_s": 3599, "productive_gpu_ms": 0})
    idle.insert(JOB_USAGE_MINUTES, rows(JOB_USAGE_MINUTES, *usage), "usage")
    found = dicts(idle, "SELECT subject, name, team, gpu_h, cost_usd FROM right_sizing ORDER BY subject")
    assert found == [
        {"subject": "job", "name": "a", "team": "red", "gpu_h": 1, "cost_usd": Decimal("0.6")},
        {"subject": "node_type", "name": "p5", "team": "", "gpu_h": 2, "cost_usd": 2},
    ]


def test_what_a_hollow_job_cost_counts_its_hours_without_samples_too(idle: ClickHouseStore) -> None:
    """The productive share of what was sampled stands for all of it: on the page Idle and in `idle --findings`."""
    worked = {"sampled_gpu_ms": 3_600_000, "productive_gpu_ms": 36_000, "gpu_cost_usd": Decimal(2)}
    hours = [
        {"job_id": "a", "attempt": 1, "hour": 1_772_323_200, **worked},
        {"job_id": "a", "attempt": 1, "hour": 1_772_326_800, "gpu_cost_usd": Decimal(3)},
    ]
    idle.insert(JOB_HOURS, rows(JOB_HOURS, *hours), "hollow")
    found = [
        dict(zip(answer.names, row, strict=True))
        for answer in [idle.ask(HOLLOW_JOBS, {"from": 0, "to": ALWAYS_MS})]
        for row in answer.rows()
    ]
    assert [(row["job_id"], row["gpu_cost_usd"], row["sampled_ms"]) for row in found] == [
        ("a", Decimal(5), 3_600_000)
    ]


def test_months_of_which_the_minutes_of_jobs_are_dropped_are_not_idle(idle: ClickHouseStore) -> None:
    count = "SELECT (SELECT count() FROM node_balance) AS minutes, (SELECT count() FROM node_hour_balance) AS hours"
    idle.meta.put(MINUTES_KEPT_FROM, "202603")
    assert dicts(idle, count) == [{"minutes": 3, "hours": 2}]
    idle.meta.put(MINUTES_KEPT_FROM, "202604")
    assert dicts(idle, count) == [{"minutes": 0, "hours": 0}]
