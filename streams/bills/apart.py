"""Loads files of bills for a worker in a process apart, so that neither their size nor their form holds up the meter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import pyarrow as pa

from schemas.bill_tables import BILL_LINES, BILL_LOADS, FX_RATES
from schemas.commitment_tables import ALLOCATION_RULES, CARBON_INTENSITIES, COMMITMENTS
from schemas.escaping import visible
from streams.bills.exchange_rates import RatesLoaded
from streams.bills.lists import ListLoaded, LoadKind
from streams.bills.loading import BillStore
from streams.bills.loading_wire import (
    LoadEnd,
    LoadRequest,
    StoreCall,
    UploadedFile,
    table_of,
    with_table,
)
from streams.bills.outcome import LoadedFile
from streams.bills.process_apart import ProcessApart
from streams.bills.reading import NOTHING_ASKED, AskedFormat
from streams.errors import TrainfareError, WrongUseError

CPU_S: Final = 1_800
_TABLES: Final = frozenset(
    (BILL_LINES, BILL_LOADS, FX_RATES, COMMITMENTS, CARBON_INTENSITIES, ALLOCATION_RULES)
)
#: Private memory: a column of Parquet, a batch of lines as Python has them, and what is made of them.
MEMORY_BYTES: Final = 2 * 2**30


class BillLoad:
    """One load. `run` blocks; `kill` may be called from any thread.

    Args:
        files: What was sent.
        now_ms: Log time of the load.
        replace: Whether the files take the place of the bills that they are about.
        cpu_s: Limit of processor time, in s.
        asked: What their sender says of their format.
        of: What they are: bills, or a list that is kept beside them.
    """

    def __init__(
        self,
        files: Sequence[UploadedFile],
        now_ms: int,
        *,
        replace: bool,
        cpu_s: int = CPU_S,
        asked: AskedFormat = NOTHING_ASKED,
        of: LoadKind = "bills",
    ) -> None:
        self._asked = LoadRequest([*files], replace, now_ms, cpu_s, MEMORY_BYTES, asked, of)
        self._process = ProcessApart("streams.bills.child")

    def run(self, store: BillStore) -> list[LoadedFile] | list[RatesLoaded] | list[ListLoaded]:
        """Load the files into the store; return what became of each.

        Raises:
            WrongUseError: A file is wrong, or a bill that stands would be doubled; nothing is loaded.
            TrainfareError: The process was killed, or needed more than its limits.
            SinkError: The store did not take the lines; the same load again completes it.
        """
        try:
            self._process.send(msgspec.json.encode(self._asked))
            while True:
                head, rows = table_of(self._process.received())
                message = msgspec.json.decode(head, type=StoreCall | LoadEnd)
                if isinstance(message, LoadEnd):
                    break
                self._process.send(_answer(store, message, rows))
        except (EOFError, OSError) as gone:
            raise TrainfareError(
                f"the process that reads bills ended early: the files need more than {MEMORY_BYTES >> 20} MiB of memory or "
                f"{self._asked.cpu_s} s of processor time, or their sender left; split them, or load again"
            ) from gone
        finally:
            self.close()
        if message.refused:
            raise WrongUseError(message.refused)
        return message.files or message.rates or message.lists

    def kill(self) -> None:
        """End the process; `run` ends then."""
        self._process.kill()

    def close(self) -> None:
        """End the process and free what it held."""
        self._process.close()


def _answer(store: BillStore, call: StoreCall, rows: pa.Table | None) -> bytes:
    # The process reads what strangers wrote: it may write bills, and nothing else.
    if call.table not in _TABLES:
        raise TrainfareError(f"the process that reads bills asked for the table {visible(call.table[:80])}")
    if rows is None:
        return with_table(b"", store.select(call.table))
    store.insert(call.table, rows, call.token)
    return b""
