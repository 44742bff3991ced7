"""How the progress of a job moves, as docs/rules.md has it, from its events in the order in which they were read.

Must import nothing of the project.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.oracle.intake import attempt_of
from tests.oracle.model import Json
from tests.oracle.timeline import event_order

Key = tuple[int, tuple[int, int, str, str]]


class Reported(NamedTuple):
    """One time in which an attempt reported the same values: its first and last report, and how many there were."""

    from_ms: int
    to_ms: int
    reports: int


def reported(events: Iterable[Json]) -> tuple[int, list[Reported]]:
    """The newest attempt that reported progress, and its times of equal values; the last one is of now."""
    of_attempt, newest = 0, None
    times: list[Reported] = []
    known: dict[str, tuple[Key, float]] = {}
    for event in events:
        values = event.get("progress") or {}
        key = (attempt_of(event), event_order(event))
        at_ms = event["time_ms"]
        if values and key[0] > of_attempt:
            of_attempt, newest, times = key[0], key, [Reported(at_ms, at_ms, 1)]
        elif newest is not None and key[0] == of_attempt and key > newest:
            # "a checkpoint counts as progress"
            saves = event["type"] == "checkpointed"
            mine = {name: value for name, (said, value) in known.items() if said[0] == of_attempt}
            moves = any(mine.get(name) != value for name, value in values.items())
            if saves or moves:
                newest, times = key, [*times, Reported(at_ms, at_ms, 1)]
            elif values:
                last = times[-1]
                newest, times = key, [*times[:-1], Reported(last.from_ms, at_ms, last.reports + 1)]
        for name, value in values.items():
            if name not in known or known[name][0] < key:
                known[name] = (key, value)
    return of_attempt, times
