"""The processes that run users' SQL: a few, started on demand, reused for a while, replaced when worn out.

When all are busy, the caller reports that.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sinks.errors import QueryFailed
from sinks.query.limits import QueryLimits
from sinks.query.process import Answered, QueryProcess
from sinks.query.wire import Form, Parameter, ServerAddress, StoreFiles

logger = logging.getLogger(__name__)

#: An idle process costs some memory: it ends after this time.
IDLE_S: Final = 300.0
#: A process is replaced after this many queries, which bounds the engine's leaks.
QUERIES_MAX: Final = 200


class _Idle(NamedTuple):
    """A process that waits for its next query."""

    process: QueryProcess
    queries: int
    since_s: float
    owner: str


class QueryPool:
    """Any thread may call; `close` ends everything immediately."""

    def __init__(
        self,
        source: StoreFiles | ServerAddress,
        limits: QueryLimits,
        *,
        start: Callable[[StoreFiles | ServerAddress, QueryLimits], QueryProcess] = QueryProcess,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self._source = source
        self._start = start
        self._now_s = now_s
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []
        self._runs: set[QueryRun] = set()
        self._closed = False
        self._said_open = False

    def new_run(self, owner: str = "") -> "QueryRun":
        """A run of one query, which may be cancelled from the beginning.

        A process serves one `owner` only: a compromised one could read and forge the results of others.

        Raises:
            QueryFailed: The pool is closed.
        """
        with self._lock:
            if self._closed:
                raise QueryFailed("the worker is stopping")
            run = QueryRun(self, owner)
            self._runs.add(run)
            return run

    def check(self) -> None:
        """Start a process if there is none.

        Raises:
            QueriesOff: No process can answer.
        """
        run = self.new_run()
        process, queries = None, 0
        try:
            process, queries = self.acquire(run.owner)
            self.warn_of_gaps(process.wait_ready())
        finally:
            self.release(run, process, queries)

    def close(self) -> None:
        """End every process."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            runs = list(self._runs)
        for run in runs:
            run.cancel()
        for each in idle:
            each.process.close()

    def close_idle(self) -> None:
        """End processes that were idle for too long."""
        oldest_s = self._now_s() - IDLE_S
        with self._lock:
            old = [each for each in self._idle if each.since_s < oldest_s]
            self._idle = [each for each in self._idle if each.since_s >= oldest_s]
        for each in old:
            each.process.close()

    def acquire(self, owner: str) -> tuple[QueryProcess, int]:
        """A process for a run of the owner, and how many queries it has answered."""
        with self._lock:
            mine = [each for each in self._idle if each.owner == owner and each.process.reusable]
            gone = [each for each in self._idle if not each.process.reusable]
            # An idle process of another owner is replaced, so that their number does not grow.
            others = [each for each in self._idle if each not in mine and each not in gone]
            leaving = gone + ([] if mine else others[:1])
            self._idle = [each for each in self._idle if each not in leaving]
            found = mine[-1] if mine else None
            if found is not None:
                self._idle.remove(found)
        for each in leaving:
            each.process.close()
        if found is not None:
            return found.process, found.queries
        return self._start(self._source, self.limits), 0

    def release(self, run: "QueryRun", process: QueryProcess | None, queries: int) -> None:
        """End a run; its process is reused or closed."""
        with self._lock:
            self._runs.discard(run)
            keep = process is not None and process.reusable and queries < QUERIES_MAX and not self._closed
            if keep and process is not None:
                self._idle.append(_Idle(process, queries, self._now_s(), run.owner))
        if process is not None and not keep:
            process.close()

    def warn_of_gaps(self, left_open: list[str]) -> None:
        """Log once what the kernel does not confine."""
        if left_open and not self._said_open:
            self._said_open = True
            logger.warning(
                "query processes are not fully confined by this kernel",
                extra={
                    "unconfined": ", ".join(left_open),
                    "runbook": "docs/trouble.md#query-processes-not-confined",
                },
            )


class QueryRun:
    """One query."""

    def __init__(self, pool: QueryPool, owner: str) -> None:
        self.owner = owner
        self._pool = pool
        self._lock = threading.Lock()
        self._process: QueryProcess | None = None
        self._cancelled = False

    def answer(
        self, sql: str, parameters: dict[str, Parameter], form: Form, teams: Sequence[str] | None = None
    ) -> Answered:
        """Run it; blocks. `teams`: whose rows alone it reads.

        Raises:
            QueryRefused: The statement is not allowed.
            QueryFailed: It failed or was cancelled.
            QueriesOff: No process can answer.
        """
        process, queries = None, 0
        try:
            process, queries = self._pool.acquire(self.owner)
            with self._lock:
                if self._cancelled:
                    raise QueryFailed("the query was cancelled")
                self._process = process
            self._pool.warn_of_gaps(process.wait_ready())
            return process.ask(sql, parameters, form, teams)
        finally:
            with self._lock:
                self._process = None
            self._pool.release(self, process, queries + 1)

    def cancel(self) -> None:
        """Cancel it at any point."""
        with self._lock:
            self._cancelled = True
            if self._process is not None:
                self._process.kill()
