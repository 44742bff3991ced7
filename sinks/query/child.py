"""The process that runs users' SQL: it drops privileges that it does not need, then answers one query after the other.

A worker must not import it; it communicates only on its channel. Started by `process.QueryProcess`.
"""

import os
import shutil
import socket
from importlib import import_module
from typing import BinaryIO, Final, Protocol

import msgspec

from sinks.left_out import OF_ARROW, leave_out
from sinks.query import confine, wire
from sinks.query.limits import MIB_BYTES, OWN_NICE, QueryLimits
from sinks.query.reads import Reads
from sinks.query.refusal import FailedQueryError, QueriesOffError, RefusedQueryError

_CHANNEL: Final = 0
#: The engine's error name for an exceeded time limit.
_TIME: Final = "TIMEOUT_EXCEEDED"
#: Errors of the engine and of Python for exceeded memory; a thread cannot start without memory for its stack.
_MEMORY: Final = (
    "MEMORY_LIMIT_EXCEEDED",
    "CANNOT_ALLOCATE_MEMORY",
    "std::bad_alloc",
    "can't start new thread",
    "CANNOT_SCHEDULE_TASK",
    "Could not allocate",  # an object of the answer, in the engine's binding
)


class Runner(Protocol):
    """Answers queries: on the files of a store, or on a server."""

    def run(self, request: wire.Request, out: BinaryIO) -> int:
        """Write the result; return the number of its rows."""
        ...

    def reads(self) -> Reads | None:
        """What the last query read from tables; None where nothing says so."""
        ...


def main() -> None:
    """Serve the channel until it ends."""
    confine.lower_priority(OWN_NICE)  # first of all: loading modules takes a third of a second
    channel = socket.socket(fileno=_CHANNEL)
    leave_out(*OF_ARROW)
    # Load modules while the parent prepares the setup. These start no thread; the engine does. `schemas` is located
    # now: a checkout's folder cannot be listed later, which Python does again if it has changed.
    for name in ("schemas", "pyarrow", "clickhouse_connect", "sinks.query.answers"):
        import_module(name)
    first = wire.receive(channel)
    if first is None:
        return
    setup = msgspec.json.decode(first[0], type=wire.Setup)
    confine.lower_priority(setup.limits.nice)
    confine.bound_files(setup.limits)
    try:
        _serve(channel, setup, _close_in(setup))
    except OSError:
        return  # the parent is gone
    finally:
        shutil.rmtree(setup.scratch_dir, ignore_errors=True)


def _serve(channel: socket.socket, setup: wire.Setup, left_open: list[str]) -> None:
    try:
        runner = _runner(setup)
    except QueriesOffError as off:
        wire.send(channel, wire.Ready(off=str(off), left_open=left_open))
        return
    confine.bound_memory(setup.limits)
    wire.send(channel, wire.Ready(left_open=left_open))
    while (frame := wire.receive(channel, 1)) is not None:
        data, files = frame
        request = msgspec.json.decode(data, type=wire.Request)
        with os.fdopen(files[0], "wb") as out:
            reply = _reply(runner, request, out, setup.limits)
        wire.send(channel, reply)
        if not reply.reusable:
            return


def _close_in(setup: wire.Setup) -> list[str]:
    source = setup.source
    if not isinstance(source, wire.ServerAddress):
        left_network = confine.leave_network()
        readable = [source.engine_dir] if isinstance(source, wire.StoreFiles) else []
        left_open = confine.close_in(readable, [setup.scratch_dir], [])
        return left_open if left_network else [*left_open, "network"]
    certificates = [source.ca_cert] if source.ca_cert else []
    return confine.close_in(certificates, [setup.scratch_dir], [source.port])


def _runner(setup: wire.Setup) -> Runner:
    # Only now: these start threads, and the process must be confined before.
    if isinstance(setup.source, wire.StoreFiles):
        from sinks.query.embedded import EmbeddedRunner

        return EmbeddedRunner(setup.source, setup.limits, setup.scratch_dir)
    if isinstance(setup.source, wire.KnownTables):
        from sinks.query.known import CheckRunner

        return CheckRunner(setup.source, setup.limits, setup.scratch_dir)
    from sinks.query.server import ServerRunner

    return ServerRunner(setup.source, setup.limits, setup.scratch_dir)


def _reply(runner: Runner, request: wire.Request, out: BinaryIO, limits: QueryLimits) -> wire.Reply:
    confine.end_after(limits.time_ms)
    try:
        rows = runner.run(request, out)
        reads = runner.reads()
        return wire.Reply(
            "answered", rows=rows, rows_read=reads and reads.rows, bytes_read=reads and reads.bytes
        )
    except RefusedQueryError as fault:
        return wire.Reply("refused", str(fault))
    except FailedQueryError as fault:
        message = str(fault)
        # A query that exceeded a limit may still hold memory or threads: a new process is cheaper.
        if any(word in message for word in _MEMORY):
            return wire.Reply("failed", too_much_memory(limits), reusable=False)
        return wire.Reply("failed", message, reusable=_TIME not in message)
    except MemoryError:
        return wire.Reply("failed", too_much_memory(limits), reusable=False)
    except QueriesOffError as fault:
        return wire.Reply("off", str(fault), reusable=False)
    except OSError as fault:
        return wire.Reply("failed", f"the answer could not be written: {fault.strerror}", reusable=False)
    except Exception as fault:  # noqa: BLE001 - the caller gets any failure as an error, and this process ends
        return wire.Reply("failed", f"the query process failed: {type(fault).__name__}", reusable=False)
    finally:
        confine.end_after(0)


def too_much_memory(limits: QueryLimits) -> str:
    """The error message of a query that exceeds its memory limit."""
    return (
        f"the query needs more than {limits.memory_bytes // MIB_BYTES} MiB of memory (query.max_memory_bytes); "
        "read fewer rows or columns, a shorter time (minute >=, hour >=), or group by less"
    )
