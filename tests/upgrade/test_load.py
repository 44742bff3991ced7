"""The load of a rolling upgrade alerts about one job alone, however long its first hour takes to be written."""

from __future__ import annotations

import orjson

from streams.engine.settings import ShardSettings
from tests.oracle.model import Line
from tests.simulator.log import Log, Written
from tests.simulator.script import Script
from tests.simulator.undisturbed import expected_alerts
from tests.upgrade.load import RUNAWAY, SteadyLoad

_NOW_MS = 1_800_000_000_000
_GOES_ON_MS = 60_000
_EACH_US = 1_000  # so the first hour takes 18 s: ticks fall into it


def test_only_the_runaway_alerts() -> None:
    now_us = _NOW_MS * 1000

    def sleep(seconds: float) -> None:
        nonlocal now_us
        now_us += round(seconds * 1e6)

    load = SteadyLoad(lambda: now_us // 1000, sleep)
    written: list[Written] = []
    for event in load.events():
        now_us += _EACH_US
        value = orjson.loads(event.value)
        written.append(Written(now_us // 1000, Line(event.topic, value), event.value))
        if value["time_ms"] > _NOW_MS + _GOES_ON_MS:
            load.end()
    script = Script(ShardSettings(), 1, written, None)
    alerts = expected_alerts(script, Log(written), script.end_ms)
    assert [(row["rule"], row["subject_name"]) for row in alerts.values()] == [("burn_fast", RUNAWAY)]
