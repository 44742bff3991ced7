"""Turns of jobs: a job is looked at at one tick in TURNS, at a turn of its own, so that no tick has to look at all jobs."""

from __future__ import annotations

import zlib
from typing import Final

from streams.engine.kernels.burn import TURN_MS
from streams.engine.kernels.episode import TICK_MS

#: Ticks between two looks at a job.
TURNS: Final = TURN_MS // TICK_MS


def turn_of(job_id: str) -> int:
    """Return at which of the TURNS ticks a job is looked at."""
    return zlib.crc32(job_id.encode("utf-8", "surrogatepass")) % TURNS


def turn_at(tick_ms: int) -> int:
    """Return whose turn a tick is."""
    return tick_ms // TICK_MS % TURNS
