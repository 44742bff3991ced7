"""The alerts of a log that is metered in one go, without a fault, a checkpoint or a restart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from schemas.decode import decode
from schemas.events import ControlEvent, PriceEvent
from schemas.tables import ALERTS
from streams.engine.batch import LogBatch
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.engine.shard.sequencer import FoldStep, Sequencer
from streams.engine.shard.shard import Shard
from streams.worker.ledger_judges.known_alerts import RULES
from tests.simulator.log import Log, Part
from tests.simulator.script import Script
from tests.simulator.store import Shelf

Alert = dict[str, Any]

#: What names the run and not the alert.
_OF_THE_RUN: Final = ("version", "shard")


def stored_alerts(shelf: Shelf) -> dict[str, Alert]:
    """The alerts of a run by rules about one job, by id."""
    return {row["alert_id"]: _named(row) for row in shelf.rows(ALERTS) if row["rule"] not in RULES}


def expected_alerts(script: Script, log: Log, last_tick_ms: int) -> dict[str, Alert]:
    """The alerts that stand after the last tick, by id."""
    reference = _reference(script, log)
    shelf = Shelf()
    for number in range(script.partitions):
        shard = Shard(number, script.settings, PriceBook.empty())
        align, view = Sequencer(shard.position.next), reference.view()
        for part in log.shard_parts:
            if part.partition == number:
                records = log.records(part)
                assert align.offer(LogBatch(part.topic, number, 0, records[-1].offset + 1, records)) is None
        for step in align.steps(lambda *_: last_tick_ms):
            shard.position.tick_ms = align.tick_ms if isinstance(step, FoldStep) else step.first_ms
            if isinstance(step, FoldStep):
                assert shard.fold(step.batch) is None
            else:
                shard.judge(step, view)
        tables = shard.tracker.tables(number, 1)
        if ALERTS in tables:
            shelf.insert(ALERTS, tables[ALERTS], f"{number}")
    return stored_alerts(shelf)


def _reference(script: Script, log: Log) -> ReferenceLog:
    """Prices and controls with their log times."""
    reference = ReferenceLog()
    allowed = script.settings.newest_allowed_ms
    prices: list[tuple[int, PriceEvent]] = []
    controls: list[tuple[int, bytes, ControlEvent | None]] = []
    for topic in ("prices", "controls"):
        for record in log.records(Part(topic, 0)):
            event = decode(topic, record.value, list(record.headers), allowed(record.timestamp))
            if isinstance(event, PriceEvent):
                prices.append((record.timestamp, event))
            elif isinstance(event, ControlEvent):
                controls.append((record.timestamp, f"{event.kind}/{event.name}".encode(), event))
    standing = {key: event for _, key, event in controls if event is not None}
    book = PriceBook.empty().with_events([event for _, event in prices])
    reference.extend(prices, controls, book, standing)
    return reference


def _named(row: Alert) -> Alert:
    return {name: value for name, value in row.items() if name not in _OF_THE_RUN}


def alert_differences(got: dict[str, Alert], want: dict[str, Alert]) -> list[str]:
    """One sentence per column that differs."""
    found = []
    for alert_id in sorted(got.keys() | want.keys()):
        mine, theirs = got.get(alert_id), want.get(alert_id)
        if mine is None or theirs is None:
            found.append(f"alert {_shown(mine or theirs)}: {'missing' if mine is None else 'too many'}")
            continue
        found += [
            f"alert {_shown(theirs)}: {name}: got {mine[name]}, want {theirs[name]}"
            for name in theirs
            if mine[name] != theirs[name]
        ]
    return found


def _shown(alert: Alert | None) -> Iterable[Any]:
    assert alert is not None
    return [alert[name] for name in ("rule", "subject_name", "started", "resolved")]
