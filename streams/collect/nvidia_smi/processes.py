"""Says which Slurm job a process belongs to, by its control group."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

_GROUP_BYTES_AT_MOST: Final = 64 * 1024
#: Of version 2 `/system.slice/slurmstepd.scope/job_17/step_0/...`, of version 1 `/slurm/uid_1000/job_17/step_0`.
_JOB: Final = re.compile(
    rb"/(?:slurm[^/\n]*|[^/\n]*_slurmstepd\.scope)/(?:uid_\d{1,10}/)?job_(\d{1,10})(?:/|$)", re.MULTILINE
)


def group_of(pid: int) -> bytes:
    """The control groups of a process, as Linux tells; empty if it has ended."""
    try:
        with Path(f"/proc/{pid}/cgroup").open("rb") as file:
            return file.read(_GROUP_BYTES_AT_MOST)
    except OSError:
        return b""


def job_of(pids: Iterable[int], group: Callable[[int], bytes]) -> str:
    """The one job whose processes these are, by Slurm's own number; empty if there is none, or several."""
    found = {match[1].decode() for pid in pids if (match := _JOB.search(group(pid))) is not None}
    return found.pop() if len(found) == 1 else ""
