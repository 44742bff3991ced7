"""What the guard lets through and refuses, by itself: cases that a corpus has found."""

from __future__ import annotations

import pytest

from sinks.query import tree
from sinks.query.guard import JudgedStatement, judge
from sinks.query.refusal import FailedQueryError, RefusedQueryError
from sinks.query.session import Parser

TABLES = ("jobs", "attempts")


def judged(parser: Parser, sql: str) -> JudgedStatement:
    return judge(tree.parse(parser, sql), TABLES, "trainfare")


@pytest.mark.parametrize(
    "columns",
    [
        "'a String, b String ALIAS hostName()', ('x')",
        "'a String, b DEFAULT(hostName())', ('x')",
        "'a String, b String MATERIALIZED hostName()', ('x')",
        "'a String CODEC(ZSTD)', 'x'",
        "concat('a String', ' ALIAS hostName()'), ('x')",
        "s, ('x')",
        "{s:String}, ('x')",
        "",
    ],
)
def test_columns_of_values_are_names_and_types_only(columns: str, parser: Parser) -> None:
    with pytest.raises(RefusedQueryError, match="names and types"):
        judged(parser, f"SELECT * FROM values({columns})")


@pytest.mark.parametrize(
    "columns",
    [
        "'a String', 'x'",
        "'a Array(Nullable(UInt8)), `b` Decimal(9, 2)', ([1], 2)",
        "(1, 'x'), (2, 'y')",
        "1, 2",
        "tuple(1, lower('X')), (2, 'y')",
    ],
)
def test_values_of_names_and_types_pass(columns: str, parser: Parser) -> None:
    judged(parser, f"SELECT * FROM values({columns})")


def test_a_subquery_of_with_may_have_the_name_of_the_table_it_reads(parser: Parser) -> None:
    found = judged(parser, "WITH jobs AS (SELECT * FROM jobs) SELECT * FROM jobs")
    assert found.tables == {"jobs"}
    assert judged(parser, "WITH own AS (SELECT 1) SELECT * FROM own").tables == frozenset()


@pytest.mark.parametrize("settings", ["max_execution_time = DEFAULT", "final = 1, param_x = 1"])
def test_settings_are_names_and_numbers_only(settings: str, parser: Parser) -> None:
    with pytest.raises(RefusedQueryError, match="SETTINGS take numbers only"):
        judged(parser, f"SELECT 1 SETTINGS {settings}")


def test_a_refusal_of_the_parser_is_short_and_says_nothing_of_how_it_was_asked(parser: Parser) -> None:
    with pytest.raises(FailedQueryError, match=r"Unmatched parentheses.*\.\.\. \(SYNTAX_ERROR\)$") as fault:
        judged(parser, "SELECT " + "f(" * 5_000)
    assert len(str(fault.value)) < 1_200
    with pytest.raises(FailedQueryError) as fault:
        tree.text_of(parser, {"type": "SelectQuery", "select": {"type": "Nothing"}})
    assert "formatQueryFromJSON" not in str(fault.value)
