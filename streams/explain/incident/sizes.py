"""How many GPUs attempts held, and when that changed: from the minutes of the ledger, as an attempt's row has its last size alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from schemas.durations import MINUTE_MS


class AttemptSize(NamedTuple):
    """A number of GPUs that an attempt held from an instant on, for a whole minute at least."""

    from_ms: int
    gpus: float


def sizes_of(rows: Iterable[Mapping[str, Any]], until_ms: int) -> dict[tuple[str, int], list[AttemptSize]]:
    """The sizes of attempts in order of time, by (job, attempt).

    Args:
        rows: Of `sql.SIZES`.
        until_ms: Up to when minutes are known, ms since 1970.
    """
    found = {}
    for key, of_attempt in groupby(rows, key=lambda row: (row["job_id"], row["attempt"])):
        changes = [(int(row["minute_ms"]), float(row["gpus"])) for row in of_attempt]
        found[key] = [*_sizes(changes, until_ms)]
    return found


def _sizes(changes: Sequence[tuple[int, float]], until_ms: int) -> Iterator[AttemptSize]:
    """Yield the sizes that lasted: a minute in which it began, changed or ended has an average of two."""
    last: AttemptSize | None = None
    for place, (minute_ms, gpus) in enumerate(changes):
        next_ms = changes[place + 1][0] if place + 1 < len(changes) else until_ms
        if next_ms < minute_ms + 2 * MINUTE_MS or (last is not None and last.gpus == gpus):
            continue
        from_ms = minute_ms
        if last is not None and place:
            mixed_ms, average = changes[place - 1]
            share = (gpus - average) / (gpus - last.gpus)
            if mixed_ms == minute_ms - MINUTE_MS and 0 < share < 1:
                from_ms = mixed_ms + round(share * MINUTE_MS)
        last = AttemptSize(from_ms, gpus)
        yield last
