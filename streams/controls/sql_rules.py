"""Asks the guard of the SQL of users about rules by SQL that are to be published: a worker runs them, and refuses what it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

from schemas.events import ControlEvent
from sinks.errors import QueriesOff, QueryFailed, QueryRefused
from sinks.target import Server, Target, query_source
from streams.engine.alerts.malformed import MalformedControlError
from streams.engine.alerts.own_rule_records import is_own_rule, own_rule_of
from streams.engine.ledger_rules.own_rule_findings import COLUMNS, answer_faults

if TYPE_CHECKING:
    from sinks.query.statement_check import StatementCheck
    from sinks.query.wire import Source

_KIND: Final = "rule"
_CODE: Final = re.compile(r"Code: \d+\. DB::Exception: ")
_FAULT_CHARS: Final = 400
#: What stands for columns without their names.
_MANY_COLUMNS: Final = re.compile(r"\*|\bCOLUMNS\b", re.IGNORECASE)
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
    """A line for each fault of a rule by SQL: its statement would be refused, or its answer left out.

    Args:
        rules: Controls without another fault, and what makes a line of what is wrong with one; others than rules by SQL are passed over.
        target: The store of the settings: its tables and columns count, if it can be asked; else those of this version.
    """
    statements: list[tuple[str, Callable[[str], str]]] = []
    for event, line in rules:
        if is_sql_rule(event) and (sql := _statement(event)):
            statements.append((sql, line))
    if not statements:
        return SqlRuleFaults([])
    from sinks.clickhouse.empty_tables import empty_tables
    from sinks.query.statement_check import StatementCheck  # starts processes; seldom needed

    sources: list[Source] = [empty_tables(target.database)]
    if isinstance(target, Server) and target.reader_user:
        sources.insert(0, query_source(target))
    faults: list[str] = []
    note = ""
    with closing(StatementCheck(sources)) as check:
        for sql, line in statements:
            try:
                found = _asked(check, sql)
            except QueriesOff as off:
                note = f"tables and columns of rules by SQL were not checked, and a worker may refuse them: {off}"
                faults = [_line(line, fault) for sql, line in statements for fault in _unnamed(sql)]
                break
            faults += [_line(line, fault) for fault in found]
    return SqlRuleFaults(faults, note)


def _line(line: Callable[[str], str], fault: str) -> str:
    return line(f"sql: {fault}; try it with `trainfare sql`")


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


def _asked(check: StatementCheck, sql: str) -> list[str]:
    """What a worker would find wrong with a statement or the columns of its answer.

    Raises:
        QueriesOff: Nobody can say, and why.
    """
    try:
        return answer_faults(check.columns(sql))
    except (QueryRefused, QueryFailed) as fault:
        return [_short(str(fault))]


def _unnamed(sql: str) -> list[str]:
    """Columns that a statement cannot give its answer, as its text does not name them; without an engine that reads SQL."""
    if _MANY_COLUMNS.search(sql):
        return []
    return [
        f"{name} is not in it, and the answer needs the columns {', '.join(COLUMNS)}"
        for name in COLUMNS
        if not re.search(rf"\b{name}\b", sql)
    ]
