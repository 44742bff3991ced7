"""Threads for one kind of blocking work, so that a call that hangs blocks only its own kind.

The event loop's default threads are few and shared; a call that may wait half a minute for a store or a name
does not belong there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class Threads:
    """A limited number of threads; further calls wait. The threads end with the last reference."""

    def __init__(self, name: str, at_once: int = 1) -> None:
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix=name)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call in a thread; a cancelled caller leaves the call to finish by itself."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(call, *args, **kwargs))
