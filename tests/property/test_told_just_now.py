"""Of what was told just now no other rule tells anew: each looks back at the same time. As the plain judge has it, in any cut."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from schemas.tables import ALERTS
from tests.oracle.cases import T0, gpu, job, price
from tests.oracle.model import HOUR_MS, MINUTE_MS, Line
from tests.property.test_alerts import check

M = MINUTE_MS
#: Its GPUs are looked at half a minute after its work went on.
JOB = "c"
#: Work stands still in these minutes.
STILL = range(40, 131)


def stands(gpus: int = 16, *, until: int = 200, reports_until: int = 200, **about: str) -> list[Line]:
    """A job of $2 a GPU-hour whose progress and GPUs stand still for a while, and then go on."""
    lines = [price("p", "2", time_ms=T0), job(JOB, "started", T0, gpu_count=gpus, **about)]
    for minute in range(2, until, 2):
        at_ms, step = T0 + minute * M, min(minute, STILL.start) if minute in STILL else minute
        if minute <= reports_until:
            lines.append(job(JOB, "heartbeat", at_ms + 1, progress={"step": step}))
        use = dict.fromkeys(map(str, range(gpus)), 0.0 if minute in STILL else 0.9)
        lines.append(gpu(JOB, at_ms, 2 * M, use, id=f"s{minute}"))
    return [*lines, job(JOB, "completed", T0 + until * M), job("other", "queued", T0 + 300 * M)]


def told(lines: list[Line], cuts: Sequence[int]) -> list[tuple[str, int, int]]:
    """Each alert, after how many minutes it began, and how often it fired."""
    found = {row["alert_id"]: row for row in check(lines, cuts).rows(ALERTS)}
    return sorted(
        (row["rule"], (round(row["started"].timestamp() * 1000) - T0) // M, row["firings"])
        for row in found.values()
    )


@pytest.mark.parametrize("cuts", [(), (135,), (20, 60, 133, 137)])
def test_idle_gpus_open_no_alert_of_the_time_that_stalled_told_of(cuts: Sequence[int]) -> None:
    assert [each[0] for each in told(stands(), cuts)] == ["stalled"]


@pytest.mark.parametrize("cuts", [(), (135,)])
def test_what_stood_still_has_an_hour_to_save_its_work(cuts: Sequence[int]) -> None:
    """It is due while the work stands still, and would be told of as soon as that goes on."""
    saves = Line(
        "controls",
        {
            "source": "r", "id": "1", "time_ms": T0, "kind": "rule", "name": "saves", "rule": "no_checkpoint",
            "thresholds": {"hours": 2, "least_usd": 20},
        },
    )  # fmt: skip
    lines = [saves, *stands(until=260, reports_until=260, purchase="spot")]
    first, second = told(lines, cuts)
    assert (first[0], second[0]) == ("no_checkpoint", "stalled")
    assert first[1] >= STILL.stop + HOUR_MS // M
