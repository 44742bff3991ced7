"""Stores checkpoints in the one order that survives a crash at any point, and retries until they are stored.

It drops a checkpoint only together with its shard.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from schemas.source_table import SOURCES
from schemas.tables import ALERTS, BURN_RATES, DEAD_LETTERS, SCHEMAS
from sinks.errors import SinkBusy, SinkError
from sinks.port import Store
from sinks.snapshots import Snapshot
from streams.engine.alerts.alert import Alert
from streams.threads import Threads
from streams.topics import full_name
from streams.transport.faust_types import TP
from streams.worker.options import ShardManagerOptions
from streams.worker.shards.owned_shard import InFlightCheckpoint, OwnedShard
from streams.worker.shards.ports import AlertSink, LogConsumer, NoAlertSink
from streams.worker.storing.alert_fast_path import AlertFastPath
from streams.worker.storing.dead_letters import DeadLetterSink, not_in_store
from streams.worker.storing.unsharded_rows import UnshardedRows

logger = logging.getLogger(__name__)

#: From this many rows on an insert gets a thread of its own.
_MANY_ROWS: Final = 100_000
_REFUSED_AGAIN_MS: Final = 1_000


@dataclass
class StoredTotals:
    """Totals since the process started."""

    checkpoints: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    commits_refused: int = 0
    rebalances: int = 0
    rows_swept: int = 0  # rows of a former owner that were fenced after the restore
    rows_phantom: int = 0  # rows newer than the snapshot that were fenced at the restore
    restore_ms: int | None = None  # duration of the last restore
    #: Shard -> when its last snapshot was stored or loaded (ms).
    snapshots_ms: dict[int, int] = field(default_factory=dict)

    def restored(self, number: int, rows_put_right: int, began_ms: int, now_ms: int) -> None:
        """Count the restore of a shard."""
        self.rows_phantom += rows_put_right
        self.restore_ms = now_ms - began_ms
        self.snapshots_ms[number] = now_ms


class Checkpointer:
    """Stores one flight of checkpoints at a time; a flight that failed is retried before any other."""

    def __init__(
        self,
        store: Store,
        consumer: Callable[[], LogConsumer],
        options: ShardManagerOptions,
        dead_letters: DeadLetterSink | None,
    ) -> None:
        self._store = store
        self._consumer = consumer
        self._options = options
        self._dead_letters = dead_letters
        self.alert_sink: AlertSink = NoAlertSink()
        self._flight: list[InFlightCheckpoint] = []
        self._owed: dict[
            int, Mapping[str, int]
        ] = {}  # by shard: stored, but the last offset commit was refused
        self._extras: list[UnshardedRows] = []
        self._extra_bytes = 0
        self._refused_ms: int | None = None  # since when the store has refused
        self._lock = asyncio.Lock()
        self._threads = Threads("checkpoints")
        self._beside: ThreadPoolExecutor | None = None
        self._fast_path = AlertFastPath(self.insert, self._fast_path_stored)
        self.totals = StoredTotals()
        self.stored_in_ms = 0  # how long storing the last flight took

    @property
    def waiting_bytes(self) -> int:
        """The size of what is in flight and not stored yet."""
        return self._extra_bytes + sum(taken.size_bytes for taken in self._flight)

    @property
    def unstored_source_ms(self) -> int | None:
        """The log time of the first record of a source that is not stored yet; None: all are."""
        waiting = (extra.rows["time"][0].value for extra in self._extras if extra.table == SOURCES)
        return min(waiting, default=None)

    def carries(self, owned: OwnedShard) -> bool:
        """Whether anything of the shard is in flight."""
        return any(taken.owned is owned for taken in self._flight)

    def add(self, extra: UnshardedRows) -> None:
        """Store these rows with the next flight."""
        self._extras.append(extra)
        self._extra_bytes += int(extra.rows.nbytes)

    def publish_alerts(self, owned: OwnedShard, fail: Callable[[BaseException], None]) -> None:
        """Store and send the shard's changed alerts beside the flight, unless the flight has earlier changes of the shard."""
        carried = any(taken.owned is owned and taken.checkpoint.alerts for taken in self._flight)
        if self._options.alerts_at_once and not carried:
            self._fast_path.submit(owned)
            self._fast_path.soon(fail)

    def forget(self, owned: OwnedShard) -> None:
        """Drop the checkpoints of a shard that is no longer ours."""
        owned.gone = True
        self._fast_path.forget(owned)
        self._flight = [taken for taken in self._flight if taken.owned is not owned]
        self._owed.pop(owned.number, None)

    async def run(self, take: Callable[[], Iterable[InFlightCheckpoint]]) -> bool:
        """Store the flight under way, else a new one; return False if the store asks to be called again later."""
        async with self._lock:
            if not self._flight:
                for taken in take():
                    self._flight.append(taken)
                    await asyncio.sleep(0)  # each takes up to a second, and heartbeats need the event loop
            flight, extras = list(self._flight), list(self._extras)
            if not flight and not extras and not self._fast_path.waits:
                if self._owed and self._consumer().is_member():
                    # A quiet log brings no further checkpoint, and lag monitors wait for this commit.
                    await self._commit([])
                return True
            if not self._consumer().is_member():
                logger.warning(
                    "no checkpoint, the group has not answered for a session",
                    extra={"runbook": "docs/trouble.md#kafka-unavailable"},
                )
                return False
            try:
                await self._fast_path.flush()  # the snapshots of this flight include them
                began_ms = self._options.now_ms()
                await self._threads.run(self._store_flight, flight, extras)
                self.stored_in_ms = self._options.now_ms() - began_ms
            except SinkBusy as busy:
                self.totals.refused += 1
                if self._out_of_patience():
                    raise
                logger.warning(
                    "checkpoint not stored, retrying",
                    extra={
                        "shards": len(flight),
                        "reason": str(busy),
                        "runbook": "docs/trouble.md#store-unavailable",
                    },
                )
                return False
            self._flight = [taken for taken in self._flight if taken not in flight]
            del self._extras[: len(extras)]
            self._extra_bytes -= sum(int(extra.rows.nbytes) for extra in extras)
            self._refused_ms = None
            self._count(flight)
            # Their rows are stored, so another owner could resume them; they are sent only now.
            for taken in flight:
                # The new owner of a revoked shard finds the rows and sends them.
                if taken.checkpoint.alerts and not taken.owned.gone:
                    self.alert_sink.offer(taken.checkpoint.alerts, taken.owned.number)
            await self._commit(flight)
            return True

    def _out_of_patience(self) -> bool:
        """Whether the store, which has just refused, has done so for too long."""
        now_ms, patience_ms = self._options.now_ms(), self._options.store_patience_ms
        if self._refused_ms is None:
            self._refused_ms = now_ms
        return patience_ms is not None and now_ms - self._refused_ms > patience_ms

    def _store_flight(self, flight: Sequence[InFlightCheckpoint], extras: Sequence[UnshardedRows]) -> None:
        """Store rows, dead letters, snapshots, in this order.

        1. Rows first: after a crash, the replay writes the same keys, and a new owner zeroes those without successor.
        2. Dead letters next: a crash after them publishes some twice, never none.
        3. Snapshots last, of the shards that have one: the records behind them are never read again.
        """
        for extra in extras:
            if extra.table == DEAD_LETTERS and self._dead_letters is not None:
                # Every worker reads prices and controls from the beginning at every start, so what the table has was
                # published before. Publish first: a crash between the two repeats dead letters and loses none.
                news = not_in_store(self._store, extra.rows)
                if news.num_rows:
                    self._dead_letters.send(news)
            self.insert(extra.table, extra.rows, extra.token)
        # A version may be reused after a process that stored nothing under it; its end offsets cannot be.
        marks = ",".join(f"{t.owned.number}.{t.checkpoint.version}.{sorted(t.next.items())}" for t in flight)
        mark = hashlib.blake2b(marks.encode(), digest_size=16).hexdigest()
        # A fixed order of tables: the costs of a job before the job row that reports its end, dead letters before the
        # counts of them.
        names = set(_names(flight))
        merged = {name: _merged(flight, name) for name in SCHEMAS if name in names}
        tokens = {name: f"checkpoint:{name}:{mark}" for name in merged}
        beside = self._store_aside(merged, tokens)
        try:
            for name, rows in merged.items():
                if rows.num_rows:
                    self.insert(name, rows, tokens[name])
        finally:
            if beside is not None:
                wait([beside])
        if beside is not None:
            beside.result()
        refused = merged.get(DEAD_LETTERS)
        if self._dead_letters is not None and refused is not None and refused.num_rows:
            self._dead_letters.send(refused)
        self.fence()
        kept = [taken for taken in flight if not taken.owned.gone]
        self._store.snapshots.save_all(
            [
                Snapshot(taken.owned.number, point.version, point.parent, point.snapshot, point.root)
                for taken in kept
                for point in (taken.checkpoint,)
                if point.snapshot
            ]
        )
        for taken in kept:
            if taken.checkpoint.frees:
                self._store.snapshots.prune(taken.owned.number, self._options.bases_kept)

    def _store_aside(self, merged: dict[str, pa.Table], tokens: Mapping[str, str]) -> Future[None] | None:
        """Start storing burn rates in a second thread if there are many: no other row depends on them.

        Removes them from `merged`.
        """
        if BURN_RATES not in merged or merged[BURN_RATES].num_rows < _MANY_ROWS:
            return None
        if self._beside is None:
            # One permanent thread: a store keeps a connection per thread.
            self._beside = ThreadPoolExecutor(1, "beside")
        return self._beside.submit(self.insert, BURN_RATES, merged.pop(BURN_RATES), tokens[BURN_RATES])

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        """Store rows while the group counts this worker as a member; blocks.

        Raises:
            SinkBusy: The store refused, or this worker may have lost its shards.
        """
        self.fence()
        try:
            self._store.insert(table, rows, token)
        except SinkBusy:
            raise
        except SinkError as fault:
            if table != ALERTS:
                raise
            # Not fatal: what was metered waits, and a repair of the table needs no restart.
            message = (
                f"the store refuses rows of `alerts`, and what was metered since waits for them: {fault}"
            )
            raise SinkBusy(message, _REFUSED_AGAIN_MS) from fault

    def fence(self) -> None:
        """Check membership before a write: a process that was frozen in the middle of a flight must not continue it.

        The next owner fences late rows of a former owner once more after some time, and then never again.

        Raises:
            SinkBusy: The group has not answered for a session.
        """
        if not self._consumer().is_member():
            raise SinkBusy("the group has not answered for a session, others may own our shards")

    async def _commit(self, flight: Sequence[InFlightCheckpoint]) -> None:
        """Commit the offsets of snapshots to Kafka, for lag monitors; a start never relies on them."""
        self._owed |= {
            taken.owned.number: taken.next
            for taken in flight
            if taken.checkpoint.snapshot and not taken.owned.gone
        }
        prefix = self._options.topic_prefix
        offsets = {
            TP(full_name(topic, prefix), number): offset
            for number, following in self._owed.items()
            for topic, offset in following.items()
        }
        if offsets and not await self._consumer().commit_next(offsets):
            self.totals.commits_refused += 1
        else:
            self._owed = {}

    def _fast_path_stored(self, alerts: Sequence[Alert], number: int, rows: int) -> None:
        self.totals.rows[ALERTS] = self.totals.rows.get(ALERTS, 0) + rows
        self.alert_sink.offer(alerts, number)

    def _count(self, flight: Sequence[InFlightCheckpoint]) -> None:
        self.totals.checkpoints += 1
        for taken in flight:
            if taken.checkpoint.snapshot:
                self.totals.snapshots_ms[taken.owned.number] = self._options.now_ms()
            for name, rows in taken.checkpoint.tables.items():
                self.totals.rows[name] = self.totals.rows.get(name, 0) + rows.num_rows


def _names(flight: Sequence[InFlightCheckpoint]) -> Iterable[str]:
    return (name for taken in flight for name in taken.checkpoint.tables)


def _merged(flight: Sequence[InFlightCheckpoint], name: str) -> pa.Table:
    parts = [taken.checkpoint.tables[name] for taken in flight if name in taken.checkpoint.tables]
    return parts[0] if len(parts) == 1 else pa.concat_tables(parts)
