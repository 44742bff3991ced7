"""Checks statements by the names of tables alone, where there is no store to ask."""

from typing import BinaryIO

from sinks.query.limits import QueryLimits
from sinks.query.refusal import RefusedQueryError
from sinks.query.session import Parser, failing, local_client
from sinks.query.wire import KnownTables, Request


class CheckRunner:
    """An engine without tables: it parses."""

    def __init__(self, known: KnownTables, limits: QueryLimits, scratch_dir: str) -> None:
        self._known = known
        self._limits = limits
        with failing():
            self._parser = Parser(local_client(scratch_dir))

    def run(self, request: Request, _out: BinaryIO) -> int:
        """Check a statement; there are no rows.

        Raises:
            RefusedQueryError: It is not allowed, or is to be run.
            FailedQueryError: It cannot be parsed.
        """
        if not request.is_check:
            raise RefusedQueryError("there is no store here: statements are checked, not run")
        self._parser.prepare(
            request.sql, request.parameters, self._known.tables, self._known.database, self._limits
        )
        return 0
