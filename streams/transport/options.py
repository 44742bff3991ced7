"""Options of the transport: where reading starts, and its callbacks.

Plain values; it must not read settings files or the environment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from streams.engine.raw_records import RawRecords
from streams.transport.faust_types import TP

#: The start offset of each assigned partition in the broker's log; a partition left out is not read yet.
StartOffsets = Callable[[Iterable[TP]], Mapping[TP, int]]


@dataclass(frozen=True)
class FetchOptions:
    """Fetch parameters that Faust hard-codes or does not expose."""

    topic_prefix: str
    start_offsets: StartOffsets
    fetch_min_bytes: int = 262_144
    fetch_max_wait_ms: int = 100
    # Of all partitions together: a tenth of a second's work. Data in flight is held three times, and one more fetch is
    # held decompressed.
    fetch_max_bytes: int = 8 * 2**20
    # Limit of decompressed bytes not folded yet; beyond it fetches are slow and small.
    decoded_max_bytes: int = 256 * 2**20
    # Returns (ms until the next checkpoint, checkpoint interval in ms); None: fetches wait for none. Called by any
    # thread.
    checkpoint_in_ms: Callable[[], tuple[int, int] | None] = lambda: None
    # Returns log time: brokers should respond shortly after its ticks. Called by any thread.
    log_now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    isolation_level: str = "read_committed"
    # Whether a fetch is delivered as RawRecords; otherwise as aiokafka's records, one object each.
    raw_batches: bool = True
    # Reads ahead what was fetched of a partition, as records that the agent finds read; called in the consumer's thread,
    # which waits most of the time while the agent's does not.
    read_ahead: Callable[[str, int, RawRecords], None] = lambda _topic, _number, _records: None
    # Called in the consumer's thread with the numbers of the partitions that are read from now on.
    assigned: Callable[[set[int]], None] = lambda _: None
    # Offset of the broker's first record in the log it belongs to: an embedded broker that resumes a log begins at 0
    # again, and so do all offsets exchanged with it.
    base: Mapping[TP, int] = field(default_factory=dict)
    # Returns the partitions to pause; called before every fetch.
    too_far_ahead: Callable[[], set[TP]] = set
    # Called with the exception of a fetch; True: the callee stops the worker with a message. Faust would log
    # tracebacks.
    ends_with: Callable[[Exception], bool] = lambda _: False
