"""Lag in records and in time, and standing still, of shards whose ends and times are handed in."""

from __future__ import annotations

from dataclasses import dataclass, field

from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.worker.health.lag import LagSource, LagTracker, ShardLag
from streams.worker.shards.owned_shard import OwnedShard, Takeover
from streams.worker.shards.versions import VersionClock
from tests.worker.fakes import CountingShard, State, as_shard

NOW_MS = 1_800_000_000_000


@dataclass
class Scene:
    ends: dict[str, int] = field(default_factory=dict)
    progress: LagTracker = field(default_factory=LagTracker)
    watched_ms: int = 0
    owned: OwnedShard = field(init=False)

    def __post_init__(self) -> None:
        self.shard = CountingShard(0, PriceBook.empty(), State())
        self.owned = OwnedShard(0, as_shard(self.shard), VersionClock(0, 1), Takeover(0, 1))

    def look(self, clock_ms: int = NOW_MS) -> ShardLag:
        (found,) = self.progress.measure(
            [self.owned], lambda topic, _, __: self.ends.get(topic), self.watched_ms, clock_ms
        )
        return found

    def later(self, by_ms: int) -> ShardLag:
        self.watched_ms += by_ms
        return self.look(NOW_MS + self.watched_ms)


def batch(topic: str, start: int, log_ms: list[int]) -> LogBatch:
    records = [LogRecord(start + at, ms, b"1", ()) for at, ms in enumerate(log_ms)]
    return LogBatch(topic, 0, start, start + len(records), records)


def test_lag_is_what_the_log_has_and_the_shard_has_not_folded() -> None:
    scene = Scene({"jobs": 10, "gpu": 500})
    scene.shard.position.next = {"jobs": 10, "gpu": 480}
    found = scene.look()
    assert {topic: count for topic, count in found.records.items() if count} == {"gpu": 20}
    assert found.behind == 20


def test_an_end_that_is_not_known_is_no_lag() -> None:
    assert Scene().look().behind == 0


def test_it_stands_still_only_while_it_is_behind() -> None:
    scene = Scene({"gpu": 10})
    scene.shard.position.next = {"gpu": 10}
    scene.look()
    assert scene.later(90_000).idle_ms == 0
    scene.ends["gpu"] = 11
    assert scene.later(1_000).idle_ms == 1_000, "since it was last seen to have read everything"
    assert scene.later(60_000).idle_ms == 61_000
    scene.shard.position.next = {"gpu": 11}
    assert scene.later(1_000).idle_ms == 0


def test_any_offset_or_tick_is_progress() -> None:
    scene = Scene({"gpu": 1_000})
    scene.look()
    assert scene.later(30_000).idle_ms == 30_000
    scene.shard.position.next = {"jobs": 1}
    assert scene.later(1_000).idle_ms == 0
    assert scene.later(30_000).idle_ms == 30_000
    scene.shard.position.tick_ms = NOW_MS
    assert scene.later(1_000).idle_ms == 0, "after a long pause many ticks are judged between two records"


def test_the_age_is_exact_where_the_record_waits_to_be_folded() -> None:
    scene = Scene({"gpu": 2})
    scene.owned.align.offer(batch("gpu", 0, [NOW_MS - 7_000, NOW_MS - 5_000]))
    assert scene.look().age_ms["gpu"] == 7_000


def test_else_it_is_since_the_latest_instant_up_to_which_all_is_folded() -> None:
    scene = Scene({"gpu": 2})
    scene.owned.align.offer(batch("gpu", 0, [NOW_MS - 7_000]))
    list(scene.owned.align.steps(lambda *_: NOW_MS))
    scene.shard.position.next = {"gpu": 1}
    assert scene.look().age_ms["gpu"] == 7_000, "the newest one read"
    scene.shard.position.tick_ms = NOW_MS + 5_000
    assert scene.look().age_ms["gpu"] == 5_000, "the last tick judged: all before it was read"
    scene.ends["gpu"] = 1
    assert scene.look().age_ms["gpu"] == 0
    scene.ends["gpu"] = 2
    assert scene.later(1_500).age_ms["gpu"] == 1_500, "the last look that found nothing left"


def test_of_a_shard_of_which_nothing_is_known_it_counts_from_the_first_look() -> None:
    scene = Scene({"gpu": 2})
    assert scene.look().age_ms["gpu"] == 0
    assert scene.later(4_000).age_ms["gpu"] == 4_000


def test_a_restored_shard_that_was_away_for_an_hour_is_an_hour_behind() -> None:
    scene = Scene({"gpu": 9})
    scene.shard.position.next, scene.shard.position.tick_ms = {"gpu": 3}, NOW_MS - 3_590_000
    assert scene.look().age_ms["gpu"] == 3_600_000


def test_time_in_which_nobody_looked_does_not_count() -> None:
    watched = LagSource()
    assert [watched.advance(ms) for ms in (1_000, 2_000, 302_000, 303_000)] == [0, 1_000, 6_000, 7_000]
