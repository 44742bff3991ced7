"""Timelines that grow event by event: the same as those built of all events at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import JobEvent, JobType
from streams.engine.rules.silent_job import last_running
from streams.engine.state.job import JobState
from streams.engine.timeline import growing
from streams.engine.timeline.attempts import Segment, Timeline, timeline_of, timelines
from streams.engine.timeline.growing import changed_since, cost_alike, have_saved, paid_after
from streams.engine.timeline.intervals import Covered, Span, uncovered, union


def without_checkpoints(lines: Mapping[int, Timeline]) -> dict[int, Timeline]:
    return {number: line._replace(checkpoint_ms=None, saves_ms=()) for number, line in lines.items()}


_TYPES = (
    JobType.queued, JobType.allocated, JobType.started, JobType.checkpointed, JobType.suspended,
    JobType.resumed, JobType.preempted, JobType.failed, JobType.completed, JobType.updated,
)  # fmt: skip


def _event(number: int, attempt: int, kind: JobType, time_ms: int, **more: Any) -> JobEvent:
    return JobEvent(
        source="s", id=f"e{number}", time_ms=time_ms, job_id="j", attempt=attempt, type=kind, **more
    )


_EVENTS = st.lists(
    st.tuples(
        st.integers(0, 6), st.sampled_from(_TYPES), st.integers(0, 30), st.sampled_from([None, 1000, 4000])
    ),
    min_size=1,
    max_size=25,
)


@given(_EVENTS, st.lists(st.booleans(), min_size=25, max_size=25))
@settings(max_examples=300, deadline=None)
def test_events_in_any_order_give_the_timelines_of_all_at_once(
    said: list[tuple[int, JobType, int, int | None]], asked: list[bool]
) -> None:
    job = JobState("j")
    known = job.timelines()
    for number, (attempt, kind, minute, gpus) in enumerate(said):
        job.add_event(_event(number, attempt, kind, minute * 60_000, gpu_milli=gpus))
        if not asked[number]:
            continue
        now = job.timelines()
        expected = timelines({n: each.events for n, each in job.attempts.items()})
        assert list(now.items()) == list(expected.items())
        assert cost_alike(now, known) == (without_checkpoints(now) == without_checkpoints(known))
        changed = changed_since(now, known)
        assert all(now.get(n) is known.get(n) for n in now.keys() | known.keys() if n not in changed)
        for lines in (now, known, expected):
            for on_gpus in (False, True):
                assert last_running(lines, on_gpus=on_gpus) == _last_of_all(lines, on_gpus)
        known = now
        assert have_saved(now) == any(line.checkpoint_ms is not None for line in expected.values())
        for at_ms in range(0, 31 * 60_000, 5 * 60_000):
            later = [*paid_after(now, at_ms)]
            paid = [line for line in expected.values() if any(end > at_ms for _, end, *_ in line.segments)]
            assert [line for line in paid if not line.ended_by(at_ms)] == [
                line for line in later if line in paid
            ]


def _last_of_all(lines: Mapping[int, Timeline], on_gpus: bool) -> Span | None:
    running = [
        (segment.start_ms, segment.end_ms)
        for line in lines.values()
        for segment in line.paid(2**62)
        if segment.phase == "running" and (segment.values.gpu_milli or not on_gpus)
    ]
    return union(running)[-1] if running else None


def test_the_last_time_that_a_job_runs_is_found_in_its_last_attempts(monkeypatch: Any) -> None:
    job = JobState("j")
    for attempt in range(1, 101):
        job.add_event(_event(2 * attempt, attempt, JobType.started, attempt * 60_000, gpu_milli=1000))
        job.add_event(_event(2 * attempt + 1, attempt, JobType.preempted, attempt * 60_000 + 30_000))
    looked_at: list[int] = []
    paid = Timeline.paid

    def noted(line: Timeline, as_of_ms: int) -> list[Segment]:
        looked_at.append(line.attempt)
        return paid(line, as_of_ms)

    monkeypatch.setattr(Timeline, "paid", noted)
    assert last_running(job.timelines()) == (6_000_000, 6_030_000)
    assert looked_at == [100]


def test_an_event_of_the_last_attempt_builds_its_timeline_alone(monkeypatch: Any) -> None:
    job = JobState("j")
    for attempt in range(1, 101):
        job.add_event(_event(2 * attempt, attempt, JobType.started, attempt * 60_000, gpu_milli=1000))
        job.add_event(_event(2 * attempt + 1, attempt, JobType.preempted, attempt * 60_000 + 30_000))
    before = job.timelines()
    built = []

    def counted(number: int, *args: Any, **more: Any) -> Any:
        built.append(number)
        return original(number, *args, **more)

    original = timeline_of
    monkeypatch.setattr(growing, "timeline_of", counted)
    job.add_event(_event(0, 101, JobType.started, 101 * 60_000))
    after = job.timelines()
    assert built == [101]
    assert list(changed_since(after, before)) == [101]
    assert all(after[number] is before[number] for number in before)


_SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=3)


@given(st.lists(_SPANS, max_size=8))
def test_time_is_covered_the_same_piece_by_piece_and_at_once(said: list[list[tuple[int, int]]]) -> None:
    covered = Covered()
    all_of_it: tuple[Span, ...] = ()
    for some in said:
        spans = [(begin, begin + length) for begin, length in some]
        for span in spans:
            assert covered.rest_of(span) == uncovered(span, all_of_it)
        all_of_it = union((*all_of_it, *spans))
        covered.add(spans)
