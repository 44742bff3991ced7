"""The limits and intervals of the shard manager, resolved from the settings once.

Every duration has its unit in its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from streams.clock import ManualClock
from streams.worker.log_time import LogTime


@dataclass(frozen=True)
class ShardManagerOptions:
    """How often to store, how many bytes may wait, and how long to retry."""

    topic_prefix: str
    as_of_ms: Callable[[], int]
    now_ms: Callable[[], int]  # monotonic, for timeouts only
    #: Log time, from which the watermarks of Kafka's partitions follow.
    log_time: LogTime = field(default_factory=lambda: LogTime(ManualClock()))
    checkpoint_interval_ms: int = 1_200
    # A backlog of at least so many bytes is stored as soon as its end is read (three busy seconds of 100,000 GPUs);
    # None: it is stored with the next checkpoint.
    caught_up_bytes: int | None = 16 * 2**20
    # How often open attempts are accrued up to now; None: only by a checkpoint that requests it.
    open_attempts_interval_ms: int | None = 10_000
    # How often to check whether a tick is due; None: only when records arrive.
    tick_poll_ms: int | None = 100
    # Whether a checkpoint also writes the burn rates of jobs that changed since the last tick.
    look_between_ticks: bool = False
    # Whether alerts of a current tick are stored and sent ahead of the next checkpoint.
    alerts_at_once: bool = False
    # Whether a checkpoint follows a changed alert immediately.
    hurries_alerts: bool = True
    # Size limit of one flight to the store; its rows are held in memory two or three times.
    flight_max_bytes: int = 64 * 2**20
    # Whether a shard with more than one checkpoint's worth of rows may add several to one flight: fewer, larger
    # inserts.
    fill_flights: bool = False
    max_backlog_bytes: int = 256 * 2**20
    # After this time a hole in the log counts as deleted records, not as a lost fetch.
    hole_patience_ms: int = 30_000
    # How long a rebalance or a stop waits for the final checkpoint; without it the next owner replays.
    handover_timeout_ms: int = 8_000
    # An insert by a shard's former owner may land this long after the takeover; then late rows are fenced once more.
    sweep_after_ms: int = 90_000
    # A store that refuses for this long stops the meter; None: a worker retries forever, as Kafka retains its log.
    store_patience_ms: int | None = None
    # How many base snapshots of a shard are retained, each with its increments.
    bases_kept: int = 2
