"""Statements made of the pieces of others, and an independent look at those that the guard lets through."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from clickhouse_connect.driver.exceptions import ClickHouseError

from sinks.query import tree
from sinks.query.functions import is_allowed
from sinks.query.guard import JudgedStatement, judge
from sinks.query.limits import QueryLimits
from sinks.query.refusal import FailedQueryError, RefusedQueryError
from sinks.query.session import Parser

TABLES: Final = ("jobs", "job_costs", "ledger", "attempts", "burn_rates", "job_minutes", "prices", "alerts")
DATABASE: Final = "trainfare"
_TOKEN: Final = re.compile(
    r"\s+|'(?:[^'\\]|\\.)*'|`[^`]*`|\"[^\"]*\"|\$\w*\$|--[^\n]*|/\*.*?\*/|\{\w+:[^}]*\}|\w+|->|::|[<>!=]+|.",
    re.DOTALL,
)
#: Put where they fit least.
_PIECES: Final = (
    "INTO OUTFILE 'x'", "FORMAT CSV", "FORMAT Null", "SETTINGS limit = 1", "SETTINGS final = 1", "SETTINGS additional_table_filters = {'a': 'b'}", "; SELECT 1",
    "UNION ALL SELECT 1", "INTERSECT", "EXCEPT", "FROM file('x', 'CSV')", "file('x')", "url('http://x')", "FROM system.one", "IN system.one", "default.x", "`/etc/passwd`",
    "{t:Identifier}", "{t:String}", "dictGet('x', 'y', 1)", "EXPLAIN", "DESCRIBE", "SHOW TABLES", "SHOW COLUMNS FROM jobs", "INSERT INTO jobs", "PARALLEL WITH", "WITH t AS (",
    "AS x", "(", ")", "[", "]", ",", "'", "`", '"', "$$", "$t$", "--", "/*", "*/", "#", "\\", "\n", "\0", "\u2019", "*", "APPLY(file)", "REPLACE (1 AS x)", "COLUMNS('x')",
    "FINAL", "SAMPLE 1", "STREAM", "PREWHERE", "QUALIFY", "INTERPOLATE", "WITH FILL", "LIMIT 1 BY ALL", "WITH TIES", "OVER ()", "RESPECT NULLS", "GROUP BY ALL", "TOTALS",
    "values('a String ALIAS hostName()', 1)", "view(SELECT 1)", "NULL", "DEFAULT", "ALIAS", "->", "::String", ".*", ".1", "?", ":", "COLLATE 'de'", "INTO OUTFILE {f:String}",
    "`FORMAT`", "`INTO`", "`OUTFILE`", "`SETTINGS`", "`FROM`", "`UNION`", "`ALL`", "`AS`", "`FINAL`", "`LIMIT`", "`WHERE`", "`SELECT`", "`file`", "AS `FORMAT`", "AS `INTO`",
    "AS `SETTINGS`", "AS `FROM`", "`x FROM file('x')`", "`x`` y`", "'x\\' INTO OUTFILE \\'y'", "`a.b`", "`1`", "`-- x`", "`x;y`", "`/*`", "0x1F", "1e400", "-0.0", "18446744073709551616",
)  # fmt: skip
_KINDS: Final = frozenset({"SelectWithUnionQuery", "Explain", "ShowTables", "ShowColumns"})
#: Nodes of ClickHouse's own tree, as EXPLAIN AST prints them, that a reading statement consists of.
_NODES: Final = _KINDS | frozenset(
    """
    ArrayJoin Asterisk ColumnsApplyTransformer ColumnsExceptTransformer ColumnsListMatcher ColumnsRegexpMatcher ColumnsReplaceTransformer
    ColumnsReplaceTransformer::Replacement ColumnsTransformerList ExpressionList Function Identifier InterpolateElement Literal OrderByElement
    QualifiedAsterisk QualifiedColumnsListMatcher QualifiedColumnsRegexpMatcher QueryParameter SelectIntersectExceptQuery SelectQuery Set Subquery
    TableExpression TableIdentifier TableJoin TablesInSelectQuery TablesInSelectQueryElement WindowDefinition WindowListElement WithElement
    """.split()  # noqa: SIM905  # words of the engine
)
#: The engine parses it, and says before it looks at any table that it cannot run.
_CANNOT_RUN: Final = re.compile(r"EXPECTED_ALL_OR_DISTINCT")
_OF_ROWS: Final = frozenset({"numbers", "numbers_mt", "generate_series", "generateseries", "values", "view"})
_EXPRESSIONS: Final = frozenset(
    {"Function", "Literal", "Identifier", "Subquery", "QueryParameter", "Asterisk"}
)


class Let(NamedTuple):
    """A statement that the guard lets through."""

    text: str  # that would run
    judged: JudgedStatement


class UnsafeError(AssertionError):
    """The guard has let something through that is not one reading statement."""


def passed(parser: Parser, sql: str) -> Let | None:
    """The statement that would run; None if it is refused. What else is raised is a fault of the guard."""
    try:
        tree.check_text(sql)
        judged = judge(tree.parse(parser, sql), TABLES, DATABASE, QueryLimits())
        return Let(tree.text_of(parser, judged.tree), judged)
    except (RefusedQueryError, FailedQueryError):
        return None


def look(parser: Parser, let: Let) -> bool:
    """Look at what would run, without the guard's own eyes; whether it can run at all. Raises UnsafeError."""
    try:
        again = tree.parse(parser, let.text)
    except FailedQueryError:
        return False  # ClickHouse leaves some keywords unquoted that are names: it would not parse when it is to run, either
    try:
        judged = judge(again, TABLES, DATABASE, QueryLimits())
    except RefusedQueryError as fault:
        raise UnsafeError(f"it is refused the second time: {let.text}: {fault}") from fault
    text = tree.text_of(parser, judged.tree)
    if (text, judged.tables, judged.settings) != (let.text, let.judged.tables, {}):
        raise UnsafeError(f"it is another statement the second time: {let.text} -> {text}")
    if parser.text("SELECT formatQuerySingleLine({q:String})", let.text) != let.text:
        raise UnsafeError(f"ClickHouse writes it otherwise: {let.text}")
    values = {name: _value(kind) for name, kind in judged.parameters.items()}
    try:
        raw = parser._client.raw_query(f"EXPLAIN AST {let.text}", parameters=values or None, fmt="Native")
    except ClickHouseError as fault:
        if _CANNOT_RUN.search(str(fault)):
            return False
        raise UnsafeError(f"it is no statement: {let.text}: {fault}") from fault
    lines = raw.decode().split("\n")[:-1]
    # As when it runs, the driver has added the format, which must be the end of the statement.
    if not lines or lines.pop().strip() != "Identifier Native":
        raise UnsafeError(f"its end is not the end of the statement: {let.text}")
    check_lines(lines, let.text)
    return True


def check_lines(lines: Sequence[str], text: str) -> None:
    """Whether ClickHouse's own tree has nothing but what reads; raises UnsafeError."""
    above: list[str] = []
    for line in lines:
        depth = len(line) - len(line.lstrip(" "))
        kind, _, rest = line.strip().partition(" ")
        parent = above[depth - 1] if depth else ""
        above[depth:] = [kind]
        if kind not in (_NODES if depth else _KINDS):
            raise UnsafeError(f"{kind} in {text}")
        # An output file is a literal there, a format an identifier.
        if parent == "SelectWithUnionQuery" and kind != "ExpressionList":
            raise UnsafeError(f"{line} of the statement itself: {text}")
        in_show = parent in ("ShowTables", "ShowColumns") and line.strip() != f"Identifier {DATABASE}"
        if in_show or (kind == "Set" and parent != "Explain"):
            raise UnsafeError(f"{line} in {parent}: {text}")
        name = rest.partition(" (")[0]
        may = name.lower() in _OF_ROWS if parent == "TableExpression" else is_allowed(name)
        # A parameter's value is cast by a function that has no name in SQL.
        if kind == "Function" and not may and name != "_CAST":
            raise UnsafeError(f"the function {name} in {text}")
        if kind == "TableIdentifier" and not re.fullmatch(rf"(?:{DATABASE}\.)?\w+", name):
            raise UnsafeError(f"the table {name} in {text}")


def _value(kind: str) -> Any:
    bare = kind.removeprefix("Array(").removesuffix(")") if kind.startswith("Array(") else kind
    value = {"String": "x", "Bool": True, "Date": "2026-03-01"}.get(bare, 1)
    if bare.startswith("DateTime"):
        value = "2026-03-01 12:00:00"
    return [value] if kind.startswith("Array(") else value


class Maker:
    """Makes statements of the tokens and of the subtrees of others; the same ones of the same seed."""

    def __init__(self, parser: Parser, corpus: Sequence[str], seed: int) -> None:
        self._parser = parser
        self._random = random.Random(seed)  # to be repeated, not to be secret
        self._texts = [_TOKEN.findall(sql) for sql in corpus if 0 < len(sql) < 1_500]
        self._tokens = [token for text in self._texts for token in text if token.strip()]
        self._trees = [found for sql in corpus if len(sql) < 1_500 and (found := self._tree(sql))]
        self._nodes: dict[str, list[dict[str, Any]]] = {}
        for each in self._trees:
            for node in _nodes_of(each):
                self._nodes.setdefault(_class(node), []).append(node)

    def statements(self, count: int) -> Iterator[str]:
        """So many statements, most of which differ."""
        made = 0
        while made < count:
            sql = self._spliced() if self._random.random() < 0.4 else self._mutated()
            if sql is not None and len(sql) < 16_384:
                made += 1
                yield sql

    def _tree(self, sql: str) -> dict[str, Any] | None:
        try:
            return tree.parse(self._parser, sql)
        except (RefusedQueryError, FailedQueryError):
            return None

    def _mutated(self) -> str:
        tokens = list(self._random.choice(self._texts))
        for _ in range(self._random.randint(1, 4)):
            at, way = self._random.randrange(len(tokens) + 1), self._random.randrange(6)
            if way == 0:
                del tokens[at : at + self._random.randint(1, 3)]
            elif way == 1:
                tokens.insert(at, f" {self._random.choice(_PIECES)} ")
            elif way == 2:
                tokens.insert(at, f" {self._random.choice(self._tokens)} ")
            elif way == 3:
                tokens[at : at + 1] = [self._random.choice(self._tokens)]
            elif way == 4:
                other = self._random.choice(self._texts)
                begin = self._random.randrange(len(other))
                tokens[at:at] = other[begin : begin + self._random.randint(1, 12)]
            else:
                other = self._random.choice(self._texts)
                tokens[at:] = other[self._random.randrange(len(other)) :]
        return "".join(tokens)

    def _spliced(self) -> str | None:
        """A statement in which a part is replaced by a part of another one that may stand in its place."""
        made = copy.deepcopy(self._random.choice(self._trees))
        for _ in range(self._random.randint(1, 3)):
            node = self._random.choice(list(_nodes_of(made)))
            other = copy.deepcopy(self._random.choice(self._nodes[_class(node)]))
            node.clear()
            node.update(other)
            if len(json.dumps(made)) > 100_000:
                return None
        try:
            return tree.text_of(self._parser, made)
        except FailedQueryError:
            return None


def _class(node: dict[str, Any]) -> str:
    return "expression" if node["type"] in _EXPRESSIONS else str(node["type"])


def _nodes_of(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for each in value:
            yield from _nodes_of(each)
    elif isinstance(value, dict) and "field_type" not in value:
        if "type" in value:
            yield value
        for each in value.values():
            yield from _nodes_of(each)
