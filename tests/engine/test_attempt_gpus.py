"""Which GPUs an attempt was sampled on: one row for each of which a second was covered, however the log is cut or taken up again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness import meter
from tests.oracle.compute import compute
from tests.oracle.model import Line
from tests.property.compare import assert_same

T0 = 1_780_308_000_000
MINUTE_MS = 60_000


def sample(minute: float, node: str, *gpus: str, job_id: str = "run-1", **more: Any) -> Line:
    said = {
        "source": "s",
        "id": f"{minute}{node}{job_id}",
        "time_ms": T0 + round(minute * MINUTE_MS),
        "node": node,
    }
    read = {"interval_ms": 30_000, "gpus": list(gpus), "util_ratio": [0.5] * len(gpus)}
    return Line("gpu", {**said, **read, **({"job_id": job_id} if job_id else {}), **more})


def started(minute: float, **more: Any) -> Line:
    said = {"source": "s", "id": f"started{minute}", "time_ms": T0 + round(minute * MINUTE_MS)}
    return Line("jobs", {**said, "job_id": "run-1", "type": "started", "gpu_count": 3, **more})


LOG = [
    started(0),
    sample(1, "n1", "g0", "g1"),
    sample(2, "n1", "g0", "g1"),
    sample(3, "n1", "g2"),  # a GPU more of a known node
    sample(4, "n2", "g0"),
    sample(5, "n1", "g9", job_id=""),  # nobody's
    sample(30, "n1", "g0"),
    sample(6, "n1", "g7"),  # of a GPU that is new, and of which this is too late
    started(31, attempt=2),
    sample(32, "n2", "g0", attempt=2),
]
GPUS = {("run-1", 1, "n1", gpu) for gpu in ("g0", "g1", "g2")} | {
    ("run-1", each, "n2", "g0") for each in (1, 2)
}


@pytest.mark.parametrize("cut", range(1, len(LOG)))
def test_gpus_are_those_of_covered_seconds(cut: int) -> None:
    want = compute(LOG)
    late = ("run-1", 1, "n1", "g7")
    assert {*want.gpus} - {late} == GPUS
    for again in ({}, {"restarts": [cut]}, {"crashes": {cut: 1}}):
        assert_same(meter(LOG, cuts=[cut], **again), want)
