"""Restores a shard from its newest snapshots, and corrects rows that were stored after them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from schemas.columns import values_of
from schemas.tables import (
    ALERTS,
    ATTEMPTS,
    JOB_HOURS,
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
    NODE_HOURS,
    NODE_MINUTES,
    UNATTRIBUTED_MINUTES,
)
from sinks.port import Store
from streams import fallbacks
from streams.engine.pricing.book import PriceBook
from streams.engine.repricing.price_changes import PriceChanges
from streams.engine.rules.formatting import one_line
from streams.engine.shard.shard import Shard
from streams.worker.shards.owned_shard import OwnedShard, Takeover
from streams.worker.shards.ports import ShardFactory
from streams.worker.shards.versions import VersionClock, refuse_if_later

logger = logging.getLogger(__name__)

#: Tables whose rows are read back. The keys of the first two include derived facts; rows of the others may come from an
#: owner that replayed less than the snapshot includes. Alerts may come from one that replayed more.
READ_BACK: Final = (
    JOB_MINUTES, JOB_HOURS, NODE_MINUTES, NODE_HOURS, JOB_USAGE_MINUTES, UNATTRIBUTED_MINUTES, JOBS, ATTEMPTS, ALERTS,
)  # fmt: skip
#: Those whose rows belong to no job: correcting them needs no job in memory.
WITHOUT_JOBS: Final = (NODE_MINUTES, NODE_HOURS, UNATTRIBUTED_MINUTES, ALERTS)


@dataclass(frozen=True)
class Restored:
    """A shard that is ready to be fed, and how many stored rows were corrected."""

    owned: OwnedShard
    rows_put_right: int


@dataclass
class Attempts:
    """State shared by the attempts to restore a shard: an insert of a failed attempt may land after the next one."""

    number: int
    generation: int
    book: PriceBook
    now_ms: int
    versions: VersionClock | None = None  # a block for all attempts: one for each would outrun the seconds
    proven: int = 0  # the group confirmed our generation after this version was read


#: Stores (table, rows, token); raises SinkBusy while this worker may have lost its shards.
Put = Callable[[str, pa.Table, str], None]


def restore(store: Store, factory: ShardFactory, put: Put, attempts: Attempts) -> Restored:
    """Load the snapshot, correct later rows, and load archived jobs that a price change affects.

    Raises:
        LaterGenerationError: The store has a version of a later generation that is not proven to be older.
    """
    number, generation, book = attempts.number, attempts.generation, attempts.book
    chain = store.snapshots.load(number)
    newest = store.readback.max_version(number)
    refuse_if_later(number, newest, generation, attempts.proven)
    versions = attempts.versions
    if versions is None or not versions.is_above(newest):
        versions = attempts.versions = VersionClock(newest, generation, attempts.now_ms)
    first = versions.next()
    shard = factory(number, book, chain.blobs)
    known = shard.snapshots.begin_sweep(chain.version)
    takeover = Takeover(known, first)
    if newest:  # a former owner may have a checkpoint on its way, whether or not any of it is stored yet
        _put_back_books(store, shard, put, number, known, versions)
    put_right = _fence_rows(store, shard, put, number, known, versions)
    if shard.price_changes is not None:
        shard.adopt_repriced(repriced(store, shard, number, shard.price_changes), shard.price_changes)
    return Restored(OwnedShard(number, shard, versions, takeover), put_right)


def _fence_rows(
    store: Store, shard: Shard, put: Put, number: int, known_version: int, versions: VersionClock
) -> int:
    """Correct rows newer than the snapshot: the replay may never write their keys again, as phase and SKU are derived."""
    count = 0
    for table in READ_BACK:
        stored = store.readback.newer(table, number, known_version)
        if not stored.num_rows:
            continue
        if table not in WITHOUT_JOBS:
            jobs = set(values_of(stored["job_id"]))
            shard.adopt(archived(store, number, shard.absent(jobs)))
            restore_as_new(shard, number, shard.absent(jobs))
        version = versions.next()
        rows = shard.read_back(table, stored, version)
        if rows.num_rows:
            put(table, rows, f"readback:{table}:{number}.{version}")
            count += rows.num_rows
    return count


def _put_back_books(
    store: Store, shard: Shard, put: Put, number: int, known_version: int, versions: VersionClock
) -> None:
    """Take back what a former owner said of rows that are taken back next: nobody may take the ledger for complete until then.

    Its books come last of what it stores, so they may not be there yet.
    """
    books, dead_letter_counts = store.readback.newer_books(number, known_version)
    version = versions.next()
    for table, rows in shard.put_back_books(books, dead_letter_counts, version).items():
        put(table, rows, f"readback:{table}:{number}.{version}")


def restore_as_new(shard: Shard, number: int, lacking: Mapping[str, int]) -> None:
    """Continue without the state of jobs that the archive lacks: the row is lost, or two ids have the same key."""
    if not lacking:
        return
    fallbacks.add(fallbacks.NOT_ARCHIVED, len(lacking))
    logger.warning(
        "archive lacks jobs, they are taken as new",
        extra={
            "shard": number,
            "jobs": len(lacking),
            "first_job_id": one_line(min(lacking)[:64]),
            "runbook": "docs/trouble.md#archive-lacks-jobs",
        },
    )
    shard.forget_archived(lacking)


def archived(store: Store, number: int, wanted: Mapping[str, int]) -> dict[str, bytes]:
    """The stored state of archived jobs."""
    return store.archive.fetch(number, wanted) if wanted else {}


def repriced(store: Store, shard: Shard, number: int, news: PriceChanges) -> dict[str, bytes]:
    """The stored state of archived jobs that accrued in a period whose price may have changed."""
    if (span := news.events_span) is None:
        return {}
    return archived(store, number, shard.absent(store.archive.overlapping(number, *span)))
