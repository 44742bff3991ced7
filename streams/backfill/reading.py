"""Reads the files of a backfill once: events into the sorter, prices apart, and each refused line as a dead letter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from schemas.escaping import visible
from schemas.events import PriceEvent
from schemas.invalid import Invalid
from schemas.redaction import kept_raw
from streams.backfill.histories import Histories
from streams.backfill.runs import LineCounts
from streams.backfill.sorting import EventSorter
from streams.engine.shard.job_tables import DeadLetter
from streams.replay.files import FileLine, read_lines
from streams.replay.lines import LineReader
from streams.topics import Topic

#: The topic name of refused lines in the dead letters; the offset is the number of the refused line, from 0.
LINES_TOPIC: Final = "backfill"
#: Refused lines that are stored; all are counted.
_LETTERS_STORED: Final = 10_000
_RAW_BYTES_AT_MOST: Final = 64 * 1024
_ADVANCE_EVERY: Final = 1_000


@dataclass
class ReadFiles:
    """What was read. `counts` lacks what is left out, and the letters the number of their shard."""

    histories: Histories
    counts: LineCounts = field(default_factory=LineCounts)
    prices: list[PriceEvent] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)


def read_files(
    files: Sequence[Path],
    lines: LineReader,
    sorter: EventSorter,
    until_ms: int,
    advance: Callable[[int], None],
) -> ReadFiles:
    """Read all lines; events before `until_ms` go to the sorter.

    Raises:
        TrainfareError: A file cannot be read to its end.
    """
    read = ReadFiles(Histories(until_ms))
    for line in read_lines(files):
        _take(line, files[line.file], lines, sorter, until_ms, read)
        read.counts.lines += 1
        if read.counts.lines % _ADVANCE_EVERY == 0:
            advance(_ADVANCE_EVERY)
    return read


def _take(
    line: FileLine, path: Path, lines: LineReader, sorter: EventSorter, until_ms: int, read: ReadFiles
) -> None:
    opened = lines.open(line)
    if isinstance(opened, DeadLetter):
        _refuse(read, opened, f"{path}:{line.number}: {opened.detail}")
        return
    event = opened.event
    if isinstance(event, Invalid):
        raw = kept_raw(opened.topic, event.reason, opened.value or b"")[:_RAW_BYTES_AT_MOST]
        detail = f"{path}:{line.number}: {opened.topic}: {event.detail}"
        letter = DeadLetter(opened.topic, 0, 0, str(event.reason), event.detail, raw, lines.newest_ms)
        _refuse(read, letter, detail)
        return
    lines.clock.newest_ms = max(lines.newest_ms, event.time_ms)  # of dead letters alone
    owner = read.histories.add(event)
    if isinstance(event, PriceEvent):
        read.counts.prices += 1
        read.prices.append(event)
    elif owner is None:
        read.counts.controls += 1
    elif event.time_ms < until_ms and opened.value is not None:
        sorter.add(event.time_ms, Topic(opened.topic), owner, opened.value, opened.headers)


def _refuse(read: ReadFiles, letter: DeadLetter, detail: str) -> None:
    """Count a refused line under its own number, and keep it unless there are too many."""
    tally = read.counts.refused
    is_stored = len(read.letters) < _LETTERS_STORED
    if is_stored:
        read.letters.append(
            letter._replace(topic=LINES_TOPIC, offset=tally.records_in, detail=visible(detail))
        )
    tally.records_in += 1
    tally.dead_lettered += 1
    tally.bury(letter.reason, stored=is_stored)
