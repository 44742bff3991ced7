"""A tick that was prepared gives the same alerts as one that was not, and has less to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from schemas.events import ControlEvent
from schemas.tables import ALERTS
from streams.engine.coverage.coverage import Coverage, RecentUsage
from streams.engine.kernels.arrays import F64, I64
from streams.engine.reference_log import ReferenceLog
from streams.engine.rules.turns import turn_at, turn_of
from streams.engine.shard.sequencer import TICK_MS
from streams.engine.windows.curves import CurveBook
from tests.engine.alerts.scene import UNPRICED_ON
from tests.engine.test_burn_tracker import BOOK, MINUTE_MS, T0, Log

JOIN_MINUTE = 50
#: Idle GPUs join it between the preparation of its turn and the tick.
JOINED = next(
    job
    for job in (f"j{number}" for number in range(1000))
    if turn_of(job) == turn_at(T0 + JOIN_MINUTE * MINUTE_MS)
)
IDLE, SILENT = "idle", "silent"
JOBS = [IDLE, SILENT, JOINED, *(f"k{number}" for number in range(13))]
MINUTES = 80
#: Idle GPUs are told after half an hour, whatever they cost.
SOON = ControlEvent(
    "t", "soon", 0, "rule", "soon", {"rule": "idle_gpus", "thresholds": {"minutes": 30, "least_usd": 0}}
)
BEFORE, AT_TICK = "before a tick", "at a tick"


class Counts:
    """What ticks looked at, and what was looked at before them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = BEFORE
        self.looks = {BEFORE: 0, AT_TICK: 0}
        self.moves = {BEFORE: 0, AT_TICK: 0}
        reads, moves = Coverage.recent_usage, CurveBook.postpone

        def read(coverage: Coverage, ids: Sequence[str], lo: int, hi: int, ratio: F64) -> RecentUsage:
            self.looks[self.now] += len(ids)
            return reads(coverage, ids, lo, hi, ratio)

        def move(curves: CurveBook, rows: I64, from_ms: I64) -> None:
            self.moves[self.now] += len(rows)
            moves(curves, rows, from_ms)

        monkeypatch.setattr(Coverage, "recent_usage", read)
        monkeypatch.setattr(CurveBook, "postpone", move)


def _alerts(counts: Counts, *, prepared: bool) -> list[dict[str, Any]]:
    """Return the alerts of jobs that are sampled each minute: one is idle, one falls silent, idle GPUs join one."""
    log = Log()
    log.view = ReferenceLog(BOOK, {b"rule/z": UNPRICED_ON, b"rule/soon": SOON}).view()
    for job in JOBS:
        log.add("jobs", T0, type="started", gpu_count=1, job_id=job)
    for tick in range(MINUTES * 6):
        at_ms = T0 + tick * TICK_MS
        counts.now = BEFORE
        if tick and prepared:
            log.shard.write_interim_rates(at_ms - 1_000, log.view)
        for job in JOBS:
            if tick % 6 == 0 and (job != SILENT or tick < (MINUTES - 12) * 6):
                util = 0.0 if job == IDLE else 1.0
                sample = {"node": job, "interval_ms": MINUTE_MS, "gpus": ["0"], "util_ratio": [util]}
                log.add("gpu", at_ms, job_id=job, **sample)
        if tick == JOIN_MINUTE * 6:  # with samples of the half hour before
            gpus = [str(gpu) for gpu in range(32)]
            for minute in range(10, JOIN_MINUTE - 1):
                joined = {"node": "more", "interval_ms": MINUTE_MS, "gpus": gpus, "util_ratio": [0.0] * 32}
                log.add("gpu", T0 + minute * MINUTE_MS, job_id=JOINED, **joined)
        counts.now = AT_TICK
        log.judge(at_ms, at_ms)
    rows: list[dict[str, Any]] = log.shard.checkpoint(T0, 99, open_attempts=False).tables[ALERTS].to_pylist()
    return rows


class Run(NamedTuple):
    """The alerts of a run, and what it looked at."""

    alerts: list[dict[str, Any]]
    counts: Counts


@pytest.fixture(scope="module")
def runs() -> tuple[Run, Run]:
    """The same log without preparation of its ticks, and with it."""
    found = []
    for prepared in (False, True):
        with pytest.MonkeyPatch.context() as monkeypatch:
            counts = Counts(monkeypatch)
            found.append(Run(_alerts(counts, prepared=prepared), counts))
    return found[0], found[1]


def test_preparation_changes_no_alert(runs: tuple[Run, Run]) -> None:
    unprepared, prepared = runs
    started_ms = {
        (row["rule"], row["subject_name"]): round(row["started"].timestamp() * 1000)
        for row in unprepared.alerts
    }
    assert {("idle_gpus", IDLE), ("silent_job", SILENT)} <= set(started_ms)
    assert started_ms["idle_gpus", JOINED] == T0 + JOIN_MINUTE * MINUTE_MS
    assert prepared.alerts == unprepared.alerts


def test_a_prepared_tick_has_little_to_look_at(runs: tuple[Run, Run]) -> None:
    unprepared, prepared = (run.counts for run in runs)
    assert prepared.looks[BEFORE] >= len(JOBS)
    assert 0 < prepared.looks[AT_TICK] < unprepared.looks[AT_TICK] / 2
    assert 0 < prepared.moves[AT_TICK] < unprepared.moves[AT_TICK] / 4
    assert unprepared.looks[BEFORE] == unprepared.moves[BEFORE] == 0
