"""The worker's side of a process that runs users' SQL: started, given one query at a time, killed at any moment."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from sinks.errors import QueriesOff, QueryFailed, QueryRefused, QueryTimedOut, query_failed
from sinks.query import wire
from sinks.query.limits import MIB_BYTES, QueryLimits
from sinks.query.wire import Form, Parameter, Source

_START: Final = "import sys; sys.path[:] = sys.argv[1:]; from sinks.query.child import main; main()"
#: A start takes 0.4 s of a core. But it gives way to everything else from its first moment: where other work fills every
#: core, its share is a seventieth of one, and a limit near what an idle machine needs would refuse queries.
_START_WITHIN_S: Final = 120.0
_GRACE_S: Final = 4.0
_ROOT: Final = str(Path(__file__).resolve().parents[2])
#: No variable of the worker's is passed on, as they may be secrets. The time zone is UTC. The last three prevent
#: libraries from starting threads on import, which would escape the confinement.
ENVIRONMENT: Final = {
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}


class Spawned(NamedTuple):
    """A process without a configuration yet: it loads modules and waits."""

    process: subprocess.Popen[bytes]
    channel: socket.socket
    scratch_dir: str

    def kill(self) -> None:
        """Kill it and its children."""
        if self.process.poll() is None:
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> int:
        """End it and remove its files; return its exit code."""
        self.kill()
        code = self.process.wait()
        self.channel.close()
        shutil.rmtree(self.scratch_dir, ignore_errors=True)
        return code


def spawn() -> Spawned:
    """Start a process for queries."""
    scratch_dir = tempfile.mkdtemp(prefix="trainfare-query-")
    ours, theirs = socket.socketpair()
    # Without `site`, which reads every .pth file: modules are found where this process finds them.
    found = [_ROOT, *(path for path in sys.path if path and path != _ROOT)]
    try:
        with theirs:
            process = subprocess.Popen(  # a fixed list, no shell
                [sys.executable, "-I", "-S", "-c", _START, *found],
                stdin=theirs.fileno(),
                # The engine sometimes writes to both; nobody reads it.
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**ENVIRONMENT, "TMPDIR": scratch_dir},
                cwd=scratch_dir,
                # Its group can be killed as one, and has its own share of the processor: see `confine.lower_priority`.
                start_new_session=True,
            )
    except BaseException:
        ours.close()
        shutil.rmtree(scratch_dir, ignore_errors=True)
        raise
    return Spawned(process, ours, scratch_dir)


class Answered(NamedTuple):
    """A result in an unnamed file; its holder closes it."""

    descriptor: int
    size_bytes: int
    rows: int
    rows_read: int | None = None  # from tables; None: nothing says so
    bytes_read: int | None = None


class QueryProcess:
    """One process. `ask` blocks; `kill` may be called from any thread."""

    def __init__(self, source: Source, limits: QueryLimits, spawned: Spawned | None = None) -> None:
        self.limits = limits
        self._spawned = spawned or spawn()
        self._process, self._channel, scratch_dir = self._spawned
        self._ready: wire.Ready | None = None
        self._killed = False
        # If the process has ended, its missing reply will show it.
        with suppress(OSError):
            wire.send(self._channel, wire.Setup(source, limits, scratch_dir))

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def wait_ready(self) -> list[str]:
        """Wait until it accepts queries; return what the kernel could not restrict.

        Raises:
            QueriesOff: It cannot, with the reason.
        """
        if self._ready is None:
            late = threading.Event()

            def end() -> None:
                late.set()
                self._spawned.kill()

            limit = threading.Timer(_START_WITHIN_S, end)
            limit.start()
            try:
                found = self._receive()
            finally:
                limit.cancel()
            if found is None:
                self.close()
                if late.is_set():
                    raise QueriesOff(
                        f"the process for queries did not start within {_START_WITHIN_S:g} s; other work fills the machine"
                    )
                raise QueriesOff(
                    "the process for queries ended while it started; look at the worker's memory limit"
                )
            self._ready = msgspec.json.decode(found, type=wire.Ready)
        if self._ready.off:
            raise QueriesOff(self._ready.off)
        return self._ready.left_open

    def ask(
        self, sql: str, parameters: dict[str, Parameter], form: Form, teams: Sequence[str] | None = None
    ) -> Answered:
        """Run one query; `teams`: whose rows alone it reads. See `reusable` afterwards.

        Raises:
            QueryRefused: The statement is not allowed.
            QueryFailed: It failed or exceeded a limit.
            QueriesOff: The process cannot run queries.
        """
        return self._asked(wire.Request(sql, parameters, form, teams=None if teams is None else [*teams]))

    def check(self, sql: str) -> dict[str, str]:
        """Ask which columns the answer of a statement has, without running it: their types by name, {} of what is no SELECT.

        Raises:
            QueryRefused: The statement is not allowed.
            QueryFailed: It cannot be parsed, or names a column that is not there.
            QueriesOff: The process cannot say.
        """
        answered = self._asked(wire.Request(sql, {}, "json", is_check=True))
        with os.fdopen(answered.descriptor, "rb") as file:
            file.seek(0)
            return msgspec.json.decode(file.read(), type=dict[str, str])

    def _asked(self, request: wire.Request) -> Answered:
        if any("\ud800" <= each <= "\udfff" for each in request.sql):
            raise QueryRefused("the query is no text: it has half of a surrogate pair")
        self.wait_ready()
        file = _nameless_file()
        # The process enforces its limits itself; one that does not is killed here.
        deadline = threading.Timer(self.limits.time_ms / 1000 + _GRACE_S, self._spawned.kill)
        deadline.start()
        try:
            reply = self._replied(request, file)
            if reply.outcome == "refused":
                raise QueryRefused(reply.message)
            if reply.outcome == "off":
                raise QueriesOff(reply.message)
            if reply.outcome == "failed":
                raise query_failed(reply.message)
            return Answered(file, os.fstat(file).st_size, reply.rows, reply.rows_read, reply.bytes_read)
        except BaseException:
            os.close(file)
            raise
        finally:
            deadline.cancel()

    @property
    def reusable(self) -> bool:
        """Whether it may run another query."""
        return not self._killed and self._process.poll() is None

    def kill(self) -> None:
        """Kill it immediately."""
        self._killed = True
        self._spawned.kill()

    def close(self) -> None:
        """End it and remove its files."""
        self._killed = True
        self._spawned.close()

    def _replied(self, request: wire.Request, file: int) -> wire.Reply:
        try:
            wire.send(self._channel, request, (file,))
        except OSError:
            raise self._how_it_ended() from None
        found = self._receive()
        if found is None:
            raise self._how_it_ended()
        reply = msgspec.json.decode(found, type=wire.Reply)
        if not reply.reusable:
            self._killed = True
        return reply

    def _receive(self) -> bytes | None:
        try:
            found = wire.receive(self._channel)
        except OSError:  # includes a channel that ends within a frame, and a timeout
            self._spawned.kill()
            return None
        return None if found is None else found[0]

    def _how_it_ended(self) -> QueryFailed:
        code = self._process.wait()
        limits = self.limits
        if self._killed:
            return QueryFailed("the query was cancelled")
        self._killed = True
        if code == -signal.SIGALRM:
            return QueryTimedOut(f"the query ran longer than {limits.time_ms / 1000:g} s and was ended")
        return QueryFailed(
            f"the query ended its process (exit {code}); most likely it needs more than "
            f"{limits.memory_bytes // MIB_BYTES} MiB of memory"
        )


def _nameless_file() -> int:
    """A file in memory if the system supports it, otherwise an unnamed one on disk."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("trainfare-answer")
    with tempfile.TemporaryFile(prefix="trainfare-") as file:
        return os.dup(file.fileno())
