"""The curve of a job that is kept from event to event: the same as one that is built of all its attempts at once."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import Component, JobEvent, JobType, PriceEvent
from schemas.units import Per
from streams.engine.burn import job_curve
from streams.engine.burn.job_curve import JobCurve
from streams.engine.coverage.coverage import Coverage
from streams.engine.pricing.book import PriceBook
from streams.engine.repricing.price_changes import PriceChanges
from streams.engine.state.job import JobState
from streams.engine.timeline.lines import attempt_lines
from streams.engine.windows.curve import build_curve

T0: Final = 1_700_000_040_000
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS


def _price(number: int, usd: str, effective_ms: int, zone: str | None) -> PriceEvent:
    match = {} if zone is None else {"zone": zone}
    return PriceEvent(
        id=f"p{number}",
        source="s",
        time_ms=effective_ms,
        sku=f"sku/{zone}",
        component=Component.gpu,
        usd_nano=round(float(usd) * 10**9),
        per=Per.gpu_hour,
        gpus=1,
        effective_ms=effective_ms,
        match=match,
    )


class _Kept:
    """One curve that is kept, and the job and prices that it follows."""

    def __init__(self) -> None:
        self.job, self.curve, self.book = JobState("j"), JobCurve(), PriceBook.empty()
        self.number = 0

    def say(self, attempt: int, kind: JobType, at_ms: int, zone: str | None) -> None:
        self.number += 1
        fields = {} if zone is None else {"zone": zone}
        self.job.add_event(
            JobEvent(
                source="s", id=f"e{self.number}", time_ms=at_ms, job_id="j", attempt=attempt, type=kind,
                gpu_milli=1000, fields=fields,
            )
        )  # fmt: skip

    def reprice(self, usd: str, effective_ms: int, zone: str | None) -> None:
        self.number += 1
        book = self.book.with_events([_price(self.number, usd, effective_ms, zone)])
        touched = PriceChanges(self.book, book).touched(self.job, self.curve.payer)
        if touched is not None:
            self.curve.reprice(touched)
        self.book = book

    def check(self, now_ms: int) -> None:
        coverage = Coverage(86_400, 100)
        kept = self.curve.build(self.job, coverage, self.book, (), now_ms)
        anew = JobCurve().build(self.job, coverage, self.book, (), now_ms)
        for name in ("first_paid_ms", "ended_ms", "unpriced_from_ms", "quoted_nano_per_hour", "quoted",
                     "undecided_until_ms", "holds_ms"):  # fmt: skip
            assert getattr(kept, name) == getattr(anew, name), name
        assert list(kept.steps) == list(anew.steps)


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["event", "event", "event", "price"]),
        st.integers(0, 9),  # hours to the next one
        st.integers(-14, 0),  # hours that it comes late
        st.integers(-3, 1),  # its attempt, from the last one
        st.sampled_from(
            [JobType.started, JobType.started, JobType.preempted, JobType.suspended, JobType.completed]
        ),
        st.sampled_from([None, "a", "b"]),
        st.sampled_from(["1", "2", "0", "3.5"]),
    ),
    min_size=3,
    max_size=40,
)


@given(_STEPS)
@settings(max_examples=200, deadline=None)
def test_a_curve_that_is_kept_is_the_one_that_is_built_anew(steps: list[Any]) -> None:
    kept, now_ms, last = _Kept(), T0, 1
    for what, hours, late_hours, back, kind, zone, usd in steps:
        now_ms += hours * HOUR_MS + 7 * MINUTE_MS
        at_ms = now_ms + min(late_hours + 8, 0) * HOUR_MS  # most come in time
        if what == "price":
            kept.reprice(usd, at_ms, zone)
        else:
            last = max(last, last + back)
            kept.say(max(last + min(back + 2, 0), 0), kind, at_ms, zone)
        kept.check(now_ms)


def test_an_event_prices_only_the_attempt_that_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, built, priced = _Kept(), [], []
    kept.reprice("1", T0, None)

    def counted(segments: Any, *args: Any) -> Any:
        priced.append(1)
        return original(segments, *args)

    def looked(job_id: str, *, lines: Any, **more: Any) -> Any:
        built.append(len(list(lines)))
        return build(job_id, lines=lines, **more)

    original, build = attempt_lines, build_curve
    monkeypatch.setattr(job_curve, "attempt_lines", counted)
    monkeypatch.setattr(job_curve, "build_curve", looked)
    for attempt in range(1, 101):
        at_ms = T0 + attempt * HOUR_MS
        for kind, minute in ((JobType.started, 0), (JobType.preempted, 50)):
            kept.say(attempt, kind, at_ms + minute * MINUTE_MS, None)
            kept.curve.build(kept.job, Coverage(86_400, 100), kept.book, (), at_ms + (minute + 1) * MINUTE_MS)
    assert len(priced) <= 201  # the first one once more when it is no longer the only one
    assert max(built) <= 8  # those of six hours
