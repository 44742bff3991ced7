"""Which jobs are over in the files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.decode import decode
from schemas.invalid import Invalid
from streams.backfill.histories import Histories, Owner, Skipped

DAY_MS = 86_400_000
T = 1_700_000_000_000
UNTIL = T + DAY_MS


def histories(*events: tuple[str, dict[str, Any]], until_ms: int = UNTIL) -> Histories:
    found = Histories(until_ms)
    for number, (topic, value) in enumerate(events):
        given = {"source": "t", "id": f"e{number}", "time_ms": T + number, "job_id": "j", **value}
        event = decode(topic, json.dumps(given).encode(), [], T + 10 * DAY_MS)
        assert not isinstance(event, Invalid), event
        found.add(event)
    return found


def job(kind: str, attempt: int = 1, **value: Any) -> tuple[str, dict[str, Any]]:
    return "jobs", {"type": kind, "attempt": attempt, "gpu_count": 1, **value}


def sample(**value: Any) -> tuple[str, dict[str, Any]]:
    return "gpu", {"node": "n", "interval_ms": 10_000, "gpus": ["0"], "util_ratio": [0.5], **value}


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([job("started"), job("completed")], None),
        ([job("completed"), job("started")], None),  # in any order
        ([job("started")], Skipped.OPEN),
        ([job("queued")], Skipped.OPEN),
        ([job("allocated"), job("suspended", holds_gpus=True)], Skipped.OPEN),
        ([job("started"), job("preempted"), job("started", 2)], Skipped.OPEN),
        ([job("started"), job("preempted"), job("queued", 2)], Skipped.OPEN),
        ([job("started"), job("started", 2), job("failed", 2)], None),  # superseded
        ([job("started"), job("queued", 2), job("cancelled", 2)], Skipped.OPEN),  # by nothing that started
        ([job("queued"), job("started", 3), job("failed", 3)], None),
        ([sample()], None),  # pays for its samples, and for nothing that goes on
        ([job("updated", owner="ann"), sample()], None),
        ([job("started"), job("completed", time_ms=UNTIL - 1)], None),
        ([job("started"), job("completed", time_ms=UNTIL)], Skipped.RECENT),
        ([job("started"), job("completed"), job("updated", time_ms=UNTIL)], Skipped.RECENT),
        ([job("started", time_ms=UNTIL)], Skipped.OPEN),
    ],
)
def test_a_job_is_taken_whole_or_not_at_all(
    events: list[tuple[str, dict[str, Any]]], reason: Skipped | None
) -> None:
    assert dict(histories(*events).unfit({})).get(Owner("j")) is reason


def test_what_others_have_comes_before_any_other_reason() -> None:
    found = histories(job("started"))
    assert dict(found.unfit({Owner("j"): Skipped.LIVE})) == {Owner("j"): Skipped.LIVE}


def test_nodes_go_on_and_keep_what_is_before_until() -> None:
    node = {"node": "n", "type": "provisioned", "gpu_count": 8}
    found = histories(
        ("nodes", node), ("nodes", {**node, "type": "terminated", "time_ms": UNTIL}), sample(job_id="")
    )
    assert dict(found.unfit({})) == {}
    history = found.of[Owner("n", is_node=True)]
    assert (history.events, history.late_events) == (3, 1)


def test_a_job_and_a_node_may_share_a_name() -> None:
    found = histories(job("started", job_id="n"), sample(job_id=""))
    assert found.of.keys() == {Owner("n"), Owner("n", is_node=True)}


def test_the_newest_time_is_that_of_events_before_until() -> None:
    assert histories(job("started"), job("completed", time_ms=UNTIL)).newest_ms == T
    assert histories().newest_ms == 0
