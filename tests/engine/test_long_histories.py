"""In a log of a year, what an event or a price costs grows with what it changes, not with all that came before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schemas.events import PriceEvent
from streams.engine.burn.tracker import BurnTracker
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from tests.engine.test_burn_tracker import HOUR_MS, MINUTE_MS, T0, Log
from tests.engine.test_repriced import price

Counted = Callable[[type, str], list[tuple[Any, ...]]]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Return a function that records the arguments of each call of a method."""

    def record(owner: type, name: str) -> list[tuple[Any, ...]]:
        calls: list[tuple[Any, ...]] = []
        method = getattr(owner, name)

        def noted(self: Any, *given: Any, **named: Any) -> Any:
            calls.append(given)
            return method(self, *given, **named)

        monkeypatch.setattr(owner, name, noted)
        return calls

    return record


def log_of(first: PriceEvent, *news: tuple[int, PriceEvent]) -> Log:
    """Return a shard without records, and the prices that become known while it is judged."""
    book = before = PriceBook.empty().with_events([first])
    reference = ReferenceLog(before)
    log = Log(Shard(0, ShardSettings(), before))
    log.view = reference.view()
    for at_ms, event in news:
        book = book.with_events([event])
        reference.extend([(at_ms, event)], [], book, {})
    return log


@pytest.mark.parametrize(("zone", "stretches"), [("elsewhere", 1), ("here", 51)])
def test_only_a_price_of_its_own_jobs_cuts_the_ticks_of_a_shard(
    counted: Counted, zone: str, stretches: int
) -> None:
    news = [
        (at_ms, price(f"gpu/{zone}", n % 3 + 1, at_ms, zone=zone))
        for n in range(50)
        for at_ms in (T0 + n * MINUTE_MS + 5_000,)
    ]
    log = log_of(price("gpu/here", 2, zone="here"), *news)
    log.add("jobs", T0, type="started", gpu_count=8, zone="here")
    judged = counted(BurnTracker, "_judge_ticks")
    log.judge(T0, T0 + HOUR_MS)
    assert len(judged) == stretches
    assert sum(len(times_ms) for _, times_ms in judged) == 361
