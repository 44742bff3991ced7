"""Asks the guard about statements without running them: for whoever publishes what a worker runs later."""

from __future__ import annotations

from collections.abc import Sequence

from sinks.errors import QueriesOff
from sinks.query.limits import OWN_NICE, QueryLimits
from sinks.query.process import QueryProcess
from sinks.query.wire import Source

_LIMITS = QueryLimits(time_ms=10_000, nice=OWN_NICE)


class StatementCheck:
    """One process, started with the first statement; `close` ends it."""

    def __init__(self, sources: Sequence[Source]) -> None:
        """`sources`: whose tables there are; the first one that can answer is asked."""
        self._sources = [*sources]
        self._process: QueryProcess | None = None

    def columns(self, sql: str) -> dict[str, str]:
        """The columns that the answer of a statement has: types by name, {} of what is no SELECT.

        Raises:
            QueryRefused: The statement would be refused.
            QueryFailed: It cannot be parsed, or names a column that is not there.
            QueriesOff: Nobody can say, and why.
        """
        while True:
            process = self._started()
            try:
                return process.check(sql)
            except QueriesOff:
                self.close()
                if len(self._sources) == 1:
                    raise
                del self._sources[0]

    def close(self) -> None:
        """End its process."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _started(self) -> QueryProcess:
        if self._process is None or not self._process.reusable:
            self.close()
            self._process = QueryProcess(self._sources[0], _LIMITS)
        return self._process
