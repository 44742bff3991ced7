"""Values of parameters: of the types that the statement names, whole, and none too many."""

from __future__ import annotations

import re
from typing import Final

import pytest

from sinks.query import guard
from sinks.query.parameters import bound
from sinks.query.refusal import FailedQueryError, RefusedQueryError
from sinks.query.wire import Parameter
from tests.meta.tree import ROOT


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


#: Whose statements commands also send through a worker.
_ASKED: Final = ("streams/cli", "streams/costs", "streams/estimate", "streams/explain", "streams/prices", "sinks/clickhouse/upgrade.py")  # fmt: skip
_PARAMETER: Final = re.compile(
    r"\{[a-z_]+: ?((?:Array\()?(?:U?Int|String|Float|Bool|Date|Decimal)[A-Za-z0-9(), ]*)\}"
)


def test_statements_of_commands_have_parameters_that_a_worker_takes() -> None:
    """They are judged as SQL of users is once a worker has the directory open."""
    kinds = [
        (str(path.relative_to(ROOT)), kind)
        for part in _ASKED
        for path in ([ROOT / part] if part.endswith(".py") else (ROOT / part).rglob("*.py"))
        for kind in _PARAMETER.findall(path.read_text())
    ]
    assert len(kinds) > 50
    assert [each for each in kinds if not guard._PARAMETER_TYPE.fullmatch(each[1])] == []
