"""The process that allocates bills and closes months for a worker: its own memory, time and priority, and no file.

A worker must not import it. The store, which the worker has open, is asked over a channel.
"""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from sinks.answer import QueryResult
from sinks.query import arrow, confine
from sinks.query.limits import OWN_NICE
from streams.bills.loading_wire import MESSAGE_MAX_BYTES, with_table
from streams.costs.allocating import allocate, due_months
from streams.costs.closing import close
from streams.errors import WrongUseError
from streams.web.month_wire import MonthCall, MonthEnd, MonthRequest

_CHANNEL: Final = 0
_STREAMS: Final = str(Path(__file__).resolve().parents[1])


def main() -> None:
    """Do what the first message names, and say what became of it."""
    confine.lower_priority(OWN_NICE)
    channel = Connection(os.dup(_CHANNEL))
    asked = msgspec.json.decode(channel.recv_bytes(MESSAGE_MAX_BYTES), type=MonthRequest)
    confine.close_in_helper(asked.cpu_s, asked.memory_bytes, [_STREAMS])
    store = _WorkerStore(channel)
    try:
        if asked.closes:
            closed = close(
                store, asked.closes, asked.rules, asked.now_ms, store.signed, is_forced=asked.is_forced
            )
            end = MonthEnd(closed=closed[0], skipped=closed[1])
        else:
            months = asked.months or due_months(store)
            end = MonthEnd([allocate(store, month, asked.now_ms) for month in months])
    except WrongUseError as wrong:
        end = MonthEnd(wrong=str(wrong))
    except MemoryError:
        end = MonthEnd(refused=f"the month needs more than {asked.memory_bytes >> 20} MiB of memory")
    channel.send_bytes(msgspec.json.encode(end))


class _WorkerStore:
    """The worker's store, as `AllocationStore`."""

    def __init__(self, channel: Connection) -> None:
        self._channel = channel

    def ask(self, sql: str, **parameters: object) -> QueryResult:
        return arrow.decode(self._call(msgspec.json.encode(MonthCall("ask", sql, parameters))))

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        self._call(with_table(msgspec.json.encode(MonthCall("insert", table=table, token=token)), rows))

    def forget_allocations(self, month_s: int, before: int) -> None:
        self._call(msgspec.json.encode(MonthCall("forget", month_s=month_s, before=before)))

    def forget_closing(self, month_s: int) -> None:
        self._call(msgspec.json.encode(MonthCall("forget_closing", month_s=month_s)))

    def signed(self, manifest: str) -> tuple[str, str]:
        """The signature of a manifest, and the name of the key, which this process never sees."""
        return msgspec.json.decode(
            self._call(msgspec.json.encode(MonthCall("sign", manifest=manifest))), type=tuple[str, str]
        )

    def _call(self, message: bytes) -> bytes:
        self._channel.send_bytes(message)
        return self._channel.recv_bytes(MESSAGE_MAX_BYTES)
