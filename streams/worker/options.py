"""The limits and intervals of the shard manager, resolved from the settings once.

It must not read the environment; durations end in their unit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from streams.clock import ManualClock
from streams.worker.ingest.log_time import LogTime


@dataclass(frozen=True)
class ShardManagerOptions:
    """How often to store, how much may wait, and how long to be patient."""

    topic_prefix: str
    as_of_ms: Callable[[], int]
    now_ms: Callable[[], int]  # monotonic, for patience only
    #: The brokers' time; for the horizon of Kafka.
    log_time: LogTime = field(default_factory=lambda: LogTime(ManualClock()))
    checkpoint_interval_ms: int = 1_200
    # So much of a log that was waiting (no busy second: three of 100,000 GPUs) is stored as soon as its end is read;
    # None: with the next checkpoint.
    caught_up_bytes: int | None = 16 * 2**20
    # Unfinished attempts are paid up to now this often; None: only by a checkpoint that asks for it.
    open_attempts_interval_ms: int | None = 10_000
    # How often to see whether a tick has come; None: only when records do.
    tick_poll_ms: int | None = 100
    # Whether jobs that changed have their burn rate written at a checkpoint, though no tick has come.
    look_between_ticks: bool = False
    # Whether alerts of a current tick are stored and sent ahead of the next checkpoint.
    alerts_at_once: bool = False
    # Rows that are on their way to the store at once; they are held in memory two or three times over.
    flight_max_bytes: int = 64 * 2**20
    # Whether a shard that has more than one checkpoint holds gives the next one to the same flight: fewer, larger inserts.
    fill_flights: bool = False
    backlog_max_bytes: int = 256 * 2**20
    # A hole in the log that stays so long is none of ours: records are gone.
    hole_patience_ms: int = 30_000
    # How long a rebalance or a stop waits for the last checkpoint; without it the next owner replays.
    handover_timeout_ms: int = 8_000
    # An insert of a shard's earlier owner may land so long after the takeover; then it is looked for again.
    sweep_after_ms: int = 90_000
    # A store that has refused for so long ends the meter; None: a worker waits without end, its log is kept for it.
    store_patience_ms: int | None = None
    # Bases of a shard's snapshots that are kept, each with its increments.
    bases_kept: int = 2
