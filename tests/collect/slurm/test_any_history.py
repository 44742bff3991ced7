"""Whatever a collector saw, was killed at or forgot, and since when it counts: the costs are those of sacct in the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.collect.collector import Position
from streams.collect.slurm.collector import SlurmCollector
from streams.collect.slurm.options import Options
from tests.collect.slurm import fake
from tests.collect.slurm.test_recorded import PRICE, cost_nano, of_sacct
from tests.collect.slurm.world import recorded
from tests.collect.world import Log
from tests.harness import meter
from tests.oracle.model import Line


@cache
def squeue(version: str, at: int) -> bytes:
    return json.dumps(recorded(version)[at]["squeue"]).encode()


def asker(version: str, at: int) -> Callable[[Sequence[str]], bytes]:
    def ask(command: Sequence[str]) -> bytes:
        if command[0] == "squeue":
            return squeue(version, at)
        jobs = recorded(version)[at]["sacct"]["jobs"]
        return json.dumps({"jobs": [job for job in jobs if fake.is_asked_for(job, [*command])]}).encode()

    return ask


@settings(max_examples=40)
@given(st.data())
@pytest.mark.parametrize("version", ["22.05", "24.11"])
def test_costs_do_not_depend_on_what_was_seen(version: str, data: st.DataObject) -> None:
    """Two collectors, each polls when it likes; a poll may be cut short, or its position lost. Counted since any time."""
    last = len(recorded(version)) - 1
    times = [int(look["time"]) for look in recorded(version)]
    since_s = data.draw(st.just(times[0] - 3600) | st.integers(times[0], times[-1] - 1))
    options = Options(gpu_types={"h100": "H100"}, since=datetime.fromtimestamp(since_s, UTC))
    log = Log()
    for _ in range(2):
        positions: list[Position | None] = [None]
        polls = sorted(data.draw(st.sets(st.integers(0, last - 1), max_size=8)))
        for at in (*polls, last):
            back = 1 if at == last else data.draw(st.integers(1, min(len(positions), 3)))
            collector = SlurmCollector(options, asker(version, at))
            now_ms: Any = int(recorded(version)[at]["time"]) * 1000
            for batch in collector.poll(positions[-back], now_ms):
                log.publish(batch.events)
                if at != last and data.draw(st.booleans()):
                    break  # killed after it published, before it stored its position
                positions.append(batch.position)
    as_of_ms = int(recorded(version)[-1]["time"]) * 1000
    tables = meter([PRICE, *(Line(topic, dict(value)) for topic, value in log.events)], as_of_ms=as_of_ms)
    assert cost_nano(tables) == of_sacct(version, since_s)
    assert not tables.dead
