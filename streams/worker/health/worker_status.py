"""The values in which a worker reports itself: counters for metrics, checks for readiness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import msgspec

_NONE: Mapping[str, int] = MappingProxyType({})
_NO_CHECKS: Mapping[str, bool] = MappingProxyType({})


class Check(msgspec.Struct, frozen=True):
    """One condition of readiness."""

    name: str
    ok: bool
    detail: str  # for people: the address, and what is wrong


class SeenFinding(Protocol):
    """One result of an audit."""

    @property
    def check(self) -> str:
        """The name of the check; a label of a metric."""
        ...

    @property
    def ok(self) -> bool:
        """Whether it passed."""
        ...


class SeenVerdict(Protocol):
    """The parts of this worker's last audit that metrics report."""

    @property
    def as_of_ms(self) -> int:
        """Return when the audit ran, ms since 1970 UTC."""
        ...

    @property
    def findings(self) -> Sequence[SeenFinding]:
        """All findings."""
        ...


class SeenCanary(Protocol):
    """The parts of this worker's canary that metrics report; counts are since the process started."""

    @property
    def runs(self) -> int:
        """The number of finished runs: right, wrong, or late."""
        ...

    @property
    def wrong(self) -> int:
        """The number of runs whose stored cost differs too much from the known one."""
        ...

    @property
    def late(self) -> int:
        """The number of runs whose cost was not stored in time."""
        ...

    @property
    def right_at_ms(self) -> int | None:
        """Return when a run was last found right, ms since 1970 UTC; None: none yet."""
        ...

    @property
    def latency_ms(self) -> int | None:
        """The time from the end of the last found run to its stored cost; None: none yet."""
        ...

    @property
    def error_ratio(self) -> float | None:
        """The relative error of the last found run's cost; None: none yet."""
        ...


class CanaryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The canary as values; only the worker that owns shard 0 has one."""

    runs: int
    wrong: int
    late: int
    right_age_ms: int | None = None  # since a run was last found right
    latency_ms: int | None = None
    error_ratio: float | None = None


class ShardStanding(msgspec.Struct, frozen=True):
    """How far one shard is behind the log."""

    shard: int
    records: Mapping[str, int]  # by topic: in the log and not metered
    age_ms: Mapping[str, int]  # by topic: of the oldest of them
    idle_ms: int  # how long it has metered nothing although it is behind


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot of a worker's status. Counters begin at 0 with the process and never decrease."""

    checks: tuple[Check, ...] = ()
    records: Mapping[str, int] = _NONE  # by outcome; their sum is the records in
    gpu_samples_late: int = 0
    costs_capped: int = 0
    rows_stored: Mapping[str, int] = _NONE  # by table
    checkpoints: int = 0
    inserts_refused: int = 0
    backlog_bytes: int = 0
    shards_held: int = 0
    shards_restoring: int = 0
    checkpoint_age_ms: int | None = None  # since everything read was stored; None: never
    watermark_age_ms: int | None = (
        None  # how far the newest metered event is behind the clock; None: no event yet
    )
    notifier_pending: int | None = None  # messages still to be delivered; None: deliveries are off
    delivery_faults: Mapping[str, int] = _NONE  # store calls of the notifier that failed, by kind
    transaction_records: Mapping[str, int] = _NONE  # by topic: records behind an open transaction
    transaction_ms: Mapping[str, int] = _NONE  # by topic: how long the oldest of those have waited
    fallbacks: Mapping[str, int] = _NONE  # by kind: uses of a slow path
    clock_ahead_ms: int = 0  # ahead of Kafka's log; negative: behind
    clock_faults: int = 0  # how often it began to be more than a minute off
    ledger_rules_lag_ms: int = (
        0  # since the last minute of the rules across jobs; 0: another worker judges them
    )
    own_rules_failed: int = 0  # times that a rule by SQL could not be judged, or only in part
    shards_unowned: int = 0  # shards that no worker has owned for long
    shards_rewound: int = 0  # shards found to have judged ticks beyond log time
    stuck: str = ""  # why only a restart helps; empty: none is needed
    lag_records: Mapping[str, int] = _NONE  # by topic, of all shards: in the log and not folded
    lag_ms: Mapping[str, int] = _NONE  # by topic: age of the oldest of them, of the shard where it is highest
    shard_lag: tuple[ShardStanding, ...] = ()
    shard_lag_records_max: int = 0  # of the shard that is farthest behind
    no_progress_ms: int = 0  # longest time that a shard which is behind has folded nothing
    reference_lag_records: Mapping[str, int] = _NONE  # by topic: unread prices and controls
    price_age_ms: int | None = None  # since the newest price was published; None: there is none
    snapshot_age_ms: int | None = None  # of the shard whose last snapshot is the oldest
    restore_ms: int | None = None  # duration of the last restore of a shard
    rebalances: int = 0
    max_backlog_bytes: int = 0  # reading pauses at this size
    reading_paused: bool = False
    refetches: int = 0  # how often records were fetched again because they were lost in a fetch
    rows_swept: int = 0  # rows of a former owner that were fenced after the restore
    rows_phantom: int = 0  # rows newer than the snapshot that were fenced at a restore
    commits_refused: int = 0
    records_trimmed: int = 0  # fetched again after they were folded
    records_not_mine: int = 0  # of shards that were revoked before they arrived
    dead_letters: Mapping[str, int] = _NONE  # dead letters by reason
    dead_letters_sampled_out: int = 0  # of them, counted and not stored
    reference_refused: int = 0  # refused prices and controls; every worker reads all of them
    books_balanced: Mapping[str, bool] = _NO_CHECKS  # by check of the last audit
    audit_age_ms: int | None = None  # None: none yet
    canary_enabled: bool = False
    canary: CanaryStatus | None = None
