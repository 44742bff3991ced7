"""A batch of GPU samples in columns, applied to a shard: late or not, merged, counted.

It must come to what `fold_records` comes to record by record; only the way there differs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from schemas.reasons import Reason
from streams.engine.kernels.arrays import BEGINNING_MS
from streams.engine.shard.books import Tally
from streams.engine.shard.job_tables import late_by, late_gpus
from streams.engine.shard.samples import SampleBatch
from streams.engine.shard.state import ShardState

_TOPIC = "gpu"


def fold_columns(shard: ShardState, columns: SampleBatch, tally: Tally) -> None:
    """Apply all records of the columns; what is refused waits in `shard.refused`."""
    if not len(columns.records):
        return
    records = columns.records
    timely = _accept(shard, columns, tally)
    folded = shard.samples.fold(columns, timely, shard.jobs, shard.coverage)
    shard.books.late_gpu_samples += folded.late
    detail = late_gpus(shard.settings.late_horizon_ms)
    for index in folded.too_late:
        shard.refused.add(records[index], Reason.too_late, detail)
    tally.too_late += len(folded.too_late)
    tally.unattributed += folded.unattributed
    tally.applied += int(timely.sum()) - len(folded.too_late) - folded.unattributed
    for job_id, attempt in folded.sampled:
        shard.note_sampled(job_id, attempt)


def _accept(shard: ShardState, columns: SampleBatch, tally: Tally) -> NDArray[np.bool_]:
    """[n] which records are valid and timely; the others become dead letters."""
    records, times_ms = columns.records, columns.times_ms()
    newest_ms = shard.position.newest_ms.get(_TOPIC, BEGINNING_MS)
    forgotten_ms = shard.position.forgotten_ms.get(_TOPIC, 0)
    # The newest before each record: of those accepted, but what is too late by the horizon is never the newest.
    known_ms = np.where(times_ms < forgotten_ms, BEGINNING_MS, times_ms)
    before_ms = np.maximum.accumulate(np.concatenate((np.array([newest_ms]), known_ms)))
    is_event = times_ms > BEGINNING_MS
    limit_ms = np.maximum(before_ms[:-1] - shard.settings.job_horizon_ms, forgotten_ms)
    timely: NDArray[np.bool_] = is_event & (times_ms >= limit_ms)
    for index, event in columns.invalid():
        tally.dead_lettered += 1
        shard.refused.add(records[index], event.reason, event.detail)
    for index in np.flatnonzero(is_event & ~timely).tolist():
        tally.too_late += 1
        detail = late_by(int(times_ms[index]), int(before_ms[index]))
        shard.refused.add(records[index], Reason.too_late, detail)
    shard.position.newest_ms[_TOPIC] = int(before_ms[-1])
    shard.position.log_ms[_TOPIC] = max(shard.position.log_ms.get(_TOPIC, 0), int(records.log_ms.max()))
    return timely
