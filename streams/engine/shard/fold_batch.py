"""Applies a batch to a shard, record by record or as columns of GPU samples: checks lateness, folds, counts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from schemas.durations import BEGINNING_MS
from schemas.events import Event, GpuEvent, JobEvent, JobType, NodeEvent, TrafficEvent
from schemas.invalid import Invalid
from schemas.reasons import Reason
from streams.engine.batch import Record
from streams.engine.settings import FUTURE_MS
from streams.engine.shard.books import Tally
from streams.engine.shard.fold import FoldOutcome, fold_job, fold_node, fold_samples, fold_traffic
from streams.engine.shard.job_tables import late_by, late_gpus
from streams.engine.shard.samples import SampleBatch
from streams.engine.shard.state import ShardState


def fold_records(
    shard: ShardState, topic: str, records: Sequence[Record], events: Sequence[Event | Invalid], tally: Tally
) -> None:
    """Apply the events of the records; refused ones are in `shard.refused` afterwards."""
    accepted = _timely_records(shard, topic, records, events, tally)
    outcomes = _apply(shard, topic, accepted)
    for (record, event), outcome in zip(accepted, outcomes, strict=True):
        _count(shard, record, event, outcome, tally)


def _timely_records(
    shard: ShardState, topic: str, records: Sequence[Record], events: Sequence[Event | Invalid], tally: Tally
) -> list[tuple[Record, Event]]:
    """The valid and timely events; the others become dead letters."""
    newest_ms, log_ms = shard.position.newest_ms.get(topic, BEGINNING_MS), shard.position.log_ms.get(topic, 0)
    forgotten_ms = shard.position.forgotten_ms.get(topic, 0)
    accepted: list[tuple[Record, Event]] = []
    for record, event in zip(records, events, strict=True):
        log_ms = max(log_ms, record.timestamp)
        if isinstance(event, Invalid):
            tally.dead_lettered += 1
            shard.refused.add(record, event.reason, event.detail)
            if event.reason is Reason.future:
                shard.ahead.note_read(topic, record, log_ms, is_refused=True)
        elif event.time_ms < max(newest_ms - shard.settings.job_horizon_ms, forgotten_ms):
            tally.too_late += 1
            shard.refused.add(record, Reason.too_late, late_by(event.time_ms, newest_ms))
        else:
            # In a replay a clock may be far ahead of the log: it makes nobody else late.
            allowed_ms = record.timestamp + FUTURE_MS
            if event.time_ms > allowed_ms:
                shard.ahead.note(topic, event, record, log_ms)
            newest_ms = max(newest_ms, min(event.time_ms, allowed_ms))
            accepted.append((record, event))
    shard.position.newest_ms[topic] = newest_ms
    shard.position.log_ms[topic] = log_ms
    return accepted


def _apply(shard: ShardState, topic: str, accepted: Sequence[tuple[Record, Event]]) -> list[FoldOutcome]:
    events = [event for _, event in accepted]
    if topic == "jobs":
        return [
            fold_job(shard.jobs, shard.coverage, event) for event in events if isinstance(event, JobEvent)
        ]
    if topic == "nodes":
        return [fold_node(shard.nodes, event) for event in events if isinstance(event, NodeEvent)]
    if topic == "gpu":
        samples = [event for event in events if isinstance(event, GpuEvent)]
        shard.coverage.trim_groups()
        outcomes, late = fold_samples(shard.jobs, shard.coverage, samples)
        shard.books.late_gpu_samples += late
        return outcomes
    amounts = [event for event in events if isinstance(event, TrafficEvent)]
    log_ms = list(accumulate((record.timestamp for record, _ in accepted), max))
    return fold_traffic(shard.jobs, shard.seen[topic], amounts, log_ms, shard.settings.dedupe_horizon_ms)


def _count(shard: ShardState, record: Record, event: Event, outcome: FoldOutcome, tally: Tally) -> None:
    if outcome is FoldOutcome.DUPLICATE:
        tally.duplicate += 1
        return
    if outcome is FoldOutcome.TOO_LATE:
        tally.too_late += 1
        shard.refused.add(record, Reason.too_late, late_gpus(shard.settings.late_horizon_ms))
        return
    if outcome is FoldOutcome.UNATTRIBUTED:
        tally.unattributed += 1
        return
    tally.applied += 1
    if isinstance(event, NodeEvent):
        shard.mark_node(event.node)
    elif isinstance(event, GpuEvent):
        shard.mark_sampled([(event.job_id, event.attempt)])
    elif isinstance(event, JobEvent):
        shard.mark_changed(event.job_id, lifecycle=True)
        if event.type == JobType.checkpointed:
            shard.checkpoints.add(event)
    elif isinstance(event, TrafficEvent):
        shard.mark_changed(event.job_id, amounts_ms=event.interval_ms)


_GPU_TOPIC = "gpu"


def fold_columns(shard: ShardState, columns: SampleBatch, tally: Tally) -> None:
    """Apply all records of the columns; refused ones are in `shard.refused` afterwards."""
    if not len(columns.records):
        return
    records = columns.records
    timely = _timely_columns(shard, columns, tally)
    if shard.samples.must_publish_before(columns):
        shard.publish_samples()
    folded = shard.samples.fold(columns, timely, shard.jobs, shard.coverage)
    shard.books.late_gpu_samples += folded.late
    detail = late_gpus(shard.settings.late_horizon_ms)
    for index in folded.too_late:
        shard.refused.add(records[index], Reason.too_late, detail)
    tally.too_late += len(folded.too_late)
    tally.unattributed += folded.unattributed
    tally.applied += int(timely.sum()) - len(folded.too_late) - folded.unattributed
    shard.mark_sampled(folded.sampled)
    if shard.samples.must_publish:
        shard.publish_samples()


def _timely_columns(shard: ShardState, columns: SampleBatch, tally: Tally) -> NDArray[np.bool_]:
    """Which records are valid and timely ([n] bool); the others become dead letters."""
    records, times_ms = columns.records, columns.times_ms()
    newest_ms = shard.position.newest_ms.get(_GPU_TOPIC, BEGINNING_MS)
    forgotten_ms = shard.position.forgotten_ms.get(_GPU_TOPIC, 0)
    first_ms, last_ms = int(times_ms.min()), max(int(times_ms.max()), newest_ms)
    is_usual = not columns.events and last_ms <= int(records.log_ms.min()) + FUTURE_MS
    if is_usual and first_ms >= max(last_ms - shard.settings.job_horizon_ms, forgotten_ms):
        shard.position.newest_ms[_GPU_TOPIC] = last_ms
        _note_log_time(shard, columns)
        return np.ones(len(records), np.bool_)
    # The newest accepted time before each record; a record beyond the horizon never counts as the newest.
    allowed_ms = np.minimum(times_ms, records.log_ms + FUTURE_MS)  # as above
    known_ms = np.where(times_ms < forgotten_ms, BEGINNING_MS, allowed_ms)
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
    _note_ahead(shard, columns, np.flatnonzero(timely & (times_ms > records.log_ms + FUTURE_MS)).tolist())
    shard.position.newest_ms[_GPU_TOPIC] = int(before_ms[-1])
    _note_log_time(shard, columns)
    return timely


def _note_log_time(shard: ShardState, columns: SampleBatch) -> None:
    log_ms = shard.position.log_ms
    log_ms[_GPU_TOPIC] = max(log_ms.get(_GPU_TOPIC, 0), int(columns.records.log_ms.max()))


def _note_ahead(shard: ShardState, columns: SampleBatch, accepted: Sequence[int]) -> None:
    """Count the samples that are ahead of the log: these, which a replay meters, and those that were refused."""
    refused = {index for index, event in columns.invalid() if event.reason is Reason.future}
    if not (accepted or refused):
        return
    records, begin_ms = columns.records, shard.position.log_ms.get(_GPU_TOPIC, 0)
    log_ms = np.maximum.accumulate(np.maximum(records.log_ms, begin_ms))
    for index in sorted((*accepted, *refused)):
        shard.ahead.note_read(_GPU_TOPIC, records[index], int(log_ms[index]), is_refused=index in refused)
