"""A story as a log: its records in order, in parts, and a judge that starts anew at each part, as one of a replay does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from schemas.events import Component, ControlEvent, PriceEvent
from schemas.tables import BOOKS
from schemas.units import Per
from sinks.clickhouse import ClickHouseStore
from streams.clock import ManualClock
from streams.engine.alerts.alert import Alert
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.replay.replayed_judge import LogJudge
from streams.worker.ledger_judges.live_judge import LedgerRules
from streams.worker.shards.owned_shard import OwnedShard, Takeover
from streams.worker.shards.ports import NoAlertSink
from streams.worker.shards.versions import VersionClock
from tests.property.ledger_stories import CENT_NANO, LENGTH, T0, Story
from tests.sinks.rows import rows
from tests.sinks.stores import empty
from tests.worker.fakes import CountingShard, State, as_shard
from tests.worker.ledger_lab import MINUTE_MS, at

_T = TypeVar("_T")
END_MS = T0 + LENGTH * MINUTE_MS


class Record(NamedTuple):
    """One record of the log; what a job or node says is in the ledger."""

    minute: int
    price: PriceEvent | None = None
    control: tuple[bytes, ControlEvent | None] | None = None


def records_of(story: Story) -> list[Record]:
    """All of a story in log order; of one minute, jobs come before prices and prices before controls."""
    found = [Record(job.start) for job in story.jobs]
    found += [Record(job.start + job.length) for job in story.jobs]
    for sku, minute, cents, said in story.prices:
        event = PriceEvent(
            source="t", id=str(said), time_ms=T0 + said * MINUTE_MS, sku=sku, component=Component.gpu,
            usd_nano=cents * CENT_NANO, per=Per.gpu_hour, gpus=1, effective_ms=T0 + minute * MINUTE_MS, match={},
        )  # fmt: skip
        found.append(Record(said, price=event))
    for minute, record in story.controls:
        value: dict[str, Any] = {k: v for k, v in record.items() if k not in ("kind", "name", "ends")}
        kind, name = record["kind"], record["name"]
        control = ControlEvent(source="t", id=name, time_ms=1, kind=kind, name=name, value=value)
        key = f"{kind}/{name}".encode()
        found.append(Record(minute, control=(key, None if record.get("ends") else control)))
    return sorted(found, key=lambda each: each.minute)


class Chronicle:
    """Prices and controls of the parts of a log, one after the other."""

    def __init__(self) -> None:
        self._book = PriceBook.empty()
        self._standing: dict[bytes, ControlEvent] = {}

    def part(self, records: Iterable[Record]) -> ReferenceLog:
        """The next part as a reader has it: what came before has no log times any more."""
        reference = ReferenceLog(self._book, dict(self._standing))
        prices, controls = [], []
        for record in records:
            log_ms = T0 + record.minute * MINUTE_MS if record.minute else 0
            if record.price is not None:
                prices.append((log_ms, record.price))
            if record.control is not None:
                key, event = record.control
                controls.append((log_ms, key, event))
                self._standing.pop(key, None)
                self._standing |= {} if event is None else {key: event}
        self._book = self._book.with_events([event for _, event in prices])
        reference.extend(prices, controls, self._book, dict(self._standing))
        return reference


def owner_of_shard_0(generation: int = 1) -> OwnedShard:
    """Who judges."""
    versions = VersionClock(0, generation)
    shard = as_shard(CountingShard(0, PriceBook.empty(), State()))
    return OwnedShard(0, shard, versions, Takeover(0, versions.next()))


async def judged(store: ClickHouseStore, story: Story, cuts: Sequence[int]) -> list[Alert]:
    """All changes, of the log cut before the records with these numbers."""
    empty(store.target)
    records, chronicle, found = records_of(story), Chronicle(), list[Alert]()
    places = [0, *sorted(set(cuts)), len(records)]
    for number, (begin, end) in enumerate(pairwise(places), 1):
        part = records[begin:end]
        reference = chronicle.part(part)
        minute = LENGTH if end == len(records) else part[-1].minute if part else 0
        story.until(minute).store(store, number)
        judge = LogJudge(store, reference.view())
        found += await judge.judge(owner_of_shard_0(number), T0 + minute * MINUTE_MS)
    return found


class _Told(NoAlertSink):
    """What is offered: a new owner offers again what it finds."""

    def __init__(self) -> None:
        self.changes: dict[tuple[str, str, int], Alert] = {}

    def offer(self, alerts: Iterable[Alert], shard: int) -> None:
        for alert in alerts:
            self.changes.setdefault((alert.alert_id, alert.status, alert.changed_ms), alert)


def _same(value: _T) -> _T:
    return value


async def looked(store: ClickHouseStore, story: Story, looks: Sequence[tuple[int, bool]]) -> list[Alert]:
    """All changes that workers offer who look at the log's tables at these minutes; at those with True there is a new owner."""
    empty(store.target)
    reference, told, clock = Chronicle().part(records_of(story)), _Told(), ManualClock(T0)
    rules: LedgerRules | None = None
    for number, (minute, is_taken_over) in enumerate(sorted({*looks, (LENGTH, False)}), 1):
        story.until(minute).store(store, number)
        accrued = at(T0 + minute * MINUTE_MS)
        books = {"topic": "jobs", "partition": 0, "shard": 0, "time": accrued, "read_to": accrued}
        store.insert(BOOKS, rows(BOOKS, {**books, "version": number}), f"books:{number}")
        clock.advance(T0 + minute * MINUTE_MS - clock.now_ms())
        if rules is None or is_taken_over:
            begun_ms = T0 if rules is None else None  # only the first one reads the log from its first record
            owner = owner_of_shard_0(number)
            rules = LedgerRules(
                store,
                partial(_same, owner),
                lambda: True,
                reference,
                told,
                clock,
                begun_ms=partial(_same, begun_ms),
            )
        await rules.step()
        await rules.issue_receipts()
    return [*told.changes.values()]
