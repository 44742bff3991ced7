"""The processes that run users' SQL: a few, started when somebody asks, kept for a while, replaced when spent.

It must not run more of them than it may, nor wait for one: who asks when all are busy is told so by the caller.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from sinks.errors import QueryFailed
from sinks.query.limits import QueryLimits
from sinks.query.process import Answered, QueryProcess
from sinks.query.wire import Form, Parameter, ServerAddress, StoreFiles

logger = logging.getLogger(__name__)

#: An idle process costs some memory: it ends after so long.
IDLE_S: Final = 300.0
#: A process takes so many queries; what an engine leaks ends with it.
QUERIES_MAX: Final = 200


class QueryPool:
    """Any thread may call; `close` ends all that runs, at once."""

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
        self._idle: list[tuple[QueryProcess, int, float]] = []
        self._runs: set[Run] = set()
        self._closed = False
        self._said_unconfined = False

    def begin(self) -> "Run":
        """A run of one query, which may be cancelled from the moment it is there."""
        with self._lock:
            if self._closed:
                raise QueryFailed("the worker is stopping")
            run = Run(self)
            self._runs.add(run)
            return run

    def check(self) -> None:
        """Start a process, if there is none; raises QueriesOff where none can answer."""
        run = self.begin()
        process, queries = None, 0
        try:
            process, queries = self._take()
            self._say_if_unconfined(process.wait_ready())
        finally:
            self._give_back(run, process, queries)

    def close(self) -> None:
        """End every process."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            runs = list(self._runs)
        for run in runs:
            run.cancel()
        for process, _, _ in idle:
            process.close()

    def end_idle(self) -> None:
        """End processes that nobody has asked for a while."""
        oldest_s = self._now_s() - IDLE_S
        with self._lock:
            old = [each for each in self._idle if each[2] < oldest_s]
            self._idle = [each for each in self._idle if each[2] >= oldest_s]
        for process, _, _ in old:
            process.close()

    def _take(self) -> tuple[QueryProcess, int]:
        with self._lock:
            while self._idle:
                process, queries, _ = self._idle.pop()
                if process.reusable:
                    return process, queries
                process.close()
        return self._start(self._source, self.limits), 0

    def _give_back(self, run: "Run", process: QueryProcess | None, queries: int) -> None:
        with self._lock:
            self._runs.discard(run)
            keep = process is not None and process.reusable and queries < QUERIES_MAX and not self._closed
            if keep and process is not None:
                self._idle.append((process, queries, self._now_s()))
        if process is not None and not keep:
            process.close()

    def _say_if_unconfined(self, confined: bool) -> None:
        if not confined and not self._said_unconfined:
            self._said_unconfined = True
            logger.warning(
                "this kernel has no Landlock: processes that run users' SQL can be held to the store's files by the "
                "statement's check and file modes only"
            )


class Run:
    """One query."""

    def __init__(self, pool: QueryPool) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._process: QueryProcess | None = None
        self._cancelled = False

    def answer(self, sql: str, parameters: dict[str, Parameter], form: Form) -> Answered:
        """Run it; blocks. Raises QueryRefused, QueryFailed (also when cancelled) or QueriesOff."""
        process, queries = None, 0
        try:
            process, queries = self._pool._take()
            with self._lock:
                if self._cancelled:
                    raise QueryFailed("the query was cancelled")
                self._process = process
            self._pool._say_if_unconfined(process.wait_ready())
            return process.ask(sql, parameters, form)
        finally:
            with self._lock:
                self._process = None
            self._pool._give_back(self, process, queries + 1)

    def cancel(self) -> None:
        """End it, wherever it is."""
        with self._lock:
            self._cancelled = True
            if self._process is not None:
                self._process.kill()
