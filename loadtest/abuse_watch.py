"""What a worker holds while it is attacked: memory, open files, and the processes that run users' SQL for it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from loadtest.soak_world import MIB

_EVERY_S: Final = 0.25
_QUERY_PROCESS: Final = b"sinks.query.child"
_PROC: Final = Path("/proc")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Held(NamedTuple):
    """One look."""

    at_s: float
    rss_mib: float
    files: int  # open descriptors
    queries: int  # processes that run users' SQL
    queries_mib: float  # what these hold for themselves, all together
    queries_cpu_s: float
    shared_mib: float  # of the whole machine: answers lie there until they are sent


def look(pid: int, at_s: float, proc: Path = _PROC) -> Held | None:
    """Look at a worker; None once it has ended."""
    try:
        rss_mib = _mib(_fields(proc / str(pid) / "status"), "VmRSS")
        files = len(list((proc / str(pid) / "fd").iterdir()))
        children = query_processes(pid, proc)
        shared_mib = _mib(_fields(proc / "meminfo"), "Shmem")
    except (OSError, KeyError):
        return None
    held = [_child(child, proc) for child in children]
    return Held(
        at_s,
        rss_mib,
        files,
        len(held),
        sum(each[0] for each in held),
        sum(each[1] for each in held),
        shared_mib,
    )


def query_processes(pid: int, proc: Path = _PROC) -> list[int]:
    """The children of a worker that run users' SQL; the system lists them by the thread that started each."""
    found: list[int] = []
    for task in (proc / str(pid) / "task").iterdir():
        try:
            children = (task / "children").read_text(encoding="ascii").split()
            found += [int(each) for each in children if is_query_process(int(each), proc)]
        except OSError:
            continue  # the thread, or the process, has ended
    return found


def is_query_process(pid: int, proc: Path = _PROC) -> bool:
    """Whether a process runs users' SQL; False once it has ended."""
    try:
        return _QUERY_PROCESS in (proc / str(pid) / "cmdline").read_bytes()
    except OSError:
        return False


def _child(pid: int, proc: Path) -> tuple[float, float]:
    """Its own memory, and the seconds of a core that it has used."""
    try:
        status = _fields(proc / str(pid) / "status")
        stat = (proc / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return _mib(status, "RssAnon") + _mib(status, "RssShmem"), (
            int(stat[11]) + int(stat[12])
        ) / _TICKS_PER_S
    except (OSError, KeyError):
        return 0.0, 0.0


def _fields(path: Path) -> Mapping[str, str]:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return {name: value for name, _, value in (line.partition(":") for line in lines)}


def _mib(fields: Mapping[str, str], name: str) -> float:
    return int(fields[name].split()[0]) * 1024 / MIB


class Watch(threading.Thread):
    """Looks four times a second, until `end`."""

    def __init__(self, pid: int) -> None:
        super().__init__(name="watch", daemon=True)
        self._pid = pid
        self._ending = threading.Event()
        self.looks: list[Held] = []

    def run(self) -> None:
        """Until `end`."""
        while not self._ending.wait(_EVERY_S):
            held = look(self._pid, time.time())
            if held is not None:
                self.looks.append(held)

    def end(self) -> None:
        """Look no more."""
        self._ending.set()
        self.join()


def most(looks: Iterable[Held], of: Callable[[Held], float]) -> float:
    """The largest figure of some looks; 0 where there are none."""
    return max(map(of, looks), default=0.0)


def between(looks: Sequence[Held], begin_s: float, end_s: float) -> list[Held]:
    """The looks of a phase."""
    return [each for each in looks if begin_s <= each.at_s < end_s]
