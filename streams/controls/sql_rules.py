"""Asks the guard of the SQL of users about rules by SQL that are to be published: a worker runs them, and refuses what it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Final, NamedTuple

from schemas.events import ControlEvent
from schemas.tables import SCHEMAS
from sinks.errors import QueriesOff
from sinks.target import Server, Target, query_source
from streams.engine.alerts.malformed import MalformedControlError
from streams.engine.alerts.own_rule_records import is_own_rule, own_rule_of

_KIND: Final = "rule"
_CODE: Final = re.compile(r"Code: \d+\. DB::Exception: ")
_FAULT_CHARS: Final = 400
#: Any instant: a statement is judged by its form.
_AT_MS: Final = 1_800_000_000_000


class SqlRuleFaults(NamedTuple):
    """What is wrong with rules by SQL; `note`: why they were not checked, '' where they were."""

    faults: list[str]
    note: str = ""


def is_sql_rule(event: ControlEvent) -> bool:
    """Whether a control is a rule by SQL."""
    return event.kind == _KIND and is_own_rule(event.value)


def sql_rule_faults(
    rules: Iterable[tuple[ControlEvent, Callable[[str], str]]], target: Target
) -> SqlRuleFaults:
    """A line for each rule by SQL whose statement would be refused.

    Args:
        rules: Controls without another fault, and what makes a line of what is wrong with one; others than rules by SQL are passed over.
        target: The store of the settings: its tables count, if it can be asked; else those of this version.
    """
    statements: list[tuple[str, Callable[[str], str]]] = []
    for event, line in rules:
        if is_sql_rule(event) and (sql := _statement(event)):
            statements.append((sql, line))
    if not statements:
        return SqlRuleFaults([])
    from sinks.query.statement_check import StatementCheck  # starts processes; seldom needed
    from sinks.query.wire import KnownTables, Source

    sources: list[Source] = [KnownTables(_known_tables(), target.database)]
    if isinstance(target, Server) and target.reader_user:
        sources.insert(0, query_source(target))
    faults: list[str] = []
    with closing(StatementCheck(sources)) as check:
        for sql, line in statements:
            try:
                fault = check.fault(sql)
            except QueriesOff as off:
                said = f"rules by SQL were not checked, and a worker may refuse them: {off}"
                return SqlRuleFaults(faults, said)
            if fault:
                faults.append(line(f"sql: {_short(fault)}; try it with `trainfare sql`"))
    return SqlRuleFaults(faults)


def _statement(event: ControlEvent) -> str:
    """The statement for some span; '' of a rule that is switched off, or has another fault."""
    try:
        rule = own_rule_of(event.name, event.value)
    except MalformedControlError:
        return ""
    return "" if rule is None else rule.statement(_AT_MS)


def _short(fault: str) -> str:
    """A fault without what the parser would have taken instead, which is long and helps nobody."""
    return _CODE.sub("", fault).partition(". Expected one of")[0][:_FAULT_CHARS]


def _known_tables() -> dict[str, bool]:
    from sinks.clickhouse.view_files import shipped_views

    return {**dict.fromkeys((*SCHEMAS, "migrations"), False), **{view.name: True for view in shipped_views()}}
