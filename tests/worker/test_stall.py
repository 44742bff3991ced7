"""Readiness and liveness of shards that stand still: who is named, what excuses, when only a restart helps."""

from __future__ import annotations

from streams.worker.health.lag import ShardLag
from streams.worker.health.stall import RestartCheck, StallLimits, readiness

NOW_MS = 1_800_000_000_000
LIMITS = StallLimits(not_ready_ms=60_000, restart_ms=300_000)


def standing(idle_ms: int, number: int = 3, **records: int) -> ShardLag:
    return ShardLag(number, records or {"jobs": 0, "gpu": 1_222}, {}, idle_ms)


def test_ready_up_to_the_limit() -> None:
    assert readiness([standing(60_000)], LIMITS, NOW_MS, "").ok
    assert not readiness([standing(60_001)], LIMITS, NOW_MS, "").ok


def test_it_says_which_shard_since_when_and_how_far_behind() -> None:
    found = readiness([standing(1_000, 1), standing(75_000, jobs=12, gpu=1_222)], LIMITS, NOW_MS, "")
    assert found.name == "progress"
    assert found.detail == (
        "shard 3 has folded nothing for 75 s, since 2027-01-15 07:58:45 UTC, while 1,234 records wait for it "
        "(jobs 12, gpu 1,222)"
    )


def test_the_worst_is_named_and_the_others_are_counted() -> None:
    found = readiness([standing(70_000, 1), standing(80_000, 2), standing(75_000, 3)], LIMITS, NOW_MS, "")
    assert found.detail.startswith("shard 2 (and 2 more shards) has folded nothing for 80 s")


def test_a_reason_is_told_and_does_not_make_it_ready() -> None:
    found = readiness([standing(75_000)], LIMITS, NOW_MS, "ClickHouse does not answer")
    assert not found.ok
    assert found.detail.endswith("(gpu 1,222); ClickHouse does not answer")


class Life:
    def __init__(self) -> None:
        self.restart, self.watched_ms, self.idle_ms = RestartCheck(LIMITS), 0, 0

    def after(self, by_ms: int, *, member: bool = True, reason: str = "", still: bool = True) -> str:
        for _ in range(by_ms // 1_000):
            self.watched_ms += 1_000
            self.idle_ms = self.idle_ms + 1_000 if still else 0
            found = self.restart.needed(
                [standing(self.idle_ms)], self.watched_ms, NOW_MS, member=member, reason=reason
            )
        return found


def test_a_worker_that_stands_still_with_nothing_to_excuse_it_needs_a_restart() -> None:
    life = Life()
    assert life.after(300_000) == ""
    assert life.after(1_000).startswith("shard 3 has folded nothing for 301 s")
    assert life.after(1_000, still=False) == "", "it went on by itself"


def test_an_excuse_starts_the_wait_anew() -> None:
    life = Life()
    assert life.after(900_000, reason="ClickHouse does not answer") == ""
    assert life.after(300_000) == "", "it has as long to catch up as anybody"
    assert life.after(1_000).startswith("shard 3 has folded nothing for")


def test_a_worker_that_left_the_group_and_does_not_come_back_needs_a_restart() -> None:
    life = Life()
    life.after(1_000, still=False)
    assert life.after(300_000, member=False, still=False) == ""
    assert life.after(1_000, member=False, still=False) == (
        "the group has been left for 301 s although Kafka and ClickHouse answer"
    )
    assert life.after(1_000, still=False) == ""


def test_one_that_never_joined_waits_for_what_it_needs() -> None:
    assert Life().after(900_000, member=False, still=False) == ""
