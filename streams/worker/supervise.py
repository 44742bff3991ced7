"""Runs tasks beside the main work: if one ends early, everything ends, with its reason.

It must not know what the work is, nor begin a task again: what may pass is tried again by the task itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, TypeVar

from sinks.errors import SinkError
from streams.errors import TrainfareError

T = TypeVar("T")


async def beside(work: Awaitable[T], tasks: Mapping[str, Coroutine[Any, Any, object]]) -> T:
    """Await `work` with these tasks, by what people call them, beside it; they are cancelled when it is done.

    Raises what `work` raised; TrainfareError in one sentence where a task ended before the work did: the work is
    cancelled then, so that it can stop in order.
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
            )  # a group would take it for the end of an orderly task
        except Exception as fault:  # noqa: BLE001 - whatever it is, nobody else awaits this task
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


def _words(fault: BaseException) -> str:
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return (
        str(fault) if isinstance(fault, (TrainfareError, SinkError)) else f"{type(fault).__name__}: {fault}"
    )
