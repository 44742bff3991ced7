"""The engine with its ticks, without Kafka and ClickHouse: a log in, burn rates and alerts out.

Cuts the log into batches anywhere, restarts from snapshots where asked; it judges nothing itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import count, pairwise
from typing import Any

from schemas.decode import decode
from schemas.events import ControlEvent, Event, PriceEvent
from schemas.invalid import Invalid
from schemas.tables import ALERTS, BURN_RATES
from streams.engine.alerts.alert import Alert, webhook_id
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.engine.settings import FUTURE_MS, ShardSettings
from streams.engine.shard.sequencer import FoldStep, Sequencer
from streams.engine.shard.shard import Shard
from tests.harness_store import DictStore, Snapshot, chain_of
from tests.oracle.model import Line

FAR_FUTURE_MS = 4_102_444_800_000


class TickMeter:
    """One shard of a log."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._settings = ShardSettings(run_start_ms=FAR_FUTURE_MS - FUTURE_MS, snapshots_per_round=2)
        self._store = DictStore()
        self._versions = count(1)
        self._snapshots: list[Snapshot] = []
        self._reference = ReferenceLog()
        self._standing: dict[bytes, ControlEvent] = {}
        self._records: list[tuple[str, LogRecord]] = []  # of the shard, in log order
        self._log: dict[str, list[LogRecord]] = {}
        self.log_ms: list[int] = []  # of each line
        self.messages: list[str] = []  # ids of the changes of status, as they were given out
        newest_ms = 0
        for line in lines:
            value = line.value if isinstance(line.value, bytes) else json.dumps(line.value).encode()
            event = decode(line.topic, value, (), FAR_FUTURE_MS)
            if not isinstance(event, Invalid):
                newest_ms = max(newest_ms, event.time_ms)
            self.log_ms.append(newest_ms)
            self._take(line.topic, value, event, newest_ms)
        self._shard = Shard(0, self._settings, PriceBook.empty())
        self._begin()

    def _take(self, topic: str, value: bytes, event: Event | Invalid, log_ms: int) -> None:
        if isinstance(event, PriceEvent):
            book = self._reference.book.with_events([event])
            self._reference.extend([(log_ms, event)], [], book, self._reference.controls)
        elif isinstance(event, ControlEvent):
            key = f"{event.kind}/{event.name}".encode()
            self._standing = {**self._standing, key: event}
            change = [(log_ms, key, event)]
            self._reference.extend([], change, self._reference.book, self._standing)
        elif topic not in ("prices", "controls"):
            log = self._log.setdefault(topic, [])
            log.append(LogRecord(len(log), log_ms, value))
            self._records.append((topic, log[-1]))

    def _begin(self) -> None:
        self._align = Sequencer(self._shard.position.next, self._shard.position.tick_ms)
        self._view = self._reference.view()

    def read(self, begin: int, end: int, until_ms: int) -> None:
        """Read these records of the shard; no later one has a log time <= until_ms."""
        batches: dict[str, list[LogRecord]] = {}
        for topic, record in self._records[begin:end]:
            batches.setdefault(topic, []).append(record)
        for topic, records in batches.items():
            self._offer(topic, records)
        self._advance(until_ms)

    def _offer(self, topic: str, records: Sequence[LogRecord]) -> None:
        batch = LogBatch(topic, 0, records[0].offset, records[-1].offset + 1, records)
        assert self._align.offer(batch) is None

    def _advance(self, until_ms: int) -> None:
        for step in self._align.steps(lambda *_: until_ms):
            if isinstance(step, FoldStep):
                self._shard.position.tick_ms = self._align.tick_ms
                assert self._shard.fold(step.batch) is None
            else:
                self._shard.judge(step, self._view)

    def checkpoint(self) -> None:
        """Store what there is."""
        self._shard.set_prices(self._reference.book)
        point = self._shard.checkpoint(self.log_ms[-1], next(self._versions), open_attempts=False)
        for name, rows in point.tables.items():
            self._store.insert(name, rows)
        self._snapshots.append(Snapshot(point.version, point.parent, point.snapshot, point.root))
        self.messages += [webhook_id(a.alert_id, a.status, a.changed_ms) for a in point.alerts]

    def restart(self, read_up_to: int, until_ms: int) -> None:
        """Throw all state away and go on from the last snapshot; what was read after it is read again."""
        chain = [snapshot.blob for snapshot in chain_of(self._snapshots)]
        self._shard = Shard.restore(0, self._settings, self._reference.book, chain)
        self._begin()
        known = dict.fromkeys(self._log, 0)
        for topic, _ in self._records[:read_up_to]:
            known[topic] += 1
        for topic, end in known.items():
            again = self._log[topic][self._shard.position.next.get(topic, 0) : end]
            if again:
                self._offer(topic, again)
        self._advance(until_ms)

    def run(self, cuts: Iterable[float] = (), restarts: Iterable[float] = ()) -> None:
        """The whole log, cut at shares of it: with a checkpoint at each cut, without one at each restart."""
        size = len(self._records)
        ends = {int(share * size) for share in cuts} | {size}
        restarts = {int(share * size) for share in restarts} - ends - {0}
        edges = sorted({0, *ends, *restarts})
        for begin, end in pairwise(edges):
            until_ms = self._records[end][1].timestamp - 1 if end < size else self.log_ms[-1]
            self.read(begin, end, until_ms)
            if end in restarts:
                self.restart(end, until_ms)
            else:
                self.checkpoint()

    @property
    def alerts(self) -> list[dict[str, Any]]:
        """The rows of `alerts`, without what names the run."""
        return _rows(self._store, ALERTS, ("started", "alert_id"))

    @property
    def burn_rates(self) -> list[dict[str, Any]]:
        """The rows of `burn_rates`, without what names the run."""
        return _rows(self._store, BURN_RATES, ("job_id", "time"))


def _rows(store: DictStore, table: str, order: tuple[str, ...]) -> list[dict[str, Any]]:
    rows = [{k: v for k, v in row.items() if k != "version"} for row in store.tables[table].values()]
    return sorted(rows, key=lambda row: tuple(row[name] for name in order))


def run(lines: Sequence[Line], cuts: Iterable[float] = (), restarts: Iterable[float] = ()) -> TickMeter:
    """A meter that has read the whole log."""
    meter = TickMeter(lines)
    meter.run(cuts, restarts)
    return meter


__all__ = ["Alert", "TickMeter", "run"]
