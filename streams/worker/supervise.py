"""Runs tasks beside the main work: if one ends early, everything ends, and the error names the task.

Some of them are done by one worker of all, which `keep_doing` does in a thread of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from sinks.errors import SinkError
from streams.errors import TrainfareError
from streams.threads import Threads

T = TypeVar("T")


async def beside(work: Awaitable[T], tasks: Mapping[str, Coroutine[Any, Any, object]]) -> T:
    """Await `work` while these tasks run; cancel them when it is done.

    Args:
        work: The main work.
        tasks: Name shown to users -> coroutine.

    Raises:
        TrainfareError: A task ended before the work did. The work is cancelled first, so that it can stop in order.
        Exception: Whatever `work` raised.
    """
    over = False

    async def lasting(name: str, task: Coroutine[Any, Any, object]) -> None:
        why: BaseException | None = None
        try:
            await task
            reason = "it returned"
        except asyncio.CancelledError as cancelled:
            me = asyncio.current_task()
            if me is None or me.cancelling():
                raise
            why, reason = (
                cancelled,
                "it was cancelled",
            )  # a task group would treat a cancelled task as one that ended normally
        except Exception as fault:  # noqa: BLE001 - nobody else awaits this task
            why, reason = fault, _words(fault)
        if not over:
            raise TrainfareError(f"{name} ended, so the worker stops: {reason}") from why

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(lasting(name, task), name=name) for name, task in tasks.items()]
            try:
                return await work
            finally:
                over = True
                for task in running:
                    task.cancel()
    except BaseExceptionGroup as faults:
        raise faults.exceptions[0] from faults.exceptions[0].__cause__
    finally:
        for coroutine in tasks.values():
            coroutine.close()  # one that was cancelled before it began would be reported as never awaited


async def keep_doing(
    name: str,
    turn: Callable[[], bool | None],
    every_s: float,
    is_mine: Callable[[], bool],
    late: Callable[[SinkError], None],
) -> None:
    """Do `turn` every so often, and again at once if it returns True, while this worker has the duty.

    Where the store fails, say so by `late`, and try again.
    """
    threads = Threads(name)
    while True:
        has_more = False
        if is_mine():
            try:
                has_more = bool(await threads.run(turn))
            except SinkError as fault:
                late(fault)
        if not has_more:
            await asyncio.sleep(every_s)


def _words(fault: BaseException) -> str:
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return (
        str(fault) if isinstance(fault, (TrainfareError, SinkError)) else f"{type(fault).__name__}: {fault}"
    )
