"""Whole logs: fleets, the orders they may come in, copies sent again, and where batches are cut.

Must keep a fleet's event times within the horizons, so that no order of it makes an event too late.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from hypothesis import strategies as st

from tests.oracle.intake import attempt_of, body
from tests.oracle.model import DAY_MS, HOUR_MS, Line
from tests.strategies.jobs import attempt_events, job_events
from tests.strategies.prices import price_lines
from tests.strategies.usage import (
    LONG_INTERVALS_MS,
    ORDINARY_INTERVALS_MS,
    network_events,
    node_events,
    samples,
    storage_events,
)
from tests.strategies.values import BASE_MS, SPAN_MS, Ids, instants, line, times_around

AMOUNTS = ("network", "storage")
DEDUPE_MS = HOUR_MS  # an amount's id is remembered for an hour of log time at least
GPU_JITTER_MS = 250_000  # with intervals of 300 s at most no sample is then 600 s behind


@dataclass(frozen=True)
class Log:
    """A log and the meter's clock (None: the newest event)."""

    lines: list[Line]
    as_of_ms: int | None = None


@cache
def seeds() -> st.SearchStrategy[random.Random]:
    """A cheap source of shuffles; 0 shrinks to one fixed order."""
    return st.integers(0, 2**32 - 1).map(random.Random)


@st.composite
def fleets(
    draw: st.DrawFn,
    *,
    base_ms: int = BASE_MS,
    most_jobs: int = 4,
    first_attempt: int = 1,
    closed: bool = False,
    lifecycle: bool = True,
    sampled: bool = True,
    traffic: bool = True,
    nodes: bool = True,
    most_samples: int = 6,
    long_samples: bool = False,
) -> list[Line]:
    """The lines of some jobs, in no particular order. `closed`: every attempt and node has an end."""
    ids = Ids(f"{base_ms // DAY_MS}-")
    times = draw(times_around(base_ms))
    intervals_ms = ORDINARY_INTERVALS_MS + (LONG_INTERVALS_MS if long_samples else ())
    lines = draw(price_lines(base_ms, Ids(f"p{base_ms // DAY_MS}-")))
    for number in range(draw(st.integers(1, most_jobs))):
        job_id = f"j{number}"
        attempts = (first_attempt, first_attempt + 1)
        # One job in four is known by its samples and traffic alone.
        events = draw(job_events(job_id, times, ids, first_attempt=first_attempt)) if (
            lifecycle and draw(st.integers(0, 3))
        ) else []  # fmt: skip
        if closed:
            end_ms = base_ms + SPAN_MS
            events += [
                {"job_id": job_id, "attempt": n, "type": "completed", "time_ms": end_ms} | ids.next()
                for n in sorted({attempt_of(e) for e in events})
            ]
        lines += [line("jobs", e) for e in events]
        if sampled:
            lines += [
                line("gpu", e) for e in draw(samples(job_id, attempts, times, intervals_ms, most_samples))
            ]
        if traffic:
            lines += [line("network", e) for e in draw(network_events(job_id, attempts, times, ids))]
            lines += [line("storage", e) for e in draw(storage_events(job_id, attempts, times, ids))]
    if nodes:
        events = draw(node_events(times, ids))
        if closed:
            ends = {"type": "terminated", "time_ms": base_ms + SPAN_MS}
            events += [{"node": n} | ends | ids.next() for n in sorted({e["node"] for e in events})]
        lines += [line("nodes", e) for e in events]
    return lines


@st.composite
def months_apart(draw: st.DrawFn) -> list[Line]:
    """A fleet that ended, and weeks later news of it: retries, owners, prices, and another fleet."""
    later_ms = BASE_MS + draw(st.sampled_from((2, 40, 399, 401))) * DAY_MS
    news = draw(attempt_events("j0", 1, instants(later_ms), Ids("late-")))
    return [
        *draw(fleets(closed=True, most_jobs=2)),
        *(line("jobs", event) for event in news),
        *draw(fleets(base_ms=later_ms, most_jobs=3, first_attempt=4)),
    ]


def time_of(one: Line) -> int:
    """The event time of a line."""
    time_ms: int = body(one)["time_ms"]
    return time_ms


def _in_some_order(rng: random.Random, lines: Iterable[Line]) -> list[Line]:
    """Any order of lines of one day, but samples stay roughly in the order of their ends."""
    mixed = sorted(lines, key=lambda _: rng.random())
    ends = iter(
        sorted(
            (x for x in mixed if x.topic == "gpu"), key=lambda x: time_of(x) + rng.randrange(GPU_JITTER_MS)
        )
    )
    return [next(ends) if one.topic == "gpu" else one for one in mixed]


def copies_near(lines: list[Line]) -> list[Line]:
    """The same lines, with a copy of an amount moved to its first where log time might have forgotten that."""
    first: dict[tuple[str, ...], int] = {}  # identity -> place of its first copy
    places: list[tuple[float, int]] = []
    for index, one in enumerate(lines):
        place: float = index
        if one.topic in AMOUNTS and one.valid:
            event = body(one)
            identity = (one.topic, event["job_id"], event["source"], event["id"])
            origin = first.setdefault(identity, index)
            # Log time at the first copy is its own event time at least, whatever log time is taken over.
            newest_ms = max(time_of(between) for between in lines[origin : index + 1] if between.valid)
            if newest_ms - time_of(lines[origin]) >= DEDUPE_MS // 2:
                place = origin + 0.5
        places.append((place, index))
    return [lines[index] for _, index in sorted(places)]


@st.composite
def shuffled(draw: st.DrawFn, lines: list[Line]) -> list[Line]:
    """Another order within the horizons: the result must be the same set of rows."""
    rng = draw(seeds())
    days: dict[int, list[Line]] = {}
    for one in lines:
        days.setdefault((time_of(one) - BASE_MS) // DAY_MS, []).append(one)
    return copies_near([one for _, day in sorted(days.items()) for one in _in_some_order(rng, day)])


def orders(**wanted: Any) -> st.SearchStrategy[list[Line]]:
    """A fleet in some order within the horizons."""
    return fleets(**wanted).flatmap(shuffled)


@st.composite
def scrambled(draw: st.DrawFn, lines: list[Line]) -> list[Line]:
    """Any order at all: what is late then is for the oracle to say, from the same log."""
    rng = draw(seeds())
    return copies_near(sorted(lines, key=lambda _: rng.random()))


@st.composite
def with_copies(draw: st.DrawFn, lines: list[Line]) -> list[Line]:
    """The same events, some of them sent two or three times (those without an id too)."""
    if not lines:
        return lines
    again = draw(st.lists(st.integers(0, len(lines) - 1), max_size=8))
    return [*lines, *(lines[index] for index in again)]


@st.composite
def with_impostors(draw: st.DrawFn, lines: list[Line]) -> list[Line]:
    """Records with the identity of another and other contents: the first one in the log counts."""
    named = [one for one in lines if one.topic in ("jobs", "nodes", *AMOUNTS)]
    if not named:
        return lines
    impostors = []
    for index in draw(st.lists(st.integers(0, len(named) - 1), max_size=5)):
        event = dict(body(named[index]))
        if named[index].topic in AMOUNTS:
            event |= {unit: 12_345 for unit in ("bytes", "requests") if unit in event}
        else:
            event |= {"gpu_count": 4, "nodes": None}
        event |= draw(st.sampled_from(({}, {"attempt": 2})))
        impostors.append(replace(named[index], value=event))
    return [*lines, *impostors]


@st.composite
def with_stragglers(draw: st.DrawFn, lines: list[Line]) -> list[Line]:
    """Some lines moved back to the edge of the 24 h horizon and beyond it."""
    back_ms = st.sampled_from((0, 0, 0, 0, DAY_MS, DAY_MS - SPAN_MS, DAY_MS + SPAN_MS))
    return [replace(one, value=dict(body(one)) | {"time_ms": time_of(one) - draw(back_ms)}) for one in lines]


def batch_cuts(count: int) -> st.SearchStrategy[list[int]]:
    """Sorted positions in a log of `count` lines: none, a few, or one after every line."""
    inside = st.lists(st.integers(1, max(1, count - 1)), max_size=8, unique=True).map(sorted)
    return st.one_of(st.just([]), inside, st.just(list(range(1, count))))


@cache
def clocks(base_ms: int = BASE_MS) -> st.SearchStrategy[int | None]:
    """Where unfinished work is paid up to: mostly the newest event, else before, among or after the events."""
    return st.one_of(
        st.none(), st.none(), instants(base_ms), st.just(base_ms - 1), st.just(base_ms + SPAN_MS + 90_500)
    )


@st.composite
def logs(draw: st.DrawFn, /, **wanted: bool) -> Log:
    """A fleet in an order within the horizons, with its clock; one in five spans months."""
    if not wanted and draw(st.integers(0, 4)) == 0:
        return Log(draw(shuffled(draw(months_apart()))))
    return Log(draw(shuffled(draw(fleets(**wanted)))), draw(clocks()))
