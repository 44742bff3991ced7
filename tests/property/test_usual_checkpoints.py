"""A job that saves its work rarely is told once it has not for longer than usual, as the plain judge has it, in any cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from schemas.tables import ALERTS
from tests.oracle.cases import T0, job, price
from tests.oracle.model import MINUTE_MS, Line
from tests.property.test_alerts import check
from tests.strategies.logs import time_of

M = MINUTE_MS


def told(
    saved: Sequence[int],
    until: int,
    *more: Line,
    cuts: Sequence[int] = (),
    crashes: Mapping[int, int] | None = None,
) -> list[int]:
    """After how many minutes each `no_checkpoint` opens about a job that saves after so many, and is to within 30 min."""
    rule = {"kind": "rule", "name": "saves", "rule": "no_checkpoint"}
    limits = {"source": "r", "id": "1", "time_ms": T0, "thresholds": {"hours": 0.5, "least_usd": 1}}
    lines = [price("p", "2", time_ms=T0), Line("controls", rule | limits)]
    lines.append(job("j", "started", T0, gpu_count=16))
    lines += [job("j", "checkpointed", T0 + minute * M) for minute in saved]
    lines += [*more, job("other", "queued", T0 + until * M)]
    lines.sort(key=time_of)
    found = {row["alert_id"]: row for row in check(lines, cuts, crashes).rows(ALERTS)}
    return [
        (round(row["started"].timestamp() * 1000) - T0) // M
        for row in sorted(found.values(), key=lambda row: row["started"])
        if row["rule"] == "no_checkpoint"
    ]


@pytest.mark.parametrize(("cuts", "crashes"), [((), {}), ((4, 6), {}), ((5,), {5: 0})])
def test_one_that_saves_each_45_minutes_is_told_90_minutes_after_the_last(
    cuts: Sequence[int], crashes: Mapping[int, int]
) -> None:
    assert told([45, 90, 135], 300, cuts=cuts, crashes=crashes) == [135 + 90]


def test_one_that_saves_often_is_told_when_any_job_is() -> None:
    assert told([10, 20, 30], 100) == [60]


def test_time_in_which_it_is_suspended_is_no_part_of_what_is_usual() -> None:
    pause = [job("j", "suspended", T0 + 50 * M, holds_gpus=True), job("j", "resumed", T0 + 130 * M)]
    # 40 min, and 100 min later another after 20 min of running: of two the lesser.
    assert told([40, 140], 250, *pause) == [140 + 40]


def test_the_next_attempt_begins_with_what_was_usual_before() -> None:
    again = [job("j", "failed", T0 + 100 * M), job("j", "started", T0 + 105 * M, attempt=2, gpu_count=16)]
    assert told([45, 90], 250, *again) == [105 + 90]
