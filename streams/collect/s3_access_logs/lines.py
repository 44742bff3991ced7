"""Reads lines of S3 server access logs."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

_BEGIN: Final = re.compile(r"\S+ (\S+) \[([^\]]{1,40})\] ")
_CELL: Final = re.compile(r'"([^"]*)"|(\S+)')
#: What ends the request: its URI may hold raw quotes, but no blanks.
_REQUEST_END: Final = re.compile(r'" (?=(?:\d{3}|-) )')
_TIME: Final = re.compile(r"(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d) \+0000\Z")
_MONTHS: Final = {
    name: at
    for at, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
_REGION: Final = re.compile(
    r"(?:^|\.)s3(?:-fips|-website|-accesspoint|-accesspoint-fips|express-[a-z0-9]+-az\d)?[.-](?:dualstack\.)?([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com"
)
_LINE_CHARS: Final = 16_384
_NEEDED: Final = 14  # behind the time, up to the user agent; later fields came one by one
_USER_AGENT_AT, _HOST_AT = 13, 19

#: Operations by the end of their names: what is listed, deleted; the rest goes by its verb.
_LISTS: Final = frozenset({"BUCKET", "BUCKETVERSIONS", "UPLOADS", "UPLOAD"})
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS", "SELECT"})
_WRITES: Final = frozenset({"PUT", "POST", "COPY", "PATCH"})
#: What S3 moves to another class by itself is charged to the bucket.
LIFECYCLE: Final = "lifecycle"


class S3Request(NamedTuple):
    """One request; `op` is empty for what S3 does by itself, such as expiring objects, LIFECYCLE where it charges for that."""

    time_ms: int
    bucket: str
    key: str
    requester: str
    user_agent: str
    address: str
    region: str
    op: str
    bytes: int
    status: int


def request_of(line: str) -> S3Request:
    """The request of a line.

    Raises:
        ValueError: The line is not of an access log; the message says what is wrong.
    """
    begin = _BEGIN.match(line)
    if begin is None or len(line) > _LINE_CHARS:
        raise ValueError("it does not begin as a line of an access log does, or is too long")
    cells = _cells(line[begin.end() :].rstrip())
    if len(cells) < _NEEDED:
        raise ValueError(f"{len(cells)} fields after the time, expected {_NEEDED} or more of an access log")
    address, requester, _, operation, key, _, status, _, sent, size = cells[:10]
    op = _op(operation)
    host = _REGION.search(cells[_HOST_AT]) if len(cells) > _HOST_AT else None
    return S3Request(
        _time_ms(begin[2]),
        begin[1],
        "" if key == "-" else key,
        requester,
        cells[_USER_AGENT_AT],
        address,
        "" if host is None else host[1],
        op,
        _number(sent if op == "read" else size) if op in {"read", "write"} else 0,
        _number(status),
    )


def _cells(text: str) -> list[str]:
    """The fields behind the time; fewer than are needed where the line has another form.

    What a requester writes stands in quotes, with raw quotes in it: the request, the referer and the user agent.
    """
    cells = text.split(" ", 5)
    if len(cells) < 6:
        return cells
    rest = cells.pop()
    if rest.startswith("- "):  # what is nothing stands with quotes or without
        cells.append("-")
        rest = rest[2:]
    else:
        end = _REQUEST_END.search(rest, 1)
        if end is None:
            return _quoted(text)
        cells.append(rest[1 : end.start()])
        rest = rest[end.end() :]
    numbers = rest.split(" ", 6)
    if len(numbers) < 7:
        return [*cells, *numbers]
    said, quote, tail = numbers.pop().rpartition('"')
    referer, is_both, user_agent = said[1:].partition('" "')
    if not (quote and is_both and said.startswith('"')):
        return [*cells, *numbers, *_quoted(said + quote + tail)]
    return [*cells, *numbers, referer, user_agent, *tail.split()]


def _quoted(text: str) -> list[str]:
    return ["".join(found) for found in _CELL.findall(text)]


def _op(operation: str) -> str:
    """The class of an operation such as REST.GET.OBJECT, WEBSITE.GET.OBJECT or BATCH.DELETE.OBJECT.

    Raises:
        ValueError: It is none that is known.
    """
    source, _, rest = operation.partition(".")
    verb, _, what = rest.partition(".")
    if source == "S3":
        return LIFECYCLE if verb.startswith("TRANSITION") else ""
    if verb == "DELETE" or what == "MULTI_OBJECT_DELETE":
        return "delete"
    if verb == "GET" and what in _LISTS:
        return "list"
    if not what or verb not in _READS | _WRITES:
        raise ValueError(f"the operation {operation[:60]} is not known")
    return "read" if verb in _READS else "write"


def _time_ms(text: str) -> int:
    found = _TIME.match(text)
    if found is None or found[2] not in _MONTHS:
        raise ValueError("the time is none, expected e.g. 06/Feb/2019:00:00:38 +0000")
    day, year, hour, minute, second = (int(found[at]) for at in (1, 3, 4, 5, 6))
    at = datetime(year, _MONTHS[found[2]], day, hour, minute, second, tzinfo=UTC)
    return int(at.timestamp()) * 1000


def _number(text: str) -> int:
    if text == "-":
        return 0
    if len(text) > 16 or not (text.isascii() and text.isdigit()):
        raise ValueError("the status or a count of bytes is no number")
    return int(text)
