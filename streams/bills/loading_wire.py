"""The messages between a worker and the process that reads bills for it: JSON, behind its first line a table of Arrow."""

from __future__ import annotations

from typing import Final, Literal

import msgspec
import pyarrow as pa

from streams.bills.exchange_rates import RatesLoaded
from streams.bills.limits import BATCH_MAX_BYTES
from streams.bills.lists import ListLoaded, LoadKind
from streams.bills.outcome import LoadedFile
from streams.bills.reading import AskedFormat

#: A batch of lines, with the numbers that are made of its texts.
MESSAGE_MAX_BYTES: Final = 4 * BATCH_MAX_BYTES


class UploadedFile(msgspec.Struct, frozen=True):
    """A file that was sent to a worker."""

    name: str  # as its sender names it; for messages
    path: str  # where it lies, with the ending that says how it is packed


class LoadRequest(msgspec.Struct, frozen=True):
    """The first message: what to load."""

    files: list[UploadedFile]
    replace: bool
    now_ms: int
    cpu_s: int
    memory_bytes: int
    asked: AskedFormat = AskedFormat()
    of: LoadKind = "bills"


class StoreCall(msgspec.Struct, frozen=True, tag=True):
    """What the store is asked for; behind an `insert` follow its rows. The answer to a `select` is a table, else nothing."""

    call: Literal["insert", "select"]
    table: str
    token: str = ""


class LoadEnd(msgspec.Struct, frozen=True, tag=True):
    """The last message: what became of each file, or why none was loaded."""

    files: list[LoadedFile] = []
    rates: list[RatesLoaded] = []
    lists: list[ListLoaded] = []
    refused: str = ""


def with_table(head: bytes, rows: pa.Table) -> bytes:
    """One message: a line, and a table behind it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return b"\n".join((head, memoryview(sink.getvalue())))


def table_of(message: bytes) -> tuple[bytes, pa.Table | None]:
    """The line of a message, and the table behind it, if there is one."""
    head, _, rows = message.partition(b"\n")
    return head, pa.ipc.open_stream(rows).read_all() if rows else None
