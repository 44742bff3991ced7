"""A start whose size is requested: it is quoted by what was requested, as the plain judge has it, and whatever order it is read in."""

from __future__ import annotations

from itertools import count
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.events import Component, JobEvent, JobType, PriceEvent
from schemas.units import Per
from streams.engine.burn.job_curve import JobCurve
from streams.engine.coverage.coverage import Coverage
from streams.engine.pricing.book import PriceBook
from streams.engine.state.job import JobState
from tests.oracle.cases import T0, job, price
from tests.oracle.model import HOUR_MS
from tests.oracle.pieces import SCALE
from tests.oracle.test_oracle_burn import known
from tests.property.profile import PROFILE

MINUTE: Final = 60_000
USD: Final = 10**9
BOOK: Final = PriceBook.empty().with_events(
    [
        PriceEvent(
            source="s", id="p", time_ms=1, sku="p", component=Component.gpu, usd_nano=3 * USD, per=Per.gpu_hour, gpus=1,
            effective_ms=0,
        )
    ]
)  # fmt: skip
#: (minute, GPUs held, GPUs requested) of the events of a job; None: it names none.
Said = tuple[int, int | None, int | None]


def quoted(*events: Said) -> float:
    """What the meter quotes of a job at $3 a GPU-hour, in dollars per hour; the same when it is read event by event."""
    ids, state, curve = count(), JobState("j"), JobCurve()
    found = None
    for place, (minute, gpus, requested) in enumerate(events):
        kind = JobType.started if place == 0 else JobType.scaled if gpus is not None else JobType.updated
        state.add_event(
            JobEvent(
                source="s", id=f"e{next(ids)}", time_ms=T0 + minute * MINUTE, job_id="j", attempt=1, type=kind,
                gpu_milli=None if gpus is None else 1000 * gpus, gpus_requested=requested,
            )
        )  # fmt: skip
        # The last one long after its start: what it may still ask for, or hold, is known then.
        now_ms = T0 + (minute if place + 1 < len(events) else 600) * MINUTE
        coverage = Coverage(86_400, 100)
        found = curve.build(state, coverage, BOOK, (), now_ms).quoted_nano_per_hour
        assert found == JobCurve().build(state, coverage, BOOK, (), now_ms).quoted_nano_per_hour
    return (found or 0) / USD


def plain(*events: Said) -> float:
    """The same by the plain judge."""
    lines = []
    for place, (minute, gpus, requested) in enumerate(events):
        kind = "started" if place == 0 else "scaled" if gpus is not None else "updated"
        said = {"gpu_count": gpus, "gpus_requested": requested}
        named = {name: value for name, value in said.items() if value is not None}
        lines.append(job("j", kind, T0 + minute * MINUTE, **named))
    return known(price("p", "3"), *lines, at_ms=T0 + 600 * MINUTE).quoted * HOUR_MS / SCALE / USD


@pytest.mark.parametrize(
    ("events", "usd"),
    [
        ([(0, 2, 8), (3, 8, None), (5, 64, None)], 24),  # what is added to them is a change
        ([(0, 2, None), (3, 8, None), (5, 64, None)], 192),  # of a size that nobody requested
        ([(0, 2, 8), (30, 4, None), (90, 8, None)], 24),  # however late they come
        ([(0, 2, 8), (3, 64, None)], 6),  # beyond them
        ([(0, 8, None), (5, None, 8), (6, 64, None)], 24),
        ([(0, 8, 8), (60, None, 32), (90, 32, None)], 96),  # asked for later
        ([(0, 8, 8), (60, 4, None), (61, 8, None), (62, 16, None)], 24),
        ([(0, 16, 8)], 48),
    ],
)
def test_the_start_is_over_when_what_is_requested_is_held(events: list[Said], usd: float) -> None:
    assert quoted(*events) == pytest.approx(usd)
    assert plain(*events) == pytest.approx(usd)


sizes = st.sampled_from([None, 1, 2, 4, 8])
drawn = st.lists(st.tuples(st.integers(1, 15), sizes, sizes), max_size=6)


@example(1, None, [(1, 2, 1), (1, None, 4)])
@settings(PROFILE)
@given(st.sampled_from([1, 2, 4]), sizes, drawn)
def test_the_quoted_rate_is_that_of_the_plain_judge(
    first: int, requested: int | None, more: list[Said]
) -> None:
    events: list[Said] = [(0, first, requested)]
    for minutes, gpus, wanted in more:
        events.append((events[-1][0] + minutes, gpus, wanted))
    assert quoted(*events) == pytest.approx(plain(*events))
