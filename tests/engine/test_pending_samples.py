"""What samples said is told once for many fetches: who was seen from when to when, and what is the newest of each minute."""

from __future__ import annotations

import numpy as np
import orjson
import pytest

from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard import samples
from streams.engine.shard.pending_samples import NewestSample, PendingSamples
from streams.engine.shard.shard import Shard
from tests.raw_records import raw

T0 = 1_780_308_000_000


def pending() -> PendingSamples:
    found = PendingSamples()
    found.resize(3)
    return found


def say(one: PendingSamples, *rows: tuple[int, int, int, str]) -> None:
    """A fetch: (owner, shape, seconds after T0, id) of samples of one second each."""
    owner, shape, after_s, ids = zip(*rows, strict=True)
    text = "".join(ids).encode()
    size = np.array([len(each) for each in ids], np.int32)
    time_ms = T0 + np.array(after_s, np.int64) * 1000
    one.newest(
        np.array(owner, np.int32), np.array(shape, np.int32), time_ms, np.full(len(rows), 1000),
        np.cumsum(size) - size, size, np.frombuffer(text, np.uint8),
    )  # fmt: skip
    for number in sorted(set(owner)):
        of_owner = time_ms[np.array(owner) == number]
        key = np.array([number + 7])
        one.seen(np.array([number], np.int32), of_owner.min(keepdims=True), of_owner.max(keepdims=True), key)


def seen(one: PendingSamples) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in one.drain_seen()), strict=True))


def test_owners_are_seen_from_the_first_fetch_to_the_last() -> None:
    one = pending()
    say(one, (2, 0, 30, "a"), (0, 1, 20, "b"))
    say(one, (2, 0, 10, "c"))
    assert seen(one) == [(0, T0 + 20_000, T0 + 20_000, 7), (2, T0 + 10_000, T0 + 30_000, 9)]
    assert len(one.drain_newest([0, 2])) == 2
    assert (seen(one), one.drain_newest([0, 2])) == ([], [])
    assert len(one) == 0


def test_only_the_newest_of_the_asked_owners_are_returned() -> None:
    one = pending()
    say(one, (0, 0, 10, "a"), (1, 5, 10, "b"), (2, 3, 10, "c"))
    one.drain_seen()
    assert one.drain_newest({1}) == [NewestSample(1, 5, T0 + 10_000, 1000, "b")]
    assert one.drain_newest({0, 2}) == []


def test_an_owner_whose_samples_cover_no_second_has_no_newest_one() -> None:
    one = pending()
    say(one, (0, 0, 10, "a"))
    one.seen(np.array([1], np.int32), np.array([T0]), np.array([T0]), np.array([8]))
    one.drain_seen()
    assert one.drain_newest({1}) == []


def test_of_a_minute_the_newest_is_told_and_all_that_are_as_new() -> None:
    one = pending()
    say(one, (0, 0, 10, "a"), (1, 5, 10, "other"))
    say(one, (0, 0, 61, "next"), (0, 1, 20, ""))
    say(one, (0, 2, 20, "b"), (0, 0, 15, "c"))
    assert sorted(one.drain_newest([0, 1])) == sorted(
        [
            NewestSample(0, 1, T0 + 20_000, 1000, ""),
            NewestSample(0, 2, T0 + 20_000, 1000, "b"),
            NewestSample(0, 0, T0 + 61_000, 1000, "next"),
            NewestSample(1, 5, T0 + 10_000, 1000, "other"),
        ]
    )


def test_samples_that_cover_no_second_are_seen_and_newest_of_nothing() -> None:
    one = pending()
    none, nothing = np.zeros(0, np.int32), np.zeros(0, np.int64)
    one.newest(none, none, nothing, nothing, nothing, none, np.zeros(0, np.uint8))
    one.seen(np.array([1], np.int32), np.array([T0]), np.array([T0]), np.array([8]))
    assert seen(one) == [(1, T0, T0, 8)]
    assert one.drain_newest([1]) == []


def test_there_is_room_for_owners_that_come_later() -> None:
    one = pending()
    say(one, (2, 0, 1, ""))
    one.resize(100)
    say(one, (99, 0, 2, ""))
    assert [number for number, *_ in seen(one)] == [2, 99]


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "MOST_WAITING", 3)
    shard = Shard(0, ShardSettings(), PriceBook.empty())
    value = {
        "source": "x",
        "node": "n",
        "interval_ms": 1000,
        "gpus": ["a"],
        "util_ratio": [0.5],
        "job_id": "j",
    }
    for offset in range(5):
        record = LogRecord(offset, T0, orjson.dumps(value | {"time_ms": T0 + offset * 1000}))
        shard.fold(LogBatch("gpu", 0, offset, offset + 1, raw([record])))
        assert ("j" in shard.jobs) == (offset >= 3)  # told once more than three wait
    shard.publish_samples()
    assert shard.jobs["j"].last_ms == T0 + 4_000
