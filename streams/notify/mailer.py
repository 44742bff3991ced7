"""Hands one message to the operator's SMTP server, and classifies what it answers."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiosmtplib
from aiohttp.abc import AbstractResolver

from streams.config.live import SmtpSecurity
from streams.notify.authorities import authorities
from streams.notify.webhooks.resolver import ReceiverResolver
from streams.notify.webhooks.sender import SendResult

_QUIT_S: Final = 1.0
_WORD: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS: Final = re.compile(rf"(?=[^@]{{1,64}}@){_WORD}(?:\.{_WORD})*@({_LABEL}(?:\.{_LABEL})*)")
_LONGEST_ADDRESS: Final = 254


@dataclass(frozen=True)
class SmtpOptions:
    """The operator's server; a user and password are shown only over TLS."""

    host: str
    port: int
    sender: str  # an address
    security: SmtpSecurity = "starttls"
    user: str = ""
    password: str = field(default="", repr=False)
    ca_file: Path | None = None  # None: the system's authorities
    domains: frozenset[str] = frozenset()  # that messages may go to; empty: any


def domain_of(address: str) -> str | None:
    """The domain of one plain address, in lower case; None: it is something else, which gets no message."""
    found = _ADDRESS.fullmatch(address) if len(address) <= _LONGEST_ADDRESS else None
    return None if found is None else found[1].lower()


class Mailer:
    """Each message has its own connection, so that none waits for another."""

    def __init__(
        self, options: SmtpOptions, *, timeout_ms: int, resolver: AbstractResolver | None = None
    ) -> None:
        self._options = options
        self._timeout_ms = timeout_ms
        self._resolver = ReceiverResolver() if resolver is None else resolver
        self._tls = authorities(options.ca_file)

    @property
    def sender(self) -> str:
        """The address that messages are from."""
        return self._options.sender

    def refusal(self, address: str) -> str:
        """Why the address gets no message; empty if it may."""
        domain = domain_of(address)
        if domain is None:
            return "the e-mail address is not one plain address"
        if self._options.domains and domain not in self._options.domains:
            return "the domain of the e-mail address is not in alerts.email_domains"
        return ""

    async def send(self, address: str, message: bytes) -> SendResult:
        """Send the message once to the address, whatever its headers say. Failures are part of the result."""
        refusal = self.refusal(address)
        if refusal:
            return SendResult("refused", 0, refusal)
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                return await self._send(address, message)
        except TimeoutError:
            return SendResult("retry", 0, f"no answer within {self._timeout_ms} ms")
        except aiosmtplib.SMTPAuthenticationError as fault:
            return SendResult("retry", fault.code, "the SMTP server does not accept alerts.smtp_user")
        except aiosmtplib.SMTPRecipientsRefused as fault:
            return _judged(fault.recipients[0].code, "does not accept the recipient")
        except aiosmtplib.SMTPResponseException as fault:
            return _judged(fault.code, "does not accept the message")
        except aiosmtplib.SMTPNotSupported:
            return SendResult(
                "retry", 0, "the SMTP server lacks what alerts.smtp_security or smtp_user needs"
            )
        except (aiosmtplib.SMTPException, OSError) as fault:
            return SendResult("retry", 0, _words(fault))

    async def _send(self, address: str, message: bytes) -> SendResult:
        options = self._options
        client = aiosmtplib.SMTP(
            hostname=options.host,
            sock=await self._connected(),
            timeout=self._timeout_ms / 1000,
            use_tls=options.security == "tls",
            start_tls=options.security == "starttls",
            tls_context=self._tls,
            local_hostname=domain_of(options.sender),
            username=options.user if options.user and options.security != "none" else None,
            password=options.password if options.user and options.security != "none" else None,
        )
        try:
            try:
                await client.connect()
            except aiosmtplib.SMTPAuthenticationError:
                raise
            except aiosmtplib.SMTPResponseException:
                # Not about this message, whatever its code.
                return SendResult("retry", 0, "the SMTP server is not ready, or speaks no SMTP")
            await client.sendmail(options.sender, [address], message)
            with suppress(TimeoutError, aiosmtplib.SMTPException, OSError):
                async with asyncio.timeout(_QUIT_S):  # it was accepted already
                    await client.quit()
        finally:
            client.close()
        return SendResult("delivered", 250, "")

    async def _connected(self) -> socket.socket:
        """A socket to the first address of the server that answers.

        Raises:
            OSError: None does.
        """
        loop = asyncio.get_running_loop()
        found = await self._resolver.resolve(self._options.host, self._options.port, socket.AF_UNSPEC)
        fault: OSError = OSError(0, "")
        for each in found:
            opened = socket.socket(each["family"], socket.SOCK_STREAM)
            opened.setblocking(False)
            try:
                await loop.sock_connect(opened, (each["host"], each["port"]))
            except OSError as failed:
                opened.close()
                fault = failed
            except BaseException:
                opened.close()
                raise
            else:
                return opened
        raise fault


def _judged(code: int, what: str) -> SendResult:
    if not 500 <= code < 600:
        return SendResult("retry", max(code, 0), f"answered {max(code, 0)}")
    return SendResult("failed", code, f"answered {code}: the SMTP server {what}")


def _words(fault: Exception) -> str:
    """Describe a failure in our own words: those of the server may contain the address."""
    if type(fault) in (aiosmtplib.SMTPException, aiosmtplib.SMTPNotSupported):
        return "the SMTP server lacks what alerts.smtp_security or alerts.smtp_user needs"
    cause = fault.__cause__ or fault
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the SMTP server's certificate is not accepted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return "no TLS connection to the SMTP server could be made"
    if isinstance(cause, socket.gaierror):
        return "the name of the SMTP server could not be resolved"
    if isinstance(cause, OSError) and cause.errno:
        return f"no connection to the SMTP server: {os.strerror(cause.errno)}"
    return f"no usable answer of the SMTP server ({type(fault).__name__})"
