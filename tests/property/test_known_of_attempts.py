"""What goes on in the next attempt of a job is no second ticket, as the plain judge has it, in any cut and after a crash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from schemas.tables import ALERTS
from tests.oracle.cases import T0, job, price
from tests.oracle.model import HOUR_MS, MINUTE_MS, Line
from tests.property.test_alerts import check

M = MINUTE_MS
JOB = "spot"
#: Minutes after which each attempt is preempted, and from which its next one runs.
RUNS, PAUSES = 50, 20


def attempts(
    count: int, *, saved: Mapping[int, int] | None = None, gpus: Mapping[int, int] | None = None
) -> list[Line]:
    """Attempts of a spot job of $2 a GPU-hour that is to save within half an hour.

    `saved`: by attempt, after so many minutes it makes a checkpoint. `gpus`: of an attempt, where it is not 16.
    """
    rule = {"kind": "rule", "name": "saves", "rule": "no_checkpoint", "job_id": JOB}
    limits = {
        "source": "r",
        "id": "1",
        "time_ms": T0,
        "thresholds": {"hours": 0.5, "usual_times": 0, "least_usd": 1},
    }
    lines = [price("p", "2", time_ms=T0), Line("controls", rule | limits)]
    for attempt in range(1, count + 1):
        at_ms = T0 + (attempt - 1) * (RUNS + PAUSES) * M
        size = (gpus or {}).get(attempt, 16)
        lines.append(job(JOB, "started", at_ms, attempt=attempt, gpu_count=size, purchase="spot"))
        if attempt in (saved or {}):
            saved_ms = at_ms + (saved or {})[attempt] * M
            lines.append(job(JOB, "checkpointed", saved_ms, attempt=attempt))
        lines.append(job(JOB, "preempted", at_ms + RUNS * M, attempt=attempt))
    return [*lines, job("other", "queued", T0 + count * (RUNS + PAUSES) * M + HOUR_MS)]


def severities(
    lines: list[Line], cuts: Sequence[int] = (), crashes: Mapping[int, int] | None = None
) -> list[str]:
    """Of each alert about saving, in order."""
    found = {row["alert_id"]: row for row in check(lines, cuts, crashes).rows(ALERTS)}
    known = [row for row in found.values() if row["rule"] == "no_checkpoint"]
    return [row["severity"] for row in sorted(known, key=lambda row: row["started"])]


@pytest.mark.parametrize(
    ("cuts", "crashes"), [((), {}), ((5, 8), {}), ((6, 9), {6: 1, 9: 0})], ids=["whole", "cut", "crashes"]
)
def test_attempts_that_save_nothing_are_one_ticket(cuts: Sequence[int], crashes: Mapping[int, int]) -> None:
    assert severities(attempts(4), cuts, crashes) == ["ticket", "digest", "digest", "digest"]


def test_one_that_saved_in_between_is_a_ticket_again() -> None:
    assert severities(attempts(3, saved={2: 5})) == ["ticket", "ticket", "digest"]
    assert severities(attempts(3, saved={2: 45})) == ["ticket", "digest", "ticket"], "it ended by that"


def test_one_that_is_half_as_dear_again_is_a_ticket_again() -> None:
    assert severities(attempts(4, gpus={2: 23, 3: 24, 4: 35})) == ["ticket", "digest", "ticket", "digest"]


def test_a_page_stays_a_page() -> None:
    assert severities(attempts(2, gpus={1: 50, 2: 50})) == ["page", "page"]


@pytest.mark.parametrize(("days", "severity"), [(6.9, "digest"), (7.1, "ticket")])
def test_a_week_later_it_is_a_ticket_again(days: float, severity: str) -> None:
    again_ms = T0 + round(24 * days) * HOUR_MS
    later = [
        job(JOB, "started", again_ms, attempt=2, gpu_count=16, purchase="spot"),
        job("other", "queued", again_ms + HOUR_MS, id="later"),
    ]
    assert severities([*attempts(1), *later]) == ["ticket", severity]
