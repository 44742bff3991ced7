"""Checks parameter values against their types."""

from collections.abc import Mapping
from typing import Final

from sinks.query.limits import PARAMETERS_MAX
from sinks.query.refusal import FailedQueryError, RefusedQueryError
from sinks.query.wire import Parameter

#: ClickHouse silently reduces an integer that does not fit modulo 2**64.
_RANGES: Final = {"Int64": range(-(2**63), 2**63), "UInt64": range(2**64)}


def bound(types: Mapping[str, str], values: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """The values of a statement's parameters; `types`: the parameters that it declares.

    Raises:
        FailedQueryError: A value is missing or of another type.
        RefusedQueryError: A value has no parameter.
    """
    if len(values) > PARAMETERS_MAX:
        raise RefusedQueryError(f"at most {PARAMETERS_MAX} parameters are allowed")
    missing = sorted(types.keys() - values.keys())
    unused = sorted(values.keys() - types.keys())
    if missing:
        raise FailedQueryError(f"the parameter {missing[0]} has no value")
    if unused:
        raise RefusedQueryError(f"the query has no parameter {{{unused[0][:80]}:Type}}")
    for name, value in values.items():
        _check(name, types[name], value)
    return dict(values)


def _check(name: str, kind: str, value: Parameter) -> None:
    is_array = kind.startswith("Array(")
    if is_array != isinstance(value, list):
        raise FailedQueryError(f"the parameter {name} is of type {kind}, and its value is {_named(value)}")
    bare = kind.removeprefix("Array(").removesuffix(")") if is_array else kind
    if bare in _RANGES:
        for each in value if isinstance(value, list) else [value]:
            _check_integer(name, bare, each)


def _check_integer(name: str, kind: str, value: str | float | bool) -> None:
    try:
        fits = not isinstance(value, float) and int(value) in _RANGES[kind]
    except ValueError:
        fits = False
    if not fits:
        raise FailedQueryError(f"the parameter {name} is of type {kind}, and {str(value)[:80]!r} is none")


def _named(value: Parameter) -> str:
    return "an array" if isinstance(value, list) else "no array"
