"""Events of a collector that the meter would refuse are left out and told, each job as one entry; the rest is published."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from schemas.decode import decode
from schemas.invalid import Invalid
from schemas.reserved import CANARY_JOB_PREFIX
from streams.accounts.account import Account, metered
from streams.clock import ManualClock
from streams.collect.collector import CollectedEvent, EventBatch, Position
from streams.collect.metrics import CollectorMetrics
from streams.collect.runner import CollectorRunner
from streams.topics import Topic
from tests.schemas.records import FULL, NOW_MS

CHANGES: dict[str, list[dict[str, Any]]] = {
    "reserved_name": [
        {"job_id": f"{CANARY_JOB_PREFIX}x"},
        {"team": "idle"},
        {"nodes": {"trainfare-canary": 8.5}},
    ],
    "nul_byte": [{"job_id": "a\0"}, {"labels": {"a": "\0"}}, {"labels": {"\0": "a"}}],
    "unknown_value": [{"job_id": "a", "purchase": "onprem"}, {"purchase": "onprem"}],
    "out_of_range": [{"job_id": "a", "gpu_count": -1}, {"gpu_count": -1}],
}


class Source:
    """Reports one batch."""

    name, interval_ms = "fake", 1_000

    def __init__(self, batch: EventBatch) -> None:
        self._batch = batch

    def poll(self, position: Position | None, now_ms: int) -> Iterator[EventBatch]:
        yield self._batch


class Taken:
    """Keeps what is published."""

    def __init__(self) -> None:
        self.events: list[CollectedEvent] = []

    def publish(self, events: Sequence[CollectedEvent]) -> None:
        self.events.extend(events)


@pytest.mark.parametrize("reason", CHANGES)
def test_it_is_left_out_with_its_reason(reason: str) -> None:
    good = CollectedEvent(Topic.JOBS, FULL["jobs"])
    bad = [CollectedEvent(Topic.JOBS, {**FULL["jobs"], **each}) for each in CHANGES[reason]]
    for topic, value in bad:
        found = decode(topic, json.dumps(value).encode(), (), NOW_MS + 300_000)
        assert isinstance(found, Invalid)
        assert found.reason == reason, "what is left out here is what the meter refuses"
    account = Account()
    account.metered(10)
    account.not_understood("malformed", "another")
    source = Source(EventBatch([bad[0], good, *bad[1:], bad[0]], {"at": 7}, account))
    taken, registry = Taken(), CollectorRegistry()
    runner = CollectorRunner(
        source, taken, None, ManualClock(NOW_MS), CollectorMetrics("fake", registry), jitter_ratio=lambda: 0.5
    )
    assert runner.run_once() == 1
    assert taken.events == [good]
    assert runner.account.reasons == {"malformed": 1, reason: 2}, "a job is one entry"
    assert runner.account.read == 11
    labels = {"collector": "fake", "class": "not_understood", "reason": reason}
    assert registry.get_sample_value("trainfare_collector_read_total", labels) == 2


def test_what_the_meter_would_refuse_is_said_with_its_remedy() -> None:
    gpu, jobs = FULL["gpu"], FULL["jobs"]
    bad = [
        CollectedEvent(Topic.JOBS, {**jobs, "job_id": "17", "purchase": "onprem"}),
        CollectedEvent(Topic.GPU, {**gpu, "gpus": ["0", "1"], "purchase": "onprem"}),
    ]
    runner = CollectorRunner(
        Source(EventBatch(bad, {"at": 7}, metered(5))),
        Taken(),
        None,
        ManualClock(NOW_MS),
        CollectorMetrics("fake", CollectorRegistry()),
        jitter_ratio=lambda: 0.5,
    )
    assert runner.run_once() == 0
    assert runner.account.shown("slurm") == (
        "read 5: 2 metered, 0 free, 3 not understood\n"
        'not understood: 3 unknown_value; first: job 17: field `purchase`: got "onprem", expected one of on_demand, spot, '
        'reserved, on_prem; second: GPU 0 of node node-1: field `purchase`: got "onprem", expected one of on_demand, spot, '
        'reserved, on_prem; third: GPU 1 of node node-1: field `purchase`: got "onprem", expected one of on_demand, spot, '
        "reserved, on_prem; mend the option that gives the field this value, in the collector's table, or the value at its source"
    )
    assert runner.account.examples["unknown_value"][1].startswith(f"GPU 0 of node {gpu['node']}: field")
