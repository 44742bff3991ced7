"""Spreads checks of jobs over the ticks of five minutes, so that no tick has to check all of them.

Each job is checked at one tick of every five minutes, its turn, which a hash of its id chooses.
"""

from __future__ import annotations

import zlib
from typing import Final

from streams.engine.kernels.burn import TURN_MS
from streams.engine.kernels.episode import TICK_MS

#: Ticks between two checks of a job.
TURNS: Final = TURN_MS // TICK_MS


def turn_of(job_id: str) -> int:
    """Return the turn of a job: 0 to TURNS - 1."""
    return zlib.crc32(job_id.encode("utf-8", "surrogatepass")) % TURNS


def turn_at(tick_ms: int) -> int:
    """Return the turn of the jobs that are checked at a tick."""
    return tick_ms // TICK_MS % TURNS
