"""Runs queries over the files of an embedded store, in an engine of its own.

It must not be used before the process is confined.
"""

from contextlib import nullcontext
from typing import BinaryIO, Final

from sinks.query import answers
from sinks.query.limits import QueryLimits
from sinks.query.open_tables import EmbeddedTables
from sinks.query.reads import ReadCounter, Reads
from sinks.query.refusal import FailedQueryError
from sinks.query.session import Parser, answering, failing, failing_unseen, local_client, write_columns
from sinks.query.team_rows import BEHIND_FILTERS, TeamBound
from sinks.query.wire import Request, StoreFiles

#: The engine's error for a file that disappeared after it listed the part.
_PART_GONE: Final = "FILE_DOESNT_EXIST"


class EmbeddedRunner:
    """One engine; the tables that a query needs are opened where they are not open as they are."""

    def __init__(self, files: StoreFiles, limits: QueryLimits, scratch_dir: str) -> None:
        self._limits = limits
        self._is_bound = False
        with failing():
            self._parser = Parser(local_client(scratch_dir, files.engine_dir))
            self._counter = (
                ReadCounter(local_client(scratch_dir, files.engine_dir)) if limits.counts_reads else None
            )
        self._tables = EmbeddedTables(files, lambda: local_client(scratch_dir, files.engine_dir))

    def reads(self) -> Reads | None:
        """What the last query read from tables; None where nothing says so."""
        return None if self._counter is None or self._is_bound else self._counter.last

    def run(self, request: Request, out: BinaryIO) -> int:
        """Write the result; return the number of its rows.

        Raises:
            RefusedQueryError: The statement is not allowed.
            FailedQueryError: It failed or exceeded a limit.
            QueriesOffError: The store's files cannot be read.
        """
        # How much was read tells of rows of others.
        self._is_bound = request.teams is not None
        try:
            return self._once(request, out)
        except FailedQueryError as fault:
            if _PART_GONE not in str(fault):
                raise
        # A merge removed a part between listing the folder and opening its files: retry.
        self._tables.forget()
        out.seek(0)
        out.truncate()
        return self._once(request, out)

    def _once(self, request: Request, out: BinaryIO) -> int:
        tables = self._tables
        names = tables.names()
        bound = None
        if request.teams is not None:
            own = [name for name, is_view in names.items() if not is_view]
            bound = TeamBound(tuple(request.teams), tables.database, own)
        prepared = self._parser.prepare(
            request.sql, request.parameters, names, tables.database, self._limits, bound
        )
        if request.is_check:
            with tables.opened(prepared.tables, prepared.settings) as client:
                write_columns(client, prepared, out)
            return 0
        # The filters read some tables themselves.
        behind = frozenset[str]() if bound is None else BEHIND_FILTERS & frozenset(names)
        with (
            nullcontext() if bound is None else failing_unseen(),
            tables.opened(prepared.tables | behind, prepared.settings) as client,
            nullcontext() if self._counter is None else self._counter.counting(),
            answering(client, prepared) as (columns, blocks),
        ):
            return answers.write(request.form, columns.names, columns.types, blocks, out, self._limits)
