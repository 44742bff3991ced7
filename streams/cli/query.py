"""`trainfare sql`: one read-only statement, run in a process that can do nothing else."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streams.cli import ahead
from streams.cli.options import DataOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, write
from streams.cli.reading import target_of
from streams.errors import SqlSyntaxError

if TYPE_CHECKING:
    from sinks.answer import QueryResult
    from streams.config.settings import Settings

_SAY_AFTER_S: Final = 2.0
#: Of a long line so much is shown before and after the place.
_POINTED_CHARS: Final = 60


def sql(
    query: Annotated[str, typer.Argument(help="One statement that only reads; see the views in docs.")],
    data: DataOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Run read-only SQL over the ledger and its views."""
    with _waiting():
        answer = _answer(query, settings_for(data))
    write(Grid(answer.names, list(answer.rows())), form)


def _answer(query: str, settings: Settings) -> QueryResult:
    from sinks.errors import QueryFailed
    from sinks.query import QueryLimits, QueryProcess
    from sinks.target import query_source

    limits = QueryLimits(
        time_ms=settings.query.max_execution_time_ms, memory_bytes=settings.query.max_memory_bytes
    )
    process = QueryProcess(query_source(target_of(settings.clickhouse)), limits, ahead.taken())
    try:
        from sinks.query import arrow  # while the process starts

        answered = process.ask(query, {}, "arrow")
    except QueryFailed as fault:
        raise _pointed_at(query, str(fault)) or fault from None
    finally:
        process.close()
    with os.fdopen(answered.descriptor, "rb") as file:
        file.seek(0)
        return arrow.decode(file.read())


def _pointed_at(query: str, said: str) -> SqlSyntaxError | None:
    """What ClickHouse says of a query that does not parse, without all that could stand there instead."""
    from sinks.query.syntax import syntax_fault

    fault = syntax_fault(query, said)
    if fault is None:
        return None
    column = fault.column - 1
    line = (query.splitlines() or [""])[min(fault.line, len(query.splitlines())) - 1]
    first = max(column - _POINTED_CHARS, 0)
    shown = line[first : column + _POINTED_CHARS]
    return SqlSyntaxError(fault.words(query), (shown, " " * (column - first) + "^"))


@contextmanager
def _waiting() -> Iterator[None]:
    """Show on a terminal that a long query is running."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    status = Console(stderr=True).status("running the query; Ctrl-C ends it")
    timer = threading.Timer(_SAY_AFTER_S, status.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()
