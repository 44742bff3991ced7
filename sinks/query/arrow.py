"""Encodes results of SQL as Arrow streams that preserve every value's type, and decodes them.

Each column has its ClickHouse type, and values without an Arrow type are sent as JSON.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, BinaryIO, Final

import pyarrow as pa

from sinks.answer import QueryResult
from sinks.query.cells import (
    ARROW_TYPE,
    DECIMAL,
    WIDE,
    Converter,
    bare,
    converted,
    from_text,
    to_text,
    zone_of,
)

logger = logging.getLogger(__name__)

MEDIA_TYPE: Final = ARROW_TYPE
_TYPE_KEY: Final = b"clickhouse_type"
_FORM_KEY: Final = b"form"
_AS_JSON: Final = b"json"
_AS_DIGITS: Final = b"digits"
_PLAIN: Final[dict[str, pa.DataType]] = {
    **{f"Int{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)},
    "Float32": pa.float64(),
    "Float64": pa.float64(),
    "Bool": pa.bool_(),
    "String": pa.string(),
    "Date": pa.date32(),
    "Date32": pa.date32(),
}


class Encoder:
    """Collects a result block by block, and writes it as one Arrow IPC stream in which each column has one type."""

    def __init__(self, names: Sequence[str], types: Sequence[str]) -> None:
        self._names = names
        self._types = types
        self._blocks: list[list[tuple[pa.Array, bytes]]] = [[] for _ in names]

    def add(self, block: Sequence[Sequence[object]]) -> int:
        """Add a block of columns of Python values; return its size in bytes."""
        size = 0
        for kind, kept, column in zip(self._types, self._blocks, block, strict=True):
            array, form = _array(kind, column)
            kept.append((array, form))
            size += array.nbytes
        return size

    def write(self, sink: BinaryIO) -> None:
        """Write the stream."""
        fields, columns = [], []
        for name, kind, kept in zip(self._names, self._types, self._blocks, strict=True):
            arrays, form = _unified(kind, kept)
            metadata = {_TYPE_KEY: kind.encode(), **({_FORM_KEY: form} if form else {})}
            fields.append(pa.field(name, arrays[0].type, metadata=metadata))
            columns.append(arrays)
        schema = pa.schema(fields)
        with pa.ipc.new_stream(sink, schema) as writer:
            for block in zip(*columns, strict=True):
                writer.write_batch(pa.record_batch(list(block), schema=schema))


def decode(data: bytes | pa.Buffer) -> QueryResult:
    """Decode what an `Encoder` wrote.

    Raises:
        pa.ArrowException: The data are something else.
    """
    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all()
    kinds = tuple((field.metadata or {}).get(_TYPE_KEY, b"").decode() for field in table.schema)
    columns = tuple(
        _values(kind, (field.metadata or {}).get(_FORM_KEY, b""), column.to_pylist())
        for kind, field, column in zip(kinds, table.schema, table.columns, strict=True)
    )
    return QueryResult(tuple(table.schema.names), kinds, columns)


def _unified(kind: str, kept: list[tuple[pa.Array, bytes]]) -> tuple[list[pa.Array], bytes]:
    """Convert the blocks of a column to one type: the common one, otherwise bytes, otherwise JSON."""
    if not kept:
        array, form = _array(kind, [])
        return [array], form
    arrays = [array for array, _ in kept]
    forms = {form for _, form in kept}
    if len({array.type for array in arrays}) == 1 and len(forms) == 1:
        return arrays, kept[0][1]
    if forms == {b""} and all(
        pa.types.is_string(each.type) or pa.types.is_binary(each.type) for each in arrays
    ):
        return [array.cast(pa.binary()) for array in arrays], b""
    columns = [_values(kind, form, array.to_pylist()) for array, form in kept]
    return [_as_json(column) for column in columns], _AS_JSON


def _as_json(column: Sequence[object]) -> pa.Array:
    return pa.array(converted(column, to_text), pa.string())


def _array(kind: str, column: Sequence[object]) -> tuple[pa.Array, bytes]:
    name = bare(kind)
    if name in WIDE:
        return pa.array([None if value is None else str(value) for value in column], pa.string()), _AS_DIGITS
    target = pa.binary() if any(isinstance(value, bytes) for value in column) else _arrow_type(name)
    if target is not None:
        try:
            return pa.array(column, target), b""
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as fault:
            logger.debug("column is sent as JSON", extra={"type": kind, "reason": str(fault)})
    return _as_json(column), _AS_JSON


def _arrow_type(kind: str) -> pa.DataType | None:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind.startswith("Enum"):
        return pa.string()
    if kind.startswith("DateTime"):
        return pa.timestamp("us", zone_of(kind))
    if decimal := DECIMAL.match(kind):
        digits, places = int(decimal.group(1)), int(decimal.group(2))
        return pa.decimal128(digits, places) if digits <= 38 else pa.decimal256(digits, places)
    return None


def _values(kind: str, form: bytes, values: list[Any]) -> Sequence[object]:
    convert: Converter | None = None
    if form == _AS_JSON:
        convert = from_text(kind)
    elif form == _AS_DIGITS:
        convert = int
    return converted(values, convert)
