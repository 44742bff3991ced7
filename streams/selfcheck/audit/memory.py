"""Reads from a running worker what the checks compare: record counts, ingest counts, minutes of the windows.

It must run in the event loop, where shards do not change meanwhile; it must not change them, nor wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from schemas.durations import MINUTE_MS
from streams.engine.kernels.burn import WINDOWS_MS
from streams.engine.shard.shard import Shard
from streams.selfcheck.audit.facts import Flows, KnownMinutes
from streams.selfcheck.audit.verdict import Book
from streams.worker.ingest.ingest_counts import IngestCounts
from streams.worker.shards.owned_shard import OwnedShard

#: Number of whole minutes compared per job, the most recent ones.
MINUTES: Final = 30


class IngestSource(Protocol):
    """The part of the ingest that the audit reads."""

    ingest_counts: IngestCounts


class ShardSource(Protocol):
    """A worker's shards."""

    owned: dict[int, OwnedShard]

    @property
    def ingest(self) -> IngestSource:
        """The ingest."""
        ...


@dataclass(frozen=True)
class Look:
    """Minutes of jobs as the windows have them, all of whose rows are stored, up to `until` (exclusive)."""

    known: Mapping[tuple[str, int], KnownMinutes]
    jobs: tuple[str, ...]
    since: int
    until: int


def books(owned: Iterable[OwnedShard]) -> list[Book]:
    """The present record accounting of these shards."""
    return [
        Book(
            topic=topic,
            partition=each.number,
            first=tally.first or 0,
            next=each.shard.position.next.get(topic, 0),
            records_in=tally.records_in,
            applied=tally.applied,
            unattributed=tally.unattributed,
            duplicate=tally.duplicate,
            too_late=tally.too_late,
            dead_lettered=tally.dead_lettered,
            trimmed=tally.trimmed,
        )
        for each in owned
        for topic, tally in sorted(each.shard.tallies.items())
    ]


def flows(shard_manager: ShardSource) -> list[Flows]:
    """Where the records fetched by this process went."""
    found = []
    for (topic, number), flow in sorted(shard_manager.ingest.ingest_counts.flows.items()):
        owned = shard_manager.owned.get(number)
        counted = folded = None
        if owned is not None and isinstance(owned.shard, Shard):
            tally = owned.shard.tallies.get(topic)
            folded = owned.folded[topic]
            counted = (tally.records_in if tally is not None else 0) - owned.began.get(topic, 0)
        found.append(
            Flows(
                name=f"{topic}/{number}",
                fetched=flow.fetched,
                folded=flow.folded,
                trimmed=flow.trimmed,
                not_mine=flow.not_mine,
                given_back=flow.given_back,
                waiting=0 if owned is None else owned.waiting_records(topic),
                counted=counted,
                folded_here=folded or 0,
            )
        )
    return found


def minutes(shard: Shard, jobs: Iterable[str]) -> Look:
    """The last whole minutes of jobs whose windows and rows are of the same events and prices.

    Nothing of the shard may be in flight. Jobs that changed since their rows were derived are left out.
    """
    shard.publish_samples()
    known: dict[tuple[str, int], KnownMinutes] = {}
    names, since, until = [], 2**62, 0
    if shard.position.tick_ms is None:
        return Look(known, (), 0, 0)
    # The windows have dropped the detail of earlier minutes.
    oldest = (shard.position.tick_ms - WINDOWS_MS[-1]) // MINUTE_MS + 1
    for job_id in jobs:
        job = shard.jobs.get(job_id)
        if (
            job is None
            or job_id in shard.due.dirty_jobs
            or any(a.fresh_minutes or a.fresh_traffic for a in job.attempts.values())
        ):
            continue
        if job_id in shard.due.open_jobs:
            end = job.booked_as_of_ms // MINUTE_MS  # whole minutes that are accrued
        else:
            end = max([job.last_ms, *(t.ended_ms or 0 for t in job.timelines().values())]) // MINUTE_MS + 1
        first = max(end - MINUTES, oldest)
        if end <= first:
            continue  # also jobs derived without their open attempts: the next accrual includes them
        costs = shard.tracker.minutes(job_id, first, end - first, shard.prices.book)
        if costs is None:
            continue
        names.append(job_id)
        since, until = min(since, first), max(until, end)
        for minute, cost_nano in enumerate(costs.tolist(), first):
            known[job_id, minute] = KnownMinutes(cost_nano, shard.snapshots.version)
    return Look(known, tuple(names), since, until)
