"""The protocol of one server connection: aiohttp's request handler, which reports its progress to an `HttpConnection`.

It must not decide anything. All that is private to aiohttp and used by us is used here, and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, cast

from aiohttp import StreamReader, web
from aiohttp.http_exceptions import LineTooLong

from streams.web.connections import HttpConnection
from streams.web.encode import to_json
from streams.web.errors import ApiError, answer
from streams.web.security import HEADERS

logger = logging.getLogger(__name__)

#: A request line, and each line of a header; a path of ours and its parameters need a tenth of it.
LINE_MAX_BYTES: Final = 8_190
_HEADERS_MAX: Final = 64
#: All of a header: what a client may make the parser keep before there is a request.
HEADER_MAX_BYTES: Final = 32 * 1024
#: The rest of a body that nobody read is taken for so long, so that the client gets to see its answer.
_LINGER_S: Final = 2.0
#: What waits in the process for a client that reads slowly; beyond it whoever writes must wait.
_WRITE_BUFFER_BYTES: Final = 32 * 1024
#: The crowd's own limit is below it, and is looked at more often.
_NEVER_S: Final = 3600.0


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
            keepalive_timeout=_NEVER_S,
            access_log=None,  # type: ignore[arg-type]  # None is how aiohttp spells "no access log"
            max_line_size=LINE_MAX_BYTES,
            max_field_size=LINE_MAX_BYTES,
            max_headers=_HEADERS_MAX,
            lingering_time=_LINGER_S,
            # A body that grows when it is unpacked is nothing that anybody has to send.
            auto_decompress=False,
        )
        self._gate = gate
        self._connection = connection
        self._lost = lost
        self._now_ms = now_ms
        self._body: StreamReader | None = None
        self._header_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Bound what waits to be taken."""
        line = cast("asyncio.Transport", transport)
        line.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        super().connection_made(line)
        self._gate.opened(line)

    def data_received(self, data: bytes) -> None:
        """Tell what the bytes were: a part of a header, of a body, or whole requests."""
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

    def _body_is_due(self) -> bool:
        return self._body is not None and not self._body.is_eof()

    def resume_writing(self) -> None:
        """Tell that the client reads."""
        super().resume_writing()
        self._connection.drained()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Tell that it is over."""
        super().connection_lost(exc)
        self._body = None
        self._lost()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Tell that a request was answered."""
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
        """Answer what is no request of HTTP in our form; a client's fault is no line in our log."""
        if status >= 500:
            logger.error(
                "request failed outside of its handler",
                exc_info=exc,
                extra={"runbook": "docs/operations.md#internal-fault"},
            )
        else:
            logger.debug("malformed request", extra={"reason": type(exc).__name__})
        if request.writer.output_size > 0:
            raise ConnectionError("a part of an answer is sent already")
        response = answer(_fault(status, exc))
        response.headers.update(HEADERS)
        response.force_close()
        return response


def _fault(status: int, exc: BaseException | None) -> ApiError:
    if status >= 500:
        return ApiError(status, "an internal fault; the worker's log has it", "internal")
    if isinstance(exc, LineTooLong):
        return ApiError(
            400, f"the request line or a header is longer than {LINE_MAX_BYTES} bytes", "too_long"
        )
    return ApiError(400, "this is no request of HTTP/1.1", "malformed")


def last_words(status: int, code: str, message: str) -> bytes:
    """Return a whole answer for a connection that is closed then, made without a request."""
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
    """The socket of a connection: a bare one before its first byte, so that silence costs no transport, task or handler."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._transport: asyncio.Transport | None = None
        self._spoke: Callable[[], None] | None = None
        self._lost: Callable[[], None] | None = None
        self._is_cut = False

    def wait(self, spoke: Callable[[], None], lost: Callable[[], None]) -> None:
        """Call `spoke` when the first byte is there, `lost` when the client has left before it."""
        self._spoke, self._lost = spoke, lost
        asyncio.get_running_loop().add_reader(self._line.fileno(), self._readable)

    def opened(self, transport: asyncio.Transport) -> None:
        """Take over from the socket."""
        self._transport = transport
        if self._is_cut:
            transport.abort()

    def unsent_bytes(self) -> int:
        """What was written and not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def has_unread(self) -> bool:
        """Whether something came that was not looked at yet."""
        try:
            return bool(self._line.recv(1, socket.MSG_PEEK))
        except OSError:  # nothing came, or it is closed
            return False

    def cut(self) -> None:
        """Close at once."""
        self._is_cut = True
        if self._transport is not None:
            self._transport.abort()
        elif self._spoke is not None:
            self._stop_waiting()
            self._line.close()

    def _readable(self) -> None:
        spoke, lost = self._spoke, self._lost
        if spoke is None or lost is None:
            return
        self._stop_waiting()
        if self.has_unread():
            spoke()
        else:
            self._line.close()
            lost()

    def _stop_waiting(self) -> None:
        self._spoke = self._lost = None
        asyncio.get_running_loop().remove_reader(self._line.fileno())
