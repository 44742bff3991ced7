"""The books of each topic: counted, kept over a restart, written when what goes on is paid or a shard leaves."""

from __future__ import annotations

from schemas.tables import BOOKS, DEAD_LETTER_COUNTS, DEAD_LETTERS, SCHEMAS
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.books import Books, Tally
from streams.engine.shard.shard import Shard
from tests.engine.test_shard import HOUR_MS, T0, batch, event, shard

STORY = (
    event("started", 30 * HOUR_MS, gpu_count=1),
    event("started", 30 * HOUR_MS, gpu_count=1),
    event("heartbeat", 0),
    b"{",
    b"[]",
)


def test_each_topic_has_books_of_its_own_and_their_sum_is_the_shards() -> None:
    one = shard()
    one.fold(batch(*STORY))
    one.fold(batch(b"{", topic="gpu"))
    one.fold(batch(*STORY[:2]))  # fetched again
    jobs, gpu = one.tallies["jobs"], one.tallies["gpu"]
    assert (jobs.first, jobs.records_in, jobs.applied, jobs.duplicate, jobs.trimmed) == (0, 5, 1, 1, 2)
    assert (jobs.too_late, jobs.dead_lettered, gpu.dead_lettered) == (1, 2, 1)
    assert jobs.reasons == {"too_late": 1, "malformed_json": 1, "not_an_object": 1} == jobs.stored
    assert jobs.balanced
    assert gpu.balanced
    total = Books()
    for tally in one.tallies.values():
        tally.add_to(total)
    assert total == one.books


def test_a_tally_that_is_off_by_one_does_not_balance() -> None:
    assert not Tally(records_in=2, applied=1).balanced
    assert not Tally(records_in=1, too_late=1).balanced  # of which no reason is known
    assert Tally(records_in=1, too_late=1, reasons={"too_late": 1}).balanced


def test_books_are_written_when_what_goes_on_is_paid_behind_the_letters_they_count() -> None:
    one = shard()
    one.fold(batch(*STORY))
    assert BOOKS not in one.checkpoint(T0, 1, open_attempts=False).tables
    assert one.unsaved(T0, open_attempts=True)
    tables = one.checkpoint(T0, 2, open_attempts=True).tables
    (row,) = tables[BOOKS].to_pylist()
    assert (row["topic"], row["partition"], row["first_offset"], row["next_offset"]) == ("jobs", 3, 0, 5)
    assert (row["records_in"], row["applied"], row["too_late"], row["dead_lettered"]) == (5, 1, 1, 2)
    assert row["time"].timestamp() * 1000 == T0
    assert sum(letters["stored"] for letters in tables[DEAD_LETTER_COUNTS].to_pylist()) == 3
    one.fold(batch(b"{", first=5))
    names = list(one.checkpoint(T0, 3, open_attempts=True).tables)
    assert names.index(DEAD_LETTERS) < names.index(DEAD_LETTER_COUNTS) < names.index(BOOKS)


def test_a_shard_that_leaves_writes_its_books_once_and_says_up_to_when_it_paid() -> None:
    one = shard()
    one.fold(batch(*STORY[:1]))
    one.checkpoint(T0 + 31 * HOUR_MS, 1, open_attempts=True)
    one.fold(batch(*STORY[1:], first=1))
    one.owe_books()
    (row,) = one.checkpoint(T0 + 32 * HOUR_MS, 2, open_attempts=False).tables[BOOKS].to_pylist()
    assert row["next_offset"] == 5
    assert row["time"].timestamp() * 1000 == T0 + 31 * HOUR_MS
    one.owe_books()
    assert not one.unsaved(T0, open_attempts=False)  # they were written of these offsets


def test_books_do_not_say_that_a_job_is_paid_that_was_read_after_the_accrual() -> None:
    one = shard()
    one.fold(batch(b"{"))
    one.position.tick_ms = T0 + 10_000
    one.checkpoint(T0 + HOUR_MS, 1, open_attempts=True)
    one = Shard.restore(
        3, ShardSettings(), PriceBook.empty(), [one.checkpoint(T0, 2, open_attempts=False).snapshot]
    )
    one.fold(batch(event("started", 0, gpu_count=1), first=1))
    one.position.tick_ms = T0 + 2 * HOUR_MS
    read_to_ms = []
    for version, open_attempts in ((3, False), (4, True)):
        one.owe_books()
        (row,) = one.checkpoint(T0 + HOUR_MS, version, open_attempts=open_attempts).tables[BOOKS].to_pylist()
        read_to_ms.append(round(row["read_to"].timestamp() * 1000))
    assert read_to_ms == [T0, T0 + 2 * HOUR_MS - 10_000]


def test_books_do_not_say_that_anything_was_read_before_the_first_tick() -> None:
    one = shard()
    one.checkpoint(T0, 1, open_attempts=True)
    one.fold(batch(event("started", 0, gpu_count=1)))
    one.owe_books()
    (row,) = one.checkpoint(T0, 2, open_attempts=False).tables[BOOKS].to_pylist()
    assert (row["time"].timestamp() * 1000, row["read_to"].timestamp()) == (T0, 0)


def test_books_of_a_former_owner_are_put_back_to_the_snapshot() -> None:
    one = shard()
    one.fold(batch(*STORY[:2]))
    snapshot = one.checkpoint(T0, 1, open_attempts=True).snapshot
    one.fold(batch(*STORY[2:], first=2))
    one.fold(batch(b"{", topic="gpu"))
    later = one.checkpoint(T0 + HOUR_MS, 2, open_attempts=True).tables
    again = Shard.restore(3, ShardSettings(), PriceBook.empty(), [snapshot])
    back = again.put_back_books(later[BOOKS], later[DEAD_LETTER_COUNTS], 7)
    rows = {row["topic"]: row for row in back[BOOKS].to_pylist()}
    assert {topic: (row["records_in"], row["next_offset"]) for topic, row in rows.items()} == {
        "gpu": (0, 0),
        "jobs": (2, 2),
    }
    assert {row["time"].timestamp() * 1000 for row in rows.values()} == {T0}
    letters = back[DEAD_LETTER_COUNTS].to_pylist()
    assert len(letters) == later[DEAD_LETTER_COUNTS].num_rows
    assert {(row["records"], row["version"]) for row in letters if row["reason"] != "too_late"} == {(0, 7)}
    assert again.tallies["jobs"].records_in == 2
    assert again.checkpoint(T0, 8, open_attempts=True).tables[BOOKS].num_rows == 1


def test_books_of_an_owner_that_replayed_less_are_not_raised_before_its_rows_are_written_again() -> None:
    one = shard()
    one.fold(batch(*STORY[:2]))
    one.position.tick_ms = T0 + 10_000
    snapshot = one.checkpoint(T0, 1, open_attempts=True).snapshot
    one.fold(batch(*STORY[2:], first=2))
    one.position.tick_ms = T0 + HOUR_MS
    newest = one.checkpoint(T0 + HOUR_MS, 2, open_attempts=True).snapshot
    # Its owner did not see the newest snapshot.
    former = Shard.restore(3, ShardSettings(), PriceBook.empty(), [snapshot])
    less = former.checkpoint(T0, 7, open_attempts=True).tables
    again = Shard.restore(3, ShardSettings(), PriceBook.empty(), [newest])
    (row,) = again.put_back_books(less[BOOKS], SCHEMAS[DEAD_LETTER_COUNTS].empty_table(), 9)[
        BOOKS
    ].to_pylist()
    assert (row["records_in"], row["next_offset"], row["version"]) == (2, 2, 9)
    assert (row["time"].timestamp() * 1000, row["read_to"].timestamp() * 1000) == (T0, T0)
    (row,) = again.checkpoint(T0 + HOUR_MS, 10, open_attempts=True).tables[BOOKS].to_pylist()
    assert (row["records_in"], row["next_offset"], row["time"].timestamp() * 1000) == (5, 5, T0 + HOUR_MS)


def test_books_wait_until_no_row_is_left_over() -> None:
    one = Shard(3, ShardSettings(rows_per_checkpoint=1), PriceBook.empty())
    one.fold(batch(event("started", gpu_count=1), event("started", gpu_count=1, job_id="k")))
    points = [one.checkpoint(T0 + HOUR_MS, version, open_attempts=True) for version in (1, 2)]
    assert [(point.more, BOOKS in point.tables) for point in points] == [(True, False), (False, True)]


def test_books_come_back_with_the_shard() -> None:
    one = shard()
    one.fold(batch(*STORY))
    point = one.checkpoint(T0, 1, open_attempts=True)
    again = Shard.restore(3, ShardSettings(), PriceBook.empty(), [point.snapshot])
    assert (again.tallies, again.due.accrued_to_ms) == (one.tallies, T0)
    again.fold(batch(event("completed", 31 * HOUR_MS), first=5))
    assert (again.tallies["jobs"].records_in, again.books.records_in) == (6, 6)
