"""Encodes rows as an Arrow file, a format that ClickHouse accepts."""

from typing import Final

import pyarrow as pa

_PLAIN: Final = pa.ipc.IpcWriteOptions(use_threads=False)
# By default Arrow compresses each column in a thread pool: five times the work for the few rows of a second.
_LZ4: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


def write(out: pa.NativeFile, rows: pa.Table) -> None:
    """Write the rows uncompressed."""
    _write(out, rows, _PLAIN)


def file_of(rows: pa.Table, *, compress: bool) -> pa.Buffer:
    """A file of the rows, each column optionally compressed by LZ4."""
    out = pa.BufferOutputStream()
    _write(out, rows, _LZ4 if compress else _PLAIN)
    return out.getvalue()


def _write(out: pa.NativeFile, rows: pa.Table, options: pa.ipc.IpcWriteOptions) -> None:
    with pa.ipc.new_file(out, rows.schema, options=options) as writer:
        writer.write_table(rows)
