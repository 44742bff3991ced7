"""The chain of hashes over the audit trail: made of the rows of `changes` in order of offset, and checked again from the first.

It shows a row that was altered or taken away by somebody who does not make the whole chain anew; a hash that was noted elsewhere shows that, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import orjson

#: As text, in this order, so that every reader of the table hashes the same.
COLUMNS: Final = (
    "offset",
    "time_ms",
    "kind",
    "name",
    "by",
    "proof",
    "address",
    "removed",
    "after",
    "comment",
    "source",
    "id",
)
ROWS_SQL: Final = """SELECT offset, toUnixTimestamp64Milli(time) AS time_ms, kind, name, by, proof, address,
  toUInt8(removed) AS removed, after, comment, source, id
FROM changes FINAL WHERE offset > {after:Int64} AND offset <= {until:Int64} ORDER BY offset LIMIT {limit:UInt64}"""
SEALS_SQL: Final = """SELECT offset, hash FROM change_seals FINAL
WHERE offset > {after:Int64} AND offset <= {until:Int64} ORDER BY offset LIMIT {limit:UInt64}"""
WAITING_SQL: Final = "SELECT uniqExact(offset) AS changes FROM changes WHERE offset > {after:Int64}"
FIRST: Final = ""


class Seal(NamedTuple):
    """The hash up to a change, and with it."""

    offset: int
    hash: str


def seals_of(rows: Iterable[Sequence[object]], before: str) -> Iterator[Seal]:
    """Yield the seal of each row, in order; `before` is the hash of the row before the first."""
    for row in rows:
        content = orjson.dumps([before, *(str(each) for each in row)])
        before = hashlib.sha256(content).hexdigest()
        yield Seal(int(str(row[0])), before)


def broken_at(
    rows: Iterable[Sequence[object]], seals: Sequence[Seal], before: str = FIRST
) -> tuple[int, str] | None:
    """The first offset at which rows and seals part, and what is wrong there; None: they agree.

    Rows after the last seal are not judged: they wait for theirs.
    """
    sealed = {each.offset: each.hash for each in seals}
    if not sealed:
        return None
    missing = dict(sealed)
    last = max(sealed)
    for found in seals_of((row for row in rows if int(str(row[0])) <= last), before):
        wanted = missing.pop(found.offset, None)
        if wanted is None:
            return found.offset, "a change was put in between others"
        if wanted != found.hash:
            gone = min((each for each in missing if each < found.offset), default=None)
            if gone is not None:
                return gone, "a change was taken away"
            return found.offset, "a change was altered"
    if missing:
        return min(missing), "a change was taken away"
    return None
