"""Values of parameters: of the types that the statement names, whole, and none too many."""

from __future__ import annotations

import pytest

from sinks.query.parameters import bound
from sinks.query.refusal import FailedQueryError, RefusedQueryError
from sinks.query.wire import Parameter


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("UInt64", 2**64 - 1),
        ("UInt64", "18446744073709551615"),
        ("Int64", -(2**63)),
        ("Array(Int64)", [-1, 2**63 - 1]),
        ("Array(UInt64)", []),
        ("String", "99999999999999999999"),
        ("Float64", 1.5),
        ("Decimal(18, 9)", "0.000000001"),
    ],
)
def test_what_fits_is_bound(kind: str, value: Parameter) -> None:
    assert bound({"a": kind}, {"a": value}) == {"a": value}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("UInt64", 2**64),
        ("UInt64", -1),
        ("UInt64", "18446744073709551616"),
        ("UInt64", "1e3"),
        ("UInt64", 1.5),
        ("Int64", 2**63),
        ("Int64", -(2**63) - 1),
        ("Int64", "one"),
        ("Array(Int64)", [1, 2**63]),
        ("Array(String)", "a"),
        ("String", ["a"]),
    ],
)
def test_what_the_engine_would_take_for_something_else_fails(kind: str, value: Parameter) -> None:
    with pytest.raises(FailedQueryError, match="the parameter a is of type"):
        bound({"a": kind}, {"a": value})


def test_a_value_is_neither_missing_nor_too_much() -> None:
    with pytest.raises(FailedQueryError, match="a has no value"):
        bound({"a": "String"}, {})
    with pytest.raises(RefusedQueryError, match=r"no parameter \{b:Type\}"):
        bound({}, {"b": 1})
    many = {f"p{number}": number for number in range(101)}
    with pytest.raises(RefusedQueryError, match="at most 100"):
        bound(dict.fromkeys(many, "Int64"), many)
