"""One client's connection: frames in, answers out in their order, nothing before the password."""

from __future__ import annotations

import asyncio
import hmac
import logging
import struct
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from streams.broker import protocol
from streams.broker.protocol import BrokerRequest, WireError
from streams.broker.slots import Role, Slots
from streams.memory_budget import HeldBytes, MemoryBudget

logger = logging.getLogger(__name__)

USER: Final = "trainfare"
WORKER: Final = "worker"
MECHANISM: Final = "PLAIN"
_SIZE: Final = struct.Struct(">i")
_BEFORE_SASL_BYTES: Final = 4_096
_BEFORE_SASL_S: Final = 10.0
_REQUEST_BYTES: Final = 16 * 2**20
#: From the first byte of a request to its last.
_REQUEST_S: Final = 10.0
#: In which an answer must be read.
_READ_S: Final = 30.0
#: Requests of a client that are answered at a time.
_AT_ONCE: Final = 16
#: Requests of all clients that are being received or answered.
REQUESTS_MAX_BYTES: Final = 64 * 2**20
_PIECE_BYTES: Final = 2**16

Answer = Callable[[BrokerRequest], Awaitable[tuple[Any, ...] | None]]


@dataclass(frozen=True)
class Reception:
    """What all connections of a broker share.

    Args:
        answer: Returns the fields of an answer.
        passwords: Of the user `USER`, which clients get, and of `WORKER`, which nobody gets.
        now_ms: A monotonic clock.
    """

    answer: Answer
    passwords: Mapping[str, str]
    now_ms: Callable[[], int]
    slots: Slots = field(default_factory=Slots)
    #: The worker's requests do not wait for room that clients hold.
    budgets: Mapping[Role, MemoryBudget] = field(
        default_factory=lambda: {role: MemoryBudget(REQUESTS_MAX_BYTES) for role in Role}
    )

    def role_of(self, given: bytes) -> Role:
        """Return whose user and password these are, with NUL between them; in a time that does not tell how nearly."""
        found = Role.STRANGER
        for user, role in ((USER, Role.CLIENT), (WORKER, Role.WORKER)):
            if hmac.compare_digest(given, f"{user}\0{self.passwords[user]}".encode()):
                found = role
        return found


class _Pending(NamedTuple):
    """A request whose answer is not sent."""

    answer: asyncio.Task[bytes] | Coroutine[Any, Any, bytes]
    over: Callable[[], None]  # gives back what the request held

    async def drop(self) -> None:
        """End without an answer."""
        if isinstance(self.answer, asyncio.Task):
            self.answer.cancel()
            await asyncio.gather(self.answer, return_exceptions=True)
        else:
            self.answer.close()
        self.over()


class Connection:
    """Serves one client until it leaves, or sends what is no request of ours."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reception: Reception
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._reception = reception
        self._role = Role.STRANGER
        self._unanswered = 0
        self._is_being_read = False

    def waits_for_us(self) -> bool:
        """Whether a request of it is being answered; an answer that it does not read waits for the client."""
        return self._unanswered > 0 and not self._is_being_read

    def cut(self) -> None:
        """Close immediately; `serve` returns."""
        self._writer.transport.abort()

    async def serve(self) -> None:
        """Return when the connection is over."""
        pending: asyncio.Queue[_Pending] = asyncio.Queue(_AT_ONCE)
        self._reception.slots.arrive(self)
        sending = asyncio.create_task(self._send(pending))
        sending.add_done_callback(lambda _: self._writer.close())  # ends the wait for the next request, too
        try:
            async with asyncio.timeout(_BEFORE_SASL_S):
                await self._introduction(pending)
            while not sending.done():
                await self._take(_REQUEST_BYTES, pending)
        except WireError as fault:
            logger.info("connection of a client is closed", extra={"reason": str(fault)})
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            pass  # the client has left, or said nothing
        finally:
            self._reception.slots.leave(self)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            while not pending.empty():
                await pending.get_nowait().drop()

    async def _introduction(self, pending: asyncio.Queue[_Pending]) -> None:
        while self._role is Role.STRANGER:
            api_key = await self._take(_BEFORE_SASL_BYTES, pending)
            await pending.join()
            if api_key == protocol.SASL_AUTHENTICATE and self._role is Role.STRANGER:
                raise WireError("a wrong password")
        if not self._reception.slots.introduce(self, self._role):
            raise WireError("all places of clients are taken")

    async def _take(self, max_bytes: int, pending: asyncio.Queue[_Pending]) -> int:
        """Receive one request, and begin to answer it; return which it is."""
        first = await self._reader.readexactly(1)
        # Of the role that it has now: whoever shows its password in this request has held none of the others' room.
        budget = self._reception.budgets[self._role]
        held = budget.open("", self.cut, self._reception.now_ms())
        try:
            async with asyncio.timeout(_REQUEST_S):
                data = await self._received(first, max_bytes, held, budget)
            request = protocol.received(data)
            if self._role is Role.STRANGER and request.api_key not in protocol.BEFORE_SASL:
                raise WireError("a request before the password")
        except BaseException:
            budget.release(held)
            raise
        budget.settle(held)
        self._reception.slots.used(self)
        # An answer to a fetch is large: it is made when those before it have been read.
        is_large = request.api_key == protocol.FETCH
        answered = self._answered(request)
        each = _Pending(answered if is_large else asyncio.create_task(answered), lambda: budget.release(held))
        self._unanswered += 1
        try:
            await pending.put(each)
        except BaseException:
            await each.drop()
            raise
        return request.api_key

    async def _received(self, first: bytes, max_bytes: int, held: HeldBytes, budget: MemoryBudget) -> bytes:
        (size,) = _SIZE.unpack(first + await self._reader.readexactly(_SIZE.size - 1))
        if not 0 < size <= max_bytes:
            raise WireError(f"a request of {size} bytes")
        data = bytearray()
        while len(data) < size:
            piece = await self._reader.read(min(size - len(data), _PIECE_BYTES))
            if not piece:
                raise asyncio.IncompleteReadError(b"", size)
            if not budget.charge(held, len(piece), self._reception.now_ms()):
                raise WireError("no room for a request that comes slowly")
            data += piece
        return bytes(data)

    async def _send(self, pending: asyncio.Queue[_Pending]) -> None:
        while True:
            each = await pending.get()
            try:
                self._writer.write(await each.answer)
                self._is_being_read = True
                async with asyncio.timeout(_READ_S):
                    await self._writer.drain()
            except TimeoutError:
                logger.info("connection of a client is closed", extra={"reason": "it reads no answers"})
                self.cut()
                return
            except ConnectionError:
                return
            except Exception:
                logger.exception(
                    "request of a client failed", extra={"runbook": "docs/trouble.md#internal-fault"}
                )
                return
            finally:
                self._is_being_read = False
                self._unanswered -= 1
                each.over()
                pending.task_done()

    async def _answered(self, request: BrokerRequest) -> bytes:
        if request.api_key == protocol.API_VERSIONS:
            error = protocol.UNSUPPORTED_VERSION if request.body is None else protocol.NONE
            return protocol.framed(request, (error, protocol.supported()))
        if request.api_key == protocol.SASL_HANDSHAKE:
            is_ours = request.body.mechanism == MECHANISM
            error = protocol.NONE if is_ours else protocol.UNSUPPORTED_SASL_MECHANISM
            return protocol.framed(request, (error, [MECHANISM]))
        if request.api_key == protocol.SASL_AUTHENTICATE:
            # In whose name the client acts stands first, and is ours in any case.
            _, _, given = (request.body.sasl_auth_bytes or b"").partition(b"\0")
            self._role = self._reception.role_of(given)
            is_known = self._role is not Role.STRANGER
            error = protocol.NONE if is_known else protocol.SASL_AUTHENTICATION_FAILED
            message = None if is_known else "wrong password"
            return protocol.framed(request, (error, message, b""))
        fields = await self._reception.answer(request)
        return b"" if fields is None else protocol.framed(request, fields)
