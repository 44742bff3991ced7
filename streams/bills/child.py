"""The process that reads bills for a worker: its own memory, time and priority, and no file but those that were sent.

A worker must not import it. Lines are read and checked here; the store, which the worker has open, is asked over a channel.
"""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from sinks.query import confine
from sinks.query.limits import OWN_NICE
from streams.bills.allocation_file import load_rules
from streams.bills.archives import bill_files
from streams.bills.carbon_file import load_intensities
from streams.bills.commitment_file import load_commitments
from streams.bills.exchange_rates import load_rates
from streams.bills.loading import load
from streams.bills.loading_wire import (
    MESSAGE_MAX_BYTES,
    LoadEnd,
    LoadRequest,
    StoreCall,
    table_of,
    with_table,
)
from streams.bills.outcome import outcome_of, unpack_refusal
from streams.errors import WrongUseError
from streams.packed import UNPACK_ERRORS

_CHANNEL: Final = 0
_STREAMS: Final = str(Path(__file__).resolve().parents[1])


def main() -> None:
    """Load what the first message names, and say what became of it."""
    confine.lower_priority(OWN_NICE)
    channel = Connection(os.dup(_CHANNEL))
    asked = msgspec.json.decode(channel.recv_bytes(MESSAGE_MAX_BYTES), type=LoadRequest)
    folders = {str(Path(each.path).parent) for each in asked.files}
    confine.close_in_helper(asked.cpu_s, asked.memory_bytes, [_STREAMS, *folders])
    try:
        files = [*bill_files((each.name, Path(each.path)) for each in asked.files)]
        store = _RemoteStore(channel)
        if asked.of == "rates":
            end = LoadEnd(rates=load_rates(store, files, asked.now_ms))
        elif asked.of == "commitments":
            end = LoadEnd(lists=load_commitments(store, files, asked.now_ms))
        elif asked.of == "carbon":
            end = LoadEnd(lists=load_intensities(store, files, asked.now_ms))
        elif asked.of == "allocation_rules":
            end = LoadEnd(lists=load_rules(store, files, asked.now_ms))
        else:
            loaded = load(store, files, asked.now_ms, replace=asked.replace, asked=asked.asked)
            end = LoadEnd([outcome_of(each) for each in loaded])
    except WrongUseError as wrong:
        end = LoadEnd(refused=str(wrong))
    except UNPACK_ERRORS as fault:
        end = LoadEnd(refused=unpack_refusal(fault))
    except MemoryError:
        end = LoadEnd(
            refused=f"the files need more than {asked.memory_bytes >> 20} MiB of memory; split them"
        )
    channel.send_bytes(msgspec.json.encode(end))


class _RemoteStore:
    """The worker's store."""

    def __init__(self, channel: Connection) -> None:
        self._channel = channel

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        self._ask(with_table(msgspec.json.encode(StoreCall("insert", table, token)), rows))

    def select(self, table: str) -> pa.Table:
        found = table_of(self._ask(msgspec.json.encode(StoreCall("select", table))))[1]
        assert found is not None
        return found

    def _ask(self, message: bytes) -> bytes:
        self._channel.send_bytes(message)
        return self._channel.recv_bytes(MESSAGE_MAX_BYTES)
