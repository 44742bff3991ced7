"""What a collector finds under a name of the meter's own, or with a NUL byte, is left out and told; the rest is published."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from schemas.decode import decode
from schemas.invalid import Invalid
from schemas.reserved import CANARY_JOB_PREFIX
from streams.accounts.account import Account
from streams.clock import ManualClock
from streams.collect.collector import CollectedEvent, EventBatch, Position
from streams.collect.metrics import CollectorMetrics
from streams.collect.runner import CollectorRunner
from streams.topics import Topic
from tests.schemas.records import FULL, NOW_MS

NAMES: dict[str, list[dict[str, Any]]] = {
    "reserved_name": [
        {"job_id": f"{CANARY_JOB_PREFIX}x"},
        {"team": "idle"},
        {"nodes": {"trainfare-canary": 8.5}},
    ],
    "nul_byte": [{"job_id": "a\0"}, {"labels": {"a": "\0"}}, {"labels": {"\0": "a"}}],
}


#: How many names these are: that of a label is not told from that of another.
NAMES_TOLD = {"reserved_name": 3, "nul_byte": 2}


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


@pytest.mark.parametrize("reason", NAMES)
def test_it_is_left_out_with_its_reason(reason: str) -> None:
    good = CollectedEvent(Topic.JOBS, FULL["jobs"])
    bad = [CollectedEvent(Topic.JOBS, {**FULL["jobs"], **each}) for each in NAMES[reason]]
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
    assert runner.account.reasons == {"malformed": 1, reason: NAMES_TOLD[reason]}, "a name is one entry"
    assert runner.account.read == 11
    labels = {"collector": "fake", "class": "not_understood", "reason": reason}
    assert registry.get_sample_value("trainfare_collector_read_total", labels) == NAMES_TOLD[reason]
