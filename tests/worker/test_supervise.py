"""A task beside some work: whatever ends it before the work is done ends the work, with its reason."""

from __future__ import annotations

import asyncio
import gc
import warnings

import pytest

from sinks.errors import SinkError
from streams.errors import TrainfareError
from streams.worker.supervise import beside, keep_doing


class Work:
    """Goes on until it is told to return; a cancelled one is still let stop in order."""

    def __init__(self) -> None:
        self.done = asyncio.Event()
        self.stopped = False

    async def run(self) -> str:
        try:
            await self.done.wait()
        finally:
            await asyncio.sleep(0)  # a stop takes turns of the loop
            self.stopped = True
        return "done"


async def for_ever() -> None:
    await asyncio.Event().wait()


async def dies() -> None:
    await asyncio.sleep(0)
    raise ValueError("3 is no colour")


async def store_refuses() -> None:
    raise SinkError("the store refused access")


async def returns() -> None:
    await asyncio.sleep(0)


async def awaits_what_is_cancelled() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def of_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(dies())


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (dies, "ValueError: 3 is no colour"),
        (store_refuses, "the store refused access"),
        (returns, "it returned"),
        (awaits_what_is_cancelled, "it was cancelled"),
        (of_a_group, "ValueError: 3 is no colour"),
    ],
)
def test_a_task_that_ends_ends_the_work_in_order_and_in_one_sentence(task: object, reason: str) -> None:
    async def go() -> None:
        work = Work()
        with pytest.raises(TrainfareError) as ended:
            await beside(work.run(), {"the audit": task(), "another": for_ever()})  # type: ignore[operator]  # a coroutine function
        assert str(ended.value) == f"the audit ended, so the worker stops: {reason}"
        assert work.stopped

    asyncio.run(go())


def test_work_that_is_done_ends_its_tasks_and_nobody_complains() -> None:
    async def go() -> None:
        work, tasks = Work(), list[asyncio.Task[object] | None]()

        async def looks() -> None:
            tasks.append(asyncio.current_task())
            work.done.set()
            await for_ever()

        assert await beside(work.run(), {"the look": looks()}) == "done"
        assert [task is not None and task.cancelled() for task in tasks] == [True]

    asyncio.run(go())


def test_a_fault_of_the_work_itself_is_raised_as_it_is() -> None:
    async def go() -> None:
        with pytest.raises(ValueError, match="3 is no colour"):
            await beside(dies(), {"the look": for_ever()})

    asyncio.run(go())


def test_whoever_cancels_it_all_is_obeyed() -> None:
    async def go() -> None:
        work = Work()
        running = asyncio.create_task(beside(work.run(), {"the look": for_ever()}))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert work.stopped

    asyncio.run(go())


def test_work_that_is_done_at_once_leaves_no_task_behind() -> None:
    async def nothing() -> str:
        return "done"

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert asyncio.run(beside(nothing(), {"a task": for_ever()})) == "done"
        gc.collect()
    assert [str(each.message) for each in found] == []


def test_a_turn_that_has_more_to_do_goes_on_without_a_pause_while_the_duty_is_mine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    more, mine = [True, True, False, True], [True, True, True, True, False, True]

    async def slept(seconds: float) -> None:
        assert seconds == 600
        done.append("pause")
        if not mine:
            raise asyncio.CancelledError

    def turn() -> bool:
        done.append("turn")
        return more.pop(0) if more else False

    monkeypatch.setattr("streams.worker.supervise.asyncio.sleep", slept)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(keep_doing("days", turn, 600, lambda: mine.pop(0), lambda fault: pytest.fail(str(fault))))
    # The fourth turn has more, and the duty is lost before it.
    assert done == ["turn", "turn", "turn", "pause", "turn", "pause", "turn", "pause"]
