"""`held`: GPUs that are paid and not used, since a job is suspended or does not start, and what its alert says to do."""

from __future__ import annotations

import pytest

from tests.engine.rules.told import M, sentences
from tests.oracle.cases import T0, job
from tests.oracle.model import Line

LATER = job("other", "queued", T0 + 100 * M)


def allocated(at_ms: int = T0) -> Line:
    return job("run-1", "allocated", at_ms, gpu_count=8, purchase="on_demand")


def test_a_job_that_does_not_start_is_told_after_half_an_hour() -> None:
    told = sentences(allocated(), job("run-1", "started", T0 + 50 * M), LATER)
    assert told["held", "firing"] == (
        "run-1 has been starting for 30 min, since 00:00 UTC, and holds 8 GPUs at $33/h; find out why it does not start, or"
        " stop it, else $246 more by 08:00 UTC; 8 GPUs"
    )
    assert told["held", "resolved"] == "run-1 runs, or holds no GPUs any more; from 00:30 UTC for 20 min"


def test_a_suspended_job_is_to_be_resumed() -> None:
    told = sentences(
        job("run-1", "started", T0, gpu_count=8, purchase="on_demand"),
        job("run-1", "suspended", T0 + 10 * M, holds_gpus=True),
        LATER,
    )
    assert "has been suspended for 30 min, since 00:10 UTC" in told["held", "firing"]
    assert "release the GPUs (suspend without holding them) or resume it" in told["held", "firing"]


@pytest.mark.parametrize(
    "lines",
    [
        (allocated(), job("run-1", "started", T0 + 29 * M)),
        (allocated(), job("run-1", "queued", T0 + 29 * M)),
        (allocated(), job("run-1", "failed", T0 + 29 * M), allocated(T0 + 35 * M), job("run-1", "started", T0 + 60 * M)),
    ],
    ids=["started", "back in the queue", "failed"],
)  # fmt: skip
def test_half_an_hour_of_start_is_none(lines: tuple[Line, ...]) -> None:
    assert ("held", "firing") not in sentences(*lines, LATER)
