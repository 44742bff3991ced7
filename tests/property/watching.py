"""Shards that are fed a log in pieces, with ticks between, and restored from snapshots: the engine without I/O."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count

from schemas.decode import decode
from schemas.events import ControlEvent, PriceEvent
from schemas.tables import ALERTS, BURN_RATES
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog, ReferenceView
from streams.engine.settings import FUTURE_MS, ShardSettings
from streams.engine.shard.sequencer import FoldStep, Sequencer, Ticks
from streams.engine.shard.shard import Shard
from tests.harness import FAR_FUTURE_MS
from tests.harness_store import DictStore, Row, Snapshot, chain_of
from tests.oracle.knowledge import Told

SETTINGS = ShardSettings(
    run_start_ms=FAR_FUTURE_MS - FUTURE_MS, rows_per_checkpoint=200, snapshots_per_round=3
)
REFERENCE = ("prices", "controls")


class Watching:
    """All shards of a log."""

    def __init__(self, told: Sequence[Told]) -> None:
        self.told = told
        self.read = 0  # so many lines
        self.reference = ReferenceLog()
        self.logs: dict[tuple[int, str], list[LogRecord]] = {}
        self.shards: dict[int, Shard] = {}
        self.aligned: dict[int, Sequencer] = {}
        self.views: dict[int, ReferenceView] = {}
        self.snapshots: dict[int, list[Snapshot]] = {}
        self.store = DictStore()
        self.store.tables |= {ALERTS: {}, BURN_RATES: {}}
        self.versions = count(1)

    def feed(self, until: int) -> None:
        """Read on to this line; ticks are judged as far as no later line can speak of them."""
        prices: list[tuple[int, PriceEvent]] = []
        controls: list[tuple[int, bytes, ControlEvent | None]] = []
        for log_ms, line in self.told[self.read : until]:
            value = json.dumps(line.value).encode()
            if line.topic in REFERENCE:
                event = decode(line.topic, value, [], SETTINGS.newest_allowed_ms(0))
                if isinstance(event, PriceEvent):
                    prices.append((log_ms, event))
                elif isinstance(event, ControlEvent):
                    controls.append((log_ms, f"{event.kind}/{event.name}".encode(), event))
                continue
            records = self.logs.setdefault((line.partition, line.topic), [])
            records.append(LogRecord(len(records), log_ms, value, []))
            if line.partition not in self.shards:
                self._hold(Shard(line.partition, SETTINGS, PriceBook.empty()))
        self.read = until
        standing = {
            **self.reference.controls,
            **{key: event for _, key, event in controls if event is not None},
        }
        book = self.reference.book.with_events([event for _, event in prices])
        self.reference.extend(prices, controls, book, standing)
        for number in self.shards:
            self._offer(number)

    def _hold(self, shard: Shard) -> None:
        self.shards[shard.number] = shard
        self.aligned[shard.number] = Sequencer(shard.position.next, shard.position.tick_ms)
        self.views[shard.number] = self.reference.view()
        self.snapshots.setdefault(shard.number, [])

    def _offer(self, number: int) -> None:
        """Hand over what was read and not yet offered, and do what may be done."""
        shard, align = self.shards[number], self.aligned[number]
        for (of, topic), records in self.logs.items():
            fresh = records[align.next_offset(topic) :]
            if of == number and fresh:
                end = fresh[-1].offset + 1
                assert align.offer(LogBatch(topic, number, fresh[0].offset, end, fresh)) is None
        # The last line read may be followed by others of the same log time; at the end by none.
        newest_ms = self.told[self.read - 1].log_ms
        quiet_ms = newest_ms if self.read == len(self.told) else newest_ms - 1
        for step in align.steps(lambda _topic, _offset: quiet_ms):
            # The shard's snapshot says which tick is next.
            shard.position.tick_ms = step.first_ms if isinstance(step, Ticks) else align.tick_ms
            if isinstance(step, FoldStep):
                assert shard.fold(step.batch) is None
            else:
                shard.judge(step, self.views[number])

    def checkpoint(self) -> None:
        """Rows and a snapshot of every shard."""
        for number, shard in self.shards.items():
            shard.set_prices(self.reference.book)
            for version in self.versions:
                taken = shard.checkpoint(self.told[self.read - 1].log_ms, version, open_attempts=False)
                for name, rows in taken.tables.items():
                    self.store.insert(name, rows)
                self.snapshots[number].append(
                    Snapshot(taken.version, taken.parent, taken.snapshot, taken.root)
                )
                if not taken.more:
                    break

    def crash(self, lost: int) -> None:
        """Restore every shard without its `lost` newest snapshots (their rows stay), and read the log again."""
        for number, snapshots in self.snapshots.items():
            left = snapshots[: len(snapshots) - lost]
            self.snapshots[number] = left
            blobs = [snapshot.blob for snapshot in chain_of(left)]
            self._hold(Shard.restore(number, SETTINGS, self.reference.book, blobs))
            self._offer(number)

    def rows(self, table: str) -> list[Row]:
        """What the store holds."""
        return list(self.store.tables[table].values())
