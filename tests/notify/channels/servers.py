"""Real servers behind channels, which keep the messages byte for byte and answer as a test says."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from aiosmtpd.controller import Controller

from streams.notify.mailer import SmtpOptions
from tests.notify.mail.servers import SENDER, free_port


class WebServer:
    """Over HTTP on this machine."""

    status_of: Final = {"yes": 200, "later": 503, "never": 400}

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.answer = "yes"
        self.host_port = ""


class MailServer:
    """Over SMTP on this machine."""

    status_of: Final = {"yes": 250, "later": 451, "never": 550}

    def __init__(self, port: int) -> None:
        self.got: list[bytes] = []
        self.answer = "yes"
        self.host_port = f"127.0.0.1:{port}"
        self.options = SmtpOptions(
            "127.0.0.1", port, SENDER, security="none", domains=frozenset(("example.com",))
        )

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.answer == "yes":
            self.got.append(envelope.original_content)
        return f"{self.status_of[self.answer]} hunter2"


@contextlib.contextmanager
def web_at(folder: Path) -> Iterator[WebServer]:
    there = WebServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            there.got.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(there.status_of[there.answer], "hunter2")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    there.host_port = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield there
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextlib.contextmanager
def mail_at(folder: Path) -> Iterator[MailServer]:
    there = MailServer(free_port())
    controller = Controller(there, hostname="127.0.0.1", port=there.options.port)
    controller.start()
    try:
        yield there
    finally:
        controller.stop()
