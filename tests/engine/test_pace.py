"""How the progress of a job moves: what counts as a move, what does not, and that nothing of it is lost."""

from __future__ import annotations

import msgspec

from schemas.events import JobEvent, JobType
from streams.engine.snapshot.job_blobs import JobBlob, dump_job, load_job
from streams.engine.snapshot.job_parts import JobPart, apply_part, dump_part
from streams.engine.state.job import JobState
from streams.engine.state.pace import ProgressPace

MINUTE_MS = 60_000


def told(
    *said: tuple[float, dict[str, float] | None], job: JobState | None = None, **fields: object
) -> JobState:
    """A job whose attempt sends these values at these minutes."""
    job = JobState("j") if job is None else job
    about = {"type": JobType.heartbeat, "attempt": 1} | fields
    for minute, values in said:
        time_ms = round(minute * MINUTE_MS)
        job.add_event(JobEvent("t", f"{time_ms}", time_ms, "j", progress=values, **about))  # type: ignore[arg-type]  # fields by their names
    return job


def pace_of(job: JobState) -> ProgressPace:
    assert job.pace is not None
    return job.pace


def test_the_first_report_is_no_move_and_a_report_without_progress_is_none() -> None:
    assert told((1, None), (2, {})).pace is None
    pace = pace_of(told((1, {"step": 0}), (2, None), (3, {"step": 0})))
    assert (pace.since_ms, pace.last_ms, pace.repeats, pace.moves) == (MINUTE_MS, 3 * MINUTE_MS, 1, 0)


def test_any_value_that_changes_is_a_move_which_ends_the_time_of_those_before() -> None:
    job = told(
        (1, {"step": 5, "epoch": 0}), (4, {"step": 5}), (9, {"step": 5, "epoch": 1}), (10, {"step": 4})
    )
    pace = pace_of(job)
    assert (pace.since_ms, pace.repeats, pace.moves) == (10 * MINUTE_MS, 0, 2)
    assert (pace.stood_ms, pace.longest_ms) == (3 * MINUTE_MS, 3 * MINUTE_MS)


def test_a_late_report_changes_nothing() -> None:
    job = told((1, {"step": 1}), (5, {"step": 2}), (6, {"step": 2}))
    before = pace_of(job)
    assert told((4, {"step": 9}), (5.5, {"step": 3}), job=job).pace == before


def test_a_checkpoint_counts_as_progress_of_a_job_that_reports_some() -> None:
    job = told((1, {"step": 1}), (5, {"step": 1}))
    told((8, None), job=job, type=JobType.checkpointed)
    pace = pace_of(job)
    assert (pace.since_ms, pace.repeats, pace.longest_ms) == (8 * MINUTE_MS, 0, 4 * MINUTE_MS)
    assert told((8, None), type=JobType.checkpointed).pace is None


def test_a_new_attempt_begins_anew_and_an_older_one_is_not_heard_any_more() -> None:
    job = told((1, {"step": 1}), (5, {"step": 2}))
    told((7, {"step": 2}), job=job, attempt=2)
    told((8, {"step": 3}), job=job)
    assert job.pace == ProgressPace(
        2, (7 * MINUTE_MS, int(JobType.heartbeat), "t", f"{7 * MINUTE_MS}"), 7 * MINUTE_MS
    )


def test_snapshots_have_it_whole_and_in_parts() -> None:
    job = told((1, {"step": 1}), (5, {"step": 2}), (6, {"step": 2}))
    whole = msgspec.msgpack.decode(msgspec.msgpack.encode(dump_job(job)), type=JobBlob)
    again = load_job(whole)
    assert again.pace == job.pace
    job.mark_saved()
    told((9, {"step": 3}), job=job)
    part = msgspec.msgpack.decode(msgspec.msgpack.encode(dump_part(job, 0)), type=JobPart)
    apply_part(again, part)
    assert again.pace == job.pace
