"""Restores a shard from its newest snapshots, and corrects the rows that were stored after them.

It must not run in the event loop: every call blocks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from schemas.tables import ALERTS, ATTEMPTS, JOB_MINUTES, JOB_USAGE_MINUTES, JOBS, NODE_MINUTES
from sinks.port import Store
from streams import fallbacks
from streams.engine.alerts.formatting import one_line
from streams.engine.pricing.book import PriceBook
from streams.engine.repricing.price_changes import PriceChanges
from streams.engine.shard.shard import Shard
from streams.worker.shards.owned_shard import OwnedShard, Takeover
from streams.worker.shards.ports import ShardFactory
from streams.worker.storing.versions import VersionClock, refuse_if_later

logger = logging.getLogger(__name__)

#: Tables whose rows are read back: the keys of the first two hold derived facts, and rows of the others may be of an
#: owner that replayed less than the snapshot has.  Alerts may be of one that replayed more.
READ_BACK: Final = (JOB_MINUTES, NODE_MINUTES, JOB_USAGE_MINUTES, JOBS, ATTEMPTS, ALERTS)
#: Those of them whose rows are no job's: nothing need be in memory to put them right.
WITHOUT_JOBS: Final = (NODE_MINUTES, ALERTS)


@dataclass(frozen=True)
class Restored:
    """A shard that may be fed, and how many stored rows it took back."""

    owned: OwnedShard
    rows_put_right: int


@dataclass
class Attempts:
    """What the attempts to restore a shard have in common: an insert of one that failed may land after the next."""

    number: int
    generation: int
    book: PriceBook
    now_ms: int
    given: int = 0  # the newest version that any of them began with
    proven: int = 0  # the group was in our generation after this version was read


#: Stores rows (table, rows, token); raises SinkBusy to a worker that others may have followed.
Put = Callable[[str, pa.Table, str], None]


def restore(store: Store, factory: ShardFactory, put: Put, attempts: Attempts) -> Restored:
    """Load, read back, and adopt what a price that came meanwhile touches.

    Raises LaterGenerationError if the store holds a version of a later generation that is not proven to be older.
    """
    number, generation, book = attempts.number, attempts.generation, attempts.book
    chain = store.snapshots.load(number)
    newest = store.readback.max_version(number)
    refuse_if_later(number, newest, generation, attempts.proven)
    versions = VersionClock(max(newest, attempts.given), generation, attempts.now_ms)
    attempts.given = versions.next()
    shard = factory(number, book, chain.blobs)
    if shard.snapshots.unswept_from is None:
        # Else its owner had not yet looked for late rows of the one before, so that some may be older than the snapshot.
        shard.snapshots.unswept_from = chain.version
    takeover = Takeover(shard.snapshots.unswept_from, attempts.given)
    put_right = _fence_rows(store, shard, put, attempts.number, shard.snapshots.unswept_from, versions)
    if shard.price_changes is not None:
        shard.adopt_repriced(repriced(store, shard, number, shard.price_changes), shard.price_changes)
    return Restored(OwnedShard(number, shard, versions, takeover), put_right)


def _fence_rows(
    store: Store, shard: Shard, put: Put, number: int, known_version: int, versions: VersionClock
) -> int:
    """Rows beyond what is known may have keys that the replay never writes again: phase and SKU are derived facts."""
    count = 0
    for table in READ_BACK:
        stored = store.readback.newer(table, number, known_version)
        if not stored.num_rows:
            continue
        if table not in WITHOUT_JOBS:
            jobs = set(stored["job_id"].to_pylist())
            shard.adopt(archived(store, number, shard.absent(jobs)))
            restore_as_new(shard, number, shard.absent(jobs))
        version = versions.next()
        rows = shard.read_back(table, stored, version)
        if rows.num_rows:
            put(table, rows, f"readback:{table}:{number}.{version}")
            count += rows.num_rows
    return count


def restore_as_new(shard: Shard, number: int, lacking: Mapping[str, int]) -> None:
    """Go on without the state of jobs that the archive should have: its row is lost, or their ids have one key."""
    if not lacking:
        return
    fallbacks.add(fallbacks.NOT_ARCHIVED, len(lacking))
    logger.warning(
        "archive lacks jobs, they are taken as new",
        extra={
            "shard": number,
            "jobs": len(lacking),
            "first_job_id": one_line(min(lacking)[:64]),
            "runbook": "docs/operations.md#archive-lacks-jobs",
        },
    )
    shard.forget_archived(lacking)


def archived(store: Store, number: int, wanted: Mapping[str, int]) -> dict[str, bytes]:
    """The state of archived jobs."""
    return store.archive.fetch(number, wanted) if wanted else {}


def repriced(store: Store, shard: Shard, number: int, news: PriceChanges) -> dict[str, bytes]:
    """The state of archived jobs that were paid in a time in which a price may be another one now."""
    if (span := news.events_span) is None:
        return {}
    return archived(store, number, shard.absent(store.archive.overlapping(number, *span)))
