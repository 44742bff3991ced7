"""How fast the progress of a job moves: which laps are slow, and what is in none."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from schemas.events import JobEvent, JobType
from streams.engine.snapshot.job_blobs import JobBlob, dump_job, load_job
from streams.engine.snapshot.job_parts import JobPart, apply_part, dump_part
from streams.engine.state.job import JobState
from streams.engine.state.laps import ProgressLaps
from tests.engine.test_pace import MINUTE_MS, told


def works(
    job: JobState,
    from_minute: int,
    minutes: int,
    per_minute: float,
    done: float,
    name: str = "step",
    attempt: int = 1,
) -> float:
    """It reports each minute; returns how far it came."""

    def said() -> Iterator[tuple[float, dict[str, float]]]:
        for minute in range(1, minutes + 1):
            yield from_minute + minute, {name: done + minute * per_minute}

    told(*said(), job=job, attempt=attempt)
    return done + minutes * per_minute


def laps_of(job: JobState) -> ProgressLaps:
    assert job.laps is not None
    return job.laps


@pytest.fixture
def job() -> JobState:
    """One that made 90 steps a minute for 90 minutes."""
    found = JobState("j")
    works(found, 0, 90, 90, 0)
    return found


def test_laps_at_half_of_the_usual_speed_are_slow_until_one_is_not(job: JobState) -> None:
    laps = laps_of(job)
    assert (laps.usual_per_ms * MINUTE_MS, laps.slow_ms) == (90, 0)
    done = works(job, 90, 40, 45, 8100)
    laps = laps_of(job)
    # Laps end with minutes 81, 91 ...: of the one that ends with 91 nine minutes were as usual.
    assert (laps.slow_since_ms, laps.slow_ms) == (91 * MINUTE_MS, 30 * MINUTE_MS)
    works(job, 130, 20, 60, done)
    assert (laps_of(job).slow_ms, laps_of(job).longest_ms) == (0, laps.slow_ms)


def test_a_job_of_which_little_is_known_is_not_slow() -> None:
    job = JobState("j")
    done = works(job, 0, 21, 90, 0)
    works(job, 21, 60, 10, done)
    assert laps_of(job).slow_ms == 0


def test_time_in_which_it_stands_still_is_in_no_lap(job: JobState) -> None:
    told(*((minute, {"step": 8100.0}) for minute in range(91, 136)), job=job)
    works(job, 135, 40, 90, 8100)
    assert (laps_of(job).slow_ms, laps_of(job).longest_ms) == (0, 0)


def test_steps_that_become_longer_are_not_slow_where_tokens_go_on() -> None:
    job = JobState("j")
    for minute in range(1, 181):
        steps = 90 * min(minute, 90) + 22 * max(minute - 90, 0)
        told((minute, {"step": steps, "tokens": 4096.0 * minute}), job=job)
    assert (laps_of(job).name, laps_of(job).slow_ms) == ("tokens", 0)


def test_another_attempt_is_compared_with_what_was_usual_unless_it_holds_other_gpus(job: JobState) -> None:
    works(job, 100, 40, 20, 8000, attempt=2)
    assert laps_of(job).slow_ms == 30 * MINUTE_MS
    job.add_event(JobEvent("t", "other", 141 * MINUTE_MS, "j", 3, JobType.started, gpu_milli=4000))
    works(job, 141, 40, 20, 8000, attempt=3)
    assert (laps_of(job).slow_ms, len(laps_of(job).usual)) == (0, 3)


def test_an_attempt_that_broke_off_leaves_no_slow_laps(job: JobState) -> None:
    works(job, 90, 40, 20, 8100)
    works(job, 140, 5, 20, 8100, attempt=2)
    assert (laps_of(job).slow_ms, laps_of(job).longest_ms) == (0, 0)


def test_time_before_and_after_a_pause_is_in_different_laps(job: JobState) -> None:
    told((91, None), job=job, type=JobType.suspended)
    told((150, None), job=job, type=JobType.resumed)
    works(job, 150, 30, 90, 8100)
    assert (laps_of(job).slow_ms, laps_of(job).longest_ms) == (0, 0)


def test_a_snapshot_and_its_parts_have_the_laps(job: JobState) -> None:
    works(job, 90, 40, 20, 8100)
    blob = msgspec.msgpack.decode(msgspec.msgpack.encode(dump_job(job)), type=JobBlob)
    assert load_job(blob).laps == job.laps
    part = msgspec.msgpack.decode(msgspec.msgpack.encode(dump_part(job, 0)), type=JobPart)
    other = JobState("j")
    apply_part(other, part)
    assert other.laps == job.laps
