"""Rows as an Arrow file, the form in which a ClickHouse takes them.

It must not send anything, nor know where the file goes.
"""

from typing import Final

import pyarrow as pa

_PLAIN: Final = pa.ipc.IpcWriteOptions(use_threads=False)
# Left to itself, Arrow gives each column to a pool of threads: five times the work for the few rows of a second.
_LZ4: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


def write(out: pa.NativeFile, rows: pa.Table) -> None:
    """Write them as they lie in memory."""
    _write(out, rows, _PLAIN)


def file_of(rows: pa.Table, *, compress: bool) -> pa.Buffer:
    """A file of them, with each column compressed by LZ4 or not."""
    out = pa.BufferOutputStream()
    _write(out, rows, _LZ4 if compress else _PLAIN)
    return out.getvalue()


def _write(out: pa.NativeFile, rows: pa.Table, options: pa.ipc.IpcWriteOptions) -> None:
    with pa.ipc.new_file(out, rows.schema, options=options) as writer:
        writer.write_table(rows)
