"""The record of all backfills of a store: their files, their shards, and whether they ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from schemas.escaping import visible
from schemas.reserved import FIRST_BACKFILL_SHARD
from sinks.meta import Meta
from streams.engine.shard.books import Tally
from streams.errors import TrainfareError, WrongUseError

_KEY: Final = "backfills"
_FORMAT: Final = 1
_SHARDS: Final = 2**16 - FIRST_BACKFILL_SHARD - 1
#: Names of what was left out that are kept for each reason.
NAMES_KEPT: Final = 100


class LeftOut(msgspec.Struct):
    """What was left out for one reason: jobs and nodes, their events, and the first names."""

    reason: str
    jobs: int = 0
    nodes: int = 0
    events: int = 0
    names: list[str] = []


class LineCounts(msgspec.Struct):
    """Where the lines of the files went, but for those that the shard counts."""

    lines: int = 0
    refused: Tally = msgspec.field(default_factory=Tally)
    prices: int = 0
    prices_replaced: int = 0  # of these, those for which the store has another price, which stands
    controls: int = 0
    after_until: int = 0  # of nodes
    left_out: list[LeftOut] = []

    @property
    def outside(self) -> int:
        """How many lines did not go to the shard."""
        left_out = sum(each.events for each in self.left_out)
        return self.refused.records_in + self.prices + self.controls + self.after_until + left_out


class BackfillRun(msgspec.Struct):
    """One backfill."""

    number: int
    files: list[str]  # digests, sorted
    names: list[str]  # of the files, as they were given
    started_ms: int
    until_ms: int  # events from here on are left out
    done: bool = False
    undone: bool = False
    counts: LineCounts = msgspec.field(default_factory=LineCounts)

    @property
    def shard(self) -> int:
        """The number of its shard."""
        return FIRST_BACKFILL_SHARD + self.number


class _StoredRuns(msgspec.Struct):
    runs: list[BackfillRun]
    format: int = _FORMAT


class Runs:
    """The record; `save` after each change."""

    def __init__(self, meta: Meta) -> None:
        """Read it.

        Raises:
            TrainfareError: It cannot be read.
        """
        self._meta = meta
        stored = meta.get(_KEY)
        try:
            found = _StoredRuns([]) if stored is None else msgspec.json.decode(stored, type=_StoredRuns)
        except msgspec.MsgspecError as fault:
            raise TrainfareError(f"the store's record of its backfills cannot be read: {fault}") from fault
        if found.format != _FORMAT:
            raise TrainfareError(
                f"the store's backfills have format {found.format}, this version knows {_FORMAT}"
            )
        self.all = found.runs

    def save(self) -> None:
        """Store it."""
        self._meta.put(_KEY, msgspec.json.encode(_StoredRuns(self.all)).decode())

    def unfinished(self, digests: Sequence[str]) -> BackfillRun | None:
        """The backfill of these files that did not end, if there is one.

        Raises:
            WrongUseError: Another one did not end.
        """
        for run in self.all:
            if run.done or run.undone:
                continue
            if run.files != sorted(digests):
                raise WrongUseError(
                    f"backfill {run.number} of {_shown(run.names)} has not ended; run it again to its end, or take it "
                    f"back with --undo {run.number}"
                )
            return run
        return None

    def ended(self, digests: Sequence[str], until_ms: int) -> BackfillRun | None:
        """The backfill of these files up to this instant that ended."""
        for run in self.all:
            if run.done and not run.undone and (run.files, run.until_ms) == (sorted(digests), until_ms):
                return run
        return None

    def begin(self, digests: Mapping[Path, str], until_ms: int, now_ms: int) -> BackfillRun:
        """A new backfill, on record. A number is never used again.

        Raises:
            WrongUseError: There were too many.
            TrainfareError: Another process began one at the same time.
        """
        if len(self.all) >= _SHARDS:
            raise WrongUseError(f"this store has had {_SHARDS} backfills, and has no room for more")
        names = [str(path)[-500:] for path in digests]
        run = BackfillRun(len(self.all) + 1, sorted(digests.values()), names, now_ms, until_ms)
        self.all.append(run)
        self.save()
        if Runs(self._meta).all != self.all:
            raise TrainfareError("another backfill began at the same time; run this one when that has ended")
        return run

    def to_undo(self, number: int) -> BackfillRun:
        """A backfill that may be taken back.

        Raises:
            WrongUseError: There is none of this number, or another one has not ended.
        """
        going = [run for run in self.all if not (run.done or run.undone)]
        if going and going[0].number != number:
            raise WrongUseError(
                f"backfill {going[0].number} of {_shown(going[0].names)} has not ended, and counts on what others have "
                "metered; let it end, or take it back first"
            )
        for run in self.all:
            if run.number == number and not run.undone:
                return run
        raise WrongUseError(f"there is no backfill {number}; `trainfare backfill --list` shows all")


def _shown(names: Sequence[str]) -> str:
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return visible(", ".join(name[:200] for name in names[:3])) + rest
