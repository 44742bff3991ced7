"""Statements that ask for too much, and how whoever sends them treats the answer."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple


class Reading(Enum):
    """What a client does once it has asked."""

    WHOLE = auto()
    SLOWLY = auto()  # some kilobytes a second
    NEVER = auto()
    LEAVES = auto()  # before the answer comes


class Bomb(NamedTuple):
    """One statement."""

    name: str
    sql: str
    reading: Reading = Reading.WHOLE


#: The longest text that is taken is 16 kB; these are just below it, or far above.
_TEXT_BYTES: Final = 16_000
_NESTED: Final = _TEXT_BYTES // 2 - 10
#: Just below the limit of rows that may be read, so that the estimate lets it through.
_ROWS: Final = 3_900_000_000
_HASHES: Final = f"SELECT sum(cityHash64(toString(number), number)) FROM numbers({_ROWS})"
#: About 60 MB as JSON, close to the limit of an answer.
_HUGE: Final = "SELECT number, repeat('x', 60) AS text FROM numbers(800000)"

BOMBS: Final = (
    Bomb("hashes", _HASHES),
    Bomb("hashes of 1e12 numbers", "SELECT sum(sipHash64(number)) FROM numbers(1000000000000)"),
    Bomb("rows from arrays", "SELECT sum(cityHash64(arrayJoin(range(1000000)), number)) FROM numbers(1000000)"),
    Bomb("constant fold", "SELECT arrayFold((a, x) -> cityHash64(a, x), range(10000000), toUInt64(0))"),
    Bomb("constant map", "SELECT arraySum(x -> arraySum(y -> cityHash64(x, y), range(30000)), range(30000))"),
    Bomb("constant array", "SELECT length(arrayMap(x -> cityHash64(x), range(400000000)))"),
    Bomb("regular expression", "SELECT match(repeat('a', 900000), '(a?){400}a{400}b') FROM numbers(1000)"),
    Bomb("groupArray", "SELECT length(groupArray(cityHash64(number))) FROM numbers(1000000000)"),
    Bomb("uniqExact", "SELECT uniqExact(number) FROM numbers(1000000000)"),
    Bomb("repeat", "SELECT length(groupArray(repeat('x', 1000000))) FROM numbers(10000)"),
    Bomb("cross join", "SELECT count() FROM numbers(1000000) AS a, numbers(1000000) AS b WHERE a.number < b.number"),
    Bomb("join of the ledger", "SELECT sum(a.cost_usd * b.quantity) FROM ledger AS a CROSS JOIN ledger AS b"),
    Bomb("sort", "SELECT number FROM numbers(1000000000) ORDER BY sipHash64(number) DESC"),
    Bomb("nesting", f"SELECT {'(' * _NESTED}1{')' * _NESTED}"),
    Bomb("nested arrays", f"SELECT {'[' * _NESTED}1{']' * _NESTED}"),
    Bomb("not not", "SELECT " + "NOT " * (_TEXT_BYTES // 4 - 10) + "1"),
    Bomb("blanks", "SELECT" + " " * (_TEXT_BYTES - 10) + "1"),
    Bomb("comments", "SELECT " + "/**/" * (_TEXT_BYTES // 4 - 10) + "1"),
    Bomb("100 kB of blanks", "SELECT" + " " * 100_000 + "1"),
    Bomb("huge answer", _HUGE),
    Bomb("huge answer, read slowly", _HUGE, Reading.SLOWLY),
    Bomb("huge answer, never read", _HUGE, Reading.NEVER),
    Bomb("huge answer, left", _HUGE, Reading.LEAVES),
    Bomb("hashes, left", _HASHES, Reading.LEAVES),
    Bomb("memory, left", "SELECT length(groupArray(number)) FROM numbers(1000000000)", Reading.LEAVES),
)  # fmt: skip


def of_client(number: int, clients: int) -> tuple[Bomb, ...]:
    """The bombs in the order of one client: each begins elsewhere, so that all kinds meet."""
    begin = number * len(BOMBS) // max(clients, 1)
    return BOMBS[begin:] + BOMBS[:begin]
