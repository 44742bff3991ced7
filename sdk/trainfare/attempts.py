"""Which attempt of its job a process is: told by the launcher, or counted in a file.

It must not raise: where nothing is known it is the first.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

#: Variables of launchers that count restarts from 0.
_RESTARTS = ("SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT")


def state_dir() -> Path:
    """Return where attempts are counted: `TRAINFARE_STATE_DIR`, else in the user's state directory."""
    given = os.environ.get("TRAINFARE_STATE_DIR")
    base = os.environ.get("XDG_STATE_HOME")
    return Path(given) if given else (Path(base) if base else Path.home() / ".local" / "state") / "trainfare"


def next_attempt(job_id: str) -> int:
    """Return the number of this attempt, and record it for the next one."""
    given = _number(os.environ.get("TRAINFARE_ATTEMPT"))
    if given is not None and given >= 1:
        return given
    for name in _RESTARTS:
        restarts = _number(os.environ.get(name))
        if restarts is not None and restarts >= 0:
            return restarts + 1
    try:
        return _counted(job_id)
    except Exception:  # a full disk, a directory of somebody else
        return 1


def _counted(job_id: str) -> int:
    folder = state_dir()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / (job_id.encode("utf-8", "surrogatepass").hex()[:180] + ".json")
    try:
        last = int(json.loads(path.read_text())["attempt"])
    except (OSError, ValueError, KeyError, TypeError):
        last = 0
    number, temporary = tempfile.mkstemp(dir=folder)
    with os.fdopen(number, "w") as file:
        json.dump({"job_id": job_id, "attempt": last + 1}, file)
    Path(temporary).replace(path)
    return last + 1


def _number(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None
