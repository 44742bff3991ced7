"""Reads a bill in Parquet batch by batch, within bounds.

It must not trust the sizes that a file states further than they are checked: long values are seen before they are copied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas.counting import how_many
from streams.bills.limits import BYTES_MAX, COLUMN_MAX_BYTES, LINES_MAX
from streams.bills.lines import BillLine
from streams.bills.reading import Reading
from streams.bills.values import TAGS_MAX_BYTES
from streams.errors import WrongUseError

MAGIC: Final = b"PAR1"
_ROWS_AT_ONCE: Final = 1_024
_LEAVES_MAX: Final = 2_000
#: Of a value of Python, about, besides its text.
_VALUE_BYTES: Final = 64
_READ_BYTES: Final = 2**20


class ParquetLines:
    """The rows of one file, numbered from 1; `digest` is that of the file."""

    def __init__(self, name: str, stream: IO[bytes], reading: Reading) -> None:
        self._name = name
        self._reading = reading
        self._stream = stream
        self.digest = _digest(name, stream)

    def __iter__(self) -> Iterator[BillLine]:
        """Yield every row, checked.

        Raises:
            WrongUseError: A row is wrong, and is named; or the file is no Parquet, or too large.
        """
        self._stream.seek(0)
        try:
            # Texts stay dictionaries: one long text that a million rows name is in memory once.
            texts = _text_columns(pq.read_metadata(self._stream, memory_map=False), self._name)
            self._stream.seek(0)
            file = pq.ParquetFile(self._stream, read_dictionary=texts, pre_buffer=False)
            self._reading.begin(self._name, "schema", file.schema_arrow.names)
            number = 0
            for batch in file.iter_batches(_ROWS_AT_ONCE, use_threads=False):
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    self._check_length(name, column, number)
                if sum(map(_bytes_as_values, batch.columns)) > COLUMN_MAX_BYTES:
                    raise WrongUseError(
                        f"{self._name} rows from {number + 1}: more than {COLUMN_MAX_BYTES} bytes in "
                        f"{how_many(batch.num_rows, 'row')}; nothing of this file is loaded"
                    )
                columns = [_values(column) for column in batch.columns]
                for cells in zip(*columns, strict=True):
                    number += 1
                    yield from self._reading.lines(number, f"row {number}", cells)
        except (pa.ArrowException, OSError, ValueError, OverflowError) as fault:
            reason = " ".join(str(fault).split())[:200]
            raise WrongUseError(f"{self._name}: cannot be read as Parquet: {reason}") from None

    def _check_length(self, name: str, column: pa.Array, before: int) -> None:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            longest = pc.max(pc.binary_length(column)).as_py() or 0
        else:
            longest = column.nbytes // _ROWS_AT_ONCE
        if longest > TAGS_MAX_BYTES:
            raise WrongUseError(
                f"{self._name} rows from {before + 1}: {name} has values longer than {TAGS_MAX_BYTES} bytes; "
                "nothing of this file is loaded"
            )


def _bytes_as_values(column: pa.Array) -> int:
    """Return about how much the column takes as values of Python, where each row has its own copy of a text."""
    kind = column.type
    own = _VALUE_BYTES * len(column)
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(column.dictionary)
        return own + int(pc.sum(pc.take(lengths, column.indices)).as_py() or 0)
    if pa.types.is_map(kind):
        first, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
        parts = [part.slice(first, end - first) for part in (column.keys, column.items)]
        return own + sum(map(_bytes_as_values, parts))
    if pa.types.is_nested(kind):
        parts = column.flatten() if pa.types.is_struct(kind) else [column.flatten()]
        return own + sum(map(_bytes_as_values, parts))
    return own + int(column.nbytes)


def _text_columns(metadata: Any, name: str) -> list[str]:
    """The columns of text, after a check of the sizes that the file states."""
    schema = metadata.schema
    if metadata.num_columns > _LEAVES_MAX:
        raise WrongUseError(f"{name}: more than {_LEAVES_MAX} columns; is it a bill?")
    total = 0
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        columns = [group.column(number) for number in range(metadata.num_columns)]
        total += sum(column.total_uncompressed_size for column in columns)
        # A number that is repeated is encoded in next to nothing.
        sizes = [max(column.total_uncompressed_size, 8 * column.num_values) for column in columns]
        if max(sizes, default=0) > COLUMN_MAX_BYTES:
            raise WrongUseError(
                f"{name}: row group {at} has a column of more than {COLUMN_MAX_BYTES} bytes unpacked; "
                "write smaller row groups"
            )
    if total > BYTES_MAX or metadata.num_rows > LINES_MAX:
        raise WrongUseError(
            f"{name}: more than {BYTES_MAX} bytes unpacked or {LINES_MAX} rows; "
            "split it into several files and load them in one command"
        )
    leaves = (schema.column(number) for number in range(metadata.num_columns))
    return [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]


def _values(column: pa.Array) -> list[Any]:
    found: list[Any] = column.to_pylist()
    return found


def _digest(name: str, stream: IO[bytes]) -> str:
    found, size = hashlib.sha256(), 0
    while data := stream.read(_READ_BYTES):
        size += len(data)
        if size > BYTES_MAX:
            raise WrongUseError(f"{name}: more than {BYTES_MAX} bytes; split it into several files")
        found.update(data)
    return found.hexdigest()
