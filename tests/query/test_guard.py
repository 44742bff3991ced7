"""What the guard lets through and refuses, by itself: cases that a corpus has found."""

from __future__ import annotations

import pytest

from sinks.query import tree
from sinks.query.grammar import LOWERED
from sinks.query.guard import JudgedStatement, judge
from sinks.query.limits import QueryLimits
from sinks.query.refusal import FailedQueryError, RefusedQueryError
from sinks.query.session import Parser

TABLES = ("jobs", "attempts")


def judged(parser: Parser, sql: str) -> JudgedStatement:
    return judge(tree.parse(parser, sql), TABLES, "trainfare", QueryLimits())


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


LIMITS = {
    "max_execution_time": 30,
    "max_memory_usage": 2**27,
    "max_result_rows": 1_000_000,
    "max_rows_to_read": 4 * 10**9,
}


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize(
    "place",
    [
        "SELECT 1 SETTINGS {s}",
        "SELECT 1 SETTINGS final = 1, {s}",
        "SELECT 1 UNION ALL SELECT 2 SETTINGS {s}",
        "EXPLAIN SELECT 1 SETTINGS {s}",
    ],
)
def test_a_statement_lowers_a_limit_and_lifts_none(name: str, place: str, parser: Parser) -> None:
    most = LIMITS[name]
    assert set(LIMITS) == LOWERED
    for value in (1, most):
        assert judged(parser, place.replace("{s}", f"{name} = {value}")).settings[name] == value
    for value in (0, most + 1, 2**63, 10**19):
        with pytest.raises(
            RefusedQueryError, match=f"`{name}` can only lower this worker's limit: it takes 1 to {most}"
        ):
            judged(parser, place.replace("{s}", f"{name} = {value}"))
    twice = place.replace("{s}", f"{name} = 1, {name} = {most + 1}")
    with pytest.raises(RefusedQueryError):
        judged(parser, twice)


LIFTING = (
    "readonly = 0", "max_threads = 64", "profile = 'default'", "max_result_bytes = 0", "max_bytes_to_read = 0", "timeout_overflow_mode = 'break'",
    "result_overflow_mode = 'break'", "read_overflow_mode = 'break'", "max_memory_usage_for_user = 0", "max_ast_depth = 0", "max_estimated_execution_time = 0",
    "max_bytes_before_external_group_by = 1", "max_execution_time_leaf = 0", "add_http_cors_header = 1", "max_query_size = 0", "priority = 1",
)  # fmt: skip


@pytest.mark.parametrize("change", LIFTING)
def test_no_other_limit_can_be_named(change: str, parser: Parser) -> None:
    with pytest.raises(RefusedQueryError, match="is not allowed"):
        judged(parser, f"SELECT 1 SETTINGS {change}")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 INTO OUTFILE 'x'",
        "SELECT 1 FORMAT CSV",
        "SELECT 1 FORMAT CSV SETTINGS final = 1",
        "EXPLAIN SELECT 1 FORMAT CSV",
    ],
)
def test_nor_where_the_answer_goes(sql: str, parser: Parser) -> None:
    with pytest.raises(RefusedQueryError):
        judged(parser, sql)


def test_a_refusal_of_the_parser_is_short_and_says_nothing_of_how_it_was_asked(parser: Parser) -> None:
    with pytest.raises(FailedQueryError, match=r"Unmatched parentheses.*\.\.\. \(SYNTAX_ERROR\)$") as fault:
        judged(parser, "SELECT " + "f(" * 5_000)
    assert len(str(fault.value)) < 1_200
    with pytest.raises(FailedQueryError) as fault:
        tree.text_of(parser, {"type": "SelectQuery", "select": {"type": "Nothing"}})
    assert "formatQueryFromJSON" not in str(fault.value)
