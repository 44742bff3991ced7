"""`trainfare sql`: one read-only statement, run in a process that can do nothing else."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streams.cli import ahead
from streams.cli.options import DataOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, write
from streams.cli.reading import target_of
from streams.cli.running_meter import of_running_meter, says_if_none_runs
from streams.errors import SqlSyntaxError, WrongUseError

if TYPE_CHECKING:
    from sinks.answer import QueryResult
    from sinks.query.wire import Parameter
    from streams.config.settings import Settings

#: Of a long line so much is shown before and after the place.
_POINTED_CHARS: Final = 60
_SHOWN_CHARS: Final = 60
#: Types whose values are numbers in an array; those of others are texts.
_NUMBERS: Final[Mapping[str, Callable[[str], int | float]]] = {
    "Int64": int, "UInt64": int, "Float64": float, "Decimal": float,
}  # fmt: skip


def sql(
    query: Annotated[str, typer.Argument(help="One statement that only reads; see the views in docs.")],
    data: DataOption = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="The value of a parameter {NAME:Type} of the statement; may be repeated. Of an array: JSON, or values separated by commas.",
        ),
    ] = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Run read-only SQL over the ledger and its views."""
    parameters = _parameters(query, param or [])
    settings = of_running_meter(settings_for(data))
    with says_if_none_runs(settings):
        answer = _answer(query, parameters, settings)
    write(Grid(answer.names, list(answer.rows())), form)


def _parameters(query: str, given: list[str]) -> dict[str, Parameter]:
    """The values by name; whether they are of their types is for the process that runs the statement to say.

    Raises:
        WrongUseError: One is not NAME=VALUE, is given twice, or is an array in no form of one.
    """
    found: dict[str, Parameter] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals or not name:
            raise WrongUseError(f"--param {each[:_SHOWN_CHARS]}: expected NAME=VALUE")
        if name in found:
            raise WrongUseError(f"--param {name[:_SHOWN_CHARS]}: given twice")
        array = re.search(rf"\{{\s*{re.escape(name)}\s*:\s*Array\(\s*(\w+)", query)
        found[name] = text if array is None else _array(name, array[1], text)
    return found


def _array(name: str, kind: str, text: str) -> list[str | int | float | bool]:
    expected = WrongUseError(
        f"--param {name[:_SHOWN_CHARS]}: expected a JSON array of values, or values of type {kind} separated by commas"
    )
    try:
        if text.lstrip().startswith("["):
            found = json.loads(text)
        else:
            of_text = _NUMBERS.get(kind, str)
            found = [of_text(each.strip()) for each in text.split(",")] if text.strip() else []
    except (ValueError, RecursionError):
        raise expected from None
    if not all(isinstance(each, str | int) or (isinstance(each, float) and isfinite(each)) for each in found):
        raise expected
    return list(found)


def _answer(query: str, parameters: dict[str, Parameter], settings: Settings) -> QueryResult:
    from sinks.errors import QueryFailed
    from sinks.query import QueryLimits, QueryProcess
    from sinks.query.limits import OWN_NICE
    from sinks.target import query_source

    # Somebody waits for it: at the priority of others' statements it would wait for all else that the machine does.
    limits = QueryLimits(
        time_ms=settings.query.max_execution_time_ms,
        memory_bytes=settings.query.max_memory_bytes,
        nice=OWN_NICE,
    )
    process = QueryProcess(query_source(target_of(settings.clickhouse)), limits, ahead.taken())
    try:
        from sinks.query import arrow  # while the process starts

        answered = process.ask(query, parameters, "arrow")
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
