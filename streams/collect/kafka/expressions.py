"""JMESPath with bounds: an expression is the operator's, but what it is put to is a stranger's.

Work is counted in steps, not measured in time, so that one record has one outcome on every machine.
"""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from typing import Any, Final, NamedTuple

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions, signature
from jmespath.visitor import Options, TreeInterpreter

from schemas.refusal import shown

EXPRESSION_CHARS: Final = 1_000
#: Nodes of expressions that are visited for one record, with what they return: a tenth of a second at worst.
STEPS_PER_RECORD: Final = 100_000
_LEVELS: Final = 60  # of an expression; each takes four frames of Python
_VALUES_AT_MOST: Final = 40_000
_CHARS_AT_MOST: Final = 2**20
_ITEMS_PER_STEP: Final = 8
_PAIRS_AT_MOST: Final = 1_000
_QUOTIENT_DECIMALS: Final = 3  # as many as a count of an event has
#: Each in joules. Their case counts: mJ and MJ are 10^9 apart.
_JOULES: Final = {
    f"{prefix}{unit}": factor * joules
    for unit, joules in (("J", 1), ("Wh", 3_600))
    for prefix, factor in (
        ("", 1),
        ("u", Fraction(1, 10**6)),
        ("m", Fraction(1, 1_000)),
        ("k", 1_000),
        ("M", 10**6),
    )
}
_AMOUNT: Final = re.compile(r"\s*([+-]?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,2})?)\s*([A-Za-z]*)\s*")


class Expression(NamedTuple):
    """A compiled expression."""

    text: str
    tree: Any


class EvaluationError(Exception):
    """An expression cannot be put to a record; the text says why."""


class UnitError(EvaluationError):
    """An amount has no unit, or one that is not known."""


class TooMuchWorkError(EvaluationError):
    """A record takes more steps than it may, or makes a larger value."""


def compiled(text: str) -> Expression:
    """A compiled expression.

    Raises:
        ValueError: It is too long or nested too deeply, no JMESPath, or calls a function that does not exist.
    """
    if len(text) > EXPRESSION_CHARS:
        raise ValueError(f"expected an expression of at most {EXPRESSION_CHARS} characters")
    try:
        tree = jmespath.compile(text).parsed
    except (JMESPathError, ValueError) as fault:
        said = " ".join(str(fault).split())[:200]
        raise ValueError(f"{text[:80]!r} is no JMESPath: {said}") from None
    except RecursionError:
        raise ValueError(f"{text[:80]!r} is nested too deeply") from None
    pending = [(tree, 1)]
    while pending:
        node, level = pending.pop()
        if level > _LEVELS:
            raise ValueError(f"{text[:80]!r} is nested more than {_LEVELS} levels deep")
        if node["type"] == "function_expression" and node["value"] not in _Functions.FUNCTION_TABLE:
            raise ValueError(
                f"{text[:80]!r} calls {node['value'][:40]}(), which is no function of JMESPath, split, pairs, quotient or joules"
            )
        pending += [(child, level + 1) for child in node.get("children", ()) if isinstance(child, dict)]
    return Expression(text, tree)


class Evaluation:
    """Puts expressions to one record, within its bounds of work."""

    def __init__(self, steps: int = STEPS_PER_RECORD) -> None:
        self._interpreter = _Interpreter(steps)

    def value(self, expression: Expression, record: Any) -> Any:
        """What an expression finds: JSON of finite numbers, of bounded size.

        Raises:
            EvaluationError: It cannot be put to this record.
        """
        try:
            found = self._interpreter.visit(expression.tree, record)
        except EvaluationError:
            raise
        except JMESPathError as fault:
            raise EvaluationError(" ".join(str(fault).split())[:200]) from None
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError) as fault:
            # Functions of the library meet types that their signatures let through.
            raise EvaluationError(f"{type(fault).__name__} in it: {str(fault)[:160]}") from None
        _check_size(found)
        return found


def _check_size(value: Any) -> None:
    """Check a value before anything walks through it whole.

    Raises:
        EvaluationError: It is too large, or no JSON.
    """
    if value is None or isinstance(value, bool | int):
        return
    pending, count, chars = [value], 0, 0
    while pending:
        each = pending.pop()
        count += 1
        if isinstance(each, str):
            chars += len(each)
        elif isinstance(each, list):
            pending += each
        elif isinstance(each, dict):
            pending += each.values()
            chars += sum(map(len, each))
        elif isinstance(each, float):
            if not math.isfinite(each):
                raise EvaluationError("it is no finite number")
        elif each is not None and not isinstance(each, bool | int):
            raise EvaluationError("it is an expression and no value")
        if count > _VALUES_AT_MOST or chars > _CHARS_AT_MOST:
            raise TooMuchWorkError(f"it is more than {_VALUES_AT_MOST} values or {_CHARS_AT_MOST} characters")


class _Functions(Functions):  # type: ignore[misc]  # jmespath has no types
    """Those of JMESPath, two for texts that hold more than one value, the quotient, which JMESPath lacks, and one for energy."""

    @signature({"types": ["string"]}, {"types": ["string"]})  # type: ignore[untyped-decorator]  # jmespath has no types
    def _func_split(self, text: str, separator: str) -> list[str]:
        return text.split(separator, _PAIRS_AT_MOST)

    @signature({"types": ["string"]})  # type: ignore[untyped-decorator]  # jmespath has no types
    def _func_pairs(self, text: str) -> dict[str, str]:
        parts = (part.partition("=") for part in text.split(",", _PAIRS_AT_MOST))
        return {name.strip(): value.strip() for name, _, value in parts}

    @signature({"types": ["number"]}, {"types": ["number"]})  # type: ignore[untyped-decorator]  # jmespath has no types
    def _func_quotient(self, dividend: float, divisor: float) -> float:
        """Return it to three decimals, half to even, of the numbers as they are written: J / s are W to the mW."""
        found = round(Fraction(repr(dividend)) / Fraction(repr(divisor)), _QUOTIENT_DECIMALS)
        return found.numerator if found.denominator == 1 else float(found)

    @signature({"types": ["number", "string", "null"]}, {"types": ["string", "null"]})  # type: ignore[untyped-decorator]  # jmespath has no types
    def _func_joules(self, energy: float | str | None, unit: str | None) -> float | None:
        """Energy in joules; its unit is the one given or stands behind the number. Nothing is nothing."""
        if energy is None:
            return None
        amount = _AMOUNT.fullmatch(energy if isinstance(energy, str) else repr(energy))
        if amount is None:
            raise UnitError(f'{shown(energy)} is no amount of energy, as 465, "465" or "0.129 Wh"')
        number, written = amount.groups()
        said = written or (unit or "").strip()
        if written and unit and unit.strip() != written:
            raise UnitError(f"{shown(energy)} is said to be in {shown(unit)}, expected one of the two")
        if said not in _JOULES:
            what = f"has the unit {shown(said)}" if said else "has no unit"
            raise UnitError(f"the energy {shown(energy)} {what}, expected one of {', '.join(_JOULES)}")
        found = Fraction(number) * _JOULES[said]
        return found.numerator if found.denominator == 1 else float(found)

    @signature({"types": []})  # type: ignore[untyped-decorator]  # jmespath has no types
    def _func_to_string(self, value: Any) -> str:
        _check_size(value)
        return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


_OPTIONS: Final = Options(custom_functions=_Functions())


class _Interpreter(TreeInterpreter):  # type: ignore[misc]  # jmespath has no types
    """Counts its steps."""

    def __init__(self, steps: int) -> None:
        super().__init__(_OPTIONS)
        self._left = steps

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        self._left -= 1
        found = super().visit(node, *args, **kwargs)
        if isinstance(found, list | dict | str):
            self._left -= len(found) // _ITEMS_PER_STEP
        if self._left < 0:
            raise TooMuchWorkError("the record takes more steps than it may")
        return found
