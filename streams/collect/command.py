"""Runs a command and takes its answer, within limits of time and size."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from schemas.escaping import visible
from streams.clock import Clock, SystemClock
from streams.collect.collector import SourceUnavailableError

_READ_BYTES: Final = 2**18
_COMPLAINT_BYTES: Final = 4_096
#: What commands need of our environment: no secrets of ours. Times are given as seconds since 1970, or with their zone.
_PASSED_ON: Final = ("PATH", "HOME", "LD_LIBRARY_PATH", "SLURM_CONF", "SLURM_JWT", "SSH_AUTH_SOCK")
#: And what those of clouds read: where their credentials are, and which account and region are asked.
_OF_CLOUDS: Final = ("AWS_", "CLOUDSDK_", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_")


def answer_of(
    command: Sequence[str],
    *,
    timeout_s: float,
    bytes_at_most: int,
    clock: Clock | None = None,
    of_cloud: bool = False,
) -> bytes:
    """What a command writes to its standard output; one `of_cloud` gets the variables of clouds' commands, too.

    Raises:
        SourceUnavailableError: It cannot be run, fails, takes too long or writes too much.
    """
    name = visible(command[0][:200])
    environment = {
        key: text
        for key, text in os.environ.items()
        if key in _PASSED_ON or (of_cloud and key.startswith(_OF_CLOUDS))
    }
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environment, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            start_new_session=True,  # its children end with it
        )
    except OSError as fault:
        raise SourceUnavailableError(
            f"{name}: {fault.strerror}; name a command that this machine has"
        ) from None
    with process:
        try:
            answer, complaint = _read(process, timeout_s, bytes_at_most, clock or SystemClock(), name)
        except BaseException:
            # Nobody has waited for it yet, so its number, and that of the group, is still its own.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        # Some complain where their answer should be.
        said = (complaint or answer[:_COMPLAINT_BYTES]).decode("utf-8", "replace").strip().splitlines()
        raise SourceUnavailableError(
            f"{name} failed ({process.returncode}): {visible(' '.join(said[:3])[:300])}"
        )
    return answer


def _read(
    process: subprocess.Popen[bytes], timeout_s: float, bytes_at_most: int, clock: Clock, name: str
) -> tuple[bytes, bytes]:
    """Both outputs to their ends; of the second, the beginning."""
    assert process.stdout is not None
    assert process.stderr is not None
    deadline_ms = clock.monotonic_ms() + timeout_s * 1000
    answer, complaint = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, answer)
        selector.register(process.stderr, selectors.EVENT_READ, complaint)
        while selector.get_map():
            left_ms = deadline_ms - clock.monotonic_ms()
            if left_ms <= 0:
                raise SourceUnavailableError(f"{name} took longer than {timeout_s:g} s")
            for key, _ in selector.select(left_ms / 1000):
                part = os.read(key.fd, _READ_BYTES)
                if not part:
                    selector.unregister(key.fileobj)
                elif key.data is answer or len(complaint) < _COMPLAINT_BYTES:
                    key.data.extend(part)
            if len(answer) > bytes_at_most:
                raise SourceUnavailableError(
                    f"{name} answered more than {bytes_at_most} bytes; see max_output_mib"
                )
    try:
        process.wait(max(deadline_ms - clock.monotonic_ms(), 1) / 1000)
    except subprocess.TimeoutExpired:
        raise SourceUnavailableError(f"{name} took longer than {timeout_s:g} s") from None
    return bytes(answer), bytes(complaint)
