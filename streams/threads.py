"""Threads for one kind of work that blocks, so that what hangs holds up its own kind alone.

The loop's own threads are few and shared by everybody; a call that waits for a store or a name for half a minute does
not belong there.  It must not know what it runs.
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
    """As many at once as it is made for; more calls wait for their turn. Threads end with the last reference."""

    def __init__(self, name: str, at_once: int = 1) -> None:
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix=name)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it in a thread; whoever no longer waits leaves the call to end by itself."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(call, *args, **kwargs))
