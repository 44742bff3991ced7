"""POST /api/v1/bills: loads files of bills whose pieces came to /api/v1/bills/pieces.

A file is read in a process apart; the store is asked in a thread of its own.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec
from aiohttp import web

from schemas.escaping import visible
from sinks.clickhouse import ClickHouseStore
from sinks.errors import SinkError
from streams.bills.apart import BillLoad
from streams.bills.lists import LoadKind
from streams.bills.outcome import LoadedFile
from streams.bills.reading import AskedFormat
from streams.bills.withdrawing import WithdrawnLoad, withdraw
from streams.costs.allocating import AllocatedMonth, due_months, month_span
from streams.costs.charge_sql import BillCost
from streams.costs.closing import ClosingRules, closed_months
from streams.costs.closing_key import NO_SECRETS, ClosingSecrets, closing_key
from streams.costs.month_store import OpenMonthStore
from streams.costs.shares import Rule
from streams.costs.verifying import found_closed
from streams.errors import TrainfareError, WrongUseError
from streams.memory_budget import MemoryBudget
from streams.threads import Threads
from streams.web.bill_uploads import FILES_MAX, FORGOTTEN_AFTER_MS, BillUploads
from streams.web.errors import ApiError
from streams.web.month_work import MonthWork
from streams.web.parameters import parameters
from streams.web.received_body import received_body
from streams.web.request_body import json_body
from streams.web.scopes import Caller
from streams.web.store_reader import StoreReader

T = TypeVar("T")

logger = logging.getLogger(__name__)

PIECE_MAX_BYTES: Final = 2**20
_PIECE_TYPE: Final = "application/octet-stream"
#: Of all pieces that are arriving.
_ARRIVING_MAX_BYTES: Final = 8 * 2**20
_ASKED_MAX_BYTES: Final = 2**20
_NAME_MAX_CHARS: Final = 4_096
_GIVEN_MAX_CHARS: Final = 256
_MONTHS_MAX: Final = 120
#: How often what was metered is compared with what bills were allocated by.
_REFRESH_S: Final = 3_600
_UPLOAD: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,10}", re.ASCII)


class _AskedLoad(msgspec.Struct, forbid_unknown_fields=True):
    upload: str
    files: list[str]
    replace: bool = False
    format: str = ""
    issuer: str = ""
    units_per_usd: str = ""
    of: LoadKind = "bills"


class _AskedWithdrawal(msgspec.Struct, forbid_unknown_fields=True):
    load_id: str


class _AskedMonths(msgspec.Struct, forbid_unknown_fields=True):
    months: list[str] = []


class _AskedClosing(msgspec.Struct, forbid_unknown_fields=True):
    month: str
    cost: BillCost = BillCost.effective
    idle: Rule = Rule.NONE
    share_unallocated: Rule = Rule.NONE
    unreconciled: bool = False


class BillEndpoint:
    """The endpoint of one server.

    Args:
        store: Where bills go; None: this process loads none.
        wall_ms: Log time, ms since 1970; what a load is stamped with.
        now_ms: A monotonic clock.
        closing: What signs the manifests of closed months.
    """

    def __init__(
        self,
        store: StoreReader | None,
        wall_ms: Callable[[], int],
        now_ms: Callable[[], int],
        closing: ClosingSecrets = NO_SECRETS,
    ) -> None:
        self._store = store
        self._closing = closing
        self._wall_ms = wall_ms
        self._now_ms = now_ms
        self._uploads = BillUploads()
        self._arriving = MemoryBudget(_ARRIVING_MAX_BYTES, _ARRIVING_MAX_BYTES // 2)
        #: Files are written beside the loop: a disk may be slow.
        self._disk = Threads("bill-pieces")
        #: One load at a time.
        self._turn = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._forgetting: asyncio.Task[None] | None = None
        self._refresh_timer: asyncio.TimerHandle | None = None
        self._refreshing: asyncio.Task[list[str]] | None = None

    async def piece(self, request: web.Request, caller: Caller) -> web.Response:
        """Keep a piece of a file.

        Raises:
            ApiError: It is too large, fits to nothing that came before, or there is no room.
        """
        self._checked_store()
        given = parameters(request, {"upload", "file", "offset"})
        upload = _upload(given.get("upload", ""))
        file, offset = (_number(name, given.get(name, "")) for name in ("file", "offset"))
        if request.content_type != _PIECE_TYPE:
            # A page of another site could send the other types without a preflight request.
            raise ApiError(415, f"send {_PIECE_TYPE}")
        async with received_body(
            request, PIECE_MAX_BYTES, self._arriving, f"{caller.token} {caller.address}", self._now_ms
        ) as body:
            await self._disk.run(
                self._uploads.append, caller.token, upload, file, offset, body.data, self._now_ms()
            )
        self._forget_later()
        return _json({"received": True})

    async def load(self, request: web.Request, caller: Caller) -> web.Response:
        """Load the files of an upload, all or none.

        Raises:
            ApiError: A file is wrong, a bill that stands would be doubled, or the store did not take it.
        """
        store = self._checked_store()
        asked = await json_body(
            request, _ASKED_MAX_BYTES, _AskedLoad, '{"upload": "...", "files": ["october.csv.gz"]}'
        )
        if not 0 < len(asked.files) <= FILES_MAX or max(map(len, asked.files)) > _NAME_MAX_CHARS:
            raise ApiError(
                400, f"files: expected 1 to {FILES_MAX} names of {_NAME_MAX_CHARS} characters at most"
            )
        given = AskedFormat(asked.format, asked.issuer, asked.units_per_usd)
        if max(map(len, (given.format, given.issuer, given.units_per_usd))) > _GIVEN_MAX_CHARS:
            raise ApiError(400, f"format, issuer, units_per_usd: longer than {_GIVEN_MAX_CHARS} characters")
        name = _upload(asked.upload)
        files = await self._disk.run(self._uploads.begin_load, caller.token, name, asked.files)
        try:
            with _refusals("load_failed"):
                async with self._turn:
                    load = BillLoad(files, self._wall_ms(), replace=asked.replace, asked=given, of=asked.of)
                    loaded = await _run_apart(store, load.run, load.kill)
        finally:
            await asyncio.shield(self._disk.run(self._uploads.remove, caller.token, name))
        logger.info(
            "bills loaded",
            extra={
                "files": len(loaded),
                "new": sum(
                    bool(each.is_new if isinstance(each, LoadedFile) else each.new) for each in loaded
                ),
                "by": caller.token,
                "address": caller.address,
                "first": visible(loaded[0].name[-200:]),
            },
        )
        return _json({"files" if asked.of == "bills" else asked.of: loaded})

    async def allocate(self, request: web.Request, caller: Caller) -> web.Response:
        """Allocate the bills of months to jobs; without months of all whose bills or meter have changed.

        Raises:
            ApiError: A month is none, or the store did not take the rows.
        """
        store = self._checked_store()
        asked = await json_body(request, _ASKED_MAX_BYTES, _AskedMonths, '{"months": ["2026-10"]}')
        if len(asked.months) > _MONTHS_MAX:
            raise ApiError(400, f"months: {_MONTHS_MAX} at most")
        with _refusals("allocation_failed"):
            for each in asked.months:
                month_span(each)
            months = await self._allocated(store, asked.months)
        logger.info(
            "bills allocated", extra={"months": len(months), "by": caller.token, "address": caller.address}
        )
        return _json({"months": months})

    async def withdraw(self, request: web.Request, caller: Caller) -> web.Response:
        """Let a load of a bill stand no more.

        Raises:
            ApiError: It does not stand, one of its months is closed, or the store did not take the rows.
        """
        store = self._checked_store()
        asked = await json_body(request, _ASKED_MAX_BYTES, _AskedWithdrawal, '{"load_id": "0123456789ab"}')

        def work(opened: ClickHouseStore) -> WithdrawnLoad:
            closed = closed_months(OpenMonthStore(opened))
            return withdraw(opened, asked.load_id, closed, self._wall_ms())

        with _refusals("withdrawal_failed"):
            async with self._turn:
                gone = await store.run(work)
        logger.info(
            "bill withdrawn",
            extra={
                "load_id": gone.load_id,
                "file": visible(gone.file[-200:]),
                "by": caller.token,
                "address": caller.address,
            },
        )
        return _json({"withdrawn": gone})

    async def close_month(self, request: web.Request, caller: Caller) -> web.Response:
        """Close a month.

        Raises:
            ApiError: It cannot be closed, or the store did not take the rows.
        """
        store = self._checked_store()
        asked = await json_body(request, _ASKED_MAX_BYTES, _AskedClosing, '{"month": "2026-10"}')
        rules = ClosingRules(asked.cost, asked.idle, asked.share_unallocated)
        with _refusals("closing_failed"):
            month_span(asked.month)
            async with self._turn:
                key = await store.run(lambda opened: closing_key(opened.target, self._closing, may_make=True))
                assert key is not None
                work = MonthWork.closing(asked.month, rules, self._wall_ms(), is_forced=asked.unreconciled)
                closed, skipped = await _run_apart(store, lambda opened: work.closed(opened, key), work.kill)
        logger.info(
            "month closed", extra={"month": asked.month, "by": caller.token, "address": caller.address}
        )
        return _json({"closed": closed, "skipped": skipped})

    async def is_signed(self, request: web.Request) -> web.Response:
        """Whether the key of this meter made the signature of a closed month; null: it has no key.

        Raises:
            ApiError: The month is not closed.
        """
        store = self._checked_store()
        month = request.match_info["month"]

        def work(opened: ClickHouseStore) -> bool | None:
            closed = found_closed(OpenMonthStore(opened), month)
            key = closing_key(opened.target, self._closing, may_make=False)
            return None if key is None else key.holds(closed.manifest, closed.signature)

        try:
            return _json({"month": month, "is_signed": await store.run(work)})
        except WrongUseError as wrong:
            raise ApiError(404, str(wrong), "bill_refused") from wrong

    def begin(self) -> None:
        """Allocate bills anew from now on, each hour, as what was metered changes."""
        if self._store is not None:
            self._refresh_timer = asyncio.get_running_loop().call_later(_REFRESH_S, self._refresh)

    def _refresh(self) -> None:
        self._refreshing = asyncio.ensure_future(self.refresh())
        self.begin()

    async def refresh(self) -> list[str]:
        """Allocate the months that are due; return them."""
        store = self._checked_store()
        try:
            due = await store.run(lambda opened: due_months(OpenMonthStore(opened)))
            if due:
                await self._allocated(store, due)
        except (ApiError, TrainfareError, SinkError) as fault:
            logger.warning(
                "bills not allocated", extra={"reason": str(fault), "runbook": "docs/backup.md#bills"}
            )
            return []
        return due

    async def _allocated(self, store: StoreReader, months: list[str]) -> list[AllocatedMonth]:
        async with self._turn:
            work = MonthWork.allocating(months, self._wall_ms())
            return await _run_apart(store, work.allocated, work.kill)

    def _forget_later(self) -> None:
        """Free the disk of senders who have left, also when no other one comes."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(FORGOTTEN_AFTER_MS / 1_000 + 1, self._forget)

    def _forget(self) -> None:
        self._forgetting = asyncio.ensure_future(self._disk.run(self._uploads.forget, self._now_ms()))

    def _checked_store(self) -> StoreReader:
        if self._store is None:
            raise ApiError(
                403,
                "a demo and a store served with --read-only load no bills, and close and verify no months; stop it and run the command with --data DIR, or through a worker",
                "bills_off",
            )
        return self._store

    async def close(self) -> None:
        """Remove what was not loaded, and end what is being allocated."""
        if self._refresh_timer is not None:
            self._refresh_timer.cancel()
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])
        if self._timer is not None:
            self._timer.cancel()
        await self._disk.run(self._uploads.close)


@contextmanager
def _refusals(failed: str) -> Iterator[None]:
    """Answer 400 to what is wrong, and 503 with a code to what could not be done."""
    try:
        yield
    except WrongUseError as wrong:
        raise ApiError(400, str(wrong), "bill_refused") from wrong
    except TrainfareError as fault:
        raise ApiError(503, str(fault), failed) from fault


async def _run_apart(store: StoreReader, work: Callable[[ClickHouseStore], T], kill: Callable[[], None]) -> T:
    """Let a process apart do its work on the store; it ends where its sender leaves."""
    try:
        return await store.run(work)
    except asyncio.CancelledError:
        kill()
        raise


def _upload(given: str) -> str:
    if not _UPLOAD.fullmatch(given):
        raise ApiError(400, "upload: expected 32 random hexadecimal digits")
    return given


def _number(name: str, given: str) -> int:
    if not _NUMBER.fullmatch(given):
        raise ApiError(400, f"{name}: expected a number from 0")
    return int(given)


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
