"""Options of the transport: where reading starts, and the callbacks that it calls.

Plain values; it must not read settings files or the environment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from faust.types import TP

#: Where each assigned partition starts, as offsets of the broker's log; a partition left out is not read yet.
StartOffsets = Callable[[Iterable[TP]], Mapping[TP, int]]


@dataclass(frozen=True)
class FetchOptions:
    """What Faust hard-codes or does not expose about a fetch."""

    topic_prefix: str
    start_offsets: StartOffsets
    fetch_min_bytes: int = 262_144
    fetch_max_wait_ms: int = 100
    # Of all partitions together: a tenth of a second's work.  What is on its way is held three times over, and one fetch
    # more is held as it is after decompression.
    fetch_max_bytes: int = 8 * 2**20
    # What was decompressed and not folded yet; beyond it fetches are slow, and small.
    decoded_max_bytes: int = 256 * 2**20
    # (Until the next checkpoint, from one to the next) in ms; None: what is fetched waits for none.  Any thread asks.
    checkpoint_in_ms: Callable[[], tuple[int, int] | None] = lambda: None
    # Log time: before a tick of it the brokers are to answer.  Any thread asks.
    log_now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    isolation_level: str = "read_committed"
    # Whether a fetch comes as RawRecords; else as aiokafka's own records, one object each.
    raw_batches: bool = True
    # Offset of the first record of a broker's partition in the log it belongs to: an embedded broker that
    # resumes a log begins again at 0, and so do all offsets that are exchanged with it.
    base: Mapping[TP, int] = field(default_factory=dict)
    # Partitions that are not to be read now; asked before every fetch.
    too_far_ahead: Callable[[], set[TP]] = set
    # Called with the exception of a fetch; True: the callee ends the worker with a message.  Faust would log tracebacks.
    ends_with: Callable[[Exception], bool] = lambda _: False
