"""Overlays the planned rates of one job: disjoint spans; where plans overlap, the smallest name wins."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from schemas.events import ControlEvent

FROM_EVER_MS: Final = 0
FOR_EVER_MS: Final = 2**62


class Planned(NamedTuple):
    """Replaces the expected rate of matching jobs in [from_ms, until_ms)."""

    name: str
    match: Mapping[str, str]
    from_ms: int
    until_ms: int
    nano_per_hour: int
    by: str = ""  # who declared it


def declared_by(event: ControlEvent) -> str:
    """Who set a control: the name of a token, or the source of its record."""
    by = event.value.get("by")
    return by if isinstance(by, str) and by else event.source


def spans(planned: Sequence[Planned]) -> tuple[tuple[int, int, int], ...]:
    """Return disjoint (from_ms, until_ms, nano-dollars per hour) in order; adjacent spans with one rate are merged."""
    cuts = sorted({instant for each in planned for instant in (each.from_ms, each.until_ms)})
    to_come = sorted(planned, key=lambda each: each.from_ms, reverse=True)
    begun: list[tuple[str, int, int]] = []  # a heap of (name, until_ms, rate): the top one is in force
    found: list[tuple[int, int, int]] = []
    for from_ms, until_ms in itertools.pairwise(cuts):
        while to_come and to_come[-1].from_ms <= from_ms:
            each = to_come.pop()
            heappush(begun, (each.name, each.until_ms, each.nano_per_hour))
        while begun and begun[0][1] <= from_ms:
            heappop(begun)
        if not begun:
            continue
        rate = begun[0][2]
        if found and found[-1][1:] == (from_ms, rate):
            found[-1] = (found[-1][0], until_ms, rate)
        else:
            found.append((from_ms, until_ms, rate))
    return tuple(found)
