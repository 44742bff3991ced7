"""`silent_job` of many jobs: its start is postponed at each job's turns, and its alert opens at the exact tick."""

from __future__ import annotations

from collections import Counter

import pytest

from schemas.tables import ALERTS
from streams.engine.kernels.arrays import I64
from streams.engine.rules.turns import TURNS, turn_of
from streams.engine.shard.sequencer import TICK_MS
from streams.engine.windows.curves import CurveBook
from tests.engine.test_burn_tracker import MINUTE_MS, T0, Log

JOBS = [f"j{number}" for number in range(60)]
SILENT_MS = 10 * MINUTE_MS


def _run(log: Log, minutes: int, quiet: dict[str, int]) -> None:
    """All jobs are sampled each minute, some no more from a minute on; a tick each ten seconds."""
    for job in JOBS:
        log.add("jobs", T0, type="started", gpu_count=1, job_id=job)
    for tick in range(minutes * 6):
        at_ms = T0 + tick * TICK_MS
        if tick % 6 == 0:
            for job in JOBS:
                if tick // 6 < quiet.get(job, minutes):
                    sample = {"node": job, "interval_ms": MINUTE_MS, "gpus": ["0"], "util_ratio": [0.9]}
                    log.add("gpu", at_ms, job_id=job, **sample)
        log.judge(at_ms, at_ms)


def test_no_tick_has_to_move_the_silences_of_all_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[int] = []
    postpone = CurveBook.postpone

    def counted(book: CurveBook, rows: I64, from_ms: I64) -> None:
        moved.append(len(rows))
        postpone(book, rows, from_ms)

    monkeypatch.setattr(CurveBook, "postpone", counted)
    _run(Log(), 40, {})
    assert 0 < max(moved) <= max(Counter(map(turn_of, JOBS)).values())
    assert sum(moved) >= len(JOBS) * (40 * 6 / TURNS - 3)


def test_the_alert_of_a_silent_job_opens_at_the_exact_tick() -> None:
    log = Log()
    quiet = {job: 12 + 3 * place for place, job in enumerate(JOBS[:6])}
    _run(log, 45, quiet)
    rows = log.shard.checkpoint(T0, 99, open_attempts=False).tables[ALERTS].to_pylist()
    opened_ms = {
        row["subject_name"]: round(row["started"].timestamp() * 1000) - T0
        for row in rows
        if row["rule"] == "silent_job"
    }
    # The last sample ends in the minute before.
    assert opened_ms == {job: (minute - 1) * MINUTE_MS + SILENT_MS for job, minute in quiet.items()}
