"""What events say of a whole job, kept up with each event, is what reading all of them anew says."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.durations import NEVER_MS
from schemas.events import JobEvent, JobType
from streams.engine.state.said import SaidDimensions, SaidLimits, SaidSteps
from tests.property.profile import PROFILE

NAMES = ("owner", "team", "project", "experiment", "run_id", "work_dir")


def event(number: int, time_ms: int = 0, attempt: int = 1, **fields: object) -> JobEvent:
    known = {"id": f"e{number}", "source": "test", "time_ms": time_ms, "job_id": "j", "attempt": attempt}
    return JobEvent(**known, type=JobType.updated, **fields)  # type: ignore[arg-type]  # as given


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(1, 3),
        st.fixed_dictionaries(
            {},
            optional={
                **{name: st.sampled_from("ab") for name in NAMES},
                "labels": st.dictionaries(st.sampled_from("xy"), st.sampled_from("12"), max_size=2),
                "gpus_requested": st.integers(1, 3),
                "deadline_ms": st.integers(1, 3),
                "budget": st.fixed_dictionaries({"max_usd": st.integers(1, 3)}),
            },
        ),
    ),
    max_size=12,
).map(lambda drawn: [event(n, at, attempt, **said) for n, (at, attempt, said) in enumerate(drawn)])


@settings(PROFILE)
@given(EVENTS)
def test_one_by_one_gives_what_reading_all_in_their_order_gives(events: list[JobEvent]) -> None:
    dimensions, requests = SaidDimensions(()), SaidSteps("gpus_requested", ())
    limits = SaidLimits(())
    for count, each in enumerate(events, 1):
        before, asked = dimensions.value, requests.value
        dimensions.add(each)
        limits.add(each)
        if not requests.add(each):
            requests = SaidSteps("gpus_requested", events[:count])
        elif requests.value == asked:
            assert requests.value is asked
        # Without ties but by id: each has another one.
        ordered = sorted(events[:count], key=lambda one: (one.attempt, one.time_ms, one.id))
        for name in NAMES:
            said = [getattr(one, name) for one in ordered if getattr(one, name) is not None]
            assert getattr(dimensions.value, name) == (said[-1] if said else None)
        labels = [one.labels for one in ordered if one.labels is not None]
        assert dimensions.value.labels == (tuple(sorted(labels[-1].items())) if labels else None)
        assert (dimensions.value is before) == (dimensions.value == before)
        by_time = sorted(events[:count], key=lambda one: (one.time_ms, one.attempt, one.id))
        for at_ms in range(6):
            last = [one.gpus_requested for one in by_time if one.time_ms <= at_ms and one.gpus_requested]
            known = [gpus for time_ms, gpus in requests.value if time_ms <= at_ms]
            assert known[-1:] == last[-1:]
        budgets = [one.budget for one in ordered if one.budget is not None]
        assert dict(limits.budget) == ({"max_usd": str(budgets[-1]["max_usd"])} if budgets else {})
        deadlines = [one.deadline_ms for one in ordered if one.deadline_ms is not None]
        assert limits.deadline_ms == (deadlines[-1] if deadlines else None)
        newest = [one.deadline_ms for one in by_time if one.deadline_ms is not None]
        assert limits.newest_deadline_ms == (newest[-1] if newest else NEVER_MS)


def test_five_thousand_attempts_that_say_the_same_keep_one_object() -> None:
    """Else each of them would have all attempts read again: the square of a job's history."""
    same: dict[str, Any] = {"owner": "o", "team": "t", "labels": {"a": "b"}, "gpus_requested": 4}
    dimensions = SaidDimensions([event(0, **same)])
    requests = SaidSteps("gpus_requested", [event(0, **same)])
    value, asked = dimensions.value, requests.value
    for attempt in range(1, 5_000):
        dimensions.add(event(attempt, attempt, attempt, **same))
        assert requests.add(event(attempt, attempt, attempt, **same))
    assert dimensions.value is value
    assert requests.value is asked
