"""A process beside a worker, of its own memory, time and priority, with one channel of messages to it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from sinks.query.process import ENVIRONMENT
from streams.bills.loading_wire import MESSAGE_MAX_BYTES

_ROOT: Final = str(Path(__file__).resolve().parents[2])


class ProcessApart:
    """The process of a module with a `main`, which reads its channel from its standard input."""

    def __init__(self, module: str) -> None:
        ours, theirs = socket.socketpair()
        start = f"import sys; sys.path[:] = sys.argv[1:]; from {module} import main; main()"
        with theirs:
            found = [_ROOT, *(path for path in sys.path if path and path != _ROOT)]
            self._process = subprocess.Popen(  # a fixed list, no shell
                [sys.executable, "-I", "-S", "-c", start, *found],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=ENVIRONMENT,
                start_new_session=True,
            )
        self._channel = Connection(ours.detach())

    def send(self, message: bytes) -> None:
        """Send a message.

        Raises:
            OSError: The process has ended.
        """
        self._channel.send_bytes(message)

    def received(self) -> bytes:
        """The next message.

        Raises:
            EOFError, OSError: The process has ended.
        """
        return self._channel.recv_bytes(MESSAGE_MAX_BYTES)

    def kill(self) -> None:
        """End the process, from any thread; `received` raises then."""
        if self._process.poll() is None:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process and free what it held."""
        self.kill()
        self._process.wait()
        self._channel.close()
