"""Stands for Slurm's commands: `fake.py FILE squeue|sacct|nodes ARGUMENTS` prints what the file holds, as the real one chooses.

A program of its own, so that the collector runs it as it runs Slurm's. Standard library only, as it starts often.
"""

from __future__ import annotations

import json
import sys

TYPE_CHECKING = False  # of `typing`, which takes longer to load than all the rest
if TYPE_CHECKING:
    from typing import Any

_PARTIAL = frozenset(["PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING"])


def main(path: str, command: str, arguments: list[str]) -> int:
    """Print the answer of one command."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes as long to load as all the rest
        look = json.load(file)
    if look.get("away"):
        sys.stderr.write(f"{command}: error: Unable to contact slurm controller\n")
        return 1
    document = look[command]
    if command == "sacct":
        document["jobs"] = [job for job in document["jobs"] if is_asked_for(job, arguments)]
    json.dump(document, sys.stdout)
    return 0


def is_asked_for(job: dict[str, Any], arguments: list[str]) -> bool:
    """Return whether sacct would show a job."""
    if "--jobs" in arguments:
        return str(job["job_id"]) in arguments[arguments.index("--jobs") + 1].split(",")
    first, last = (int(arguments[arguments.index(name) + 1][3:]) for name in ("--starttime", "--endtime"))
    current = job["state"]["current"]
    states = [current] if isinstance(current, str) else current
    return states[-1] not in _PARTIAL and first <= job["time"]["end"] <= last


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
