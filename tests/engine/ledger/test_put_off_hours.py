"""The record accounting says up to where the tables are complete: hours must then agree with the minutes they sum."""

from __future__ import annotations

import pytest

from schemas.tables import BOOKS, JOB_HOURS, JOB_MINUTES
from streams.engine.settings import FUTURE_MS, ShardSettings
from tests.harness import FAR_FUTURE_MS, Meter
from tests.oracle.cases import T0, gpu, job, network, price
from tests.oracle.model import Line

COSTS = ("gpu", "compute", "network", "storage", "license", "labor", "overhead")
PRICES = (
    price("h100", "3.60", match={"gpu_type": "H100"}),
    price("net", "1", component="network", per="gib"),
)
START = job("j", "started", T0, gpu_count=8, gpu_type="H100", nodes={"n": 8})
SAMPLE = gpu("j", T0, 1_000, {str(number): 1.0 for number in range(8)}, node="n")
TRAFFIC = network("j", T0 + 30_000, 20_000, direction="egress", path="internet", bytes=2**30)
EARLIER = network("j", T0 + 20_000, 10_000, direction="egress", path="internet", bytes=2**20)


def metered() -> Meter:
    return Meter(ShardSettings(run_start_ms=FAR_FUTURE_MS - FUTURE_MS))


def feed(machine: Meter, *pieces: tuple[Line, ...]) -> None:
    place = 0
    for piece in pieces:
        machine.feed(list(enumerate(piece, place)))
        place += len(piece)


def minutes_and_hours(machine: Meter) -> list[tuple[int, int]]:
    """Return (GPU-time, cost in nano-dollars) of the minutes, then of the hours."""
    minutes = list(machine.store.tables[JOB_MINUTES].values())
    hours = list(machine.store.tables[JOB_HOURS].values())
    nano = 10**9
    return [
        (
            sum(int(row["quantity"]) for row in minutes if row["component"] == "gpu"),
            sum(int(row["cost_usd"] * nano) for row in minutes),
        ),
        (
            sum(int(row["gpu_milli_ms"]) for row in hours),
            sum(int(row[f"{name}_cost_usd"] * nano) for row in hours for name in COSTS),
        ),
    ]


@pytest.mark.parametrize(
    ("pieces", "held_ms"),
    [
        (((SAMPLE,),), 1_000),
        (((START,), (TRAFFIC,)), 120_000),
        (((START,), (EARLIER,), (TRAFFIC,)), 120_000),
        (((SAMPLE,), (TRAFFIC,), (START,)), 120_000),
    ],
    ids=["a job of samples alone", "traffic", "traffic twice", "a sample, traffic, the start"],
)
@pytest.mark.parametrize("restarts", [False, True])
def test_the_last_checkpoint_of_an_owner_writes_the_hours_that_minutes_are_ahead_of(
    pieces: tuple[tuple[Line, ...], ...], held_ms: int, restarts: bool
) -> None:
    machine = metered()
    machine.feed(list(enumerate(PRICES)))
    feed(machine, *pieces)
    if restarts:
        machine.restart()
    before = minutes_and_hours(machine)
    assert before[0] != before[1], "hours of jobs that have not ended wait for the next accrual"
    for shard in machine.shards.values():
        shard.owe_books()
    feed(machine, (job("k", "heartbeat", T0 + 60_000),))
    assert machine.store.tables[BOOKS], "the accounting is written"
    minutes, hours = minutes_and_hours(machine)
    assert minutes == hours
    machine.restart()
    machine.checkpoint(T0 + 120_000)
    minutes, hours = minutes_and_hours(machine)
    assert minutes == hours
    assert minutes[0] == held_ms * 8 * 1_000
