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
from tests.oracle.model import Line, Tables


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
    tables = tables_of(log, recorded(version))
    assert cost_nano(tables) == of_sacct(version, since_s)
    assert not tables.dead


@pytest.mark.parametrize("version", ["22.05", "24.11"])
def test_costs_since_the_second_of_a_poll_do_not_depend_on_it(version: str) -> None:
    """In that second a job may have changed its size, or ended, after the poll had seen it."""
    looks = recorded(version)
    for at, look in enumerate(looks[:-1]):
        since_s, log = int(look["time"]), Log()
        options = Options(gpu_types={"h100": "H100"}, since=datetime.fromtimestamp(since_s, UTC))
        for polls in ((at, len(looks) - 1), (len(looks) - 1,)):
            position: Position | None = None
            for each in polls:
                collector = SlurmCollector(options, asker(version, each))
                for batch in collector.poll(position, int(looks[each]["time"]) * 1000):
                    log.publish(batch.events)
                    position = batch.position
        assert cost_nano(tables_of(log, looks)) == of_sacct(version, since_s), at


def tables_of(log: Log, looks: Sequence[dict[str, Any]]) -> Tables:
    """What the meter makes of events, at the last look."""
    lines = [PRICE, *(Line(topic, dict(value)) for topic, value in log.events)]
    return meter(lines, as_of_ms=int(looks[-1]["time"]) * 1000)
