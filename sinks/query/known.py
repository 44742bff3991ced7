"""Checks statements by tables without a row, where there is no store to ask."""

from typing import BinaryIO

from sinks.query.limits import QueryLimits
from sinks.query.reads import Reads
from sinks.query.refusal import RefusedQueryError
from sinks.query.session import Parser, failing, local_client, write_columns
from sinks.query.wire import KnownTables, Request


class CheckRunner:
    """An engine with empty tables: it parses, and says which columns an answer would have."""

    def __init__(self, known: KnownTables, limits: QueryLimits, scratch_dir: str) -> None:
        self._known = known
        self._limits = limits
        with failing():
            self._parser = Parser(local_client(scratch_dir))
            self._client = local_client(scratch_dir)
            self._client.command(f"CREATE DATABASE `{known.database}` ENGINE = Memory")
            self._client.database = known.database
            for statement in known.create:
                self._client.command(statement)
            for name, value in {**limits.settings(), "readonly": "1"}.items():
                self._client.set_client_setting(name, value)

    def run(self, request: Request, out: BinaryIO) -> int:
        """Check a statement; there are no rows.

        Raises:
            RefusedQueryError: It is not allowed, or is to be run.
            FailedQueryError: It cannot be parsed, or names a column that is not there.
        """
        if not request.is_check:
            raise RefusedQueryError("there is no store here: statements are checked, not run")
        prepared = self._parser.prepare(
            request.sql, request.parameters, self._known.tables, self._known.database, self._limits
        )
        write_columns(self._client, prepared, out)
        return 0

    def reads(self) -> Reads | None:
        """None: nothing is read."""
        return None
