"""A server in a process of its own, told by lines on its stdin, so that a test may take away its open files.

`hold N` opens N files, `hold all` as many as there are, `free` closes them; each is answered by a line.
"""

from __future__ import annotations

import asyncio
import os
import sys

from streams.clock import SystemClock
from streams.config.live import WebSettings
from streams.config.settings import LogSettings
from streams.log import configure_logging
from streams.web import descriptors
from streams.web.server import WebServer
from streams.worker.health.worker_status import WorkerStatus


async def main() -> None:
    say("limit", descriptors.raise_limit())
    settings = WebSettings(port=0, max_connections=8_192, max_connections_per_address=8_192)
    server = WebServer(settings, lambda: None, WorkerStatus, SystemClock().monotonic_ms)
    await server.start()
    say("url", server.url)
    held: list[int] = []
    while line := await asyncio.to_thread(sys.stdin.readline):
        word, _, count = line.strip().partition(" ")
        if word == "hold":
            hold(held, None if count == "all" else int(count))
        elif word == "free":
            for descriptor in held:
                os.close(descriptor)
            held.clear()
        say(word, len(held))
    await server.stop()


def hold(held: list[int], count: int | None) -> None:
    """Open files up to a count, or until there are none left."""
    try:
        while count is None or len(held) < count:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as fault:
        sys.stderr.write(f"no more: {fault.strerror}\n")
        sys.stderr.flush()


def say(word: str, value: object) -> None:
    """Answer the test."""
    sys.stdout.write(f"{word} {value}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    configure_logging(LogSettings(format="json"))
    asyncio.run(main())
