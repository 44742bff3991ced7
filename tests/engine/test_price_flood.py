"""A flood of prices: what it costs is a matter of what it touches, counted and not timed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from schemas.decode import decode
from schemas.events import PriceEvent
from schemas.wire_types import MAX_INTERVAL_MS
from streams.engine.pricing.book import PriceBook, Steps
from streams.engine.pricing.context import NOBODY
from streams.engine.pricing.history import PriceHistory, Revision
from streams.engine.repricing.price_changes import PriceChanges
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from streams.engine.state.job import JobState
from tests.engine.test_shard import T0, batch, event
from tests.harness import FAR_FUTURE_MS

SKUS = 50


def spot(sku: int, effective_ms: int, usd: str = "2", **named: Any) -> PriceEvent:
    """A price of one GPU type."""
    body = {
        "sku": f"sku-{sku}", "component": "gpu", "usd": usd, "per": "gpu_hour", "effective_ms": effective_ms, "source": "spot",
        "id": f"{sku}@{effective_ms}", "time_ms": T0, "gpu_type": f"g{sku}", **named,
    }  # fmt: skip
    found = decode("prices", json.dumps(body).encode(), (), FAR_FUTURE_MS)
    assert isinstance(found, PriceEvent)
    return found


def fleet() -> tuple[Shard, PriceBook]:
    """Fifty jobs, each on a type of GPU of its own, and prices of all types."""
    book = PriceBook.empty().with_events(spot(sku, 0) for sku in range(SKUS))
    one = Shard(3, ShardSettings(), book)
    started = [event("started", job_id=f"j{sku}", gpu_count=1, gpu_type=f"g{sku}") for sku in range(SKUS)]
    one.fold(batch(*started))
    one.checkpoint(T0 + 60_000, 1, open_attempts=True)
    return one, book


def test_a_price_makes_no_revision_but_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    one, book = fleet()
    made: list[str] = []
    before = Revision.__init__

    def counted(revision: Revision, priced: PriceEvent) -> None:
        made.append(priced.sku)
        before(revision, priced)

    monkeypatch.setattr(Revision, "__init__", counted)
    for number in range(200):
        book = book.with_events([spot(number % SKUS, T0 + number)])
        one.set_prices(book)
    assert len(made) == 200
    assert len(book) == SKUS + 200


def test_a_price_looks_at_the_jobs_that_ask_for_it_only(monkeypatch: pytest.MonkeyPatch) -> None:
    one, book = fleet()
    looked: list[str] = []
    touches = PriceChanges.touches_job

    def counted(news: PriceChanges, job: JobState) -> bool:
        looked.append(job.id)
        return touches(news, job)

    monkeypatch.setattr(PriceChanges, "touches_job", counted)
    one.set_prices(book := book.with_events([spot(7, T0 + 30_000, "3")]))
    assert looked == ["j7"]
    assert one.due.dirty_jobs == {"j7"}
    one.set_prices(book := book.with_events([spot(7, T0 + 31_000, "4")]))
    assert looked == ["j7"]  # all of it is derived again anyway
    one.checkpoint(T0 + 120_000, 2, open_attempts=True)
    one.set_prices(book.with_events([spot(7, T0 - 60_000, "5"), spot(7, T0 - 30_000, "6")]))
    assert looked == ["j7", "j7"]  # what it was paid for before it began, nobody derives


def test_where_one_sku_always_wins_no_other_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Shard(3, ShardSettings(), PriceBook.empty())
    one.fold(batch(event("started", job_id="j7", gpu_count=1, gpu_type="g7")))
    job, asked = one.jobs["j7"], list[str]()
    book = PriceBook.empty().with_events(
        [spot(7, 0), spot(8, 0, gpu_type="g7")]
    )  # of two alike the first wins
    later = book.with_events([spot(8, T0 + 30_000, "3", gpu_type="g7")])
    wins = later.with_events([spot(7, T0 + 40_000, "4")])
    steps = PriceBook.steps

    def counted(of: PriceBook, *named: Any) -> Steps:
        asked.append(named[1])
        return steps(of, *named)

    monkeypatch.setattr(PriceBook, "steps", counted)
    assert PriceChanges(book, later).touched(job, NOBODY) is None
    assert PriceChanges(later, wins).touched(job, NOBODY) == [1]
    assert not asked


def test_a_payment_is_not_looked_up_again_for_the_price_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    one, book = fleet()
    known = {job_id: job.attempts[1].open_accruals for job_id, job in one.jobs.items()}
    one.set_prices(book.with_events([spot(7, T0 + 30_000, "3")]))
    one.checkpoint(T0 + 120_000, 2, open_attempts=True)
    assert {j for j, job in one.jobs.items() if job.attempts[1].open_accruals is not known[j]} == {"j7"}


def test_an_archived_job_comes_back_only_if_its_own_price_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    one, book = fleet()
    one.fold(
        batch(event("completed", 60_000, job_id="j7"), event("completed", 60_000, job_id="j8"), first=SKUS)
    )
    one.fold(batch(event("heartbeat", 30 * 3_600_000, job_id="j9"), first=SKUS + 2))
    archived: dict[str, bytes] = {}
    for version in (2, 3):
        point = one.checkpoint(T0 + 30 * 3_600_000, version, open_attempts=True)
        for row in point.tables["archive"].to_pylist() if "archive" in point.tables else ():
            archived[row["job_id"]] = row["blob"]
    assert set(archived) == {"j7", "j8"}
    news = one.set_prices(book.with_events([spot(7, T0 + 30_000, "3")]))
    assert news is not None
    one.adopt_repriced(archived, news)
    assert "j7" in one.jobs
    assert "j8" not in one.jobs
    assert "j7" in one.due.dirty_jobs


def test_a_job_of_a_snapshot_is_found_before_it_was_ever_derived() -> None:
    book = PriceBook.empty().with_events([spot(7, 0)])
    one = Shard(3, ShardSettings(), book)
    one.fold(batch(event("started", job_id="j7", gpu_count=1, gpu_type="g7")))
    blob = one.checkpoint(T0 + 60_000, 1, open_attempts=True).snapshot
    newer = book.with_events([spot(7, T0 + 30_000, "3")])
    again = Shard.restore(3, ShardSettings(), newer, [blob])
    assert again.due.dirty_jobs == {"j7"}
    later = Shard.restore(3, ShardSettings(), book, [blob])
    assert not later.due.dirty_jobs
    later.set_prices(newer)
    assert later.due.dirty_jobs == {"j7"}


def test_histories_of_two_origins_differ_where_their_records_do() -> None:
    """A book from a snapshot shares no object with the one that was read."""
    events = [spot(1, instant, str(instant)) for instant in range(1, 9)]
    one, other = PriceHistory().with_events(events), PriceHistory().with_events([*events[:3], *events[4:7]])
    assert sorted(one.changed_spans(other)) == [(4, 5), (8, one.around(8)[1])]
    assert sorted(other.changed_spans(one)) == [(4, 5), (8, one.around(8)[1])]


@pytest.mark.parametrize("late", [1, 31, 32, 33, 63, 64, 99])
def test_what_comes_late_into_a_long_history_is_found_wherever_it_is(late: int) -> None:
    events = [spot(1, instant, str(instant + 1)) for instant in range(100)]
    before = PriceHistory().with_events(events[:late] + events[late + 1 :])
    after = before.with_events([events[late]])
    assert after.changed_spans(before) == [after.around(late)]


def test_prices_that_do_not_win_are_compared_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    wins, loses = spot(7, 0), replace(spot(8, 0), match=spot(7, 0).match)
    old = PriceBook.empty().with_events([wins, loses])
    changes = PriceChanges(old, old.with_events([replace(loses, id="later", effective_ms=T0)]))
    compared: list[object] = []
    monkeypatch.setattr(changes, "_differs", lambda *asked: compared.append(asked))
    one = Shard(3, ShardSettings(), old)
    one.fold(batch(event("started", job_id="j7", gpu_count=1, gpu_type="g7")))
    assert changes.touched(one.jobs["j7"], NOBODY) is None
    assert not compared


def test_an_amount_of_the_time_before_its_job_is_found_in_the_archive() -> None:
    """`first_ms` of an archived job is its first event's, which may speak of a month before it."""
    _, book = fleet()
    news = PriceChanges(book, book.with_events([spot(7, T0 - 60_000), spot(7, T0 - 30_000)]))
    assert news.span is not None
    assert news.span[0] == T0 - 60_000
    early = PriceChanges(
        book.with_events([spot(7, T0)]), book.with_events([spot(7, T0), spot(7, T0 - 60_000)])
    )
    assert early.span == (T0 - 60_000, T0)
    assert early.events_span == (T0 - 60_000, T0 + MAX_INTERVAL_MS)
