"""One client's connection: frames in, answers out in their order, nothing before the password.

It must not know what a request means.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import struct
from collections.abc import Awaitable, Callable
from typing import Any, Final

from streams.broker import protocol
from streams.broker.protocol import BrokerRequest, WireError

logger = logging.getLogger(__name__)

USER: Final = "trainfare"
MECHANISM: Final = "PLAIN"
_SIZE: Final = struct.Struct(">i")
_BEFORE_SASL_BYTES: Final = 4_096
_BEFORE_SASL_S: Final = 10.0
_REQUEST_BYTES: Final = 16 * 2**20
#: Requests of a client that are answered at a time.
_AT_ONCE: Final = 16

Answer = Callable[[BrokerRequest], Awaitable[tuple[Any, ...] | None]]


class Connection:
    """Serves one client until it leaves, or sends what is no request of ours."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer, password: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._expected = f"{USER}\0{password}".encode()
        self._is_known = False

    async def serve(self) -> None:
        """Return when the connection is over."""
        pending: asyncio.Queue[asyncio.Task[bytes]] = asyncio.Queue(_AT_ONCE)
        sending = asyncio.create_task(self._send(pending))
        sending.add_done_callback(lambda _: self._writer.close())  # ends the wait for the next request, too
        try:
            async with asyncio.timeout(_BEFORE_SASL_S):
                while not self._is_known:
                    request = await self._introduction()
                    await pending.put(asyncio.create_task(self._answered(request)))
                    await pending.join()
            while not sending.done():
                request = await self._next(_REQUEST_BYTES)
                await pending.put(asyncio.create_task(self._answered(request)))
        except WireError as fault:
            logger.info("connection of a client is closed", extra={"reason": str(fault)})
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            pass  # the client has left, or said nothing
        finally:
            sending.cancel()
            left = [pending.get_nowait() for _ in range(pending.qsize())]
            for task in left:
                task.cancel()
            await asyncio.gather(sending, *left, return_exceptions=True)

    async def _introduction(self) -> BrokerRequest:
        request = await self._next(_BEFORE_SASL_BYTES)
        if request.api_key not in protocol.BEFORE_SASL:
            raise WireError("a request before the password")
        return request

    async def _next(self, max_bytes: int) -> BrokerRequest:
        (size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
        if not 0 < size <= max_bytes:
            raise WireError(f"a request of {size} bytes")
        return protocol.received(await self._reader.readexactly(size))

    async def _send(self, pending: asyncio.Queue[asyncio.Task[bytes]]) -> None:
        while True:
            task = await pending.get()
            try:
                self._writer.write(await task)
                await self._writer.drain()
            except ConnectionError:
                return
            except Exception:
                logger.exception(
                    "request of a client failed", extra={"runbook": "docs/operations.md#internal-fault"}
                )
                return
            finally:
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
            self._is_known = hmac.compare_digest(given, self._expected)
            error = protocol.NONE if self._is_known else protocol.SASL_AUTHENTICATION_FAILED
            message = None if self._is_known else "wrong password"
            return protocol.framed(request, (error, message, b""))
        fields = await self._answer(request)
        return b"" if fields is None else protocol.framed(request, fields)
