"""The functions that a query may call: the names in `functions.txt`, and aggregates with ClickHouse's combinators.

It is an allow list: everything else is refused.
"""

from functools import cache
from importlib.resources import files
from typing import Final

_AGGREGATES: Final = "Aggregate Functions"
#: Suffixes that change the input of an aggregate function, not its capabilities.
COMBINATORS: Final = (
    "if", "array", "map", "distinct", "ordefault", "ornull", "state", "simplestate", "merge", "foreach", "resample",
    "argmin", "argmax",
)  # fmt: skip
#: Table functions that produce rows from their arguments, or from a query that is checked like any other.
TABLE_FUNCTIONS: Final = frozenset(
    {"numbers", "numbers_mt", "generate_series", "generateseries", "values", "view"}
)


@cache
def listed() -> dict[str, frozenset[str]]:
    """The names of `functions.txt` by category, in lower case."""
    found: dict[str, set[str]] = {}
    names: set[str] = set()
    for line in files(__package__).joinpath("functions.txt").read_text(encoding="ascii").splitlines():
        if line.startswith("## "):
            names = found.setdefault(line.removeprefix("## "), set())
        elif not line.startswith("#"):
            names.update(line.lower().split())
    return {category: frozenset(each) for category, each in found.items()}


@cache
def _all() -> frozenset[str]:
    return frozenset().union(*listed().values())


def is_allowed(name: str) -> bool:
    """Whether a query may call the function."""
    lower = name.lower()
    return lower in _all() or _is_combined(lower)


def _is_combined(name: str) -> bool:
    if name in listed()[_AGGREGATES]:
        return True
    return any(name.endswith(suffix) and _is_combined(name.removesuffix(suffix)) for suffix in COMBINATORS)
