"""The latency run sends what the meter takes and what opens an alert, and counts what came."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from loadtest import latency, measure
from loadtest.latency_load import NAMES, Probes
from loadtest.latency_world import machine
from loadtest.soak_load import Event
from schemas.decode import decode
from schemas.invalid import Invalid
from streams.engine.rules.similar_jobs import stem_of
from streams.keys import key_of
from streams.notify.webhooks.receiver import Received
from tests.kafka.broker import why_not

NOW_MS = 1_772_366_400_000


def taken(event: Event) -> Any:
    found = decode(event.topic.value, event.value, (), NOW_MS)
    assert not isinstance(found, Invalid), found
    assert event.key == key_of(event.topic, event.value) != b""
    return found


def test_every_event_is_taken_and_no_two_are_one() -> None:
    probes = Probes()
    events = [*probes.probe("probe-1", NOW_MS), *probes.runaway("runaway-1", NOW_MS)]
    for event in events:
        taken(event)
        assert str(json.loads(event.value)["job_id"]).startswith(NAMES)
    assert len({(event.topic, json.loads(event.value)["id"]) for event in events}) == len(events)


def test_runaways_are_no_sweep_whose_alerts_would_be_one_message() -> None:
    names = [
        *map(measure.runaway_name, range(200)),
        *(measure.runaway_name(6, number) for number in range(20)),
    ]
    assert len({*names}) == len(names)
    assert all(name.startswith(NAMES) and stem_of(name) == name for name in names)
    assert stem_of("runaway-6-19") != "runaway-6-19"


def test_a_runaway_burns_enough_for_the_fast_rule_and_was_paid_all_along() -> None:
    """Thresholds: 6 over 5 minutes, 2.5 over 15, a dollar above what was expected."""
    started, scaled = (json.loads(event.value) for event in Probes().runaway("r", NOW_MS))
    factor, since_min = scaled["gpu_count"] / started["gpu_count"], (NOW_MS - scaled["time_ms"]) / 60_000
    assert NOW_MS - started["time_ms"] > 20 * 60_000
    assert since_min > 5.5  # the whole shorter window, also at a tick a little later
    assert factor >= 6
    assert (since_min * factor + (15 - since_min)) / 15 >= 2.5
    assert since_min / 60 * (factor - 1) * started["gpu_count"] * 2.5 > 1


def test_a_spread_is_of_what_was_measured() -> None:
    hundred = [float(ms) for ms in range(100, 0, -1)]
    assert measure.spread(100, hundred) == (100, 100, 50.0, 99.0, 100.0, 100.0)
    assert measure.spread(3, [5.0]) == (3, 1, 5.0, 5.0, 5.0, 5.0)
    assert measure.spread(2, []) == (2, 0, None, None, None, None)
    thousands = [float(ms) for ms in range(1, 10_001)]
    assert measure.spread(10_000, thousands)[2:5] == (5_000.0, 9_900.0, 9_990.0)


def test_a_message_counts_once_from_its_tick_and_only_of_the_fast_rule() -> None:
    async def go() -> measure.Arrivals:
        arrivals = measure.Arrivals(1)
        started_ms = int(measure.now_ms()) - 700
        for kind, rule in (
            ("alert.firing", "unpriced"),
            ("alert.firing", "burn_fast"),
            ("alert.resolved", "burn_fast"),
        ):
            data = {"subject": {"kind": "job", "name": "r"}, "rule": rule, "started_ms": started_ms}
            arrivals.received(Received("msg", kind, "", data))
        assert arrivals.all.is_set()
        return arrivals

    assert 700 <= asyncio.run(go()).found_ms["r"] < 5_000


def test_lag_is_looked_at_until_the_time_is_over() -> None:
    looks, now_s = [9, 7, 5, 100], iter(range(20, 30))
    found = asyncio.run(measure.lagging(looks.pop, 4.0, 0.0, lambda: next(now_s)))
    assert found == {"median": 7, "max": 100}
    assert looks == [9]


def test_figures_of_a_run_in_which_nothing_came_can_be_read() -> None:
    nothing = measure.spread(5, [])._asdict()
    figures = {
        "machine": machine(), "load_average": [0.1], "events_per_s": 1000, "jobs": 10, "gpus": 80, "seconds": 5,
        "produced_to_readable": nothing, "judged_to_received": nothing, "worker_memory_mib": 1,
        "worker_cpu_percent": {"idle": 1.0, "busy": 2.0}, "late_slices": 3, "latest_slice_ms": 200.0, "usd": "1",
        "lag_records": {"median": 1, "max": 2}, "lag_s": {"median": 0.1, "max": 0.25},
        "parts": {"fold": {"count": 0}, "tick": {"count": 1, "median_ms": 1.0, "p99_ms": 1.0, "max_ms": 1.0}},
    }  # fmt: skip
    said = latency.report(figures)
    assert "     0/5" in said
    assert "was late 3 times" in said
    assert "oldest not metered: 0.1 s, 0.2 at most" in said
    assert "fold" not in said


def test_the_machine_says_what_it_is() -> None:
    facts = machine()
    assert facts["cores"]
    assert facts["kafka"]


@pytest.mark.kafka
@pytest.mark.long
def test_a_short_run_measures_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if why_not() is not None:
        pytest.skip(str(why_not()))
    out = tmp_path / "latency.json"
    words = [
        "--seconds",
        "10",
        "--cpu",
        "2",
        "--settle",
        "2",
        "--jobs",
        "20",
        "--rate",
        "200",
        "--runaways",
        "3",
        "--out",
    ]
    assert latency.main([*words, str(out)]) == 0
    figures = json.loads(out.read_text())
    for key in ("produced_to_readable", "judged_to_received"):
        assert figures[key]["arrived"] == figures[key]["expected"] > 0, figures
    assert figures["worker_exit_code"] == 0
    assert "tick -> webhook received" in capsys.readouterr().out
