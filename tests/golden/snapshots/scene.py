"""The log behind the kept snapshots, and the engine that reads it: half of it before the snapshot, half after.

The log must never change: snapshots of released versions were made of it.  It is written down in log.jsonl, so
that this module may.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from streams.engine.reference_log import ReferenceLog
from streams.engine.settings import FUTURE_MS, ShardSettings
from streams.engine.shard.sequencer import TICK_MS, Ticks
from tests.harness import FAR_FUTURE_MS, Meter
from tests.oracle.model import Line

HERE = Path(__file__).parent
LOG = HERE / "log.jsonl"
#: Lines of the log that end a piece; the last snapshot with the one at END.
PIECES = (60, 150, 300, 420, 450, 480, 510, 540, 580)
END = 580
#: The type of the one event that is refused.
REFUSED = "no such type"
SETTINGS = ShardSettings(
    run_start_ms=FAR_FUTURE_MS - FUTURE_MS, rows_per_checkpoint=20, snapshots_per_round=4
)


def read_log() -> list[Line]:
    """The lines, all of partition 0."""
    values = (json.loads(line) for line in LOG.read_text("utf-8").splitlines())
    return [
        Line(value["topic"], value["value"], valid=value["value"].get("type") != REFUSED) for value in values
    ]


class Judging(Meter):
    """A meter that judges the ticks up to the newest event after each piece."""

    def __init__(self) -> None:
        super().__init__(SETTINGS)

    def read(self, lines: Sequence[Line], begin: int, end: int, *, pay_open: bool) -> None:
        """Read these lines, judge, and pay open attempts if asked."""
        self.feed(list(enumerate(lines))[begin:end])
        self.judge()
        if pay_open:
            self.checkpoint(self.newest_ms)

    def judge(self) -> None:
        """The ticks that are due, with the prices of now."""
        shard = self.shards[0]
        first_ms = shard.position.tick_ms or self.newest_ms // TICK_MS * TICK_MS
        last_ms = self.newest_ms // TICK_MS * TICK_MS
        if first_ms <= last_ms:
            shard.judge(Ticks(first_ms, last_ms), ReferenceLog(self.book, {}).view())
