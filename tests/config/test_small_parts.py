"""Clocks and topic names."""

from __future__ import annotations

import pytest

from streams.clock import Clock, ManualClock, SystemClock
from streams.topics import SHARD_TOPICS, Topic, full_name, partition_count, short_name, topic_config


def test_manual_clock_moves_only_by_hand() -> None:
    """It stands, and cannot go back."""
    clock = ManualClock(1_000)
    clock.advance(5)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1_005, 5)
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(-1)


def test_system_clock_is_a_clock() -> None:
    """It counts ms since 1970, not seconds or ns."""
    clock: Clock = SystemClock()
    assert 1_600_000_000_000 < clock.now_ms() < 10_000_000_000_000
    assert clock.monotonic_ms() <= clock.monotonic_ms()


def test_topic_names_with_and_without_prefix() -> None:
    """A name comes back as it was."""
    assert full_name(Topic.JOBS, "trainfare.") == "trainfare.jobs"
    assert short_name("trainfare.jobs", "trainfare.") == short_name("jobs", "trainfare.") == "jobs"


def test_what_topics_need() -> None:
    """Shard topics share a partition count; the others are one compacted partition; all are LogAppendTime."""
    for topic in Topic:
        config = topic_config(topic)
        assert config["message.timestamp.type"] == "LogAppendTime"
        assert (config.get("cleanup.policy") == "compact") == (topic not in SHARD_TOPICS)
        assert (config.get("min.compaction.lag.ms") == "86400000") == (topic is Topic.PRICES)
        assert partition_count(topic, 12) == (12 if topic in SHARD_TOPICS else 1)
