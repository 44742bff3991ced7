"""Which attempt of its job a process is: given by the launcher, or counted in a file."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from trainfare.environment import number_of

try:
    import fcntl
except ImportError:  # no Unix
    fcntl = None  # type: ignore[assignment]  # its absence is asked for below

_LOCK_TRIES, _LOCK_AGAIN_S = 50, 0.01
#: Variables that count restarts from 0: of schedulers, and of launchers within a job of theirs.
_RESTARTS, _RESTARTS_WITHIN_JOB = ("SLURM_RESTART_COUNT",), ("TORCHELASTIC_RESTART_COUNT",)
#: And such as count attempts from 1.
_ATTEMPTS = ("TRAINFARE_ATTEMPT", "AWS_BATCH_JOB_ATTEMPT")


def state_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where attempts are counted: `TRAINFARE_STATE_DIR`, else in the user's state directory."""
    given, base = environ.get("TRAINFARE_STATE_DIR"), environ.get("XDG_STATE_HOME")
    return Path(given) if given else (Path(base) if base else Path.home() / ".local" / "state") / "trainfare"


def launched_attempt(
    environ: Mapping[str, str] = os.environ, *, counts_restarts_within_job: bool = True
) -> int | None:
    """The number that the launcher gives, None if it gives none.

    `counts_restarts_within_job`: restarts that the scheduler does not see, as by torchrun, are attempts too.
    """
    for name in _ATTEMPTS:
        given = number_of(environ.get(name))
        if given:
            return given
    names = _RESTARTS + _RESTARTS_WITHIN_JOB if counts_restarts_within_job else _RESTARTS
    counts = [count for name in names if (count := number_of(environ.get(name))) is not None]
    return max(counts) + 1 if counts else None


def next_attempt(job_id: str, environ: Mapping[str, str] = os.environ) -> int:
    """The number of this attempt, and record it for the next one.

    A launcher counts its own restarts only, the file those on this machine (or shared home): the greater one is right.
    """
    given = number_of(environ.get("TRAINFARE_ATTEMPT"))
    if given:
        return given
    launched = launched_attempt(environ) or 1
    try:
        return _counted(_path(job_id, environ), launched)
    except Exception:  # a directory of somebody else, no home
        return launched


def current_attempt(job_id: str, environ: Mapping[str, str] = os.environ) -> int:
    """The number that another process of this job has counted, or was given as this one is."""
    given = number_of(environ.get("TRAINFARE_ATTEMPT"))
    if given:
        return given
    try:
        last = _last(_path(job_id, environ))
    except Exception:
        last = 0
    return max(last, launched_attempt(environ) or 1)


def _path(job_id: str, environ: Mapping[str, str]) -> Path:
    return state_dir(environ) / (job_id.encode("utf-8", "surrogatepass").hex()[:180] + ".json")


def _last(path: Path) -> int:
    try:
        return max(int(json.loads(path.read_text())["attempt"]), 0)
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _counted(path: Path, at_least: int) -> int:
    number = max(_last(path) + 1, at_least)
    # A full disk: the number still follows what could be read.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _alone(path.with_suffix(".lock")):
            number = max(_last(path) + 1, at_least)
            descriptor, temporary = tempfile.mkstemp(dir=path.parent)
            try:
                with os.fdopen(descriptor, "w") as file:
                    json.dump({"attempt": number}, file)
                Path(temporary).replace(path)
            except OSError:
                Path(temporary).unlink()
                raise
    return number


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Of two processes that count at once one waits for the other, but not for long: it may be a stopped one."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        for _ in range(_LOCK_TRIES):
            if _is_locked(descriptor):
                break
            time.sleep(_LOCK_AGAIN_S)
        yield
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
