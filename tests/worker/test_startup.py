"""What a worker needs is tried until it is there; what waiting cannot mend, or a stop, ends it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading

import pytest

from streams.errors import TrainfareError
from streams.worker.startup import Startup, stopped_by_signals
from tests.logged import events


class AwayError(Exception):
    """It may come back."""


def test_tried_again_until_it_is_there(caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        startup = Startup(asyncio.Event(), first_pause_s=0.001)
        tries = 0

        def call() -> str:
            nonlocal tries
            tries += 1
            if tries < 10:
                (check,) = startup.checks
                assert (check.name, check.ok) == ("kafka", False)
                raise AwayError("no address of kafka-1" if tries == 3 else "no broker at kafka-1:9092")
            return "there"

        assert await startup.reach("kafka", "Kafka at kafka-1:9092", call, AwayError) == "there"
        assert tries == 10
        assert [(check.ok, check.detail) for check in startup.checks] == [(True, "Kafka at kafka-1:9092")]

    with caplog.at_level(logging.INFO, "streams.worker.startup"):
        asyncio.run(go())
    waiting, started = "waiting for services to start", "services have started"
    found = [(event, each["attempts"]) for event, each in events(caplog.records)]
    # The first, another reason, the reason of before again, one of eight; and the end.
    assert found == [(waiting, 1), (waiting, 3), (waiting, 4), (waiting, 8), (started, 9)]
    assert {each["services"] for _, each in events(caplog.records)} == {"Kafka at kafka-1:9092"}


def test_all_that_is_waited_for_stands_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Kafka's first answer takes longer than the store's; then the store is there first."""

    async def go() -> None:
        startup = Startup(asyncio.Event(), first_pause_s=0.001)
        store_failed = threading.Event()
        tries = {"kafka": 0, "store": 0}

        def call(name: str, comes_at: int) -> str:
            tries[name] += 1
            if name == "kafka":
                store_failed.wait(10)
            if tries[name] < comes_at:
                store_failed.set()
                raise AwayError(f"{name} does not answer")
            return "there"

        await asyncio.gather(
            startup.reach("kafka", "Kafka at k:9092", lambda: call("kafka", 4), AwayError),
            startup.reach("clickhouse", "ClickHouse", lambda: call("store", 3), AwayError),
        )

    with caplog.at_level(logging.INFO, "streams.worker.startup"):
        asyncio.run(go())
    (first, waits), (last, starts) = events(caplog.records)
    assert (first, last) == ("waiting for services to start", "services have started")
    assert waits["services"] == starts["services"] == "Kafka at k:9092, ClickHouse"
    assert waits["reason"] == "kafka does not answer; store does not answer"


def test_what_is_there_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        startup = Startup(asyncio.Event(), first_pause_s=0.001)
        tries = 0

        def call() -> str:
            nonlocal tries
            tries += 1
            if tries < 3:
                raise AwayError("away")
            return "there"

        await asyncio.gather(
            startup.reach("kafka", "Kafka", lambda: "there", AwayError),
            startup.reach("clickhouse", "ClickHouse", call, AwayError),
        )

    with caplog.at_level(logging.INFO, "streams.worker.startup"):
        asyncio.run(go())
    assert [(event, each["services"]) for event, each in events(caplog.records)] == [
        ("waiting for services to start", "ClickHouse"),
        ("services have started", "Kafka, ClickHouse"),
    ]


def test_what_waiting_cannot_mend_is_raised_at_once() -> None:
    async def go() -> None:
        def call() -> None:
            raise TrainfareError("topic jobs does not exist")

        startup = Startup(asyncio.Event())
        with pytest.raises(TrainfareError, match="topic jobs"):
            await startup.reach("kafka", "Kafka", call, AwayError)

    asyncio.run(go())


def test_a_stop_ends_the_waiting_at_once() -> None:
    async def go() -> None:
        stop = asyncio.Event()

        def call() -> str:
            raise AwayError("away")

        startup = Startup(stop, first_pause_s=60)
        reaching = asyncio.ensure_future(startup.reach("kafka", "Kafka", call, AwayError))
        while not startup.checks or "away" not in startup.checks[0].detail:  # noqa: ASYNC110  # a thread says so
            await asyncio.sleep(0.001)
        stop.set()
        assert await asyncio.wait_for(reaching, 1) is None
        assert startup.checks[0].detail == "away", "what was said last still stands"

    asyncio.run(go())


def test_the_first_signal_stops_and_the_second_does_what_it_always_does() -> None:
    async def go() -> None:
        stop = asyncio.Event()
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012  # both signals belong to the case
            async with stopped_by_signals(stop):
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.wait_for(stop.wait(), 5)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                os.kill(os.getpid(), signal.SIGINT)

    asyncio.run(go())
