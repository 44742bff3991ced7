"""Starts the processes of a meter so that they go on when the command has ended, and tells which run already."""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from schemas.escaping import visible
from sinks.directory_lock import LOCK_NAME
from sinks.private_files import make_private_dir, open_private
from streams.collect.collector import SourceUnavailableError
from streams.collect.http_source import OutsideApi
from streams.errors import TrainfareError
from streams.init.files import InitState
from streams.init.plan import Service, SetupPlan, Site
from streams.web import endpoint

LOGS: Final = "logs"
_LOG_TAIL_BYTES: Final = 2_000
_STOP_TRIES: Final = 100
_STOP_PAUSE_S: Final = 0.1
_READY_PAUSE_S: Final = 0.5
_READY_TRIES: Final = 600
_ANSWER_BYTES: Final = 65_536
_CMDLINE_BYTES: Final = 65_536

Pause = Callable[[float], None]
"""Waits for so many seconds."""


def is_held(lock_file: Path) -> bool:
    """Whether a process holds the lock of a file: the service that has it runs, whoever has started it."""
    try:
        descriptor = os.open(lock_file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def start(
    service: Service,
    program: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    state: InitState,
    digest: str,
) -> None:
    """Start a service in the background, with its log in the folder `logs`.

    Raises:
        SinkError: The log cannot be opened.
        TrainfareError: The program cannot be run.
    """
    make_private_dir(directory / LOGS)
    log = open_private(log_file(directory, service), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        process = subprocess.Popen(
            [*program, *service.arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=directory,
            env={**environment, **service.environment},
            start_new_session=True,  # it goes on when this command has ended
        )
    except OSError as fault:
        raise TrainfareError(f"{program[0]}: {fault.strerror}") from None
    finally:
        os.close(log)
    state.started[service.name] = (process.pid, digest)


def stop_if_ours(service: Service, directory: Path, state: InitState, pause: Pause) -> bool:
    """Stop a service that an earlier call has started; False: somebody else runs it.

    Raises:
        TrainfareError: It does not end.
    """
    pid = our_process(service, directory, state)
    if pid is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    for _ in range(_STOP_TRIES):
        if not is_held(service.lock_file):
            return True
        pause(_STOP_PAUSE_S)
    raise TrainfareError(f"{service.name} (process {pid}) does not end; see {log_file(directory, service)}")


def our_process(service: Service, directory: Path, state: InitState) -> int | None:
    """The process of a service that a call of `init` has started and that still is one of this directory; None: none."""
    pid, _ = state.started.get(service.name, (0, ""))
    return pid if pid and _is_of(pid, directory) else None


def until_ready(
    plan: SetupPlan, site: Site, state: InitState, pause: Pause, *, tries: int = _READY_TRIES
) -> None:
    """Wait until this meter answers that it is ready, and no other one that has its port.

    Raises:
        TrainfareError: It has ended, or is not ready after so many tries; the end of its log is in the message.
    """
    service = plan.services[0]
    api = OutsideApi(plan.url, timeout_s=5.0, bytes_at_most=_ANSWER_BYTES)
    pid, _ = state.started.get(service.name, (0, ""))
    log = log_file(site.directory, service)
    for _ in range(tries):
        if pid and _has_ended(pid):
            raise TrainfareError(f"the meter has ended: {_tail(log)}")
        with suppress(SourceUnavailableError):
            if site.data is None or _announces(site.data, plan.url):
                api.get("/readyz")
                return
        pause(_READY_PAUSE_S)
    raise TrainfareError(f"the meter is not ready at {plan.url}: {_tail(log)}; see docs/trouble.md")


def _announces(data: Path, url: str) -> bool:
    """Whether the process that has a directory open says that it listens at an address."""
    found = endpoint.read(data)
    return found is not None and found.url == url and is_held(data / LOCK_NAME)


def log_file(directory: Path, service: Service) -> Path:
    """Where a service that was started here says what it does."""
    return directory / LOGS / f"{service.name}.log"


def digest_of(texts: Sequence[str | None]) -> str:
    """What tells one configuration from another."""
    return hashlib.sha256("\0".join(text or "" for text in texts).encode()).hexdigest()


def _has_ended(pid: int) -> bool:
    """Whether a child of this process, or another process, is over."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _is_of(pid: int, directory: Path) -> bool:
    """Whether a process of this number is one of this directory: numbers are given again."""
    try:
        with Path(f"/proc/{pid}/cmdline").open("rb") as file:
            words = file.read(_CMDLINE_BYTES).split(b"\0")
    except OSError:
        return False
    return any(os.fsencode(directory) in word for word in words)


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _LOG_TAIL_BYTES, 0))
            lines = file.read(_LOG_TAIL_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return "it has no log"
    # What a command says to a person before it ends; the lines before are its log.
    said = [line for line in lines[-3:] if line.startswith("trainfare: ")]
    return visible(" | ".join(said or lines[-3:]))[-600:] or "its log is empty"
