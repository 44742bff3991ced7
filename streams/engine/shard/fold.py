"""Applies one event to a shard's state, topic by topic.

Decoding, lateness and offsets are handled before. It writes no row and knows no price.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import xxhash

from schemas.events import GpuEvent, JobEvent, JobType, NodeEvent, TrafficEvent
from streams.engine.coverage.coverage import Coverage
from streams.engine.coverage.ids import SeenIds, identities128
from streams.engine.state.job import JobBook
from streams.engine.state.node import NodeState


class FoldOutcome(Enum):
    """What became of a record; each outcome is counted."""

    APPLIED = "applied"
    UNATTRIBUTED = "unattributed"
    DUPLICATE = "duplicate"
    TOO_LATE = "too_late"


def fold_job(jobs: JobBook, coverage: Coverage, event: JobEvent) -> FoldOutcome:
    """Apply a lifecycle event: one (source, id) counts once for as long as its job is known."""
    job = jobs.of(event.job_id)
    identity = _identity(event.source, event.id)
    if identity in job.seen:
        return FoldOutcome.DUPLICATE
    job.seen.add(identity)
    was_metered = not job.attempt(event.attempt).has_start
    job.add_event(event)
    if was_metered and job.attempt(event.attempt).has_start:
        coverage.drop_counts(
            job.id, event.attempt
        )  # the timeline is billed: its minutes no longer need seconds
    if event.type == JobType.heartbeat:
        job.record_activity(event.time_ms, event.source)
    else:
        job.touch(event.time_ms)
    return FoldOutcome.APPLIED


def fold_node(nodes: dict[str, NodeState], event: NodeEvent) -> FoldOutcome:
    """Apply a node event: one (source, id) counts once."""
    node = nodes.get(event.node)
    if node is None:
        node = nodes[event.node] = NodeState(event.node)
    identity = _identity(event.source, event.id)
    if identity in node.seen:
        return FoldOutcome.DUPLICATE
    node.seen.add(identity)
    node.add_event(event)
    return FoldOutcome.APPLIED


def fold_traffic(
    jobs: JobBook, seen: SeenIds, events: Sequence[TrafficEvent], log_ms: Sequence[int], horizon_ms: int
) -> list[FoldOutcome]:
    """Apply amounts. They are summed, so each identity is remembered for at least `horizon_ms` of log time.

    Generations of ids are hours (horizons) of log time on a fixed grid, and the table receives runs of one generation,
    so that the result does not depend on how the log was cut into batches.
    """
    outcomes: list[FoldOutcome] = []
    begin = 0
    while begin < len(events):
        generation = log_ms[begin] // horizon_ms
        end = begin + 1
        while end < len(events) and log_ms[end] // horizon_ms == generation:
            end += 1
        low, high = identities128(map(_traffic_identity, events[begin:end]))
        is_new = seen.add(low, high, generation * horizon_ms)
        for event, new in zip(events[begin:end], is_new.tolist(), strict=True):
            if new:
                _add_amounts(jobs, event)
            outcomes.append(FoldOutcome.APPLIED if new else FoldOutcome.DUPLICATE)
        begin = end
    return outcomes


def _add_amounts(jobs: JobBook, event: TrafficEvent) -> None:
    job = jobs.of(event.job_id)
    attempt = job.attempt_with_usage(event.attempt)
    minutes = attempt.traffic.add(event)
    attempt.dirty_traffic.append(minutes)
    attempt.fresh_traffic.append(minutes)
    job.touch(event.time_ms)


def fold_samples(
    jobs: JobBook, coverage: Coverage, events: Sequence[GpuEvent]
) -> tuple[list[FoldOutcome], int]:
    """Apply samples. They are merged by the largest value, so duplicates need no identity.

    Returns:
        An outcome per record, and how many single GPUs were too late. GPUs that no job holds change no job.
    """
    folded = coverage.fold(events)
    outcomes = [
        FoldOutcome.TOO_LATE if late else FoldOutcome.APPLIED if event.job_id else FoldOutcome.UNATTRIBUTED
        for event, late in zip(events, folded.all_late.tolist(), strict=True)
    ]
    for event, outcome in zip(events, outcomes, strict=True):
        if outcome is FoldOutcome.APPLIED:
            job = jobs.of(event.job_id)
            job.attempt_with_usage(event.attempt).add_sample(event)
            job.record_activity(event.time_ms, event.source)
    return outcomes, folded.late


def _identity(source: str, event_id: str) -> bytes:
    return xxhash.xxh3_128_digest(f"{len(source)}:{source}{event_id}".encode("utf-8", "surrogatepass"))


def _traffic_identity(event: TrafficEvent) -> str:
    return f"{event.topic}:{len(event.job_id)}:{event.job_id}{len(event.source)}:{event.source}{event.id}"
