"""How busy the machine was with what is not ours: a shared machine makes a wall clock worthless, and must be seen to."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from loadtest.peers.task import cpu_of

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IDLE_FIELDS = (3, 4)


class Meter:
    """Use it as a context manager; then `others_cores` is the mean over the block."""

    def __init__(self) -> None:
        self.others_cores = 0.0

    def __enter__(self) -> Self:
        self._began_s, self._others_s = time.monotonic(), _others_s()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        took_s = max(time.monotonic() - self._began_s, 1e-6)
        self.others_cores = max(0.0, (_others_s() - self._others_s) / took_s)


def _others_s() -> float:
    return _busy_s() - sum(map(_cpu_or_none, (os.getpid(), *descendants(os.getpid()))))


def _busy_s() -> float:
    fields = [
        int(each) for each in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
    ]
    return (sum(fields) - sum(fields[each] for each in _IDLE_FIELDS)) / _TICKS_PER_S


def descendants(of: int) -> list[int]:
    """All processes that descend from one, itself not."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, waiting = [], [of]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def _cpu_or_none(process: int) -> float:
    try:
        return cpu_of(process)
    except OSError:
        return 0.0
