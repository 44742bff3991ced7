"""Clients of one ClickHouse, one per thread, and the retries around every call."""

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import clickhouse_connect
import stamina
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, ProgrammingError
from stamina.instrumentation import set_on_retry_hooks

from sinks import directory_lock
from sinks.clickhouse.absence import Absence
from sinks.clickhouse.cluster import CONSISTENT, READING, on_cluster
from sinks.clickhouse.faults import mapped, without_frames
from sinks.driver_pool import driver_pool
from sinks.embedded_engine import open_engine
from sinks.engine_installed import require_engine
from sinks.errors import SinkBusy, SinkError, StoreInUse, StoreUnreachable
from sinks.target import Embedded, Server, Target

T = TypeVar("T")

_WAIT_FIRST_S: Final = 0.1
_WAIT_MOST_S: Final = 2.0
#: A server may be silent for `request_timeout_s`; a large answer, or the headers of a long query's progress, come for longer.
_TIMEOUTS_OF_AN_ANSWER: Final = 60

# A line per attempt and thread would flood the log while a store is unavailable; `Absence` logs instead.
set_on_retry_hooks([])


class ClickHouseConnection:
    """Serves any thread; a client is created on a thread's first call and lives until `close`.

    With `read_only`, ClickHouse itself refuses every statement that changes anything.
    """

    def __init__(self, target: Target, database: str, *, read_only: bool = False) -> None:
        self.target = target
        self._database = database
        self._read_only = read_only
        # A user's query that exceeds memory or time limits would fail again.
        self._retried = StoreUnreachable if read_only else SinkBusy
        self._local = threading.local()
        self._clients: list[Client] = []
        self._lock = threading.Lock()
        self._closed = False
        self._absence = Absence(str(target))
        if isinstance(target, Embedded):
            require_engine(f"a store in a directory ({target.data_dir})")
            directory_lock.acquire(target.data_dir)

    def change(self, statement: str, parameters: Mapping[str, object] | None = None) -> None:
        """Run a statement that makes or changes something, on all servers of a cluster; it must be repeatable.

        Raises:
            SinkError: It fails on one of them.
        """
        forms = [statement]
        if isinstance(self.target, Server) and self.target.cluster:
            forms = on_cluster(statement, self.target.cluster, self._database)
        for form in forms:
            self.call(partial(_command, sql=form, parameters=dict(parameters or {})))

    def call(self, work: Callable[[Client], T]) -> T:
        """Run one request; retry temporary faults for `retry_for_s` in total, then raise the last one.

        `work` must be repeatable: inserts have a token, other requests change nothing.
        """
        try:
            return self._patiently(work)
        except self._retried as fault:
            given_up = fault
        # The retry loop is in a reference cycle with the fault, which by its frames retains everything the callers hold
        # (a flight of rows, a shard) until a garbage collection that may be hours away. So a copy is raised.
        raise without_frames(given_up)

    def _patiently(self, work: Callable[[Client], T]) -> T:
        for attempt in self.attempts(self._retried):
            with attempt:
                try:
                    with mapped(str(self.target)):
                        result = work(self._client())
                except self._retried as fault:
                    self._absence.failed(fault)
                    raise
                self._absence.served()
                return result
        raise AssertionError("stamina returned without a result or an exception")

    def attempts(self, on: type[SinkError]) -> Iterable[stamina.Attempt]:
        """Yield attempts for `retry_for_s` in total, after faults of this kind; the last one raises it."""
        return stamina.retry_context(
            on=on,
            attempts=None,
            timeout=self.target.retry_for_s,
            wait_initial=_WAIT_FIRST_S,
            wait_max=_WAIT_MOST_S,
            wait_jitter=_WAIT_FIRST_S,
        )

    def close(self) -> None:
        """Close the clients of all threads and release the directory. Later calls raise SinkError."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            clients, self._clients = self._clients, []
        for client in clients:
            with suppress(ClickHouseError):
                client.close()
        if isinstance(self.target, Embedded):
            directory_lock.release(self.target.data_dir)

    def _client(self) -> Client:
        client: Client | None = getattr(self._local, "client", None)
        if self._closed:
            raise SinkError(f"{self.target} was closed")
        if client is None:
            client = self._open()
            with self._lock:
                self._clients.append(client)
            self._local.client = client
        return client

    def _open(self) -> Client:
        client = _embedded(self.target) if isinstance(self.target, Embedded) else _remote(self.target)
        client.database = self._database
        if isinstance(self.target, Server) and self.target.cluster:
            for name, value in (READING if self._read_only else CONSISTENT).items():
                client.set_client_setting(name, value)
        if self._read_only:
            # Direct reads of a table return current rows, as the views do.
            client.set_client_setting("final", 1)
            # Last: from here on this client can change nothing, not even this setting.
            client.set_client_setting("readonly", 2)
        return client


def _command(client: Client, sql: str, parameters: dict[str, object]) -> None:
    client.command(sql, parameters=parameters)


def _embedded(target: Embedded) -> Client:
    try:
        return open_engine(str(target.engine_dir), backup_dir=target.backup_dir)
    except ProgrammingError as error:
        raise _not_opened(target, str(error)) from error


def _not_opened(target: Embedded, text: str) -> SinkError:
    if "already initialized with path" in text:
        return StoreInUse(
            f"{target} cannot be opened beside another one: a process has one data directory at a time; "
            "close the other store first"
        )
    if "EmbeddedServer" in text:
        # Our own lock was free, so the other process does not use it: a bare chDB, for example.
        return StoreInUse(directory_lock.in_use(target.data_dir, "another process"))
    return SinkError(f"{target} cannot be opened: {text}")


def _remote(target: Server) -> Client:
    return clickhouse_connect.get_client(
        interface=target.scheme,
        host=target.host,
        port=target.port,
        username=target.user,
        password=target.password,
        compress=target.compress,
        connect_timeout=target.connect_timeout_s,
        send_receive_timeout=target.request_timeout_s,
        autogenerate_session_id=False,
        client_name="trainfare",
        pool_mgr=driver_pool(_TIMEOUTS_OF_AN_ANSWER * target.request_timeout_s, target.ca_cert),
    )
