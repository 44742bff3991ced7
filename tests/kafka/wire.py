"""Kafka's wire format of the answers that the proxy changes: every version that aiokafka 0.14 and librdkafka 2.x use.

Read as nested dictionaries and written back the same; what comes behind the known tags is kept as it came.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 8, 9, 10, 11, 12, 14
API_VERSIONS: Final = 18
_ALL: Final = 99
_NUMBERS: Final = {"i16": ">h", "i32": ">i", "i64": ">q", "bool": ">?"}
_UUID_BYTES: Final = 16


@dataclass(frozen=True)
class Field:
    name: str
    kind: str | tuple[Field, ...]  # a name of a type, or the fields of each element of an array
    since: int = 0
    until: int = _ALL


def _each(name: str, *fields: Field, since: int = 0, until: int = _ALL) -> Field:
    return Field(name, fields, since, until)


_ERROR: Final = Field("error", "i16")
_INDEX: Final = Field("index", "i32")
_OFFSETS: Final = _each(
    "partitions",
    _INDEX,
    Field("offset", "i64"),
    Field("epoch", "i32", 5),
    Field("metadata", "string"),
    _ERROR,
)
#: API key -> (first flexible version, fields of the answer).
ANSWERS: Final[dict[int, tuple[int, tuple[Field, ...]]]] = {
    METADATA: (
        9,
        (
            Field("throttle", "i32", 3),
            _each(
                "brokers",
                Field("node", "i32"),
                Field("host", "string"),
                Field("port", "i32"),
                Field("rack", "string", 1),
            ),
            Field("cluster", "string", 2),
            Field("controller", "i32", 1),
            _each(
                "topics",
                _ERROR,
                Field("name", "string"),
                Field("id", "uuid", 10),
                Field("internal", "bool", 1),
                _each(
                    "partitions",
                    _ERROR,
                    _INDEX,
                    Field("leader", "i32"),
                    Field("epoch", "i32", 7),
                    Field("replicas", "i32s"),
                    Field("isr", "i32s"),
                    Field("offline", "i32s", 5),
                ),
                Field("operations", "i32", 8),
            ),
            Field("operations", "i32", 8, 10),
            Field("error", "i16", 13),
        ),
    ),
    FIND_COORDINATOR: (
        3,
        (
            Field("throttle", "i32", 1),
            Field("error", "i16", 0, 3),
            Field("message", "string", 1, 3),
            Field("node", "i32", 0, 3),
            Field("host", "string", 0, 3),
            Field("port", "i32", 0, 3),
            _each(
                "coordinators",
                Field("key", "string"),
                Field("node", "i32"),
                Field("host", "string"),
                Field("port", "i32"),
                _ERROR,
                Field("message", "string"),
                since=4,
            ),
        ),
    ),
    JOIN_GROUP: (
        6,
        (
            Field("throttle", "i32", 2),
            _ERROR,
            Field("generation", "i32"),
            Field("protocol_type", "string", 7),
            Field("protocol", "string"),
            Field("leader", "string"),
            Field("skips", "bool", 9),
            Field("member", "string"),
            _each(
                "members",
                Field("member", "string"),
                Field("instance", "string", 5),
                Field("metadata", "bytes"),
            ),
        ),
    ),
    SYNC_GROUP: (
        4,
        (
            Field("throttle", "i32", 1),
            _ERROR,
            Field("protocol_type", "string", 5),
            Field("protocol", "string", 5),
            Field("assignment", "bytes"),
        ),
    ),
    HEARTBEAT: (4, (Field("throttle", "i32", 1), _ERROR)),
    OFFSET_COMMIT: (
        8,
        (
            Field("throttle", "i32", 3),
            _each(
                "topics",
                Field("name", "string", 0, 9),
                Field("id", "uuid", 10),
                _each("partitions", _INDEX, _ERROR),
            ),
        ),
    ),
    OFFSET_FETCH: (
        6,
        (
            Field("throttle", "i32", 3),
            _each("topics", Field("name", "string"), _OFFSETS, until=7),
            Field("error", "i16", 2, 7),
            _each(
                "groups",
                Field("group", "string"),
                _each("topics", Field("name", "string", 0, 9), Field("id", "uuid", 10), _OFFSETS),
                _ERROR,
                since=8,
            ),
        ),
    ),
    LIST_OFFSETS: (
        6,
        (
            Field("throttle", "i32", 2),
            _each(
                "topics",
                Field("name", "string"),
                _each(
                    "partitions",
                    _INDEX,
                    _ERROR,
                    Field("timestamp", "i64", 1),
                    Field("offset", "i64", 1),
                    Field("epoch", "i32", 4),
                ),
            ),
        ),
    ),
    FETCH: (
        12,
        (
            Field("throttle", "i32", 1),
            Field("error", "i16", 7),
            Field("session", "i32", 7),
            _each(
                "topics",
                Field("name", "string", 0, 12),
                Field("id", "uuid", 13),
                _each(
                    "partitions",
                    _INDEX,
                    _ERROR,
                    Field("high_watermark", "i64"),
                    Field("stable", "i64", 4),
                    Field("start", "i64", 5),
                    _each("aborted", Field("producer", "i64"), Field("first", "i64"), since=4),
                    Field("replica", "i32", 11),
                    Field("records", "bytes"),
                ),
            ),
        ),
    ),
}


class Reader:
    """Reads one answer; strings that are null are None, and so are arrays."""

    def __init__(self, data: bytes, version: int, *, flexible: bool) -> None:
        self._data, self._at, self._version, self._flexible = data, 0, version, flexible

    def answer(self, fields: tuple[Field, ...]) -> dict[str, Any]:
        found = self._struct(fields)
        assert self._at == len(self._data), f"{len(self._data) - self._at} bytes are left over"
        return found

    def tags(self) -> bytes:
        """Return the tagged fields as they came."""
        begin = self._at
        for _ in range(self._varint()):
            self._varint()
            self._take(self._varint())
        return self._data[begin : self._at]

    def rest(self) -> bytes:
        return self._data[self._at :]

    def _struct(self, fields: tuple[Field, ...]) -> dict[str, Any]:
        found = {
            each.name: self._value(each.kind) for each in fields if each.since <= self._version <= each.until
        }
        if self._flexible:
            found["tags"] = self.tags()
        return found

    def _value(self, kind: str | tuple[Field, ...]) -> Any:
        if isinstance(kind, tuple):
            count = self._count("i32")
            return None if count < 0 else [self._struct(kind) for _ in range(count)]
        if kind in _NUMBERS:
            return self._number(kind)
        if kind == "uuid":
            return self._take(_UUID_BYTES)
        if kind == "i32s":
            count = self._count("i32")
            return None if count < 0 else [self._number("i32") for _ in range(count)]
        count = self._count("i16" if kind == "string" else "i32")
        if count < 0:
            return None
        taken = self._take(count)
        return taken.decode() if kind == "string" else taken

    def _count(self, kind: str) -> int:
        return self._varint() - 1 if self._flexible else int(self._number(kind))

    def _number(self, kind: str) -> Any:
        form = _NUMBERS[kind]
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        assert len(taken) == count, "the answer ends too early"
        self._at += count
        return taken


class Writer:
    """Writes what a `Reader` read; a field that is not there is zero, empty or null."""

    def __init__(self, version: int, *, flexible: bool) -> None:
        self._parts: list[bytes] = []
        self._version, self._flexible = version, flexible

    def answer(self, fields: tuple[Field, ...], found: dict[str, Any]) -> bytes:
        self._struct(fields, found)
        return b"".join(self._parts)

    def _struct(self, fields: tuple[Field, ...], found: dict[str, Any]) -> None:
        for each in fields:
            if each.since <= self._version <= each.until:
                self._value(each.kind, found.get(each.name, _EMPTY.get(str(each.kind), [])))
        if self._flexible:
            self._parts.append(found.get("tags", b"\0"))

    def _value(self, kind: str | tuple[Field, ...], value: Any) -> None:
        if isinstance(kind, tuple) or kind == "i32s":
            self._count("i32", -1 if value is None else len(value))
            for each in value or ():
                self._struct(kind, each) if isinstance(kind, tuple) else self._number("i32", each)
        elif kind in _NUMBERS:
            self._number(kind, value)
        elif kind == "uuid":
            self._parts.append(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            self._count("i16" if kind == "string" else "i32", -1 if data is None else len(data))
            self._parts.append(data or b"")

    def _count(self, kind: str, count: int) -> None:
        if self._flexible:
            self._parts.append(varint(count + 1))
        else:
            self._number(kind, count)

    def _number(self, kind: str, value: Any) -> None:
        self._parts.append(struct.pack(_NUMBERS[kind], value))


_EMPTY: Final[dict[str, Any]] = {
    **dict.fromkeys(("i16", "i32", "i64"), 0),
    "bool": False,
    "uuid": bytes(_UUID_BYTES),
    "string": "",
    "bytes": b"",
}


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def read_answer(key: int, version: int, data: bytes) -> dict[str, Any]:
    """Return the fields of an answer without its header."""
    flexible_from, fields = ANSWERS[key]
    return Reader(data, version, flexible=version >= flexible_from).answer(fields)


def write_answer(key: int, version: int, found: dict[str, Any]) -> bytes:
    """Return an answer without its header."""
    flexible_from, fields = ANSWERS[key]
    return Writer(version, flexible=version >= flexible_from).answer(fields, found)


def is_flexible(key: int, version: int) -> bool:
    """Return whether the answer's header has tagged fields."""
    return key in ANSWERS and version >= ANSWERS[key][0]
