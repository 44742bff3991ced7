"""New amounts of a job change the lumps of its curve only: the figures are those of a curve that is built anew."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.events import Component, JobEvent, JobType, PriceEvent, TrafficEvent
from schemas.units import Per, Unit
from streams.engine.burn.job_curve import JobCurve
from streams.engine.coverage.coverage import Coverage
from streams.engine.kernels.bill import cost_of
from streams.engine.kernels.conditions import START_MS
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import NOBODY
from streams.engine.state.job import JobState
from streams.engine.windows.curves import CurveBook
from tests.property.profile import PROFILE

T0: Final = 1_700_000_040_000
MINUTE_MS: Final = 60_000
COVERAGE: Final = Coverage(86_400, 100)


def price(component: Component, per: Per, usd_nano: int, match: dict[str, str]) -> PriceEvent:
    return PriceEvent(
        id=f"p{component}", source="s", time_ms=0, sku=f"sku/{component}", component=component, usd_nano=usd_nano,
        per=per, gpus=1, effective_ms=0, match=match,
    )  # fmt: skip


BOOK: Final = PriceBook.empty().with_events(
    [
        price(Component.gpu, Per.gpu_hour, 2 * 10**9, {}),
        price(Component.network, Per.gib, 10**8, {"path": "internet"}),
    ]
)


class Kept:
    """A job with a start event, and its curve in a book."""

    def __init__(self) -> None:
        self.job, self.curve, self.curves = JobState("j"), JobCurve(), CurveBook()
        self.event(JobType.started, 1, T0)
        self.build(T0)

    def event(self, kind: JobType, attempt: int, at_ms: int) -> None:
        self.job.add_event(
            JobEvent(
                source="s",
                id=f"{kind}{at_ms}",
                time_ms=at_ms,
                job_id="j",
                attempt=attempt,
                type=kind,
                gpu_milli=8000,
            )
        )

    def amount(self, size: int, at_ms: int, interval_ms: int, path: str = "internet") -> None:
        attempt = self.job.attempt_with_usage(1)
        event = TrafficEvent(
            "network", "s", "a", at_ms, "j", 1, interval_ms, ((Unit.bytes, size),), {"path": path}
        )
        attempt.fresh_traffic.append(attempt.traffic.add(event))

    def add(self, now_ms: int) -> bool:
        return self.curve.add_amounts(self.job, self.curves, BOOK, now_ms)

    def build(self, now_ms: int) -> None:
        self.curves.replace(self.curve.build(self.job, COVERAGE, BOOK, (), now_ms))

    def check(self, now_ms: int) -> None:
        anew, curve = CurveBook(), JobCurve()
        anew.replace(curve.build(self.job, COVERAGE, BOOK, (), now_ms))
        assert self.curve.unpriced_ms == curve.unpriced_ms
        times_ms = now_ms + np.arange(0, 200 * MINUTE_MS, 7 * MINUTE_MS, dtype=np.int64)
        for kept, other in zip(self.curves.figures(times_ms), anew.figures(times_ms), strict=True):
            np.testing.assert_allclose(kept.astype(np.float64), other.astype(np.float64), rtol=1e-9)
        started_nano = self.curves.figures(times_ms[:1]).start_nano
        np.testing.assert_allclose(started_nano, [self.start_nano()], rtol=1e-9)

    def start_nano(self) -> int:
        """Return what all amounts of the first hour and before cost, priced at once."""
        traffic = self.job.attempts[1].traffic
        span = traffic.all_minutes()[0], -(-(T0 + START_MS) // MINUTE_MS)
        if span[0] >= span[1]:
            return 0
        rows = traffic.rows([span], BOOK, NOBODY, ())
        return sum(
            cost_of(quantity, line.price.usd_nano, line.price.divisor)
            for by_line in rows.values()
            for line, (quantity, _) in by_line.items()
        )


@PROFILE
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2 * 10**13), st.integers(0, 100), st.sampled_from([0, 0, 0, 5, 90, 400]), st.sampled_from([0, 60, 3600, 86_400]),
            st.sampled_from(["internet", "internet", "intra_zone"]),
        ),
        min_size=1,
        max_size=30,
    )
)  # fmt: skip
def test_amounts_that_are_added_come_to_the_curve_that_is_built_anew(steps: list[Any]) -> None:
    kept, now_ms = Kept(), T0
    for size, minutes, late_minutes, interval_s, path in steps:
        now_ms += minutes * MINUTE_MS + 1_000
        known = kept.curve.unpriced_ms
        kept.amount(size, now_ms - late_minutes * MINUTE_MS, 1000 * interval_s, path)
        is_added = kept.add(now_ms)
        assert is_added == (kept.curve.unpriced_ms == known)
        if not is_added:
            kept.build(now_ms)
        assert not kept.job.attempts[1].fresh_traffic
        kept.check(now_ms)


def test_amounts_without_a_price_build_the_curve_anew() -> None:
    kept = Kept()
    kept.amount(10**9, T0 + MINUTE_MS, 0)
    assert kept.add(T0 + MINUTE_MS)
    kept.amount(10**9, T0 + 2 * MINUTE_MS, 0, path="intra_zone")
    assert not kept.add(T0 + 2 * MINUTE_MS)
    assert kept.curve.may_differ(kept.job, ())
    assert kept.curve.unpriced_ms.traffic_ms == T0 + 2 * MINUTE_MS
    kept.build(T0 + 2 * MINUTE_MS)
    kept.amount(10**9, T0 + 3 * MINUTE_MS, 0, path="intra_zone")
    assert kept.add(T0 + 3 * MINUTE_MS), "it is known since when amounts have no price"
    kept.amount(10**9, T0 + MINUTE_MS, 0, path="intra_zone")
    assert not kept.add(T0 + 4 * MINUTE_MS), "since earlier than known"


def test_amounts_of_a_job_that_its_samples_pay_for_build_the_curve_anew() -> None:
    kept = Kept()
    kept.job.attempt_with_usage(2).fresh_minutes.add(T0 // MINUTE_MS)
    kept.amount(10**9, T0 + MINUTE_MS, 0)
    assert not kept.add(T0 + MINUTE_MS)


@pytest.mark.parametrize(
    ("kind", "differs"), [(JobType.checkpointed, False), (JobType.suspended, True), (JobType.preempted, True)]
)
def test_a_checkpoint_costs_nothing(kind: JobType, differs: bool) -> None:
    kept = Kept()
    kept.event(kind, 1, T0 + MINUTE_MS)
    assert kept.curve.may_differ(kept.job, ()) == differs


def test_work_that_a_checkpoint_saved_is_no_other_cost() -> None:
    kept = Kept()
    kept.event(JobType.checkpointed, 1, T0 + MINUTE_MS)
    kept.event(JobType.preempted, 1, T0 + 3 * MINUTE_MS)
    kept.curves.replace(kept.curve.build(kept.job, COVERAGE, BOOK, (), T0 + 3 * MINUTE_MS))
    kept.event(JobType.checkpointed, 1, T0 + 2 * MINUTE_MS)  # it comes late
    assert kept.curve.may_differ(kept.job, ())  # less was lost
