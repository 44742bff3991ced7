"""Jobs + idle, unattributed use included, is what the nodes cost: on random fleets, and on openb's nodes.

What must be idle is known from how the fleets were made: the free time of each GPU, at its price, in fractions. The rows of
all fleets go into one store, whose views are asked.
"""

from __future__ import annotations

import csv
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from loadtest.trace_openb import END_S, read_openb
from schemas.tables import JOB_MINUTES, NODE_HOURS, NODE_MINUTES, SCHEMAS, UNATTRIBUTED_MINUTES
from sinks.clickhouse import ClickHouseStore
from streams.engine.settings import ShardSettings
from tests.harness import FAR_FUTURE_MS, Meter
from tests.oracle.model import HOUR_MS, Json, Line
from tests.sinks.rows import dicts
from tests.sinks.stores import embedded

FLEETS = 500
BASE_MS = 1_772_323_200_000  # 2026-03-01 00:00:00 UTC
NANO = 10**9
TABLES = (JOB_MINUTES, NODE_MINUTES, NODE_HOURS, UNATTRIBUTED_MINUTES)
OPENB = Path("../shared/data/jobs")
HALF_NANO = Fraction(1, 2)


@dataclass
class Fleet:
    """A log, and by node and hour what its nodes cost, its jobs pay, and was used without a job: exact, in nano-dollars."""

    lines: list[Line] = field(default_factory=list)
    cost: Counter[tuple[str, int]] = field(default_factory=Counter)
    jobs: Counter[tuple[str, int]] = field(default_factory=Counter)
    used: Counter[tuple[str, int]] = field(default_factory=Counter)
    ids: int = 0

    def say(self, topic: str, time_ms: int, **event: Any) -> None:
        """Add a record."""
        self.ids += 1
        said: Json = {"source": "t", "id": f"e{self.ids}", "time_ms": time_ms, **event}
        self.lines.append(Line(topic, said))


def by_hour(start_ms: int, end_ms: int) -> Iterator[tuple[int, int, int]]:
    """[start, end) cut at hours: (hour, start, end)."""
    while start_ms < end_ms:
        hour = start_ms // HOUR_MS
        until_ms = min((hour + 1) * HOUR_MS, end_ms)
        yield hour, start_ms, until_ms
        start_ms = until_ms


class Prices:
    """One price per hour of a GPU or an instance, which changes once."""

    def __init__(self, fleet: Fleet, rng: random.Random, sku: str, **price: Any) -> None:
        self.change_ms = BASE_MS + rng.randrange(3 * HOUR_MS)
        self.nano = [rng.randrange(5 * NANO), rng.randrange(5 * NANO)]
        for effective_ms, nano in zip((0, self.change_ms), self.nano, strict=True):
            usd = str(Decimal(nano) / NANO)
            fleet.say("prices", BASE_MS, sku=sku, effective_ms=effective_ms, usd=usd, **price)

    def cost(self, start_ms: int, end_ms: int, rate: Fraction = Fraction(1)) -> Fraction:
        """The exact cost of a time at `rate` GPUs or instances."""
        before_ms = max(0, min(end_ms, self.change_ms) - start_ms)
        return rate * (before_ms * self.nano[0] + (end_ms - start_ms - before_ms) * self.nano[1]) / HOUR_MS


def fleet_of(seed: int) -> Fleet:
    """Some nodes for some hours; each of their GPUs (or instances) has jobs one after the other, and free time between."""
    rng, fleet = random.Random(seed), Fleet()
    of_gpus = Prices(fleet, rng, f"g{seed}", component="gpu", per="gpu_hour", cluster=f"c{seed}")
    of_instances = Prices(
        fleet, rng, f"i{seed}", component="compute", per="instance_hour", cluster=f"c{seed}"
    )
    for number in range(rng.randint(1, 3)):
        node, gpus = f"n{seed}-{number}", rng.choice((0, 0, 1, 2, 4))
        prices = of_gpus if gpus else of_instances
        start_ms = BASE_MS + rng.randrange(HOUR_MS)
        end_ms = start_ms + rng.randint(1, 2 * HOUR_MS)
        here = {"node": node, "cluster": f"c{seed}"}
        fleet.say("nodes", start_ms, type="provisioned", **here, **({"gpu_count": gpus} if gpus else {}))
        fleet.say("nodes", end_ms, type="terminated", node=node)
        for hour, from_ms, until_ms in by_hour(start_ms, end_ms):
            fleet.cost[node, hour] += prices.cost(from_ms, until_ms, Fraction(gpus or 1))  # type: ignore[assignment]  # exact
        for lane in range(gpus or 1):
            _run(fleet, rng, prices, node, lane, bool(gpus), start_ms, end_ms)
    return fleet


def _time_ms(line: Line) -> int:
    assert isinstance(line.value, dict)
    return int(line.value["time_ms"])


def _run(
    fleet: Fleet,
    rng: random.Random,
    prices: Prices,
    node: str,
    lane: int,
    has_gpus: bool,
    start_ms: int,
    end_ms: int,
) -> None:
    """Jobs on one GPU or instance, and in its free time samples without a job."""
    at_ms = start_ms
    while at_ms < end_ms and rng.random() < 0.7:
        from_ms = at_ms + rng.randrange(end_ms - at_ms)
        if has_gpus and rng.random() < 0.5:
            _use(fleet, rng, node, lane, at_ms, from_ms)
        at_ms = rng.randint(from_ms, end_ms)
        job = f"{node}-{lane}-{fleet.ids}"
        held: Json = {"nodes": {node: 1}} if has_gpus else {"nodes": {node: 0}, "instance_count": 1}
        cluster = f"c{node.split('-')[0][1:]}"
        fleet.say("jobs", from_ms, job_id=job, type="started", cluster=cluster, **held)
        fleet.say("jobs", at_ms, job_id=job, type=rng.choice(("completed", "failed")))
        for hour, begin_ms, until_ms in by_hour(from_ms, at_ms):
            fleet.jobs[node, hour] += prices.cost(begin_ms, until_ms)  # type: ignore[assignment]  # exact


def _use(fleet: Fleet, rng: random.Random, node: str, lane: int, start_ms: int, end_ms: int) -> None:
    """A sample of free time: whole seconds of it, up to a few minutes."""
    first_s, end_s = -(-start_ms // 1000), min(end_ms, start_ms + 300_000) // 1000
    if first_s >= end_s:
        return
    permille = rng.randint(0, 1000)
    sample = {"node": node, "gpus": [str(lane)], "util_ratio": [permille / 1000]}
    fleet.say("gpu", end_s * 1000, interval_ms=(end_s - first_s) * 1000, **sample)
    for second in range(first_s, end_s):
        fleet.used[node, second // 3600] += permille


def metered(lines: list[Line], store: ClickHouseStore, token: str) -> None:
    """Put the rows that the engine makes of a log into a store."""
    machine = Meter(ShardSettings(run_start_ms=FAR_FUTURE_MS))
    machine.feed(list(enumerate(lines)))
    machine.checkpoint(machine.newest_ms)
    for table in TABLES:
        found = [dict(row) for row in machine.store.tables[table].values()]
        store.insert(table, pa.Table.from_pylist(found, schema=SCHEMAS[table]), f"{token}-{table}")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ClickHouseStore]:
    with embedded(tmp_path / "engine") as opened:
        yield opened


_HOURS = """
SELECT node, intDiv(toUnixTimestamp(hour), 3600) AS at, CAST(node_cost_usd * 1000000000 AS Int128) AS cost,
       CAST(job_cost_usd * 1000000000 AS Int128) AS jobs, CAST(idle_cost_usd * 1000000000 AS Int128) AS idle,
       CAST(overcommitted_cost_usd * 1000000000 AS Int128) AS over_cost,
       CAST(unattributed_cost_usd * 1000000000 AS Int128) AS unattributed, unattributed_gpu_ms AS used_ms, overcommitted,
       gpu_milli_ms
FROM node_hour_balance
"""


def test_jobs_and_idle_are_what_nodes_cost_on_random_fleets(store: ClickHouseStore) -> None:
    fleets = [fleet_of(seed) for seed in range(FLEETS)]
    every = sorted((line for fleet in fleets for line in fleet.lines), key=_time_ms)
    metered(
        [*(x for x in every if x.topic == "prices"), *(x for x in every if x.topic != "prices")], store, "all"
    )
    rows = {(str(row["node"]), int(row["at"])): row for row in dicts(store, _HOURS)}
    cost, jobs, used = Counter[tuple[str, int]](), Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for fleet in fleets:
        cost.update(fleet.cost)
        jobs.update(fleet.jobs)
        used.update(fleet.used)
    lines = _lines(store)
    assert rows.keys() == cost.keys()
    for key, row in rows.items():
        assert row["cost"] == row["jobs"] + row["idle"] - row["over_cost"]
        assert 0 <= row["unattributed"] <= row["idle"]
        assert 0 <= row["over_cost"] <= HALF_NANO * lines[key]
        assert not row["overcommitted"]
        # Each row was rounded to a nano-dollar once.
        assert abs(row["cost"] - cost[key]) <= HALF_NANO * lines[key]
        assert abs(row["idle"] - (cost[key] - jobs[key])) <= HALF_NANO * lines[key]
        assert row["used_ms"] == used[key]
        if row["gpu_milli_ms"]:
            share = row["cost"] * used[key] * 1000 // row["gpu_milli_ms"]
            assert row["unattributed"] == min(share, row["idle"])
    assert sum(1 for row in rows.values() if row["unattributed"]) > FLEETS / 5
    assert sum(1 for row in rows.values() if not row["gpu_milli_ms"] and row["jobs"]) > FLEETS / 5
    assert _hours_and_minutes_agree(store)


def crowded(seed: int) -> tuple[Fleet, dict[tuple[str, int], list[Fraction]]]:
    """Nodes of which jobs hold more or less than there is, and by node and minute: what the node costs, what its jobs pay."""
    rng, fleet = random.Random(seed), Fleet()
    nano = rng.randrange(1, 5 * NANO)
    fleet.say(
        "prices", BASE_MS, sku=f"x{seed}", component="gpu", per="gpu_hour", cluster=f"x{seed}", effective_ms=0,
        usd=str(Decimal(nano) / NANO),
    )  # fmt: skip
    minutes: dict[tuple[str, int], list[Fraction]] = {}

    def pay(side: int, node: str, gpus: int, start_ms: int, end_ms: int) -> None:
        for minute in range(start_ms // 60_000, -(-end_ms // 60_000)):
            held_ms = min(end_ms, (minute + 1) * 60_000) - max(start_ms, minute * 60_000)
            sides = minutes.setdefault((node, minute), [Fraction(), Fraction()])
            sides[side] += Fraction(gpus * held_ms * nano, HOUR_MS)

    for number in range(2):
        node, gpus = f"x{seed}-{number}", rng.choice((1, 4))
        start_ms = BASE_MS + rng.randrange(HOUR_MS)
        end_ms = start_ms + rng.randint(1, 2 * HOUR_MS)
        fleet.say("nodes", start_ms, type="provisioned", node=node, gpu_count=gpus, cluster=f"x{seed}")
        fleet.say("nodes", end_ms, type="terminated", node=node)
        pay(0, node, gpus, start_ms, end_ms)
        for job in range(rng.randint(0, 3)):
            held, from_ms = rng.choice((1, 4, 8)), rng.randint(start_ms, end_ms)
            until_ms = rng.randint(from_ms, end_ms)
            about = {"job_id": f"{node}-{job}", "cluster": f"x{seed}"}
            fleet.say("jobs", from_ms, type="started", nodes={node: held}, **about)
            fleet.say("jobs", until_ms, type="completed", **about)
            pay(1, node, held, from_ms, until_ms)
    return fleet, minutes


def test_idle_is_of_each_minute_and_overcommitted_stands_apart_on_random_fleets(
    store: ClickHouseStore,
) -> None:
    made = [crowded(seed) for seed in range(FLEETS // 2)]
    every = sorted((line for fleet, _ in made for line in fleet.lines), key=_time_ms)
    metered(
        [*(x for x in every if x.topic == "prices"), *(x for x in every if x.topic != "prices")], store, "x"
    )
    idle: defaultdict[tuple[str, int], Fraction] = defaultdict(Fraction)
    over: defaultdict[tuple[str, int], Fraction] = defaultdict(Fraction)
    for (node, minute), (cost, jobs) in (
        (key, sides) for _, minutes in made for key, sides in minutes.items()
    ):
        idle[node, minute // 60] += max(Fraction(), cost - jobs)
        over[node, minute // 60] += max(Fraction(), jobs - cost)
    lines = _lines(store)
    rows = {(str(row["node"]), int(row["at"])): row for row in dicts(store, _HOURS)}
    assert rows.keys() == idle.keys()
    for key, row in rows.items():
        assert row["cost"] == row["jobs"] + row["idle"] - row["over_cost"]
        assert abs(row["idle"] - idle[key]) <= HALF_NANO * lines[key]
        assert abs(row["over_cost"] - over[key]) <= HALF_NANO * lines[key]
        assert not row["overcommitted"] or over[key]
    assert sum(1 for key in rows if idle[key] > 10**6 and over[key] > 10**6) > 10, (
        "both in one hour of a node"
    )
    figures = "sum(b.idle_cost_usd) AS idle, sum(b.overcommitted_cost_usd) AS over"
    (by_minute,), (by_hour,), (by_kind,), (by_day,) = (
        dicts(store, f"SELECT {figures} FROM {view} AS b")
        for view in ("node_balance", "node_hour_balance", "idle_hours", "m3_unallocated_ratio")
    )
    assert by_minute == by_hour == by_kind == by_day


def _lines(store: ClickHouseStore) -> Counter[tuple[str, int]]:
    """How many rows of minutes each node has in each hour."""
    sql = """
SELECT node, intDiv(toUnixTimestamp(minute), 3600) AS at, count() AS lines FROM
(SELECT node, minute FROM node_minutes FINAL UNION ALL SELECT node, minute FROM job_minutes FINAL)
GROUP BY node, at
"""
    return Counter({(str(row["node"]), int(row["at"])): int(row["lines"]) for row in dicts(store, sql)})


def _hours_and_minutes_agree(store: ClickHouseStore) -> bool:
    sql = "SELECT sum(toDecimal128(cost_usd, 9)) AS usd, count() > 0 AS any FROM {} FINAL"
    hours, minutes = (dicts(store, sql.format(table)) for table in (NODE_HOURS, NODE_MINUTES))
    return hours == minutes


def test_jobs_and_idle_are_what_openbs_nodes_cost(store: ClickHouseStore) -> None:
    """openb's nodes for one hour, to which the trace's 149 days are shrunk; pods go where they fit first."""
    if not OPENB.is_dir():
        pytest.skip("openb's nodes are not on this machine")
    with (OPENB / "alibaba2023_openb_node_list_all_node.csv").open(newline="") as file:
        nodes = [
            (row["sn"], int(row["gpu"]), int(row["cpu_milli"]), row["model"]) for row in csv.DictReader(file)
        ]
    fleet, end_ms = Fleet(), BASE_MS + HOUR_MS
    fleet.say("prices", BASE_MS, sku="g", component="gpu", usd="2.47", per="gpu_hour", effective_ms=0)
    fleet.say(
        "prices", BASE_MS, sku="c", component="compute", usd="0.777", per="instance_hour", effective_ms=0
    )
    for name, gpus, _, model in nodes:
        fleet.say("nodes", BASE_MS, node=name, type="provisioned", gpu_count=gpus, gpu_type=model)
        fleet.say("nodes", end_ms, node=name, type="terminated")
    placed = 0
    free = {
        name: [gpus * 1000, 1000] for name, gpus, _, _ in nodes
    }  # thousandths of GPUs, and of the instance
    cpus = {name: cpu_milli for name, _, cpu_milli, _ in nodes}
    ends: list[tuple[int, str, int, int]] = []
    pods = read_openb(OPENB / "alibaba2023_openb_pod_list_gpuspec33.csv")
    base_ms = min(job.queued_ms or 0 for job in pods)
    for job in sorted(
        (job for job in pods if job.start_ms is not None),
        key=lambda job: (job.start_ms, job.job_id),
    ):
        assert job.start_ms is not None
        start, end = (
            BASE_MS + (at_ms - base_ms) * HOUR_MS // (END_S * 1000) if at_ms is not None else end_ms
            for at_ms in (job.start_ms, job.end_ms)
        )
        for done in [each for each in ends if each[0] <= start]:
            free[done[1]][done[2]] += done[3]
            ends.remove(done)
        for name, gpus, _, _ in nodes:
            kind = 0 if job.gpu_milli else 1
            share = job.gpu_milli or max(1, job.cpu_milli * 1000 // cpus[name])
            if (gpus > 0) == (kind == 0) and free[name][kind] >= share and start < end:
                free[name][kind] -= share
                ends.append((end, name, kind, share))
                held = (
                    {"nodes": {name: share / 1000}}
                    if kind == 0
                    else {"nodes": {name: 0}, "instance_count": share / 1000}
                )
                fleet.say("jobs", start, job_id=job.job_id, type="started", **held)
                fleet.say("jobs", end, job_id=job.job_id, type=job.end_type)
                placed += 1
                break
    assert placed > 5_000
    metered(fleet.lines, store, "openb")
    (total,) = dicts(
        store,
        f"SELECT sum(h.cost) AS cost, sum(h.jobs) AS jobs, sum(h.idle) AS idle, sum(h.over_cost) AS over_cost, sum(h.overcommitted) AS over FROM ({_HOURS}) AS h",
    )
    assert total["cost"] == total["jobs"] + total["idle"] - total["over_cost"]
    exact = sum(gpus * 2_470_000_000 or 777_000_000 for _, gpus, _, _ in nodes)
    assert abs(total["cost"] - exact) <= 30 * len(nodes)
    assert total["over"] == 0
    assert 0 < total["jobs"] < total["cost"]
    assert _hours_and_minutes_agree(store)
