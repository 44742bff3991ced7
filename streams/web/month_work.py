"""Allocates bills and closes months for a worker in a process apart, so that no month holds up the meter."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

import msgspec
import pyarrow as pa

from schemas.bill_tables import ALLOCATED_MONTHS, BILL_PARTS, CLOSED_CHARGES, CLOSED_MONTHS, JOB_BILLS
from schemas.escaping import visible
from sinks.clickhouse import ClickHouseStore
from sinks.query.arrow import Encoder
from streams.bills.apart import CPU_S, MEMORY_BYTES
from streams.bills.loading_wire import table_of
from streams.bills.process_apart import ProcessApart
from streams.costs.allocating import AllocatedMonth
from streams.costs.closing import ClosedMonth, ClosingRules
from streams.costs.closing_key import ClosingKey
from streams.costs.month_store import OpenMonthStore
from streams.errors import TrainfareError, WrongUseError
from streams.web.month_wire import MonthCall, MonthEnd, MonthRequest

_ALLOCATIONS: Final = (BILL_PARTS, JOB_BILLS, ALLOCATED_MONTHS)
_CLOSINGS: Final = (CLOSED_CHARGES, CLOSED_MONTHS)


class MonthWork:
    """One allocation of months, or one closing. The methods that run block; `kill` may be called from any thread."""

    def __init__(self, asked: MonthRequest) -> None:
        self._asked = asked
        self._process = ProcessApart("streams.web.month_child")

    @classmethod
    def allocating(cls, months: Sequence[str], now_ms: int, cpu_s: int = CPU_S) -> MonthWork:
        """The allocation of months such as 2026-10; of none of them: of all that are due."""
        return cls(MonthRequest([*months], now_ms, cpu_s, MEMORY_BYTES))

    @classmethod
    def closing(
        cls, month: str, rules: ClosingRules, now_ms: int, *, is_forced: bool, cpu_s: int = CPU_S
    ) -> MonthWork:
        """The closing of a month."""
        return cls(MonthRequest([], now_ms, cpu_s, MEMORY_BYTES, month, rules, is_forced))

    def allocated(self, store: ClickHouseStore) -> list[AllocatedMonth]:
        """Allocate the months; return what became of each.

        Raises:
            TrainfareError, SinkError: As `_run` does.
        """
        return self._run(store, None).months

    def closed(self, store: ClickHouseStore, key: ClosingKey) -> tuple[ClosedMonth, list[str]]:
        """Close the month; return what is stored of it, and the closed months that could not be adjusted.

        Raises:
            WrongUseError: It is closed, has not ended, or is not reconciled.
            TrainfareError, SinkError: As `_run` does.
        """
        end = self._run(store, key)
        if end.closed is None:
            raise TrainfareError("the process that closes months said nothing of the month")
        return end.closed, end.skipped

    def _run(self, store: ClickHouseStore, key: ClosingKey | None) -> MonthEnd:
        """Answer the process until it ends.

        Raises:
            WrongUseError: What was asked for cannot be.
            TrainfareError: The process was killed, or needed more than its limits.
            SinkError: The store did not answer, or did not take the rows.
        """
        opened = OpenMonthStore(store)
        try:
            self._process.send(msgspec.json.encode(self._asked))
            while True:
                head, rows = table_of(self._process.received())
                message = msgspec.json.decode(head, type=MonthCall | MonthEnd)
                if isinstance(message, MonthEnd):
                    break
                self._process.send(_answer(opened, message, rows, key))
        except (EOFError, OSError) as gone:
            raise TrainfareError(
                f"the process that works on months ended early: it needs more than {MEMORY_BYTES >> 20} MiB of memory or "
                f"{self._asked.cpu_s} s of processor time; allocate one month at a time"
            ) from gone
        finally:
            self._process.close()
        if message.wrong:
            raise WrongUseError(message.wrong)
        if message.refused:
            raise TrainfareError(message.refused)
        return message

    def kill(self) -> None:
        """End the process; `run` ends then."""
        self._process.kill()


def _answer(store: OpenMonthStore, call: MonthCall, rows: pa.Table | None, key: ClosingKey | None) -> bytes:
    if call.call == "ask":
        found = store.ask(call.sql, **call.parameters)
        encoder = Encoder(found.names, found.types)
        encoder.add(found.columns)
        sink = io.BytesIO()
        encoder.write(sink)
        return sink.getvalue()
    if call.call == "forget":
        store.forget_allocations(call.month_s, call.before)
        return b""
    if call.call == "forget_closing" and key is not None:
        store.forget_closing(call.month_s)
        return b""
    if call.call == "sign" and key is not None:
        return msgspec.json.encode((key.signature(call.manifest), key.key_id))
    # Texts of bills went through it: it may write what it was asked for, and nothing else.
    if (
        call.call != "insert"
        or call.table not in (_ALLOCATIONS if key is None else _CLOSINGS)
        or rows is None
    ):
        raise TrainfareError(
            f"the process that works on months asked for {call.call} {visible(call.table[:80])}".strip()
        )
    store.insert(call.table, rows, call.token)
    return b""
