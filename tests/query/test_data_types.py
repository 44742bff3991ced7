"""Types that a statement may name in a text: values of them are read by no function that is not on the list."""

from __future__ import annotations

import pytest

from sinks.errors import QueryRefused
from sinks.query import QueryLimits, QueryProcess, StoreFiles
from sinks.query.data_types import is_allowed
from tests.query.test_process import scratch, source  # noqa: F401 - fixtures

ALLOWED = [
    "Decimal(9, 2)",
    "Nullable(String)",
    "Array(Tuple(a UInt8, b String))",
    "Map(String, Array(UInt64))",
    "DateTime64(3, 'UTC')",
    "Enum8('a' = 1, 'b' = -2)",
    "Tuple(UInt8, String)",
    "FixedString(4)",
    " Int64 ",
    "LowCardinality(Nullable(String))",
]
REFUSED = [
    "AggregateFunction(groupBitmap, UInt64)",
    "Array(AggregateFunction(sum, UInt64))",
    "Tuple(a AggregateFunction(sum, UInt8))",
    "SimpleAggregateFunction(sum, UInt8)",
    "Nullable(AggregateFunction(x))",
    "Object('json')",
    "Dynamic",
    "",
    "Int64)",
    "Array(",
    "Array()",
    "Array(Int64) DEFAULT file('x')",
    "Decimal(file(1))",
    "Array(" * 40 + "Int8" + ")" * 40,
]
STATEMENTS = [
    "SELECT finalizeAggregation(CAST(unhex('00') AS AggregateFunction(groupBitmap, UInt64)))",
    "SELECT CAST(unhex('00') AS AggregateFunction(groupBitmap, UInt64))",
    "SELECT unhex('00')::AggregateFunction(flameGraph, UInt64)",
    "SELECT CAST('1', concat('Aggregate', 'Function(sum, UInt8)'))",
    "SELECT accurateCastOrNull('1', 'AggregateFunction(sum, UInt8)')",
    "SELECT JSONExtract('{}', 'a', 'AggregateFunction(sum, UInt8)')",
    "SELECT reinterpret('1', 'AggregateFunction(sum, UInt8)')",
    "SELECT defaultValueOfTypeName('AggregateFunction(sum, UInt8)')",
    "SELECT * APPLY(x -> CAST(x, 'AggregateFunction(sum, UInt8)')) FROM numbers(1)",
]


@pytest.mark.parametrize("text", ALLOWED)
def test_types_of_values_are_allowed(text: str) -> None:
    assert is_allowed(text)


@pytest.mark.parametrize("text", REFUSED)
def test_types_that_hold_a_function_or_are_none_are_not(text: str) -> None:
    assert not is_allowed(text)


def test_no_statement_names_such_a_type(source: StoreFiles) -> None:  # noqa: F811 - the fixture
    process = QueryProcess(source, QueryLimits())
    try:
        for sql in STATEMENTS:
            with pytest.raises(QueryRefused):
                process.ask(sql, {}, "json")
        process.ask(
            "SELECT CAST('1.5' AS Decimal(9, 2)), '1'::UInt8, CAST((1, 'a') AS Tuple(a UInt8, b String))",
            {},
            "json",
        )
    finally:
        process.close()
