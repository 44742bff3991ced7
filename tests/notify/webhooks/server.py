"""A web server on loopback that answers as a test wants, for messages over real HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """Yields host:port; every request of any path goes to the handler."""
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def answering(status: int, headers: dict[str, str] | None = None) -> Handler:
    """The same answer to all."""

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(status=status, headers=headers, text="hunter2 says the body")

    return answer
