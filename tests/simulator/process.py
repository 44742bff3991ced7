"""A worker's process: an asyncio event loop of its own that the world runs, freezes and kills.

Calls to threads (`asyncio.to_thread`) run inside the world at a seeded instant, may pause between two
requests to the store, and are answered at a later instant.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from enum import Enum
from typing import Any, Final
from weakref import WeakSet

from greenlet import getcurrent, greenlet

from tests.simulator.world import US, StuckError, World

_CALLBACKS_AT_ONCE: Final = 20_000
#: Names of the threads of what runs beside the shards.
_BESIDE: Final = ("ledger-rules", "actions", "deliveries-read", "deliveries-write")


def _is_beside(executor: object) -> bool:
    return getattr(executor, "_thread_name_prefix", "") in _BESIDE


def _drop_unbegun(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Close what its process will never begin: Python would say of it that it was never awaited."""
    if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        coroutine.close()


class State(Enum):
    """What a process does."""

    RUNS = "runs"
    FROZEN = "frozen"
    DEAD = "dead"


class Killed(BaseException):  # so that nobody takes it for a fault
    """Ends a call of a process that is no more."""


class Callback:
    """What asyncio knows as a handle, with what is asked of one; half of a run are these."""

    __slots__ = ("_args", "_callback", "_context", "dropped", "when_us")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None, when_us: int
    ) -> None:
        self._callback = callback
        self._args = args
        self._context = copy_context() if context is None else context
        self.dropped = False
        self.when_us = when_us

    def cancel(self) -> None:
        self.dropped = True

    def cancelled(self) -> bool:
        return self.dropped

    def when(self) -> float:
        return self.when_us / (1_000 * US)

    def run(self) -> None:
        self._context.run(self._callback, *self._args)


class Process(asyncio.AbstractEventLoop):
    """As much of an event loop as the shard manager and its surroundings ask for."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.state = State.RUNS
        self.errors: list[BaseException] = []
        self.sends_last = False  # whether what it was about to send when it was killed had left it
        self.call: Call | None = None  # the call to a thread that is running this moment
        self._ready: deque[Callback] = deque()
        self._calls: list[Call] = []
        self._coroutines = WeakSet[Coroutine[Any, Any, Any]]()
        self._due = False

    # -- life ----------------------------------------------------------------------------------------------

    @property
    def runs(self) -> bool:
        return self.state is State.RUNS

    @property
    def dead(self) -> bool:
        return self.state is State.DEAD

    def freeze(self) -> None:
        if self.runs:
            self.state = State.FROZEN

    def thaw(self) -> None:
        if self.state is State.FROZEN:
            self.state = State.RUNS
            self._wake()
            for call in list(self._calls):
                call.go_on_if_held()

    def kill(self) -> None:
        """No instruction of it runs any more; what it sent to the store is on its way."""
        self.state = State.DEAD
        running = getcurrent()
        for call in list(self._calls):
            call.end(running)
        self._calls.clear()
        for coroutine in list(self._coroutines):
            _drop_unbegun(coroutine)

    # -- callbacks -----------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if not self._due and self._ready and self.runs:
            self._due = True
            self.world.at(self.world.now_us, self._run_ready)

    def _run_ready(self) -> None:
        self._due = False
        ready = self._ready
        if self.world.running is not self:
            self.world.running = self
            asyncio._set_running_loop(self)
        for _ in range(_CALLBACKS_AT_ONCE):
            if not ready or self.state is not State.RUNS:
                return
            handle = ready.popleft()
            if not handle.dropped:
                handle.run()
        raise StuckError(f"{self.name} runs without end at one instant")

    def call_soon(  # type: ignore[override]  # of asyncio's generic signature and its handles only this much is used
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Callback:
        handle = Callback(callback, args, context, self.world.now_us)
        if self.state is not State.DEAD:
            self._ready.append(handle)
            self._wake()
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # as above

    def call_later(  # type: ignore[override]  # as above
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Callback:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Callback:
        handle = Callback(callback, args, context, round(when * 1_000 * US))
        self.world.at(handle.when_us, self._timer, handle)
        return handle

    def _timer(self, handle: Callback) -> None:
        if self.state is not State.DEAD and not handle.dropped:
            self._ready.append(handle)
            self._wake()

    def time(self) -> float:
        return self.world.now_us / (1_000 * US)

    # -- tasks, futures, threads ---------------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]  # as above
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        if self.dead:
            _drop_unbegun(coro)
        else:
            self._coroutines.add(coro)
        return task

    def run_in_executor(  # type: ignore[override]  # as above
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        rng = self.world.side if _is_beside(executor) else self.world.rng
        call = Call(self, func, args, rng)
        self._calls.append(call)
        self.world.after(30 * rng.random() ** 3, call.begin)
        return call.future

    def ended(self, call: Call) -> None:
        """A call has an answer, or never will."""
        if call in self._calls:
            self._calls.remove(call)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.dead

    def is_closed(self) -> bool:
        return self.dead

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        fault = context.get("exception")
        if fault is not None and not self.dead:
            self.errors.append(fault)


class Call:
    """A function that runs beside a process, as a greenlet that may pause."""

    def __init__(
        self, process: Process, func: Callable[..., Any], args: tuple[Any, ...], rng: random.Random
    ) -> None:
        self.process = process
        self.rng = rng
        self.future: asyncio.Future[Any] = process.create_future()
        self.slow = rng.random() < 0.15  # whether time passes between its requests
        self._answer: tuple[bool, Any] | None = None
        self._owned = False  # due to go on, while its process is frozen
        self._work = greenlet(lambda: self._run(func, args))

    def begin(self) -> None:
        self._switch()

    def wait(self, delay_ms: float) -> None:
        """From inside: let so much time pass."""
        self.process.world.after(delay_ms, self._switch)
        self._leave()

    def wait_frozen(self) -> None:
        """From inside: go on when the process does."""
        self._owned = True
        self._leave()

    def _leave(self) -> None:
        self._work.parent.switch()
        if self.process.dead:
            raise Killed

    def _switch(self) -> None:
        if self.process.dead or self._work.dead:
            return
        if not self.process.runs:
            self._owned = True
            return
        self._work.parent = getcurrent()
        self.process.call = self
        self._work.switch()
        self.process.call = None
        if self._work.dead and self._answer is not None:
            self.process.world.after(20 * self.rng.random() ** 3, self._deliver)

    def go_on_if_held(self) -> None:
        if self._owned:
            self._owned = False
            self.process.world.after(0, self._deliver if self._answer is not None else self._switch)

    def end(self, running: greenlet) -> None:
        """The process is dead: nothing of the call runs any more."""
        if self._work is not running and self._work and not self._work.dead:
            self._work.parent = running
            self._work.throw(Killed)

    def _run(self, func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        try:
            self._answer = (True, func(*args))
        except Killed:
            return
        except Exception as fault:  # noqa: BLE001 - it is handed on
            self._answer = (False, fault)

    def _deliver(self) -> None:
        if self.process.dead:
            return
        if not self.process.runs:
            self._owned = True
            return
        self.process.ended(self)
        assert self._answer is not None
        done, value = self._answer
        if self.future.cancelled():
            return
        if done:
            self.future.set_result(value)
        else:
            self.future.set_exception(value)
