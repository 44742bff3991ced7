"""In a log of a year, what an event or a price costs grows with what it changes, not with all that came before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schemas.events import PriceEvent
from streams.engine.burn.tracker import BurnTracker
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog, ReferenceView
from streams.engine.repricing.price_changes import PriceChanges
from streams.engine.rules import burn_cause as burn_cause_module
from streams.engine.rules import burn_rule as burn_rule_module
from streams.engine.rules import retry_loop as retry_module
from streams.engine.rules import stretches as stretches_module
from streams.engine.rules.burn_cause import JobRates
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from tests.engine.test_burn_tracker import HOUR_MS, MINUTE_MS, T0, Log
from tests.engine.test_repriced import price

Counted = Callable[[object, str], list[tuple[Any, ...]]]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Return a function that records the arguments of each call of a function or method."""

    def record(owner: object, name: str) -> list[tuple[Any, ...]]:
        calls: list[tuple[Any, ...]] = []
        method = getattr(owner, name)

        def noted(*given: Any, **named: Any) -> Any:
            calls.append(given)
            return method(*given, **named)

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


@pytest.mark.parametrize(("zone", "stretches", "books"), [("elsewhere", 1, 2), ("here", 51, 51)])
def test_only_a_price_of_its_own_jobs_cuts_the_ticks_of_a_shard(
    counted: Counted, zone: str, stretches: int, books: int
) -> None:
    news = [
        (at_ms, price(f"gpu/{zone}", n % 3 + 1, at_ms, zone=zone))
        for n in range(50)
        for at_ms in (T0 + n * MINUTE_MS + 5_000,)
    ]
    log = log_of(price("gpu/here", 2, zone="here"), *news)
    log.add("jobs", T0, type="started", gpu_count=8, zone="here")
    judged, read = counted(BurnTracker, "_judge_ticks"), counted(ReferenceLog, "book_at")
    log.judge(T0, T0 + HOUR_MS)
    assert len(judged) == stretches
    assert sum(len(times_ms) for _, _, times_ms in judged) == 361
    assert len({known for _, _, _, known in read}) <= books
    assert log.view.book is log.view.at(T0 + HOUR_MS).book


@pytest.mark.parametrize("passed_over", [True, False])
def test_a_price_that_is_for_others_from_now_on_is_not_passed_over(
    monkeypatch: pytest.MonkeyPatch, passed_over: bool
) -> None:
    if not passed_over:  # each price that becomes known is read at its tick
        monkeypatch.setattr(ReferenceView, "next_change_ms", lambda view, *_: view.at(view.at_ms).until_ms)
    moved_ms = T0 + 30 * MINUTE_MS
    log = log_of(
        price("gpu", 2, zone="here"),
        (T0 + 10 * MINUTE_MS, price("other", 5, zone="there")),
        (moved_ms, price("gpu", 3, moved_ms, zone="there")),
        (T0 + 50 * MINUTE_MS, price("other", 6, T0 + 40 * MINUTE_MS, zone="there")),
    )
    log.add("jobs", T0, type="started", gpu_count=8, zone="here")
    log.judge(T0, T0 + HOUR_MS)
    rates = log.rates()
    # From the tick of the revision on, and not before, the job has no price.
    assert {minute for minute, rate in rates if rate} == set(range(30))
    assert (30, 0.0) in rates


@pytest.fixture
def many() -> Log:
    """Return a job of 40 attempts that each fail after 20 minutes, at prices that rise and fall."""
    news = [
        (at_ms, price("gpu", (2, 20, 3)[n % 3], at_ms, zone="here"))
        for n in range(30)
        for at_ms in (T0 + n * 27 * MINUTE_MS + 5_000,)
    ]
    return log_of(price("gpu", 2, zone="here"), *news)


def live(log: Log, until_attempt: int, from_attempt: int = 1, *, states: bool = False) -> None:
    """Judge what the job does, attempt by attempt; `states`: each one states another rate and size."""
    for attempt in range(from_attempt, until_attempt + 1):
        began_ms = T0 + (attempt - 1) * 21 * MINUTE_MS
        stated = {"expected_usd_per_hour": f"{14 + attempt % 2}", "gpus_requested": 8 + attempt % 2}
        more = stated if states else {}
        log.add("jobs", began_ms, type="started", attempt=attempt, gpu_count=8, zone="here", **more)
        log.judge(began_ms, began_ms + 20 * MINUTE_MS - 10_000)
        log.add("jobs", began_ms + 20 * MINUTE_MS, type="failed", attempt=attempt)
        log.judge(began_ms + 20 * MINUTE_MS, began_ms + 21 * MINUTE_MS - 10_000)


@pytest.mark.parametrize("states", [False, True])
def test_what_a_cause_reads_does_not_grow_with_the_history(many: Log, counted: Counted, states: bool) -> None:
    live(many, 20, states=states)
    read = counted(burn_cause_module, "_values")
    cut = counted(stretches_module, "_stretch")
    live(many, 30, 21, states=states)
    first = len(read), len(cut)
    assert min(first) > 0
    live(many, 40, 31, states=states)
    assert len(read) - first[0] <= first[0] * 1.2
    assert len(cut) - first[1] <= first[1] * 1.2
    assert len(read) <= 5 * 20  # what was read before a statement is not read again


def test_a_revision_of_an_open_attempt_does_not_cut_what_came_before_it(many: Log, counted: Counted) -> None:
    many.add("jobs", T0, type="started", gpu_count=8, zone="here")
    cut = counted(stretches_module, "_stretch")
    many.judge(T0, T0 + 6 * HOUR_MS)
    first = len(cut)
    many.judge(T0 + 6 * HOUR_MS + 10_000, T0 + 12 * HOUR_MS)
    assert 0 < len(cut) - first <= first * 1.2


@pytest.mark.parametrize("states", [False, True])
def test_causes_are_those_of_reading_the_whole_history(
    many: Log, monkeypatch: pytest.MonkeyPatch, states: bool
) -> None:
    compared = [0]
    known_cause = burn_cause_module.burn_cause

    def whole(paid: JobRates, from_ms: int, at_ms: int) -> str:
        curve = many.shard.tracker._jobs["j"]
        afresh = list(stretches_module.stretches(curve.timelines, curve.lines))
        assert list(paid.stretches) == afresh
        found = known_cause(paid, from_ms, at_ms)
        assert found == known_cause(paid._replace(stretches=afresh, passed=None), from_ms, at_ms)
        compared[0] += 1
        return found

    monkeypatch.setattr(burn_rule_module, "burn_cause", whole)
    live(many, 40, states=states)
    assert compared[0] >= 10


def test_an_attempt_that_is_over_is_not_compared_with_a_new_price(many: Log, counted: Counted) -> None:
    live(many, 20)
    compared = counted(PriceChanges, "_touches_time")
    live(many, 40, 21)
    assert 0 < len(compared) <= 20  # of about sixteen revisions, each has an attempt open or none


def test_retries_that_are_over_are_not_read_again(many: Log, counted: Counted) -> None:
    live(many, 20)
    read = counted(retry_module, "within_an_hour")
    live(many, 30, 21)
    first = len(read)
    live(many, 40, 31)
    assert 0 < len(read) - first <= first * 1.1
