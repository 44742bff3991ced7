"""Chooses which unchanged part of a shard the next snapshot includes, so that no full snapshot is ever needed.

In rounds, all state is written anew, one slice per snapshot. When a round ends, the snapshot in which it began becomes
the root: nothing older is needed. This module chooses; it writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from schemas.events import PriceEvent
from streams.engine.coverage.coverage import Coverage
from streams.engine.coverage.ids import SeenIds, SeenPart
from streams.engine.coverage.names import Holder
from streams.engine.repricing.shard_prices import ShardPrices
from streams.engine.snapshot.archive_index import ArchiveIndex, ranges
from streams.engine.state.job import JobBook, JobState
from streams.engine.state.node import NodeState

#: A slice is at most this size, or the size of the changes if that is larger, even if the round then takes longer.
SLICE_BYTES: Final = 2 * 2**20
#: Approximate sizes before compression.
_ARCHIVED_BYTES, _SEEN_BYTES, _NODE_BYTES, _JOB_BYTES, _EVENT_BYTES = 26, 16, 400, 800, 200
_MINUTE_BYTES, _LINE_BYTES, _AMOUNT_BYTES = 100, 150, 28
_IDS_AT_ONCE: Final = 16_384
_PRICES_AT_ONCE, _PRICE_BYTES = 1_024, 150
#: A chain spans two rounds when the second one ends, which may take longer than estimated.
_ROUNDS_AT_EASE: Final = 3


@dataclass(slots=True)
class CompactionSlice:
    """What is included whole, whether it changed or not."""

    jobs: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    holders: list[Holder] = field(default_factory=list)
    archived: list[tuple[int, int]] = field(default_factory=list)  # ranges of keys
    seen: list[tuple[str, SeenPart]] = field(default_factory=list)
    prices: list[PriceEvent] = field(default_factory=list)


@dataclass(slots=True)
class _SliceBuilder:
    """The current slice that a round adds to."""

    slice: CompactionSlice = field(default_factory=CompactionSlice)


class ShardContents(NamedTuple):
    """The parts of a shard that each round writes anew."""

    jobs: JobBook
    nodes: dict[str, NodeState]
    coverage: Coverage
    archived: ArchiveIndex
    seen: dict[str, SeenIds]
    prices: ShardPrices


class Compaction:
    """Rounds through a shard. `root`: the version at which a restore must begin, 0 before the first snapshot.

    `length`: the approximate number of snapshots since the root. An owner that restores begins a new round, so with
    frequent takeovers no round would end: the longer the chain, the more each snapshot includes.
    """

    def __init__(self) -> None:
        self.root = self.length = 0
        self._began = self._taken = 0  # version of the round's first slice, and the number of its slices
        self._waiting: Iterator[int] | None = None
        self._tray = _SliceBuilder()
        self._share_bytes = self._expected = 0.0  # target size of a slice, and expected number of slices

    def next(
        self, contents: ShardContents, version: int, snapshots_per_round: int, changed_bytes: int
    ) -> CompactionSlice:
        """What the snapshot of this version includes besides its changes.

        Args:
            contents: Of the shard. None of its parts may refer to this object: a round is always in progress, and a
                reference
              cycle would keep a revoked shard in memory until the next garbage collection.
            version: Of the snapshot.
            snapshots_per_round: Minimum number of snapshots of a round.
            changed_bytes: Approximate size of the changes.
        """
        if self._waiting is None:
            self._began, self._taken = version, 0
            weight_bytes = _weight(contents)
            self._share_bytes = weight_bytes / snapshots_per_round
            self._expected = max(snapshots_per_round, weight_bytes / SLICE_BYTES)
            self._waiting = _walk(contents, self._tray)
        self.length, self._taken = self.length + 1, self._taken + 1
        hurry = max(1.0, self.length / (_ROUNDS_AT_EASE * self._expected))
        left = hurry * min(self._share_bytes, max(SLICE_BYTES, changed_bytes))
        found = self._tray.slice = CompactionSlice()
        while left > 0:
            weight = next(self._waiting, None)
            if weight is None:
                self._waiting, self.root, self.length = None, self._began, self._taken
                break
            left -= weight
        return found


def _walk(contents: ShardContents, tray: _SliceBuilder) -> Iterator[int]:
    """Add one item after the other to the current slice; yield the size of each.

    Items that appear during a round are included as changes; items that disappear are skipped.
    """
    archived_bytes = len(contents.archived) * _ARCHIVED_BYTES
    parts = list(ranges(-(-len(contents.archived) // _IDS_AT_ONCE)))
    seen = [(topic, ids.everything()) for topic, ids in contents.seen.items()]
    nodes, jobs, holders = list(contents.nodes), list(contents.jobs), contents.coverage.holders()
    prices = contents.prices.book.events
    for first in range(0, len(prices), _PRICES_AT_ONCE):
        tray.slice.prices += filter(contents.prices.book.is_current, prices[first : first + _PRICES_AT_ONCE])
        yield _PRICES_AT_ONCE * _PRICE_BYTES
    for part in parts:
        tray.slice.archived.append(part)
        yield archived_bytes // len(parts)
    for topic, ids in seen:
        for cut in _cut(ids):
            tray.slice.seen.append((topic, cut))
            yield len(cut.lo) * _SEEN_BYTES + len(cut.older_lo) * _SEEN_BYTES
    for name in nodes:
        tray.slice.nodes.append(name)
        yield _NODE_BYTES
    for job_id in jobs:
        job = contents.jobs.get(job_id)
        if job is not None:
            tray.slice.jobs.append(job_id)
            yield _job_weight(job)
    for holder in holders:
        tray.slice.holders.append(holder)
        yield contents.coverage.bytes_per_holder


def _cut(ids: SeenPart) -> Iterator[SeenPart]:
    none = np.empty(0, np.uint64)
    for first in range(0, len(ids.lo), _IDS_AT_ONCE):
        some = slice(first, first + _IDS_AT_ONCE)
        yield SeenPart(ids.clock, ids.lo[some], ids.hi[some], none, none)
    for first in range(0, len(ids.older_lo), _IDS_AT_ONCE):
        some = slice(first, first + _IDS_AT_ONCE)
        yield SeenPart(ids.clock, none, none, ids.older_lo[some], ids.older_hi[some])


def _weight(contents: ShardContents) -> float:
    """Estimate the total size; jobs are assumed to be small."""
    return (
        len(contents.archived) * _ARCHIVED_BYTES
        + sum(len(ids) for ids in contents.seen.values()) * _SEEN_BYTES
        + len(contents.nodes) * _NODE_BYTES
        + len(contents.jobs) * 2 * _JOB_BYTES
        + contents.coverage.holder_count * contents.coverage.bytes_per_holder
        + len(contents.prices.book) * _PRICE_BYTES
        + 1
    )


def _job_weight(job: JobState) -> int:
    weight = _JOB_BYTES + len(job.seen) * 16
    for attempt in job.attempts.values():
        minutes = len(attempt.winners) + len(attempt.booked_metered) + len(attempt.booked_traffic)
        weight += (
            len(attempt.events) * _EVENT_BYTES
            + len(attempt.traffic) * _AMOUNT_BYTES
            + minutes * _MINUTE_BYTES
            + len(attempt.booked_lines) * _LINE_BYTES
        )
    return weight
