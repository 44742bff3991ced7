"""The settings of a shard, passed in once; the engine reads no configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from streams.engine.kernels.arrays import I64

#: An event may be this much later than its append time (clock skew); more is `future`.
FUTURE_MS: Final = 300_000


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """Horizons in ms.  `run_start_ms` is set in a replay only: there `future` is judged by the run's start.

    `dead_letters_per_minute`: see `streams.engine.shard.dead_letters`; None keeps all.
    `snapshots_per_round`: snapshots over which all state is written anew, at least.
    `partitions`: of each topic, to see whether a record came in that of its key; None: they are not Kafka's.
    `archived_for_ms`: so long after its last event an id is known to be of a job in the archive; later it is a new job.
    `things_per_checkpoint`: jobs and nodes derived at once; a checkpoint must not stop the event loop for long.
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

    def newest_allowed_ms(self, append_ms: int) -> int:
        """The latest `time_ms` to be believed of a record appended at `append_ms`."""
        return FUTURE_MS + (append_ms if self.run_start_ms is None else self.run_start_ms)

    def newest_allowed_each_ms(self, append_ms: I64) -> I64:
        """[n] the same of many records."""
        return FUTURE_MS + (
            append_ms if self.run_start_ms is None else np.full_like(append_ms, self.run_start_ms)
        )
