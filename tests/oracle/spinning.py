"""Which jobs are busy and do nothing, judged the plain way: minute by minute, at one instant.

Must import nothing of the project. A minute is its number since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Minute(NamedTuple):
    """What a job's GPUs did in a minute, in permille; None: that is not sampled. The most power of one of them in watts, 0: likewise."""

    busy: int
    sm: int | None
    tensor: int | None
    power_w: int


def _is_inactive(use: Minute) -> bool:
    """ "their multiprocessors (10 %) and tensor cores (2 %) do nothing", as far as these are sampled"""
    return (use.sm is None or use.sm <= 100) and (use.tensor is None or use.tensor <= 20)


def _power_before(minutes: Mapping[int, Minute], until: int) -> float | None:
    before = [minutes[each] for each in range(until - 360, until) if each in minutes]
    worked = sorted(
        use.power_w
        for use in before
        if use.busy >= 500 and (use.sm is use.tensor is None or not _is_inactive(use))
    )
    if len(worked) < 10:
        return None
    best = worked[len(worked) // 2 :]
    middle = len(best) // 2
    return round(best[middle] if len(best) % 2 else (best[middle - 1] + best[middle]) / 2)


def _spins(minutes: Mapping[int, Minute], number: int, before_w: float) -> bool:
    use = minutes.get(number)
    if use is None or use.busy < 900 or not _is_inactive(use):
        return False
    if use.power_w and before_w:
        return use.power_w <= before_w / 2
    return use.sm is not None or use.tensor is not None


def spinning(
    minutes: Mapping[int, Minute], at_minute: int, opened_minute: int | None, wait: int = 12
) -> bool:
    """ "for 12 min all of its GPUs are 90 % busy while ..., after 10 min of work; until 5 min without"; `opened_minute`: it fires."""
    until = at_minute - 2
    if opened_minute is not None:
        before_w = _power_before(minutes, opened_minute - 2) or 0
        return any(_spins(minutes, each, before_w) for each in range(until - 5, until))
    known_w = _power_before(minutes, until)
    if known_w is None:
        return False
    length = 0
    while _spins(minutes, until - 1 - length, known_w):
        length += 1
    if length < wait:
        return False
    run = 0
    for each in range(until - length - 360, until - length):
        run = run + 1 if _spins(minutes, each, known_w) else 0
        if 2 * length < 3 * run:
            return False
    return True
