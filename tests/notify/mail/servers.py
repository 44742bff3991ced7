"""Mail servers for tests: aiosmtpd as a real one, and some that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import email
import email.policy
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from streams.notify.mailer import SmtpOptions
from tests.tls import certificate, server_and_client

USER, PASSWORD = "fare", "hunter2-hunter2"
SENDER = "meter@fare.example.com"


class Box:
    """What a server took: (sender, recipients, message)."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, list[str], EmailMessage]] = []
        self.sessions: list[Any] = []
        self.refuses: dict[str, str] = {}

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, rcpt_options: list[str]
    ) -> str:
        if address in self.refuses:
            return self.refuses[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        self.taken.append((envelope.mail_from, list(envelope.rcpt_tos), message))
        self.sessions.append(session)
        return "250 OK"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def login(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
    ok = isinstance(data, LoginPassword) and (data.login, data.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=ok, handled=False)


@contextlib.contextmanager
def mail_server(
    folder: Path, security: str = "none", *, auth: bool = False
) -> Iterator[tuple[Box, SmtpOptions]]:
    """A server on this machine, and the options by which it is reached."""
    ca_file = folder / "ca.pem"
    more: dict[str, Any] = {}
    if security != "none":
        ca_file.write_text(certificate()[1])
        context, _ = server_and_client()
        more = (
            {"ssl_context": context}
            if security == "tls"
            else {"tls_context": context, "require_starttls": True}
        )
    if auth:
        more |= {"authenticator": login, "auth_required": True, "auth_require_tls": security == "starttls"}
    box = Box()
    controller = Controller(box, hostname="127.0.0.1", port=free_port(), **more)
    controller.start()
    try:
        yield (
            box,
            SmtpOptions(
                host="localhost",
                port=controller.port,
                sender=SENDER,
                security=security,  # type: ignore[arg-type] # one of its words
                ca_file=ca_file if security != "none" else None,
            ),
        )
    finally:
        controller.stop()


@contextlib.asynccontextmanager
async def bad_server(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[SmtpOptions]:
    """A server that says what the test wants."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield SmtpOptions("127.0.0.1", server.sockets[0].getsockname()[1], SENDER, security="none")
    finally:
        server.close()
