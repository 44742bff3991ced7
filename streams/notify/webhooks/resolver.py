"""Resolves receivers' host names in threads of its own, so that a slow name server delays only messages."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult

_AT_ONCE: Final = 64
_Name = tuple[str, int, int]


class ReceiverResolver(AbstractResolver):
    """The system's resolver; concurrent lookups of one name share one call."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="names")
        self._asking: dict[_Name, asyncio.Future[Any]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a name.

        Raises:
            OSError: There is none.
        """
        name = host, port, int(family)
        asking = self._asking.get(name)
        if asking is None or asking.done():
            asking = self._asking[name] = self._lookup(name)
        # A caller that is cancelled must not cancel the lookup for the others.
        found = await asyncio.shield(asking)
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=int(address[1]),
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in found
        ]

    def _lookup(self, name: _Name) -> asyncio.Future[Any]:
        host, port, family = name
        look_up = partial(
            socket.getaddrinfo, host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        asking = asyncio.get_running_loop().run_in_executor(self._threads, look_up)

        def answered(future: asyncio.Future[Any]) -> None:
            if self._asking.get(name) is future:
                del self._asking[name]
            if not future.cancelled():
                future.exception()  # retrieved, even if nobody waits any more

        asking.add_done_callback(answered)
        return asking

    async def close(self) -> None:
        """Do nothing: it is shared by all connections, and its threads end with the process."""
