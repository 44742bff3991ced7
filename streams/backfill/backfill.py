"""Meters files of past events into a store, beside whatever meters into it live.

The function `run_backfill` shows the whole flow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from schemas.events import PriceEvent
from schemas.tables import DEAD_LETTERS, PRICES
from sinks.port import Store
from streams.backfill.histories import Owner, Skipped
from streams.backfill.known import known_owners
from streams.backfill.reading import LINES_TOPIC, ReadFiles, read_files
from streams.backfill.result import BackfillResult, result_of
from streams.backfill.runs import NAMES_KEPT, BackfillRun, LeftOut, LineCounts, Runs
from streams.backfill.shard_meter import ShardMeter
from streams.backfill.sorting import EventSorter
from streams.clock import Clock
from streams.config.settings import Settings
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.rows import price_table
from streams.engine.shard.books import book_tables
from streams.engine.shard.job_tables import dead_letter_table
from streams.errors import WrongUseError
from streams.from_settings import engine, shard_settings
from streams.replay.files import digest
from streams.replay.lines import LineReader
from streams.replay.prices import stored_book

#: Below every record of the log of prices.
_PRICE_VERSION: Final = 0
_LETTER_VERSION: Final = 1


@dataclass(frozen=True)
class Callbacks:
    """Called while a backfill goes on: its progress, and `rest` after each checkpoint."""

    read: Callable[[int], None] = lambda _lines: None
    begin: Callable[[int], None] = lambda _events: None  # how many events there are
    metered: Callable[[int], None] = lambda _events: None
    rest: Callable[[], None] = lambda: None


def run_backfill(
    files: Sequence[Path],
    store: Store,
    settings: Settings,
    clock: Clock,
    until_ms: int | None = None,
    callbacks: Callbacks | None = None,
) -> BackfillResult:
    """Meter the jobs of the files that are over; the same files again change nothing.

    `until_ms`: events from there on are left out; None: the job horizon of the live meter before now.

    Raises:
        WrongUseError: The files do not fit a backfill that did not end.
        TrainfareError: A file cannot be read.
        SinkError: The store cannot be read or written.
    """
    callbacks = Callbacks() if callbacks is None else callbacks
    began_ms, now_ms = clock.monotonic_ms(), clock.now_ms()
    runs = Runs(store.meta)
    digests = {path: digest(path) for path in files}
    if len(set(digests.values())) < len(files):
        raise WrongUseError("a file is named twice, or two have the same content; name each once")
    ordered = sorted(files, key=lambda path: digests[path])  # the sequence depends on contents alone
    run = runs.unfinished(list(digests.values()))
    if until_ms is None:
        until_ms = now_ms - settings.meter.job_horizon_ms if run is None else run.until_ms
    shard = shard_settings(settings.meter, now_ms if run is None else run.started_ms)
    lines = LineReader(settings.kafka.topic_prefix, 1, shard.newest_allowed_ms(0))
    with EventSorter() as sorter:
        read = read_files(ordered, lines, sorter, min(until_ms, now_ms), callbacks.read)
        run = _run_of(runs, run, digests, min(until_ms, read.histories.newest_ms + 1), now_ms)
        book, new_prices = _book(store, read)
        meter = ShardMeter(store, engine(shard), run.shard, book, now_ms, callbacks.rest)
        left_out = _left_out(store, run, read, meter)
        if not run.done:
            run.counts = _counts(read, left_out)
            meter.store_rows(
                _of_files(run, read, new_prices), f"{run.counts.refused.records_in}:{len(new_prices)}"
            )
        if meter.is_repriced and run.done:
            run.done = False  # whoever ends it here leaves something to do
            runs.save()
        if not run.done:
            callbacks.begin(sorter.events)
            meter.feed(sorter.sorted(), lambda event: event.owner in left_out, callbacks.metered)
            meter.finish(run.until_ms - 1)
            meter.store_rows(_line_books(run, meter.version), str(meter.version))
    run.done = True
    runs.save()
    seconds = (clock.monotonic_ms() - began_ms) / 1000
    return result_of(store, run, meter.books, meter.rows, seconds)


def _run_of(
    runs: Runs, unfinished: BackfillRun | None, digests: Mapping[Path, str], until_ms: int, now_ms: int
) -> BackfillRun:
    """The backfill of these files up to this instant, on record before its first row.

    Files that end before `--until` are the same backfill whenever it is run: `until_ms` is next to their newest event.
    """
    if unfinished is not None:
        if unfinished.until_ms != until_ms:
            raise WrongUseError(
                f"--until: backfill {unfinished.number} of these files has not ended; run it again as it was, or take it "
                f"back with --undo {unfinished.number}"
            )
        return unfinished
    ended = runs.ended(list(digests.values()), until_ms)
    return ended or runs.begin(digests, until_ms, now_ms)


def _book(store: Store, read: ReadFiles) -> tuple[PriceBook, list[PriceEvent]]:
    """The store's prices with those of the files that it lacks, and these; what the store has stands."""
    known = {(event.sku, event.effective_ms): event for event in stored_book(store).events}
    read.counts.prices_replaced = sum(
        _says_other(event, known.get((event.sku, event.effective_ms))) for event in read.prices
    )
    of_files = PriceBook.empty().with_events(read.prices).events
    new = [event for event in of_files if (event.sku, event.effective_ms) not in known]
    return PriceBook.empty().with_events([*known.values(), *new]), new


def _says_other(event: PriceEvent, stored: PriceEvent | None) -> bool:
    return stored is not None and any(
        getattr(event, name) != getattr(stored, name)
        for name in ("component", "usd_nano", "per", "gpus", "match")
    )


def _left_out(store: Store, run: BackfillRun, read: ReadFiles, meter: ShardMeter) -> dict[Owner, Skipped]:
    """Return whose events are left out. What this backfill has begun to meter it goes on with."""
    known = known_owners(store, read.histories.of, run.shard, run.until_ms)
    others = {owner: reason for owner, reason in known.items() if not meter.has(owner)}
    return dict(read.histories.unfit(others))


def _counts(read: ReadFiles, left_out: Mapping[Owner, Skipped]) -> LineCounts:
    by_reason = {reason: LeftOut(str(reason)) for reason in Skipped}
    for owner, reason in sorted(left_out.items()):
        found = by_reason[reason]
        found.jobs += not owner.is_node
        found.nodes += owner.is_node
        found.events += read.histories.of[owner].events
        if len(found.names) < NAMES_KEPT:
            found.names.append(owner.name)
    read.counts.left_out = [found for found in by_reason.values() if found.events]
    read.counts.after_until = sum(
        history.late_events for owner, history in read.histories.of.items() if owner not in left_out
    )
    return read.counts


def _of_files(run: BackfillRun, read: ReadFiles, new_prices: Sequence[PriceEvent]) -> dict[str, pa.Table]:
    """The rows that are known before anything is metered: a row of the ledger must not name an unknown price."""
    tables = {}
    if new_prices:
        tables[PRICES] = price_table(new_prices, _PRICE_VERSION)
    if read.letters:
        letters = [letter._replace(partition=run.shard) for letter in read.letters]
        tables[DEAD_LETTERS] = dead_letter_table(letters, _LETTER_VERSION)
    return tables


def _line_books(run: BackfillRun, version: int) -> dict[str, pa.Table]:
    """The record accounting of the refused lines, as of the shard's last snapshot."""
    refused = run.counts.refused
    if not refused.records_in:
        return {}
    tally, ends = {LINES_TOPIC: refused}, {LINES_TOPIC: refused.records_in}
    return book_tables(tally, ends, run.until_ms - 1, 0, run.shard, version)
