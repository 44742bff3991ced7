"""The messages between a worker and the process that allocates bills for it: JSON, behind its first line a table of Arrow."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from streams.costs.allocating import AllocatedMonth
from streams.costs.closing import ClosedMonth, ClosingRules


class MonthRequest(msgspec.Struct, frozen=True):
    """The first message: what to do."""

    months: list[str]  # to allocate; none: all that are due
    now_ms: int
    cpu_s: int
    memory_bytes: int
    closes: str = ""  # a month to close, instead
    rules: ClosingRules = ClosingRules()
    is_forced: bool = False


class MonthCall(msgspec.Struct, frozen=True, tag=True):
    """What the worker is asked for. Behind an `insert` follow its rows; an `ask` is answered by its result, a `sign` by text."""

    call: Literal["ask", "insert", "forget", "forget_closing", "sign"]
    sql: str = ""
    parameters: dict[str, Any] = {}
    table: str = ""
    token: str = ""
    month_s: int = 0
    before: int = 0
    manifest: str = ""


class MonthEnd(msgspec.Struct, frozen=True, tag=True):
    """The last message: what became of each month, or why nothing did."""

    months: list[AllocatedMonth] = []
    closed: ClosedMonth | None = None
    skipped: list[str] = []
    refused: str = ""
    wrong: str = ""  # what was asked for cannot be
