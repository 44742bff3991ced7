"""What a worker says of itself, as values: counters for the metrics, checks for its readiness.

It must not know who fills it in, nor how it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

_NONE: Mapping[str, int] = MappingProxyType({})


class Check(msgspec.Struct, frozen=True):
    """One thing that must hold before the worker counts as ready."""

    name: str
    ok: bool
    detail: str  # for people: the address, and what is wrong with it


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a worker. Counters are of this process: they begin at 0 with it and never fall."""

    checks: tuple[Check, ...] = ()
    records: Mapping[str, int] = _NONE  # by outcome; their sum is what came in
    gpu_samples_late: int = 0
    costs_capped: int = 0
    rows_stored: Mapping[str, int] = _NONE  # by table
    checkpoints: int = 0
    inserts_refused: int = 0
    backlog_bytes: int = 0
    shards_held: int = 0
    shards_restoring: int = 0
    checkpoint_age_ms: int | None = None  # since all that was read was stored; None: nothing was yet
    watermark_age_ms: int | None = (
        None  # by which the newest event metered is behind the clock; None: no event yet
    )
    courier_pending: int | None = None  # messages that are still to be delivered; None: nothing is sent
