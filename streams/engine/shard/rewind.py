"""Moves a shard back to an earlier tick after a wrong clock made it judge future ticks."""

from __future__ import annotations

from msgspec.structs import replace

from schemas.durations import NEVER_MS
from streams.engine.alerts.episodes import Memory, Remembered
from streams.engine.burn.tracker import BurnTracker, BurnTrackerBlob
from streams.engine.shard.state import ShardState


def rewind(shard: ShardState, tick_ms: int) -> None:
    """Continue judging at this tick, as after a restore; firing alerts keep firing until a tick resolves them."""
    shard.publish_samples()
    old, shard.tracker = shard.tracker, BurnTracker()
    shard.tracker.load(BurnTrackerBlob(_before(old.dump().judge, tick_ms), {}))
    shard.tracker.alerts = old.alerts
    # Alerts that former owners stored at future ticks must not hold rows back.
    shard.tracker.alerts.judged(NEVER_MS)
    for job in shard.jobs.values():
        shard.tracker.restored(job.id)
    shard.position.expect_tick(tick_ms)


def _before(memory: Memory, tick_ms: int) -> Memory:
    """The memory without episodes that began at or after the tick; those that ended there are open again."""
    kept = (
        (job, [_ended(each, tick_ms) for each in job.rules if _is_kept(each, tick_ms)]) for job in memory.jobs
    )
    return Memory([replace(job, rules=rules) for job, rules in kept if rules])


def _is_kept(each: Remembered, tick_ms: int) -> bool:
    return bool(each.open) or each.started_ms < tick_ms


def _ended(each: Remembered, tick_ms: int) -> Remembered:
    names = ("cleared_ms", "opening_1_ms", "opening_2_ms", "opening_3_ms", "quiet_ms")
    return replace(each, **{name: min(getattr(each, name), tick_ms) for name in names})
