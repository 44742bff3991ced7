"""Sends one POST to a guarded address and classifies the response.

It must not retry, follow redirects, use a proxy of the environment, or repeat anything that a receiver sent.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

import aiohttp
from aiohttp.abc import AbstractResolver

from streams.notify.authorities import authorities
from streams.notify.webhooks.guard import Destination, ReceiverGuard, ReceiverRefusedError
from streams.notify.webhooks.resolver import ReceiverResolver

SendVerdict: TypeAlias = Literal["delivered", "retry", "failed", "refused"]

BODY_BYTES_READ: Final = 64 * 1024
_READ_S: Final = 1.0
_HEADERS: Final = {
    "content-type": "application/json",
    "user-agent": "trainfare",
    "accept-encoding": "identity",
}
_TRY_LATER: Final = frozenset((408, 429))


class SendResult(NamedTuple):
    """The result of one attempt; `detail` may be shown to users."""

    verdict: SendVerdict
    http_status: int  # 0: no response
    detail: str
    retry_after: str = ""  # the header as received


class Sender:
    """Posts JSON; every attempt has its own connection, so that each is checked again."""

    def __init__(
        self, guard: ReceiverGuard, *, timeout_ms: int, resolver: AbstractResolver | None = None
    ) -> None:
        self._guard = guard
        self._timeout_ms = timeout_ms
        self._resolver = ReceiverResolver() if resolver is None else resolver
        self._tls = authorities()

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> SendResult:
        """Send the bytes once. Failures are part of the result."""
        try:
            return await self._post(self._guard.check(url), body, headers)
        except ReceiverRefusedError as refused:
            return SendResult("refused", 0, str(refused))
        except TimeoutError:
            return SendResult("retry", 0, f"no answer within {self._timeout_ms} ms")
        except aiohttp.InvalidURL:
            return SendResult("refused", 0, "the address is no usable URL")
        except (aiohttp.ClientError, OSError) as fault:
            return SendResult("retry", 0, _words(fault))

    async def _post(self, to: Destination, body: bytes, headers: Mapping[str, str]) -> SendResult:
        connector = aiohttp.TCPConnector(
            resolver=self._resolver,
            use_dns_cache=False,
            socket_factory=to.open_socket,
            happy_eyeballs_delay=None,  # one address after the other
            force_close=True,
            ssl=self._tls,
        )
        async with (
            aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=self._timeout_ms / 1000),
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            ) as session,
            session.post(
                to.url, data=body, headers={**_HEADERS, **headers}, allow_redirects=False
            ) as response,
        ):
            await _read_a_little(response)
            retry_after = response.headers.get("retry-after", "")
            return SendResult(*_judged(response.status), retry_after)


def _judged(status: int) -> tuple[SendVerdict, int, str]:
    if 200 <= status < 300:
        return "delivered", status, ""
    if 300 <= status < 400:
        return "failed", status, f"answered {status}: redirects are not followed, give the final address"
    if status in _TRY_LATER or status >= 500:
        return "retry", status, f"answered {status}"
    return "failed", status, f"answered {status}: the receiver does not accept the message"


async def _read_a_little(response: aiohttp.ClientResponse) -> None:
    """Read a short response to its end; only its status counts."""
    left = BODY_BYTES_READ
    try:
        async with asyncio.timeout(_READ_S):
            while left > 0 and (part := await response.content.read(left)):
                left -= len(part)
    except (TimeoutError, aiohttp.ClientError, OSError):
        return


def _words(fault: Exception) -> str:
    """Describe a failure in our own words: those of the libraries may contain the address."""
    if isinstance(fault, aiohttp.ClientConnectorDNSError):
        return "the host name could not be resolved"
    if isinstance(fault, aiohttp.ClientConnectorCertificateError):
        reason = getattr(fault.certificate_error, "verify_message", "") or "not valid"
        return f"the receiver's certificate is not accepted: {reason}"
    if isinstance(fault, aiohttp.ClientSSLError):
        return "no TLS connection could be made"
    if isinstance(fault, aiohttp.ServerDisconnectedError):
        return "the receiver closed the connection without an answer"
    if isinstance(fault, OSError) and fault.errno:
        return f"no connection: {os.strerror(fault.errno)}"
    return f"no usable answer ({type(fault).__name__})"
