"""How often a job sends heartbeats, and for how long it may be silent by that."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from schemas.events import JobEvent, JobType
from streams.engine.rules.profiles import DEFAULT
from streams.engine.rules.registry import NAMES
from streams.engine.rules.silent_job import silence_ms
from streams.engine.snapshot.job_blobs import JobBlob, dump_job, load_job
from streams.engine.snapshot.job_parts import JobPart, apply_part, dump_part
from streams.engine.state.job import JobState

MINUTE_MS = 60_000
LIMITS = DEFAULT.thresholds(NAMES.index("silent_job"))


def says(
    job: JobState, minutes: Iterable[float], kind: JobType = JobType.heartbeat, attempt: int = 1
) -> None:
    for minute in minutes:
        at_ms = round(minute * MINUTE_MS)
        job.add_event(JobEvent("t", f"{kind}{minute}", at_ms, "j", attempt, kind))
        if kind == JobType.heartbeat:
            job.record_activity(at_ms, "t")


def wait(job: JobState) -> float:
    """After how many minutes it counts as silent."""
    return silence_ms(job, LIMITS) / MINUTE_MS


@pytest.mark.parametrize(
    ("minutes", "waits"),
    [
        ((), 10),
        ((1,), 45),  # nobody knows when the next one is due
        ((1, 2), 10),
        ((1, 31), 90),
        ((1, 2, 3, 33), 10),  # of three the middle one: one that is late is no news
        ((1, 2, 3, 33, 63), 90),
        ((1, 31, 32, 33), 10),
        ((1, 6, 5, 11), 15),  # one that comes late
    ],
)
def test_it_may_be_silent_for_three_times_its_usual_interval(minutes: list[float], waits: float) -> None:
    job = JobState("j")
    says(job, minutes)
    assert wait(job) == waits


def test_a_sample_after_the_heartbeat_is_due_again_within_ten_minutes() -> None:
    job = JobState("j")
    says(job, (0, 30, 60))
    job.record_activity(61 * MINUTE_MS, "t")
    assert wait(job) == 10
    says(job, (90,))
    assert wait(job) == 90


def test_time_with_a_suspension_in_it_is_no_interval() -> None:
    job = JobState("j")
    says(job, (0, 5))
    says(job, (6,), JobType.suspended)
    says(job, (300,), JobType.resumed)
    says(job, (301, 306))
    assert job.heartbeats is not None
    assert job.heartbeats.intervals_ms == (5 * MINUTE_MS, 5 * MINUTE_MS)


def test_a_later_attempt_begins_with_what_was_usual() -> None:
    job = JobState("j")
    says(job, (0, 30, 60))
    says(job, (100,), attempt=2)
    assert wait(job) == 90
    says(job, (130,), attempt=1)  # of the one before
    says(job, (101, 102), attempt=2)
    assert job.heartbeats is not None
    assert job.heartbeats.usual_ms == MINUTE_MS


def test_snapshots_keep_it_whole_and_in_parts() -> None:
    job = JobState("j")
    says(job, (0, 30))
    whole = msgspec.msgpack.decode(msgspec.msgpack.encode(dump_job(job)), type=JobBlob)
    restored = load_job(whole)
    assert restored.heartbeats == job.heartbeats
    job.mark_saved()
    says(job, (60,))
    part = msgspec.msgpack.decode(msgspec.msgpack.encode(dump_part(job, 0)), type=JobPart)
    apply_part(restored, part)
    assert restored.heartbeats == job.heartbeats
    assert wait(restored) == 90
