"""A job's own budget and deadline in its row of `jobs`: the latest event that names one counts."""

from __future__ import annotations

import itertools
from typing import Any

from schemas.tables import JOBS
from streams.engine.shard.job_tables import job_tables
from tests.engine.test_state_bounds import fed
from tests.oracle.cases import T0, job
from tests.oracle.model import MINUTE_MS, Line


def row(lines: list[Line]) -> dict[str, Any]:
    state = fed(lines, 2).shards[0].jobs["j"]
    found: dict[str, Any] = job_tables([state], T0, 0, 1)[JOBS].to_pylist()[0]
    return found


def test_the_latest_budget_and_deadline_count_in_any_order() -> None:
    lines = [
        job("j", "started", T0, gpu_count=1, budget={"usd": "5", "action": "stop"}, deadline_ms=T0 + 10**7),
        job("j", "updated", T0 + MINUTE_MS, budget={"usd": 7.5, "gpu_hours": 2}),
        job("j", "heartbeat", T0 + 2 * MINUTE_MS),
    ]
    for order in itertools.permutations(lines):
        found = row(list(order))
        assert dict(found["budget"]) == {"usd": "7.5", "gpu_hours": "2"}
        assert round(found["deadline"].timestamp() * 1000) == T0 + 10**7


def test_a_job_without_has_none() -> None:
    found = row([job("j", "started", T0, gpu_count=1)])
    assert (found["budget"], found["deadline"]) == ([], None)
