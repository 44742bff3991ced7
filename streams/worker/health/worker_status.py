"""The values in which a worker reports itself: counters for metrics, checks for readiness.

It must not know who fills it in, nor how it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import msgspec

_NONE: Mapping[str, int] = MappingProxyType({})
_NO_CHECKS: Mapping[str, bool] = MappingProxyType({})


class Check(msgspec.Struct, frozen=True):
    """One thing that must hold before the worker counts as ready."""

    name: str
    ok: bool
    detail: str  # for people: the address, and what is wrong with it


class SeenFinding(Protocol):
    """One thing that an audit looked at."""

    @property
    def check(self) -> str:
        """Which of the few checks it is; a label of a metric."""
        ...

    @property
    def ok(self) -> bool:
        """Whether it is as it should be."""
        ...


class SeenVerdict(Protocol):
    """The last audit of this worker, as far as metrics speak of it."""

    @property
    def as_of_ms(self) -> int:
        """When it looked, ms since 1970 UTC."""
        ...

    @property
    def findings(self) -> Sequence[SeenFinding]:
        """All that it looked at."""
        ...


class SeenCanary(Protocol):
    """The canary of this worker, as far as metrics speak of it; counts are since the process began."""

    @property
    def runs(self) -> int:
        """Runs whose cost was looked for: right, wrong, or late."""
        ...

    @property
    def wrong(self) -> int:
        """Runs whose stored cost differs too much from the known one."""
        ...

    @property
    def late(self) -> int:
        """Runs whose cost was not stored in time."""
        ...

    @property
    def right_at_ms(self) -> int | None:
        """When a run was last found right, ms since 1970 UTC; None: none yet."""
        ...

    @property
    def latency_ms(self) -> int | None:
        """From the end of the last run that was found to its stored cost; None: none yet."""
        ...

    @property
    def error_ratio(self) -> float | None:
        """By how much the cost of the last run that was found differs from the known one, of it; None: none yet."""
        ...


class CanaryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The canary as values; a worker that does not hold shard 0 has none."""

    runs: int
    wrong: int
    late: int
    right_age_ms: int | None = None  # since a run was last found right
    latency_ms: int | None = None
    error_ratio: float | None = None


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a worker. Counters are of this process: they begin at 0 with it and never fall."""

    checks: tuple[Check, ...] = ()
    records: Mapping[str, int] = _NONE  # by outcome; their sum is what came in
    gpu_samples_late: int = 0
    costs_capped: int = 0
    rows_stored: Mapping[str, int] = _NONE  # by table
    checkpoints: int = 0
    inserts_refused: int = 0
    backlog_bytes: int = 0
    shards_held: int = 0
    shards_restoring: int = 0
    checkpoint_age_ms: int | None = None  # since all that was read was stored; None: nothing was yet
    watermark_age_ms: int | None = (
        None  # by which the newest event metered is behind the clock; None: no event yet
    )
    notifier_pending: int | None = None  # messages that are still to be delivered; None: nothing is sent
    delivery_faults: Mapping[str, int] = _NONE  # by what failed: calls of the store that deliveries need
    transaction_records: Mapping[str, int] = _NONE  # by topic: of them, those that an open transaction holds
    transaction_ms: Mapping[str, int] = _NONE  # by topic: for how long the oldest of those have waited
    fallbacks: Mapping[str, int] = _NONE  # by what: slow ways that were taken
    clock_ahead_ms: int = 0  # of Kafka's log; below 0: behind it
    clock_faults: int = 0  # how often it came to be more than a minute off
    shards_rewound: int = 0  # found to have judged ticks ahead of the log
    stuck: str = ""  # why only a restart helps; empty: it does not need one
    lag_records: Mapping[str, int] = _NONE  # by topic, of all shards: in the log and not folded
    lag_ms: Mapping[str, int] = _NONE  # by topic: age of the oldest of them, of the shard where it is highest
    shard_lag_records_max: int = 0  # of the shard that is farthest behind
    no_progress_ms: int = 0  # for how long a shard that is behind has folded nothing; the longest
    reference_lag_records: Mapping[str, int] = _NONE  # by topic: prices and controls that are not read yet
    price_age_ms: int | None = None  # since the newest price was published; None: there is none
    snapshot_age_ms: int | None = None  # of the shard whose last snapshot is the oldest
    restore_ms: int | None = None  # what the last restore of a shard took
    rebalances: int = 0
    backlog_max_bytes: int = 0  # at so much reading pauses
    reading_paused: bool = False
    refetches: int = 0  # times that records were read again because they were lost on the way
    rows_swept: int = 0  # rows of an earlier owner that came after the restore, put right
    rows_phantom: int = 0  # rows newer than the snapshot at a restore, put right
    commits_refused: int = 0
    records_trimmed: int = 0  # read again though they were folded before
    records_not_mine: int = 0  # of shards that had left when they came
    dead_letters: Mapping[str, int] = _NONE  # dead letters by reason
    dead_letters_sampled_out: int = 0  # of them, counted and not stored
    reference_refused: int = 0  # prices and controls that were refused; every worker reads all of them
    books_balanced: Mapping[str, bool] = _NO_CHECKS  # by check of the last audit
    audit_age_ms: int | None = None  # None: there was none yet
    canary_enabled: bool = False
    canary: CanaryStatus | None = None
