"""The protocol of one server connection: aiohttp's request handler, which reports its progress to an `HttpConnection`.

Every private name of aiohttp that we use is used here only.
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, cast

from aiohttp import StreamReader, web
from aiohttp.http_exceptions import LineTooLong

from streams.web.accept_filter import HEADER_MAX_BYTES, PEEKED_BYTES
from streams.web.connections import HttpConnection
from streams.web.encode import to_json
from streams.web.errors import ApiError, answer
from streams.web.security import HEADERS

logger = logging.getLogger(__name__)

#: Limit of a request line and of each header line; our longest path with parameters needs a tenth of it.
LINE_MAX_BYTES: Final = 8_190
_HEADERS_MAX: Final = 64
#: An unread body is received for this long, so that the client can read its response.
_LINGER_S: Final = 2.0
#: Limit of unsent data in the process; beyond it the writer waits.
_WRITE_BUFFER_BYTES: Final = 32 * 1024
#: Disables aiohttp's own limit: ours is lower and checked more often.
_KEEPALIVE_S: Final = 3600.0
#: Where the system does not tell this, a handler finds out.
_ENDED: Final = getattr(select, "POLLRDHUP", 0)


class HttpProtocol(web.RequestHandler):
    """aiohttp's handler of one connection, which reports its progress to `connection`."""

    __slots__ = ("_body", "_connection", "_gate", "_header_bytes", "_lost", "_now_ms")

    def __init__(
        self,
        manager: web.Server,
        gate: WriteGate,
        connection: HttpConnection,
        lost: Callable[[], None],
        now_ms: Callable[[], int],
    ) -> None:
        super().__init__(
            manager,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=_KEEPALIVE_S,
            access_log=None,  # type: ignore[arg-type]  # None disables aiohttp's access log
            max_line_size=LINE_MAX_BYTES,
            max_field_size=LINE_MAX_BYTES,
            max_headers=_HEADERS_MAX,
            lingering_time=_LINGER_S,
            # No client needs to send a compressed body.
            auto_decompress=False,
        )
        self._gate = gate
        self._connection = connection
        self._lost = lost
        self._now_ms = now_ms
        self._body: StreamReader | None = None
        self._header_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Limit the unsent data."""
        line = cast("asyncio.Transport", transport)
        line.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        super().connection_made(line)
        self._gate.opened(line)

    def data_received(self, data: bytes) -> None:
        """Report what the bytes were: part of a header or body, or whole requests."""
        before, was_body = self._request_count, self._body_is_due()
        super().data_received(data)
        requests = self._request_count - before
        if requests:
            self._body = self._messages[-1][1]
        if not data and not requests:
            return
        self._connection.on_received(requests, body_is_due=self._body_is_due(), now_ms=self._now_ms())
        self._header_bytes = 0 if requests or was_body else self._header_bytes + len(data)
        if self._header_bytes > HEADER_MAX_BYTES and self.transport is not None:
            self.transport.write(
                last_words(431, "too_long", f"a header is larger than {HEADER_MAX_BYTES} bytes")
            )
            self.force_close()

    def trust(self) -> None:
        """Report that the client has shown a secret."""
        self._connection.is_trusted = True

    def hold_back(self) -> None:
        """Report that the client's refusal is delayed."""
        self._connection.held_back(self._now_ms())

    def _body_is_due(self) -> bool:
        return self._body is not None and not self._body.is_eof()

    def resume_writing(self) -> None:
        """Report that the client reads."""
        super().resume_writing()
        self._connection.drained()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Report the end of the connection."""
        super().connection_lost(exc)
        self._body = None
        self._lost()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Report that a request was answered."""
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._connection.answered(self._now_ms())

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer an invalid request in our format; a client's fault is not logged.

        Raises:
            ConnectionError: Part of a response was sent already.
        """
        if status >= 500:
            logger.error(
                "request failed outside of its handler",
                exc_info=exc,
                extra={"runbook": "docs/trouble.md#internal-fault"},
            )
        else:
            logger.debug("malformed request", extra={"reason": type(exc).__name__})
        if request.writer.output_size > 0:
            raise ConnectionError("a part of an answer is sent already")
        response = answer(_fault(status, exc))
        response.headers.update(HEADERS)
        response.force_close()
        return response


def trust(request: web.BaseRequest) -> None:
    """Prefer the connection of a client that has shown a secret to those of others, where one must make room."""
    if isinstance(request.protocol, HttpProtocol):
        request.protocol.trust()


async def hold_back(request: web.BaseRequest, delay_s: float) -> None:
    """Delay a refusal; its connection makes room before all others."""
    if isinstance(request.protocol, HttpProtocol):
        request.protocol.hold_back()
    await asyncio.sleep(delay_s)


def _fault(status: int, exc: BaseException | None) -> ApiError:
    if status >= 500:
        return ApiError(status, "an internal fault; the worker's log has it", "internal")
    if isinstance(exc, LineTooLong):
        return ApiError(
            400, f"the request line or a header is longer than {LINE_MAX_BYTES} bytes", "too_long"
        )
    return ApiError(400, "this is no request of HTTP/1.1", "malformed")


def last_words(status: int, code: str, message: str) -> bytes:
    """A complete response for a connection that is then closed."""
    body = to_json({"error": {"code": code, "message": message}})
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in HEADERS.items()),
        *(["Retry-After: 1"] if status == HTTPStatus.SERVICE_UNAVAILABLE else []),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class WriteGate:
    """The socket of a connection; until its request is let through, without transport, task or handler."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._transport: asyncio.Transport | None = None
        self._received: Callable[[bytes, bool], int] | None = None
        self._lost: Callable[[], None] | None = None
        self._awaited_bytes = 1
        self._is_cut = False

    def wait(self, received: Callable[[bytes, bool], int], lost: Callable[[], None]) -> None:
        """Look at what arrives, and leave it in the socket.

        Args:
            received: Called with all bytes so far, and whether they are fewer than it has asked for: the socket has no
                room for more until some are read.  Returns at which size it wants to be called again; 0: a transport
                reads the socket from here on.
            lost: Called if the client leaves before.
        """
        self._received, self._lost = received, lost
        self._readable()  # most requests come with their connection
        if self._received is not None:
            asyncio.get_running_loop().add_reader(self._line.fileno(), self._readable)

    def opened(self, transport: asyncio.Transport) -> None:
        """Adopt the transport in place of the socket."""
        self._transport = transport
        if self._is_cut:
            transport.abort()

    def unsent_bytes(self) -> int:
        """The bytes written that the client has not received."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def cut(self) -> None:
        """Close immediately."""
        self._is_cut = True
        if self._transport is not None:
            self._transport.abort()
        elif self._received is not None:
            self._stop_waiting()
            self._line.close()

    def _readable(self) -> None:
        received, lost = self._received, self._lost
        if received is None or lost is None:
            return
        try:
            data = self._line.recv(PEEKED_BYTES, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        is_early = len(data) < self._awaited_bytes
        if not data or (is_early and self._has_ended()):
            self._stop_waiting()
            self._line.close()
            lost()
            return
        awaited = received(data, is_early)
        if awaited:
            self._await(awaited)
        else:
            self._stop_waiting()
            self._await(1)

    def _has_ended(self) -> bool:
        """Whether the client has ended its half."""
        poll = select.poll()
        poll.register(self._line, _ENDED)
        return bool(poll.poll(0))

    def _await(self, size_bytes: int) -> None:
        if size_bytes != self._awaited_bytes:
            self._awaited_bytes = size_bytes
            self._line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size_bytes)

    def _stop_waiting(self) -> None:
        self._received = self._lost = None
        asyncio.get_running_loop().remove_reader(self._line.fileno())
