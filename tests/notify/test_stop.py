"""A stop ends what is under way, begins nothing, and does not wait for ever."""

from __future__ import annotations

import asyncio

from tests.notify.scripted_sender import HOOK, SHARD, Office, an_alert, run


def test_a_stop_lets_what_is_under_way_end_and_begins_nothing() -> None:
    async def go() -> None:
        office = Office(options={"in_flight_at_most": 1})
        office.sender.hanging[HOOK] = asyncio.Event()
        office.keep(an_alert("a"), an_alert("b"))
        office.notifier.offer([an_alert("a"), an_alert("b")], SHARD)
        running = asyncio.create_task(office.notifier.run())
        await office.sender.begun.wait()
        stopping = asyncio.create_task(office.notifier.stop())
        await asyncio.sleep(0)
        office.sender.hanging[HOOK].set()
        await stopping
        await running
        assert office.rows("outcome") == [("delivered",)]
        second = Office(store=office.store)
        second.notifier.resume([SHARD])
        await second.work()
        assert second.sender.told == [("b", "firing")]

    run(go())


def test_a_stop_while_deliveries_are_looked_up_begins_nothing() -> None:
    async def go() -> None:
        office = Office()
        office.notifier.offer([an_alert()], SHARD)
        running = asyncio.create_task(office.notifier.run())
        await asyncio.sleep(0)  # it looks up in a thread now
        await office.notifier.stop()
        await running
        assert office.sender.sent == []
        assert office.rows("outcome") == []

    run(go())


def test_a_stop_does_not_wait_for_ever() -> None:
    async def go() -> None:
        office = Office(options={"stop_timeout_ms": 20})
        office.sender.hanging[HOOK] = asyncio.Event()
        office.notifier.offer([an_alert()], SHARD)
        running = asyncio.create_task(office.notifier.run())
        await office.sender.begun.wait()
        await asyncio.wait_for(office.notifier.stop(), 5)
        await running
        assert office.rows("outcome") == []

    run(go())
