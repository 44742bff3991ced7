"""A price that does not touch a job leaves its curve alone, and all comes to what it comes to when every curve is built anew."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.events import Component, PriceEvent
from schemas.tables import ALERTS, BURN_RATES
from schemas.units import Per
from streams.engine.burn.job_curve import JobCurve
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.engine.repricing.price_changes import PriceChanges
from streams.engine.settings import ShardSettings
from streams.engine.shard.sequencer import TICK_MS
from streams.engine.shard.shard import Shard
from tests.engine.test_burn_tracker import MINUTE_MS, T0, Log
from tests.property.profile import EXAMPLES

LAST_MS: Final = T0 + 12 * MINUTE_MS


def price(sku: str, usd: int, effective_ms: int = 0, per: Per = Per.gpu_hour, **match: str) -> PriceEvent:
    component = Component.network if per is Per.gb else Component.gpu
    return PriceEvent(
        "s", f"{sku}{effective_ms}", usd, sku, component, usd * 10**9, per, 1, effective_ms, match
    )


BEFORE: Final = PriceBook.empty().with_events(
    [
        price("h100", 2, gpu_type="H100"),
        price("a100", 1, gpu_type="A100"),
        price("bytes", 1, per=Per.gb, path="internet"),
    ]
)
#: What becomes known: (log time, price).
News = list[tuple[int, PriceEvent]]
JOBS: Final = ("open", "other", "ended", "sampled", "moving", "team", "unpriced")


class World:
    """Seven jobs in one shard, and the curves that were built at each tick."""

    def __init__(self, news: News, monkeypatch: pytest.MonkeyPatch, *, keeps: bool) -> None:
        reference = ReferenceLog(BEFORE)
        book = BEFORE
        for at_ms, event in news:
            book = book.with_events([event])
            reference.extend([(at_ms, event)], [], book, {})
        self.log = Log(Shard(0, ShardSettings(), BEFORE))
        self.log.view = reference.view()
        self.built: list[tuple[int, str]] = []  # (ms since T0, job)
        self.rows: list[dict[str, Any]] = []
        self.now_ms = T0
        build, whole = JobCurve.build, JobCurve.build_whole_tail

        def built(known: JobCurve, job: Any, *rest: Any) -> Any:
            self.built.append((self.now_ms - T0, job.id))
            return build(known, job, *rest)

        def taken(known: JobCurve, job: Any, *rest: Any) -> bool:
            done = whole(known, job, *rest)
            if done:
                self.built.append((self.now_ms - T0, job.id))
            return done

        with monkeypatch.context() as patch:
            patch.setattr(JobCurve, "build", built)
            patch.setattr(JobCurve, "build_whole_tail", taken)
            if not keeps:
                patch.setattr(PriceChanges, "asking", lambda _, priced: set(priced.names))
                patch.setattr(PriceChanges, "touched", lambda _, job, *__: list(job.timelines()))
            self._run()

    def _run(self) -> None:
        for job in ("open", "other", "ended", "moving", "team", "unpriced"):
            gpu_type = {"other": "A100", "unpriced": "B200"}.get(job, "H100")
            team = {"team": "t"} if job == "team" else {}
            self.log.add("jobs", T0 + 1, job_id=job, type="started", gpu_count=8, gpu_type=gpu_type, **team)
        self.log.add("jobs", T0 + 4 * MINUTE_MS, job_id="ended", type="completed")
        while self.now_ms <= LAST_MS:
            if self.now_ms % MINUTE_MS == 0 and self.now_ms > T0:
                self._minute()
            self.log.judge(self.now_ms, self.now_ms)
            self._take()
            self.now_ms += TICK_MS

    def _minute(self) -> None:
        amount = {"interval_ms": MINUTE_MS, "bytes": 10**9, "path": "internet", "direction": "egress"}
        self.log.add("network", self.now_ms, job_id="moving", **amount)
        if self.now_ms < T0 + 9 * MINUTE_MS:
            seen = {"node": "n", "gpus": ["a", "b"], "util_ratio": [0.5, 0.5], "gpu_type": "H100"}
            self.log.add("gpu", self.now_ms, job_id="sampled", interval_ms=50_000, **seen)

    def _take(self) -> None:
        tables = self.log.shard.tracker.tables(0, 1)
        for name in (BURN_RATES, ALERTS):
            table: pa.Table | None = tables.get(name)
            self.rows += [{"table": name, **row} for row in ([] if table is None else table.to_pylist())]


def both(news: News, monkeypatch: pytest.MonkeyPatch) -> World:
    """The world with curves that are kept, after it is found equal to the one in which all are built anew."""
    kept, anew = (World(news, monkeypatch, keeps=keeps) for keeps in (True, False))
    assert kept.rows == anew.rows
    assert set(kept.built) <= set(anew.built)
    return kept


NEWS_MS: Final = T0 + 5 * MINUTE_MS + 3_000


@pytest.mark.parametrize(
    ("event", "jobs"),
    [
        (price("l4", 9, gpu_type="L4"), set()),
        (price("a100", 9, T0, gpu_type="A100"), {"other"}),
        (price("h100", 9, NEWS_MS + 2_500, gpu_type="H100"), {"open", "moving", "team"}),
        (
            price("h100", 9, T0 + 3 * MINUTE_MS, gpu_type="H100"),
            {"open", "moving", "team", "ended", "sampled"},
        ),
        (price("all", 9, T0 - 60 * MINUTE_MS), {"unpriced"}),  # those that name a type go before it
        (price("theirs", 9, LAST_MS, gpu_type="H100", team="t"), {"team"}),
        (price("bytes", 9, T0 + MINUTE_MS, Per.gb, path="internet"), {"moving"}),
        (price("bytes", 9, LAST_MS, Per.gb, path="internet"), set()),
    ],
)
def test_only_the_curves_are_built_that_a_price_touches(
    event: PriceEvent, jobs: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = both([(NEWS_MS, event)], monkeypatch)
    looked = 5 * MINUTE_MS + TICK_MS
    assert {job for at_ms, job in world.built if at_ms == looked} == jobs


def test_the_curves_are_built_that_a_price_touches_when_they_are_asked_for_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is compared with above does build all of them."""
    anew = World([(NEWS_MS, price("l4", 9, gpu_type="L4"))], monkeypatch, keeps=False)
    assert {job for at_ms, job in anew.built if at_ms == 5 * MINUTE_MS + TICK_MS} == set(JOBS)


events = st.builds(
    lambda sku, usd, effective_ms: price(
        sku[0], usd, effective_ms, Per.gb if sku[0] == "bytes" else Per.gpu_hour, **sku[1]
    ),
    st.sampled_from(
        [
            ("h100", {"gpu_type": "H100"}), ("a100", {"gpu_type": "A100"}), ("all", {}), ("theirs", {"gpu_type": "H100", "team": "t"}),
            ("bytes", {"path": "internet"}), ("h100", {"gpu_type": "A100"}), ("b200", {"gpu_type": "B200"}),
        ]
    ),
    st.integers(0, 9),
    st.integers(T0 - MINUTE_MS, LAST_MS + MINUTE_MS) | st.just(0),
)  # fmt: skip


@settings(max_examples=max(EXAMPLES // 10, 5), deadline=None)
@given(
    st.lists(st.tuples(st.integers(T0, LAST_MS), events), max_size=4).map(
        lambda n: sorted(n, key=lambda x: x[0])
    )
)
@example([(T0 + TICK_MS, price("h100", 3, T0 + 8 * MINUTE_MS + 1_500, gpu_type="H100"))])
def test_any_prices_come_to_the_same_rows_and_alerts(news: News) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        both(news, monkeypatch)
