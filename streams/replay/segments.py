"""Records which log a store belongs to: the files replayed into it, in order, and how far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from schemas.events import ControlEvent, PriceEvent
from schemas.redaction import WITHHELD
from sinks.meta import Meta
from streams.engine.alerts.receiver_records import KINDS as RECEIVER_KINDS
from streams.engine.shard.books import Books
from streams.errors import TrainfareError, WrongUseError
from streams.replay.log_clock import FIRST_LOG_MS, AheadClock, ClockKey, LogClock
from streams.worker.ledger_judges.own_rules_judge import FailedRule

_KEY: Final = "replayed"
_FORMAT: Final = 1
LOG_KEY: Final = "log"
LOG_OF_FILES: Final = "replayed files"


class LogSegment(msgspec.Struct):
    """One replay: its files, the position of the log before it, and after it once it is `done`."""

    files: list[str]  # digests
    run_start_ms: int
    base: dict[str, list[int]]  # topic -> records per partition before it
    newest_ms: int  # log time before it
    end: dict[str, list[int]] = {}
    end_newest_ms: int = 0
    ahead: list[tuple[ClockKey, AheadClock]] = []  # clocks known before it to run ahead
    end_ahead: list[tuple[ClockKey, AheadClock]] = []
    books: Books = msgspec.field(
        default_factory=Books
    )  # of lines, prices and controls; the shards count their own
    total: Books = msgspec.field(default_factory=Books)  # of everything up to its end
    as_of_ms: int | None = None
    done: bool = False
    controls: list[tuple[bytes, ControlEvent]] = []  # in force at its end
    # Until it is done, the prices at its beginning: the table soon includes later ones, too.
    prices: list[PriceEvent] | None = None
    control_faults: list[str] = []  # of its controls that have no effect, each with its file and line
    clocks_ahead: list[str] = []  # a sentence for each clock that was ahead of the others at its end
    failed_rules: list[FailedRule] = []  # rules by SQL that could not be judged at some instant of it
    ignored_fields: list[str] = []  # of its records, a sentence for each

    def clock(self) -> LogClock:
        """The log time at its beginning."""
        ahead = {sender: msgspec.structs.replace(clock) for sender, clock in self.ahead}
        return LogClock(max(self.newest_ms, FIRST_LOG_MS), ahead)


class Replayed(msgspec.Struct):
    """All replays into one store."""

    partitions: int
    segments: list[LogSegment] = []
    format: int = _FORMAT

    @property
    def last(self) -> LogSegment:
        """The current replay."""
        return self.segments[-1]

    def clock_ms(self, where: Path) -> int:
        """The accrual instant of the last replay.

        Raises:
            WrongUseError: The last replay has not ended.
        """
        if not self.last.done:
            raise WrongUseError(
                f"{where} holds a replay that did not end; finish it first (the same command again)"
            )
        return self.last.end_newest_ms if self.last.as_of_ms is None else self.last.as_of_ms

    def controls_before(self, segment: LogSegment) -> dict[bytes, ControlEvent]:
        """The controls in force when the replay began."""
        before = self.segments[: self.segments.index(segment)]
        return dict(before[-1].controls) if before else {}

    def begin(self, digests: Mapping[Path, str], now_ms: int, *, append: bool, where: Path) -> LogSegment:
        """The segment of these files: a known one to resume, or a new one.

        Raises:
            WrongUseError: The files do not fit what was replayed before.
        """
        names = list(digests.values())
        for segment in self.segments:
            if segment.files == names:
                return segment
        if self.segments and not append:
            raise WrongUseError(
                f"{where} holds the replay of other files; replay into another directory, or go on from there "
                "with --append"
            )
        if self.segments:
            self.clock_ms(where)  # check that the last one has ended
        known = {name for segment in self.segments for name in segment.files}
        again = [str(path) for path, name in digests.items() if name in known]
        if again:
            raise WrongUseError(f"already replayed into {where}: {', '.join(again)}")
        before = self.last if self.segments else None
        segment = LogSegment(
            files=names,
            run_start_ms=now_ms,
            base={} if before is None else before.end,
            newest_ms=0 if before is None else before.end_newest_ms,
            ahead=[] if before is None else before.end_ahead,
        )
        self.segments.append(segment)
        return segment

    def files_before(self, segment: LogSegment) -> int:
        """How many files came before the segment's first: lines are numbered by their file's position in the chain."""
        return sum(len(one.files) for one in self.segments[: self.segments.index(segment)])

    def books(self) -> Books:
        """The record accounting of all replays outside the shards."""
        total = Books()
        for segment in self.segments:
            total = total.plus(segment.books)
        return total


def load(meta: Meta, partitions: int) -> Replayed:
    """What was replayed into a store.

    Raises:
        TrainfareError: The store belongs to a live log, or its record cannot be read.
    """
    meta.set_once(LOG_KEY, LOG_OF_FILES, "a replay needs a directory of its own")
    stored = meta.get(_KEY)
    if stored is None:
        return Replayed(partitions)
    try:
        replayed = msgspec.json.decode(stored, type=Replayed)
    except msgspec.MsgspecError as fault:
        raise TrainfareError(f"the store's record of its replays cannot be read: {fault}") from fault
    if replayed.format != _FORMAT:
        raise TrainfareError(
            f"the store's replays have format {replayed.format}, this version knows {_FORMAT}"
        )
    return replayed


def save(meta: Meta, replayed: Replayed) -> None:
    """Store it; called before the first record of a segment and after its last checkpoint.

    Any user of the store can read it, so it contains no owners' addresses: files replayed later must contain the
    addresses of the owners to deliver to.
    """
    segments = [
        msgspec.structs.replace(
            each, controls=[(key, _without_address(event)) for key, event in each.controls]
        )
        for each in replayed.segments
    ]
    meta.put(_KEY, msgspec.json.encode(msgspec.structs.replace(replayed, segments=segments)).decode())


def _without_address(event: ControlEvent) -> ControlEvent:
    """The control without anything that looks like an address."""
    value = {
        name: WITHHELD if isinstance(item, str) and "://" in item else item
        for name, item in event.value.items()
        if event.kind not in RECEIVER_KINDS
    }
    return msgspec.structs.replace(event, value=value)


def counts(
    places: Mapping[tuple[str, int], int], topics: Sequence[str], partitions: int
) -> dict[str, list[int]]:
    """Records per topic and partition, in the form of a segment."""
    return {topic: [places.get((topic, number), 0) for number in range(partitions)] for topic in topics}
