"""Lifecycle events of jobs: plausible stories and arbitrary sets of events, over several attempts."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.oracle.intake import attempt_of
from tests.oracle.model import ENDS, JOB_TYPES, STARTS, Json
from tests.strategies.values import (
    PROJECTS,
    TEAMS,
    Ids,
    Times,
    counts,
    gpu_values,
    maybe,
    some_fields,
)

REASONS = ("spot_reclaim", "preemption", "out_of_memory", "node_failure", "user_error", "timeout", "unknown")

other_counts = st.fixed_dictionaries(
    {}, optional={"instance_count": counts, "cpu_count": counts, "memory_gib": counts}
)
measures = st.dictionaries(
    st.sampled_from(("loss", "step")), st.sampled_from((1, -0.5, 0.25, 10**6)), max_size=2
)
dimensions = st.fixed_dictionaries(
    {},
    optional={
        "owner": st.sampled_from(("ann", "bob")),
        "team": st.sampled_from(TEAMS),
        "project": st.sampled_from(PROJECTS),
        "experiment": st.sampled_from(("e1", "e2")),
        "quality": measures,
        "progress": measures,
        "labels": st.dictionaries(st.sampled_from(("a", "b")), st.sampled_from(("1", "2")), max_size=2),
    },
)


_queues = st.sampled_from((["queued"], [], ["queued", "allocated"], ["allocated"]))
_begins = st.sampled_from((["started"], ["started"], ["resumed"], []))
_steps = st.lists(
    st.sampled_from(
        (["checkpointed"], ["heartbeat"], ["scaled"], ["updated"], ["suspended"], ["suspended", "resumed"])
    ),
    max_size=3,
)
_ends = st.sampled_from(([], ["completed"], ["failed"], ["preempted"], ["cancelled"]))
_holds = st.sampled_from(({}, {"holds_gpus": True}, {"holds_gpus": False}))
_any_types = st.lists(st.sampled_from(JOB_TYPES), max_size=6)
_reasons = st.sampled_from([{"reason": reason} for reason in REASONS])


@st.composite
def _stories(draw: st.DrawFn) -> list[str]:
    """The types of one attempt in an order that happens."""
    types = [*draw(_queues), *draw(_begins)]
    for step in draw(_steps):
        types = [*types, *step]
    return [*types, *draw(_ends)]


stories = _stories()


@st.composite
def attempt_events(draw: st.DrawFn, job_id: str, attempt: int, times: Times, ids: Ids) -> list[Json]:
    """The events of one attempt: two in three a story in time order, else any types at any times."""
    if draw(st.integers(0, 2)):
        types = draw(stories)
        times_ms = sorted(draw(times) for _ in types)
    else:
        types = draw(_any_types)
        times_ms = [draw(times) for _ in types]
    events: list[Json] = []
    for index, (kind, time_ms) in enumerate(zip(types, times_ms, strict=True)):
        event: Json = {"job_id": job_id, "type": kind, "time_ms": time_ms} | ids.next()
        if attempt > 1 or draw(st.booleans()):  # attempt 1 is the default
            event["attempt"] = attempt
        event |= maybe(draw, gpu_values, 2 if index == 0 or kind == "scaled" else 6)
        event |= maybe(draw, other_counts, 4) | maybe(draw, some_fields, 3) | maybe(draw, dimensions, 4)
        if kind == "suspended":
            event |= draw(_holds)
        if kind in ENDS:
            event |= maybe(draw, _reasons)
        events.append(event)
        if (
            kind in ENDS and draw(st.integers(0, 2)) == 0
        ):  # two ends at one instant: the order of types decides
            events.append(event | {"type": draw(st.sampled_from(ENDS))} | ids.next())
    return events


@st.composite
def job_events(
    draw: st.DrawFn, job_id: str, times: Times, ids: Ids, *, first_attempt: int = 1, most_attempts: int = 3
) -> list[Json]:
    """The events of some attempts of one job; an attempt may have none, or be left out."""
    numbers = range(first_attempt, first_attempt + draw(st.integers(1, most_attempts)))
    events: list[Json] = [event for n in numbers for event in draw(attempt_events(job_id, n, times, ids))]
    # At the very instant at which a later attempt starts, an earlier one still says what it held.
    starts_ms = [e["time_ms"] for e in events if e["type"] in STARTS and attempt_of(e) > first_attempt]
    wanted = draw(st.booleans())
    if starts_ms and wanted:
        events = [e for e in events if attempt_of(e) != first_attempt or e["type"] not in ENDS]
        last_word = {"job_id": job_id, "attempt": first_attempt, "time_ms": draw(st.sampled_from(starts_ms))}
        kind = draw(st.sampled_from(("scaled", "heartbeat", "queued", "suspended")))
        events.append(last_word | {"type": kind} | draw(gpu_values) | draw(some_fields) | ids.next())
    return events
