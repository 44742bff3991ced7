"""Writes results to a file, block by block: JSON, an Arrow stream or MessagePack, of limited size.

A result that is too large is an error.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Final

from sinks.query import arrow, msgpack
from sinks.query.limits import MIB_BYTES, QueryLimits
from sinks.query.refusal import FailedQueryError
from sinks.query.values import plain, to_json
from sinks.query.wire import Form

_ROWS_AT_ONCE: Final = 4_096

Block = Sequence[Sequence[object]]


def write(
    form: Form,
    names: Sequence[str],
    types: Sequence[str],
    blocks: Iterable[Block],
    out: BinaryIO,
    limits: QueryLimits,
) -> int:
    """Write the result; return the number of its rows.

    Raises:
        FailedQueryError: It exceeds the limits.
    """
    counted = _Counted(blocks, limits)
    if form == "json":
        _json(names, types, counted, out, limits)
    else:
        encoder = arrow.Encoder if form == "arrow" else msgpack.MessagePackEncoder
        _typed(encoder(names, types), counted, out, limits)
    return counted.rows


class _Counted:
    """Passes blocks on until their rows exceed the limit."""

    def __init__(self, blocks: Iterable[Block], limits: QueryLimits) -> None:
        self._blocks = blocks
        self._limits = limits
        self.rows = 0

    def __iter__(self) -> Iterator[Block]:
        for block in self._blocks:
            self.rows += len(block[0]) if block else 0
            if self.rows > self._limits.result_rows:
                raise FailedQueryError(
                    f"the answer has more than {self._limits.result_rows:,} rows; add a LIMIT or sum more in the query"
                )
            yield block


def _typed(
    encoder: arrow.Encoder | msgpack.MessagePackEncoder,
    blocks: Iterable[Block],
    out: BinaryIO,
    limits: QueryLimits,
) -> None:
    size = 0
    for block in blocks:
        size += encoder.add(block)
        _check(size, limits)
    encoder.write(out)
    _check(out.tell(), limits)


def _json(
    names: Sequence[str], types: Sequence[str], blocks: Iterable[Block], out: BinaryIO, limits: QueryLimits
) -> None:
    out.write(b'{"columns":' + to_json(names) + b',"types":' + to_json(types) + b',"rows":[')
    separator = b""
    for block in blocks:
        for begin in range(0, len(block[0]) if block else 0, _ROWS_AT_ONCE):
            part = (column[begin : begin + _ROWS_AT_ONCE] for column in block)
            rows = [[plain(cell) for cell in row] for row in zip(*part, strict=True)]
            out.write(separator + to_json(rows)[1:-1])
            separator = b","
            _check(out.tell(), limits)
    out.write(b"]}")


def _check(size: int, limits: QueryLimits) -> None:
    if size > limits.result_bytes:
        most = limits.result_bytes // MIB_BYTES
        raise FailedQueryError(f"the answer has more than {most} MiB; add a LIMIT or name fewer columns")
