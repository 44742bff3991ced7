"""The settings of a shard, passed in once; the engine reads no configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from schemas.canary_proof import CanaryProof
from streams.engine.kernels.arrays import I64

#: `time_ms` of an event may exceed its append time by this much (clock skew); beyond it the event is `future`.
FUTURE_MS: Final = 300_000


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """Settings of a shard; horizons in ms.

    Args:
        run_start_ms: Set in a replay only: `future` is then judged by the start of the run.
        dead_letters_per_minute: See `streams.engine.shard.dead_letters`; None stores all.
        snapshots_per_round: Minimum number of snapshots over which all state is written anew.
        partitions: Partition count of each topic, to check that a record is in the partition of its key; None: not
            Kafka's.
        archived_for_ms: How long after its last event an id refers to the archived job; later it is a new job.
        max_idle_gpus: GPUs without a job of which minutes are kept; samples of more are counted, and no more. See `HolderNames`.
        canary: Proves the canary's records; without it they are refused as `reserved_name`.
        things_per_checkpoint: Jobs and nodes derived in one go; a checkpoint must not block the event loop for long.
    """

    job_horizon_ms: int = 86_400_000
    late_horizon_ms: int = 600_000
    dedupe_horizon_ms: int = 3_600_000
    run_start_ms: int | None = None
    rows_per_checkpoint: int = 100_000
    dead_letters_per_minute: int | None = None
    snapshots_per_round: int = 50
    things_per_checkpoint: int = 3_000
    partitions: int | None = None
    archived_for_ms: int = 1_100 * 86_400_000
    max_idle_gpus: int = 100_000
    canary: CanaryProof | None = field(default=None, repr=False)

    def newest_allowed_ms(self, append_ms: int) -> int:
        """The latest valid `time_ms` of a record appended at `append_ms`."""
        return FUTURE_MS + (append_ms if self.run_start_ms is None else self.run_start_ms)

    def newest_allowed_each_ms(self, append_ms: I64) -> I64:
        """The same for many records: [n] int64, ms."""
        return FUTURE_MS + (
            append_ms if self.run_start_ms is None else np.full_like(append_ms, self.run_start_ms)
        )
